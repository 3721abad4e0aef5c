"""One page: sections under a heading with links to them, style and script inside, nothing fetched from anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import NamedTuple


class Section(NamedTuple):
    key: str
    title: str
    body: str  # HTML; an empty one leaves the section out
    intro: str = ""


def page(title: str, lead: str, sections: Sequence[Section], foot: str) -> str:
    """``title`` and ``foot`` are text; ``lead``, introductions and bodies are HTML."""
    sections = [section for section in sections if section.body]
    links = "".join(f'<li><a href="#{s.key}">{escape(s.title)}</a></li>' for s in sections)
    body = "".join(
        f'<section id="{s.key}" aria-labelledby="h-{s.key}"><h2 id="h-{s.key}">{escape(s.title)}</h2>'
        f"{f'<p class=intro>{s.intro}</p>' if s.intro else ''}{s.body}</section>"
        for s in sections
    )
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{asset('style.css')}</style></head>"
        f'<body><a class="skip" href="#main">to the content</a><header><h1>{escape(title)}</h1>{lead}'
        f'<nav aria-label="sections"><ul>{links}</ul></nav></header><main id="main">{body}</main>'
        f"<footer><p>{escape(foot)}</p></footer><script>{asset('script.js')}</script></body></html>\n"
    )


def asset(name: str) -> str:
    return (files("teachaugment.commands.report") / name).read_text(encoding="utf-8")
