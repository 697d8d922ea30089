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
from sklearn.base import clone

import pages
from roodso import SAA, BarycenterSAA, ConvergenceWarning, ConvexHullDRO, RooDSO, SolverError
from roodso.datasets import make_newsvendor_sources
from roodso.losses import ConvexLoss, Newsvendor
from roodso.planner.formats import Formats
from roodso.planner.words import Words
from roodso.plots import RobustnessPathDisplay
from roodso.report import build_report, write_report
from roodso.sets import ConformalBall, FixedBall, ThickenedHull

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
    assert "No order can promise better by more than 0.0001%" in first
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
        money = [f"{c:,.2f}".replace("-", "\u2212") for c in (worst, *held)]
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
    assert f"best, had one known the data {best:,.2f}".replace("-", "\u2212") in page.text


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
        change = f"{feared / pooled - 1:+.0%}".replace("-", "\u2212")
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


def test_what_the_caller_knows_is_on_the_page():
    model, shops = BALL.fit(list(small().values())), list(small().values())
    page = Page(
        build_report(
            model,
            shops,
            decision=[2.0, 1.0],
            decision_note="in packs of 1",
            remarks=["3 rows were left out.", "Prices are made up."],
            command="roodso decide newsvendor 'my sales.csv'",
            source="shop",
            nus=[0.4, 0.8],
        )
    )
    decision = page.text[page.text.index("The order") :]
    assert "In packs of 1" in decision[: decision.index("What to know of the data")]
    remarks = decision[decision.index("What to know of the data") :]
    assert "3 rows were left out. Prices are made up." in remarks
    assert "From the terminal roodso decide newsvendor 'my sales.csv' In Python" in remarks
    assert "without rounding; the one at the top of the page is another" in remarks
    # Sources that are mere numbers carry the name of their column.
    assert re.search(r"most like \d+% of shop \d", remarks)
    assert "shop 0 12 0." in remarks


def test_remarks_are_several_texts():
    with pytest.raises(TypeError, match="remarks must be a sequence of str"):
        build_report(BALL.fit(small()), small(), remarks="one text")


def test_a_loose_certificate_is_said_to_be_loose():
    model = RooDSO(LOSS, nu=0.2, n_support=200, max_iter=1, max_rows=1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="stopped"):
        model.fit(small(8))
    assert model.solution_.gap > 1e-3
    text = Page(build_report(model, small(8), nus=[])).text
    assert "The certificate is loose" in text
    assert "can promise better" not in text


# Other sets than the ball


@pytest.fixture(scope="module")
def thick():
    return pages.thick_arguments()


def test_a_thickened_hull_is_spoken_of_as_mixtures(thick):
    model = thick["model"]
    page = Page(build_report(**thick))
    assert page.unbalanced == []
    assert "price" in page.sections
    assert (
        "whichever distribution it follows among the mixtures of your 8 sources (none of them "
        "with more than 25%), thickened by 0.1" in page.text
    )
    assert "Thickness 0.1 Largest share of a source 25%" in page.text
    assert "nu = " not in page.text[: page.text.index("Settings and versions")]
    mixture = model.solution_.mixture
    heaviest = model.uncertainty_set_.labels[int(np.argmax(mixture))]
    said = re.search(r"The worst case is near a mixture of your sources: ([^.]*)\.", page.text)
    assert f"{mixture.max():.0%} of {heaviest}" in said.group(1)
    assert "(the thickness is 0.100)" in page.text
    assert "Nothing is proved of a new source: the thickness 0.1 was given" in page.text
    inside = model.uncertainty_set_.contains(thick["target"])
    assert f"The new source lies {'inside' if inside else 'outside'} the set" in page.text
    outside = [
        str(label)
        for label, distance in zip(
            model.set_learner_.labels_, model.set_learner_.distances_, strict=True
        )
        if distance > 0.1 + 1e-6
    ]
    for label in outside:
        assert re.search(rf"{label} \(0\.\d{{3}}\)", page.text)
    assert ("no source alone may weigh so much" in page.text) == bool(outside)


def test_its_slider_moves_the_thickness(thick):
    stops = stops_of(build_report(**thick))
    assert [float(stop["value"]) for stop in stops] == [0, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4]
    bounds = []
    for stop in stops:
        model = clone(thick["model"]).set_params(uncertainty_set__thickness=float(stop["value"]))
        model.fit(thick["X"], groups=thick["groups"])
        bounds.append(model.objective_)
        amount = float(re.search(r"[\d.]+", stop["worst"]).group())
        assert amount == pytest.approx(abs(model.objective_), abs=0.0051)
    assert bounds == sorted(bounds)
    assert stops[3]["amounts"] == [f"{a:,.2f}" for a in thick["model"].decision_]
    text = Page(build_report(**thick)).text
    assert "This page decides with thickness = 0.1." in text
    assert "uncertainty_set__" not in text[: text.index("Settings and versions")]


@pytest.mark.parametrize(
    "learner",
    [
        ThickenedHull("leave-one-out", nu=0.4, random_state=0),
        ConformalBall(nu=0.4, random_state=0),
    ],
)
def test_a_calibrated_set_says_its_promise_and_moves_nu(learner):
    shops = small(10)
    model = RooDSO(LOSS, uncertainty_set=learner, n_support=10, random_state=0, n_jobs=1)
    model.fit(shops)
    html = build_report(model, shops)
    text = Page(html).text
    fitted = model.set_learner_
    assert " ".join(fitted.statement().split()) in text
    assert f"Holds the new source with {fitted.promise_:.0%} probability" in text
    assert "for certain: the chance is below" in text
    values = [float(stop["value"]) for stop in stops_of(html)]
    assert 0.4 in values
    assert min(values) * (fitted.calibration_.sum() + 1) >= 1
    for stop in stops_of(html)[::3]:
        other = clone(model).set_params(uncertainty_set__nu=float(stop["value"])).fit(shops)
        amount = float(re.search(r"[\d.]+", stop["worst"]).group())
        assert amount == pytest.approx(abs(other.objective_), abs=0.0051)


def test_a_ball_of_given_radius_has_a_page_without_a_slider():
    model = RooDSO(LOSS, uncertainty_set=FixedBall(0.2), n_support=10, random_state=0, n_jobs=1)
    page = Page(build_report(model.fit(small()), small()))
    assert "price" not in page.sections
    assert "places" in page.sections


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
    page = Page(build_report(ConvexHullDRO(LOSS).fit(small()), small()))
    assert page.sections == ["decision", "world", "promises", "reproduction"]
    assert page.unbalanced == []
    assert "whichever mixture of your 5 sources it turns out to be" in page.text
    assert re.search(r"The worst case is a mixture of your sources: \d+% of s\d", page.text)


@pytest.mark.parametrize("method", [SAA(LOSS), BarycenterSAA(LOSS)])
def test_a_mean_is_not_called_a_worst_case(method):
    model = method.fit(small())
    rivals = {"hull": ConvexHullDRO(LOSS).fit(small())}
    text = Page(build_report(model, small(), rivals=rivals)).text
    assert f"Expected: a profit of {-model.objective_:,.2f} on average" in text
    assert "provided that it is like" in text
    assert "At worst" not in text
    assert "worst case" not in text[: text.index("Settings and versions")]


@pytest.mark.filterwarnings("ignore:the ball has radius 0")
def test_one_source_and_one_column_have_a_page():
    loss = Newsvendor(price=5, cost=2)
    shops = {"only": np.arange(1.0, 9.0).reshape(-1, 1)}
    page = Page(build_report(RooDSO(loss, random_state=0, n_support=5).fit(shops), shops))
    assert page.sections == ["decision", "promises", "reproduction"]
    assert "provided that it is like the average of your sources" in page.text


def test_portfolios_are_spoken_of_as_portfolios():
    funds = pages.funds()
    model = RooDSO(pages.PORTFOLIO_LOSS, nu=0.4, random_state=0, n_support=20, n_jobs=1).fit(funds)
    html = build_report(model, funds, rivals={"SAA": SAA(pages.PORTFOLIO_LOSS).fit(funds)}, nus=[1])
    text = Page(html).text
    shown = {name: weight for name, weight in model.decision_.items() if weight >= 0.0005}
    for name, weight in shown.items():
        assert f"{name} {100 * weight:.1f}%" in text
    for name in set(model.decision_.index) - set(shown):
        assert name in re.search(r"Nothing of ([^.]*)\.", text).group(1)
    worst, x = model.solution_, model.decision_.to_numpy()
    mean = worst.worst_case_weights @ worst.support @ x
    assert f"the portfolio returns {100 * mean:.2f}%".replace("-", "\u2212") in text
    # The certified bound is mean loss plus aversion times tail loss: both are on the page.
    tail = re.search(r"and (\u2212?[\d.]+)% on average in the worst 20%", text).group(1)
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
    dollars = Formats("$", minus="\u2212")
    assert dollars.worst(-1234.5) == "a profit of at least $1,234.50"
    assert dollars.worst(12) == "a cost of at most $12.00"
    assert dollars.mean(-3) == "a profit of $3.00"
    assert dollars.money(-3) == "\u2212$3.00"
    assert Formats().money(-0.0) == "0.00"
    words = Words(LOSS, Formats("EUR", "loaves"), ["a", "b"])
    assert words.datum_said(3.0) == "3 loaves"
    assert words.datum(3.25) == "3.25"
    assert words.parts(3) == ["decision 1", "decision 2", "decision 3"]
