"""The page in a real browser: no errors, nothing from outside, the slider, narrow screens."""

import pytest

import pages
from browser import CHROMIUM, DRIVER, WHY_NOT, Browser
from roodso.report import build_report

pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason=WHY_NOT)

_RIGHT, _END = "\ue014", "\ue010"


@pytest.fixture(scope="module")
def browser():
    with Browser() as started:
        yield started


@pytest.fixture(scope="module")
def bakery(tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "bakery.html"
    path.write_text(build_report(**pages.bakery_arguments()), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def thick(tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "thick.html"
    path.write_text(build_report(**pages.thick_arguments()), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "hostile.html"
    path.write_text(build_report(**pages.hostile_arguments()), encoding="utf-8")
    return path


def text(browser, selector):
    return browser.run(f"return document.querySelector({selector!r}).textContent")


def test_the_page_loads_without_errors_and_asks_for_nothing_else(browser, bakery):
    browser.open(bakery)
    browser.run("for (const part of document.querySelectorAll('details')) part.open = true")
    asked = [address for address in browser.requested() if not address.startswith("data:")]
    assert asked == [bakery.as_uri()]
    assert browser.console() == []


def test_the_slider_changes_decision_worst_case_and_mark(browser, bakery):
    browser.open(bakery)
    stops = browser.run("return JSON.parse(document.getElementById('price-data').textContent)")
    assert text(browser, "#price-value") == "0.4"

    def shown():
        return {
            "value": text(browser, "#price-value"),
            "worst": text(browser, "#price-worst"),
            "amounts": browser.run(
                "return [...document.querySelectorAll('[data-part]')].map(p => p.textContent)"
            ),
        }

    def mark():
        return browser.run(
            "return document.getElementById('price-mark').getBoundingClientRect().left"
        )

    middle = mark()
    assert shown() == {key: stops[1][key] for key in ("value", "worst", "amounts")}
    browser.press("#price-slider", _RIGHT)
    assert shown() == {key: stops[2][key] for key in ("value", "worst", "amounts")}
    assert stops[2]["amounts"] != stops[1]["amounts"]
    assert mark() > middle + 20
    browser.press("#price-slider", _END)
    assert text(browser, "#price-value") == "0.9"
    spoken = browser.run(
        "return document.getElementById('price-slider').getAttribute('aria-valuetext')"
    )
    assert spoken == f"0.9: {stops[2]['worst']}"
    assert browser.console() == []


def test_the_slider_of_a_thickened_hull_moves_its_thickness(browser, thick):
    browser.open(thick)
    assert text(browser, "#price-value") == "0.1"
    browser.press("#price-slider", _RIGHT)
    assert text(browser, "#price-value") == "0.15"
    browser.press("#price-slider", _END)
    assert text(browser, "#price-value") == "0.4"
    assert browser.console() == []
    assert [a for a in browser.requested() if not a.startswith("data:")] == [thick.as_uri()]


def test_the_mark_stands_at_the_value_on_the_axis(browser, bakery):
    # The line of worst cases runs from the first value to the last; so must the mark.
    browser.open(bakery)
    ends = browser.run(
        """
        const slider = document.getElementById('price-slider'), found = [];
        for (const place of [0, slider.max]) {
          slider.value = place;
          slider.dispatchEvent(new Event('input'));
          const box = document.getElementById('price-mark').getBoundingClientRect();
          found.push(box.left + box.width / 2);
        }
        const all = [...document.querySelectorAll('[id^="price-line2d"] path')]
          .filter(path => (path.getAttribute('style') || '').includes('--c0'))
          .map(path => path.getBoundingClientRect()).filter(box => box.width > 100);
        return [found, all[0].left, all[0].right];
        """
    )
    (first, last), left, right = ends
    assert first == pytest.approx(left, abs=3)
    assert last == pytest.approx(right, abs=3)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [320, 390, 1000])
def test_no_screen_scrolls_sideways(browser, bakery, hostile, thick, width, dark):
    for path in (bakery, hostile, thick):
        browser.open(path, width=width, dark=dark)
        browser.run("for (const part of document.querySelectorAll('details')) part.open = true")
        assert browser.run("return document.documentElement.scrollWidth") <= width
        # Nor does a table or a picture reach beyond its section.
        beyond = browser.run(
            """
            const edge = document.documentElement.clientWidth;
            return [...document.querySelectorAll('p, h2, figure, figure svg, .scroll, dl')]
              .filter(part => part.getBoundingClientRect().right > edge + 1).length;
            """
        )
        assert beyond == 0


def test_light_and_dark_differ_in_page_and_pictures(browser, bakery):
    seen = []
    for dark in (False, True):
        browser.open(bakery, dark=dark)
        seen.append(
            browser.run(
                """
                return [getComputedStyle(document.body).backgroundColor,
                        getComputedStyle(document.body).color,
                        getComputedStyle(document.querySelector('svg text')).fill];
                """
            )
        )
    light, dark = seen
    assert light[0] == "rgb(255, 255, 255)"
    assert light[1] == light[2]
    assert dark[1] == dark[2]
    assert all(a != b for a, b in zip(light, dark, strict=True))


def test_text_in_pictures_is_large_enough_on_a_phone(browser, bakery):
    browser.open(bakery, width=390)
    sizes = browser.run(
        """
        return [...document.querySelectorAll('svg text')].map(text => {
          const svg = text.ownerSVGElement;
          const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
          return scale * parseFloat(getComputedStyle(text).fontSize);
        });
        """
    )
    assert min(sizes) >= 8.5


def test_markup_in_the_data_is_shown_and_not_run(browser, hostile):
    browser.open(hostile)
    browser.run("for (const part of document.querySelectorAll('details')) part.open = true")
    shown = browser.run("return document.body.innerText")
    for name in [*pages.HOSTILE, *pages.HOSTILE_SOURCES[:4]]:
        assert name in shown
    assert browser.run("return window.hit === undefined")
    assert browser.run("return document.querySelectorAll('script, img, b').length") == 2
    assert browser.run("return document.title") == pages.HOSTILE[1]
    browser.press("#price-slider", _RIGHT)
    assert "</script><!--" in text(browser, "#price-worst")
    assert [a for a in browser.requested() if not a.startswith("data:")] == [hostile.as_uri()]
    assert browser.console() == []


def test_the_policy_stops_scripts_that_were_smuggled_in(browser, hostile):
    browser.open(hostile)
    browser.run(
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hit = 1\">');"
        "const script = document.createElement('script'); script.textContent = 'window.hit = 2';"
        "document.body.append(script);"
    )
    assert browser.run("return window.hit === undefined")
    assert any("Content Security Policy" in message for message in browser.console())


def test_printing_opens_what_is_folded(browser, bakery):
    browser.open(bakery)
    assert browser.run("return document.querySelectorAll('details[open]').length") == 0
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run("return document.querySelectorAll('details:not([open])').length") == 0
    dark = {"name": "prefers-color-scheme", "value": "dark"}
    browser.protocol("Emulation.setEmulatedMedia", media="print", features=[dark])
    hidden, paper = browser.run(
        """
        return [getComputedStyle(document.querySelector('#price-control')).display,
                getComputedStyle(document.body).backgroundColor];
        """
    )
    browser.protocol("Emulation.setEmulatedMedia", media="")
    assert hidden == "none"
    assert paper == "rgb(255, 255, 255)"  # paper is white, whatever the screen is


def test_tables_and_slider_are_reached_by_keyboard(browser, bakery):
    browser.open(bakery)
    reached = browser.run(
        """
        return [...document.querySelectorAll('a, summary, input, [tabindex]')]
          .every(part => part.tabIndex === 0);
        """
    )
    assert reached
    assert browser.run("return document.querySelector('a').className") == "skip"
