"""The report: what the page says, that it says it as text, and that it is one sound document."""

import base64
import hashlib
import json
import os
import re
import sys
from html.parser import HTMLParser

import matplotlib as mpl
import numpy as np
import pytest

import pages
from roodso import SAA, ConvergenceWarning, ConvexHullDRO, RooDSO, SolverError
from roodso.datasets import make_newsvendor_sources
from roodso.losses import ConvexLoss, Newsvendor
from roodso.plots import RobustnessPathDisplay
from roodso.report import Formats, build_report, write_report
from roodso.report.formats import Words

_VOID = {"meta", "link", "input", "br", "img"}


class Page(HTMLParser):
    """The document as the standard library reads it: elements, text, what contains what."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.elements, self.open, self.unbalanced, self.pieces = [], [], [], []
        self.feed(html)
        self.close()
        self.unbalanced += self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if self.open and self.open[-1] == tag:
            self.open.pop()
        else:
            self.unbalanced.append(tag)

    def handle_data(self, data):
        self.pieces.append((tuple(self.open), data))

    @property
    def text(self):
        """All that is text to a reader, on one line."""
        hidden = {"script", "style"}
        parts = [data for path, data in self.pieces if not hidden & set(path)]
        return " ".join(" ".join(parts).split())

    def inside(self, tag):
        return "".join(data for path, data in self.pieces if path and path[-1] == tag)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def headings(self):
        return [tag for tag, _ in self.elements if re.fullmatch("h[1-6]", tag)]

    @property
    def sections(self):
        return [attributes["id"] for attributes in self.all("section")]


@pytest.fixture(scope="module")
def bakery():
    return pages.bakery_arguments()


@pytest.fixture(scope="module")
def html(bakery):
    return build_report(**bakery)


@pytest.fixture(scope="module")
def page(html):
    return Page(html)


@pytest.fixture(scope="module")
def hostile():
    return build_report(**pages.hostile_arguments())


def small(n=5, width=2, seed=1):
    return {
        f"s{i}": t[:, :width]
        for i, t in enumerate(make_newsvendor_sources(n, 12, random_state=seed))
    }


LOSS = Newsvendor(price=[50, 40], cost=[20, 15], holding=[5, 3], backorder=[10, 8])
BALL = RooDSO(LOSS, nu=0.4, n_support=10, random_state=0, n_jobs=1)


# One sound document


def test_the_page_is_one_sound_document(html, page):
    assert html.startswith("<!DOCTYPE html>\n")
    assert page.unbalanced == []
    identifiers = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    for _, attributes in page.elements:
        for key in ("aria-labelledby", "for"):
            assert set(attributes.get(key, "").split()) <= set(identifiers)
        if attributes.get("href", "").startswith("#"):
            assert attributes["href"][1:] in identifiers
        for found in re.findall(r"url\(#([^)]*)\)", " ".join(filter(None, attributes.values()))):
            assert found in identifiers


def test_the_page_needs_nothing_from_outside(html, page):
    for tag, attributes in page.elements:
        assert tag not in ("iframe", "object", "embed", "base", "form")
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith(("#", "data:,"))
    rest = html.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"https?:|//cdn|@import|url\((?!#)", rest)


def test_headings_descend_and_every_picture_is_described(page):
    assert page.headings[0] == "h1"
    assert page.headings.count("h1") == 1
    for above, below in zip(page.headings, page.headings[1:], strict=False):
        assert int(below[1]) <= int(above[1]) + 1
    pictures = page.all("svg")
    assert len(pictures) == 7  # costs, three items, mixture, map, path
    for attributes in pictures:
        assert attributes["role"] == "img"
        assert len(attributes["aria-labelledby"].split()) == 2
    assert page.inside("title").count("held out") == 1
    assert page.all("html")[0]["lang"] == "en"


def test_the_same_arguments_give_the_same_page(bakery, html):
    assert build_report(**bakery) == html


def test_the_users_style_neither_shows_nor_is_changed(bakery, html):
    with mpl.rc_context({"text.color": "red", "font.size": 30, "axes.grid": True}):
        before = dict(mpl.rcParams)
        assert build_report(**bakery) == html
        assert dict(mpl.rcParams) == before


def test_the_policy_admits_the_pages_script_and_no_other(html, page):
    policy = next(
        a["content"] for a in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy"
    )
    assert "default-src 'none'" in policy
    script = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    assert len(script) == 1
    digest = base64.b64encode(hashlib.sha256(script[0].encode()).digest()).decode()
    assert re.search(r"script-src ([^;]*)", policy).group(1) == f"'sha256-{digest}'"


# Colours


def luminance(color):
    channels = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_text_and_pictures_have_enough_contrast_in_light_and_dark(page):
    light, dark = re.findall(r":root \{(.*?)\}", page.inside("style"), re.DOTALL)
    for scheme in (light, dark):
        colors = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", scheme))
        for ground in ("paper", "card"):
            for name, least in [("ink", 7.0), ("faint", 4.5), ("neutral", 2.0)] + [
                (f"c{k}", 4.5) for k in range(6)
            ]:
                pair = sorted((luminance(colors[ground]), luminance(colors[name])))
                assert (pair[1] + 0.05) / (pair[0] + 0.05) >= least, (ground, name)


def test_pictures_take_their_colours_from_the_page(html):
    drawn = "".join(re.findall(r"<svg.*?</svg>", html, re.DOTALL))
    assert not re.search(r"(fill|stroke): ?#[0-9a-f]{6}", drawn)
    assert "var(--ink)" in drawn
    assert "DejaVu" not in drawn
    assert "<text" in drawn


# What it says


def test_the_decision_comes_first_with_its_worst_case(bakery, page):
    model = bakery["model"]
    first = page.text[page.text.index("The order") : page.text.index("What happened afterwards")]
    for item, amount in model.decision_.items():
        assert f"{item} {amount:,.2f}" in first
    bound = model.objective_
    sense = "a profit of at least" if bound < 0 else "a cost of at most"
    assert f"At worst: {sense} \u20ac{abs(bound):,.2f} on average" in first
    assert "No order can promise better by more than 0.0001 %" in first
    assert "8 sources" in first
    assert "nu = 0.4" in first
    assert page.sections[0] == "decision"


def test_rivals_and_their_costs_are_those_of_the_comparison(bakery, page):
    rows = page.text[page.text.index("What other methods would choose") :]
    summary = bakery["comparison"].summary()
    for name, rival in bakery["rivals"].items():
        amounts = " ".join(f"{a:,.0f}" if a == round(a) else f"{a:,.2f}" for a in rival.decision_)
        worst = bakery["model"].worst_case_cost(rival.decision_).upper_bound
        held = [summary.loc[name, column] for column in ("mean", "worst")]
        money = [("\u2212" if c < 0 else "") + f"\u20ac{abs(c):,.2f}" for c in (worst, *held)]
        assert f"{name} {amounts} {' '.join(money)}" in rows
    for label in bakery["groups"].unique():
        assert label in rows


def test_what_happened_afterwards_is_measured_on_the_target(bakery, page):
    realised = -bakery["model"].score(bakery["target"])
    assert f"{abs(realised):,.2f} on average: " in page.text
    within = "within" if realised <= bakery["model"].objective_ else "beyond"
    assert f"{within} the worst case that was certified" in page.text
    inside = bakery["model"].uncertainty_set_.contains(bakery["target"])
    assert f"The new source lies {'inside' if inside else 'outside'} the set" in page.text
    best = SAA(pages.BAKERY_LOSS).fit([bakery["target"]]).objective_
    assert f"\u20ac{abs(best):,.2f}" in page.text


def test_outlying_sources_are_named(bakery, page):
    ball = bakery["model"].set_learner_
    outside = np.flatnonzero(ball.distances_ > ball.radius_ + 1e-6)
    assert len(outside) > 0
    for place in outside:
        assert f"{ball.labels_[place]} ({ball.distances_[place]:.3f})" in page.text


def test_the_worst_case_is_shown_beside_the_pooled_data(bakery, page):
    table = bakery["model"].solution_.worst_case(minimum=0)
    for item in bakery["X"].columns:
        pooled = bakery["X"][item].mean()
        feared = (table["weight"] * table[item]).sum()
        change = f"{feared / pooled - 1:+.0%}".replace("%", " %").replace("-", "\u2212")
        assert f"{item} {pooled:,.2f} {feared:,.2f} {change}" in page.text


def stops_of(html):
    found = re.search(r'id="price-data">(.*?)</script>', html, re.DOTALL)
    return json.loads(found.group(1))


def test_the_slider_holds_what_a_fit_with_each_nu_gives(bakery, html):
    stops = stops_of(html)
    assert [stop["value"] for stop in stops] == ["0.1", "0.4", "0.9"]
    for stop in stops:
        model = RooDSO(pages.BAKERY_LOSS, nu=float(stop["value"]), scale=True, n_support=50)
        model.set_params(random_state=0, n_jobs=1, tol=1e-7)
        model.fit(bakery["X"], groups=bakery["groups"])
        said = float(re.search(r"[\d.]+", stop["worst"]).group())
        assert said == pytest.approx(abs(model.objective_), abs=0.0051)
        shown = [float(amount) for amount in stop["amounts"]]
        again = model.worst_case_cost(shown)  # flat optima have many decisions
        assert again.upper_bound == pytest.approx(model.objective_, abs=0.05)
    assert stops[1]["amounts"] == [f"{a:,.2f}" for a in bakery["model"].decision_]


def test_guarantees_settings_and_versions_are_on_the_page(bakery, page):
    from roodso import __version__, guarantees

    for _, sentences in guarantees.summary(bakery["model"]).sections:
        for sentence in sentences:
            assert sentence in page.text
    for text in ("Certified", "Not promised", "random_state 0", "scale True", "n_support 50"):
        assert text in page.text
    assert f"roodso {__version__}" in page.text
    assert f"numpy {np.__version__}" in page.text
    assert f"upper bound {bakery['model'].objective_:.12g}" in page.text


def test_a_decision_of_the_users_own_is_certified_anew():
    model, shops = BALL.fit(small()), small()
    html = build_report(model, shops, decision=[2.0, 1.0], nus=[], currency="EUR")
    text = Page(html).text
    worst = model.worst_case_cost([2.0, 1.0]).upper_bound
    sense = "a profit of at least" if worst < 0 else "a cost of at most"
    assert "x0 2 x1 1 At worst" in text
    assert f"At worst: {sense} {abs(worst):,.2f} EUR" in text
    assert "The best order of all promises" in text
    assert "this one gives up at most" in text


def test_a_loose_certificate_is_said_to_be_loose():
    model = RooDSO(LOSS, nu=0.2, n_support=200, max_iter=1, max_rows=1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="stopped"):
        model.fit(small(8))
    assert model.solution_.gap > 1e-3
    text = Page(build_report(model, small(8), nus=[])).text
    assert "The certificate is loose" in text
    assert "can promise better" not in text


def test_what_was_clipped_is_said():
    shops = small()
    model = RooDSO(LOSS, clip=0.1, n_support=10, random_state=0, n_jobs=1).fit(shops)
    rows = np.vstack(list(shops.values()))
    low, high = np.quantile(rows, [0.1, 0.9], axis=0)
    moved = int(((rows < low) | (rows > high)).sum())
    said = f"{moved} of yours lay beyond and were moved to them"
    assert said in Page(build_report(model, shops, nus=[])).text
    assert "fences" not in Page(build_report(BALL.fit(shops), shops, nus=[])).text


# What does not apply is left out


def test_methods_without_a_set_have_a_page():
    for method in (SAA(LOSS), ConvexHullDRO(LOSS)):
        page = Page(build_report(method.fit(small()), small()))
        assert page.sections == ["decision", "world", "promises", "reproduction"]
        assert page.unbalanced == []
    assert "provided that" not in page.text
    assert "whichever mixture of your sources" in page.text


@pytest.mark.filterwarnings("ignore:the ball has radius 0")
def test_one_source_and_one_column_have_a_page():
    loss = Newsvendor(price=5, cost=2)
    shops = {"only": np.arange(1.0, 9.0).reshape(-1, 1)}
    page = Page(build_report(RooDSO(loss, random_state=0, n_support=5).fit(shops), shops))
    assert page.sections == ["decision", "world", "promises", "reproduction"]
    assert "provided that it is like the average of your sources" in page.text


def test_portfolios_are_spoken_of_as_portfolios():
    funds = pages.funds()
    model = RooDSO(pages.PORTFOLIO_LOSS, nu=0.4, random_state=0, n_support=20, n_jobs=1).fit(funds)
    html = build_report(model, funds, rivals={"SAA": SAA(pages.PORTFOLIO_LOSS).fit(funds)}, nus=[1])
    text = Page(html).text
    shown = {name: weight for name, weight in model.decision_.items() if weight >= 0.0005}
    for name, weight in shown.items():
        assert f"{name} {100 * weight:.1f} %" in text
    for name in set(model.decision_.index) - set(shown):
        assert name in re.search(r"Nothing of ([^.]*)\.", text).group(1)
    worst, x = model.solution_, model.decision_.to_numpy()
    mean = worst.worst_case_weights @ worst.support @ x
    assert f"the portfolio returns {100 * mean:.2f} %".replace("-", "\u2212") in text
    # The certified bound is mean loss plus aversion times tail loss: both are on the page.
    tail = re.search(r"and (\u2212?[\d.]+) % on average in the worst 20 %", text).group(1)
    total = -mean + 1.0 * -float(tail.replace("\u2212", "-")) / 100
    assert total == pytest.approx(worst.upper_bound, abs=1e-4)
    assert "profit of" not in text


def test_any_convex_loss_has_a_page_without_addresses_in_memory():
    loss = ConvexLoss(
        value=lambda x, xi: (xi.sum(axis=1) - x[0]) ** 2,
        subgradient=lambda x, xi: -2 * (xi.sum(axis=1) - x[0])[:, None],
        lower=0,
        upper=20,
        dimension=1,
    )
    model = RooDSO(loss, nu=0.4, n_support=10, random_state=0, n_jobs=1).fit(small())
    html = build_report(model, small(), nus=[0.4, 0.8])
    assert " at 0x" not in html
    assert "The decision" in Page(html).text
    assert "decision 1" in Page(html).text


def test_a_path_over_another_parameter_can_be_given():
    path = RobustnessPathDisplay.from_estimator(
        BALL, small(), parameter="gamma", values=[0.0, 0.1, 0.3]
    )
    html = build_report(BALL.fit(small()), small(), path=path)
    assert [stop["value"] for stop in stops_of(html)] == ["0", "0.1", "0.3"]
    assert "What changes with gamma" in Page(html).text
    assert all(len(stop["costs"]) == 3 for stop in stops_of(html))


def test_the_slider_agrees_with_the_decision_where_optima_are_flat():
    model = BALL.fit(small())
    path = RobustnessPathDisplay.from_estimator(BALL, small(), values=[0.4, 0.8], held_out=False)
    path.decisions.loc[0.4] = 9.0  # as good, and not what the page decides
    before = path.decisions.copy()
    stops = stops_of(build_report(model, small(), path=path))
    assert stops[0]["amounts"] == [f"{x:,.2f}" for x in model.decision_]
    assert path.decisions.equals(before)


def test_a_path_that_cannot_be_solved_costs_the_page_one_section(monkeypatch, caplog):
    def fails(*_, **__):
        raise SolverError("no luck", "stalled")

    monkeypatch.setattr(RobustnessPathDisplay, "from_estimator", fails)
    page = Page(build_report(BALL.fit(small()), small()))
    assert "price" not in page.sections
    assert "places" in page.sections
    assert "no luck" in caplog.text


# Text of the user's is text


def test_markup_in_names_is_text(hostile):
    page = Page(hostile)
    assert page.unbalanced == []
    kinds = [attributes.get("type") for attributes in page.all("script")]
    assert kinds == ["application/json", None]
    assert not page.all("img")
    assert not page.all("b")
    for _, attributes in page.elements:
        assert not any(key.startswith("on") for key in attributes)
    for name in [*pages.HOSTILE, *pages.HOSTILE_SOURCES[:4], "{{ 7 * 7 }}", "\u5317\u4eac"]:
        assert name in page.text
    assert "a\ufffdbc" in page.text
    assert "with a lone \ufffd surrogate" in page.text
    hostile.encode("utf-8")
    drawn = "".join(data for path, data in page.pieces if "text" in path)
    assert "$5 or $10" in drawn
    assert "#010101" in drawn
    assert "_hidden" in drawn


def test_markup_in_the_currency_stays_inside_the_sliders_data(hostile):
    stops = stops_of(hostile)
    assert "</script><!--" in stops[0]["worst"]
    assert hostile.count("</script>") == 2


# Arguments


def test_other_data_than_the_models_are_refused():
    model = BALL.fit(small())
    for other in (small(seed=2), small(4), {f"t{i}": t for i, t in enumerate(small().values())}):
        with pytest.raises(ValueError, match="must be the data that the model was fitted to"):
            build_report(model, other)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"rivals": [1]}, TypeError, "rivals must map names"),
        ({"rivals": {"SAA": 3}}, TypeError, r"rivals\['SAA'\]"),
        ({"comparison": 3}, TypeError, "comparison must come from"),
        ({"target": [[1.0]]}, ValueError, "target must have 2 columns"),
        ({"decision": [1.0]}, ValueError, "x must be a number or 2 numbers"),
    ],
)
def test_wrong_arguments_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        build_report(BALL.fit(small()), small(), **arguments)


def test_models_that_are_not_fitted_are_refused():
    with pytest.raises(TypeError, match="model must be a fitted method"):
        build_report("model", small())
    with pytest.raises(ValueError, match="not fitted"):
        build_report(SAA(LOSS), small())


# Files


def test_files_are_written_whole_and_never_over_another(tmp_path):
    place = tmp_path / "report.html"
    write_report(place, "first \u20ac")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        write_report(place, "second")
    assert place.read_text(encoding="utf-8") == "first \u20ac"
    write_report(place, "third", overwrite=True)
    assert place.read_text() == "third"
    with pytest.raises(UnicodeEncodeError):
        write_report(place, "\ud800", overwrite=True)
    with pytest.raises(IsADirectoryError):
        write_report(tmp_path, "x", overwrite=True)
    assert place.read_text() == "third"
    assert os.listdir(tmp_path) == ["report.html"]


def test_a_failure_while_writing_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    place = tmp_path / "report.html"
    write_report(place, "old")

    def broken(_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="disk full"):
        write_report(place, "new", overwrite=True)
    assert place.read_text() == "old"
    assert os.listdir(tmp_path) == ["report.html"]


def test_without_its_packages_the_report_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("roodso.report")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"pip install 'roodso\[report\]'"):
        __import__("roodso.report")


# Words


def test_money_is_said_as_profit_or_cost():
    dollars = Formats("$")
    assert dollars.worst(-1234.5) == "a profit of at least $1,234.50"
    assert dollars.worst(12) == "a cost of at most $12.00"
    assert dollars.mean(-3) == "a profit of $3.00"
    assert dollars.money(-3) == "\u2212$3.00"
    assert Formats().money(-0.0) == "0.00"
    words = Words(LOSS, Formats("EUR", "loaves"), ["a", "b"])
    assert words.spoken(3.0) == "3 loaves"
    assert words.datum(3.25) == "3.25"
    assert words.parts(3) == ["decision 1", "decision 2", "decision 3"]
