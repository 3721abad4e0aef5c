"""The documentation as a reader sees it: the site is built, and its pages are looked at."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(path.stem for path in (ROOT / "docs").glob("*.md"))
SNIPPET = re.compile(r"-\s*-\s*8\s*<\s*-\s*-")  # the marker of a snippet, also as a formatter of Python would write it
ROW = re.compile(r"^\s*\|.*\|\s*$", re.MULTILINE)  # a line of a Markdown table
FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href", "object": "data"}


@dataclass
class Seen(HTMLParser):
    """What a page shows, and what a browser fetches for it."""

    text: list[str] = field(default_factory=list)  # all that is shown
    prose: list[str] = field(default_factory=list)  # the same without code and tables
    fetched: list[str] = field(default_factory=list)
    inside: list[str] = field(default_factory=list)  # elements that are open

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag in ("pre", "table", "script", "style"):
            self.inside.append(tag)
        if address := dict(attributes).get(FETCHED.get(tag, "")):
            self.fetched.append(address)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.inside:
            self.inside.remove(tag)

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.inside):
            self.text.append(data)
            if not self.inside:
                self.prose.append(data)


def seen_in(html: str) -> Seen:
    page = Seen()
    page.feed(html)
    return page


def unreplaced_snippets(page: Seen) -> list[str]:
    return SNIPPET.findall("".join(page.text))


def rows_outside_tables(page: Seen) -> list[str]:
    return ROW.findall("".join(page.prose))


def fetched_from_elsewhere(page: Seen) -> list[str]:
    return [address for address in page.fetched if re.match(r"(https?:)?//", address)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole site; ``--strict`` makes a link that leads nowhere an error, and with ``--quiet`` it would not."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_shown_as_it_is_meant(site, name):
    page = seen_in((site / f"{name}.html").read_text(encoding="utf-8"))
    assert unreplaced_snippets(page) == []
    assert rows_outside_tables(page) == []
    assert fetched_from_elsewhere(page) == []


def test_the_programs_of_a_page_stand_in_it(site):
    """A snippet that is left out altogether would leave no marker."""
    shown = "".join(seen_in((site / "loops.html").read_text(encoding="utf-8")).text)
    for program in ("plain_loop", "lightning_loop", "timm_loop", "hf_trainer"):
        lines = (ROOT / "examples" / f"{program}.py").read_text(encoding="utf-8").splitlines()
        missing = [line for line in lines if line not in shown]
        assert missing == [], program


def test_every_page_is_in_the_navigation(site):
    links = re.findall(r'href="([a-z_]+)\.html"', (site / "index.html").read_text(encoding="utf-8"))
    assert set(PAGES) <= {*links, "index"}


@pytest.mark.parametrize(
    ("damage", "look"),
    [
        ("<pre><code><span>--</span><span>8</span> <span>&lt;</span> --</code></pre>", unreplaced_snippets),
        ("<p>--8&lt;-- &quot;examples/plain_loop.py&quot;</p>", unreplaced_snippets),
        ("<table><tr><td>a</td></tr></table><p>| <code>online</code> | a perturbation |</p>", rows_outside_tables),
        ('<script src="https://example.org/x.js"></script>', fetched_from_elsewhere),
        ('<link rel="stylesheet" href="//example.org/x.css">', fetched_from_elsewhere),
    ],
)
def test_damage_is_seen(damage, look):
    assert len(look(seen_in(f"<html><body>{damage}</body></html>"))) == 1


@pytest.mark.parametrize(
    "sound",
    ["<pre>| a | b |</pre>", "<table><tr><td>| x |</td></tr></table>", "<p>|x| is a number, and |y| too.</p>"],
)
def test_bars_in_code_tables_and_sentences_are_no_rows(sound):
    assert rows_outside_tables(seen_in(sound)) == []
