"""The report in a real browser: Debian's Chromium, without a window. Skipped, and said so, where there is none."""

from __future__ import annotations

import shutil

import pytest

from teachaugment.engine.directory import REPORT

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
playwright = pytest.importorskip("playwright.sync_api", reason="the pages are not looked at: playwright is missing")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="the pages are not looked at: no chromium on this machine")


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as p:
        chromium = p.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        yield chromium
        chromium.close()


@pytest.fixture
def look(browser, run):
    """Opens a page; at the end nothing may have been asked of the network, and the console must have stayed empty."""
    said: list[str] = []
    pages = []

    def open_page(path=run / REPORT, **options):
        page = browser.new_context(**options).new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: said.append(request.url) if request.url.startswith("http") else None)
        page.on("dialog", lambda dialog: said.append(dialog.message))
        page.goto(path.as_uri())
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        page.context.close()
    assert said == []


def visible(page) -> str:
    frames = page.locator(".frames img:visible")
    assert frames.count() == 1
    return frames.get_attribute("src")


def test_the_slider_changes_the_picture(look):
    page = look()
    before = page.locator(".frames").screenshot()
    slider = page.locator("#moment")
    assert slider.input_value() == "2" and page.locator("output").inner_text() == "epoch 3"
    slider.fill("0")
    assert page.locator("output").inner_text() == "epoch 1"
    assert page.locator(".frames").screenshot() != before


def test_the_keyboard_is_enough(look):
    page = look()
    page.locator("#moment").focus()
    last = visible(page)
    page.keyboard.press("ArrowLeft")
    assert visible(page) != last and page.locator("#moment").get_attribute("aria-valuetext") == "epoch 2"
    page.keyboard.press("End")
    assert visible(page) == last
    chart = page.locator("figure.chart svg").first
    chart.focus()
    page.keyboard.press("ArrowLeft")
    assert "epoch 2" in page.locator("figure.chart .at").first.inner_text()
    page.keyboard.press("Tab")
    assert page.locator("figure.chart .at").first.inner_text() == ""


def test_the_play_button_runs_through_the_snapshots(look):
    page = look()
    last = visible(page)
    page.get_by_role("button", name="Play").click()
    assert visible(page) != last
    page.get_by_role("button", name="Play").wait_for(timeout=5000)  # it has come to the end
    assert visible(page) == last


def test_dark_and_light_are_both_readable(look):
    found = {}
    for scheme in ("light", "dark"):
        page = look(color_scheme=scheme)
        body = "getComputedStyle(document.body)"
        found[scheme] = [page.evaluate(f"{body}.{part}") for part in ("backgroundColor", "color")]
        assert contrast(*found[scheme]) > 7
        for element in (".lead", ".findings .mark", ".legend", ".card .yes, .card .no", "nav a"):
            color = page.locator(element).first.evaluate("e => getComputedStyle(e).color")
            assert contrast(found[scheme][0], color) > 4.5, (scheme, element)
    assert found["light"] != found["dark"]


@pytest.mark.parametrize("width", [320, 375, 768, 1600])
def test_nothing_sticks_out_at_any_width(look, width):
    page = look(viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_other_pages_are_quiet_too(look, run, plain, tmp_path):
    from teachaugment.commands.cli import main

    look(plain / REPORT)
    assert main(["report", str(run), str(plain), "-o", str(tmp_path / "both.html")]) == 0
    page = look(tmp_path / "both.html", viewport={"width": 375, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 375


def contrast(one: str, two: str) -> float:
    """Of two colours, as the guidelines for accessible pages measure it."""

    def light(color: str) -> float:
        parts = [int(p) / 255 for p in color[color.index("(") + 1 : -1].split(",")[:3]]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted([light(one), light(two)])
    return (high + 0.05) / (low + 0.05)
