"""Pages from plain data: HTML is in the templates, and every value is escaped there. Nothing is fetched by a page."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from teachaugment.show.drawing import Drawing, svg

TEMPLATES = Path(__file__).with_name("templates")


class Section(NamedTuple):
    """A part of a page under its own heading, with a link to it."""

    key: str
    title: str
    template: str  # a file in templates
    content: Any  # what the template shows; None leaves the section out
    intro: str = ""
    link: str = ""  # what the link says; the title unless given


@dataclass(frozen=True)
class Page:
    """A heading with the most important numbers, and sections."""

    title: str
    lead: str
    sections: Sequence[Section]
    foot: str
    numbers: Sequence[tuple[str, str]] = ()  # name and value
    note: str = ""
    warning: str = ""


def render(page: Page) -> str:
    """The page as one HTML file, with its style and its script inside."""
    script = (TEMPLATES / "script.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return _environment().get_template("page.html").render(
        page=page,
        sections=[section for section in page.sections if section.content is not None],
        style=Markup((TEMPLATES / "style.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_hash=digest,
    )  # fmt: skip


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["svg"] = _svg
    return environment


def _svg(drawing: Drawing, **attributes: str) -> Markup:
    return Markup(svg(drawing, **attributes))
