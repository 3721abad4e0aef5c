"""Drawings as lists of shapes, rendered as SVG for a page or with Pillow for a picture file.

A shape says with ``look`` what it is. In a page that is its CSS class; for a picture a table of styles says the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple
from xml.etree import ElementTree

from PIL import Image, ImageDraw

from teachaugment.show.fonts import lettering
from teachaugment.show.pictures import PAPER, Picture

OVERSAMPLING = 2  # a picture is drawn larger and then reduced, for smooth edges
Anchor = Literal["start", "middle", "end"]


@dataclass(frozen=True)
class Line:
    x1: float
    y1: float
    x2: float
    y2: float
    look: str


@dataclass(frozen=True)
class Polyline:
    points: Sequence[tuple[float, float]]
    look: str
    dashed: bool = False  # in SVG


@dataclass(frozen=True)
class Circle:
    x: float
    y: float
    radius: float
    look: str
    fill: str = ""  # a colour of its own, such as "#1f2f3f", in SVG


@dataclass(frozen=True)
class Rectangle:
    x: float
    y: float
    width: float
    height: float
    look: str


@dataclass(frozen=True)
class Text:
    """``y`` is where the letters stand, their baseline."""

    x: float
    y: float
    text: str
    look: str
    anchor: Anchor = "start"


Shape = Line | Polyline | Circle | Rectangle | Text


@dataclass(frozen=True)
class Drawing:
    """Shapes in pixels from the upper left corner, and the same in words for those who cannot see them."""

    width: float
    height: float
    shapes: Sequence[Shape]
    words: str


def svg(drawing: Drawing, **attributes: str) -> str:
    """An ``svg`` element, with more attributes such as ``tabindex``."""
    fixed = {"viewBox": f"0 0 {drawing.width:g} {drawing.height:g}", "role": "img", "aria-label": drawing.words}
    root = ElementTree.Element("svg", fixed | attributes)
    for shape in drawing.shapes:
        tag, values, text = _element(shape)
        ElementTree.SubElement(root, tag, {"class": shape.look} | values).text = text
    return ElementTree.tostring(root, encoding="unicode")


def _element(shape: Shape) -> tuple[str, dict[str, str], str | None]:
    """Tag, attributes and text of the element that shows a shape."""
    match shape:
        case Line(x1, y1, x2, y2):
            return "line", _short(x1=x1, y1=y1, x2=x2, y2=y2), None
        case Polyline(points):
            dash = {"stroke-dasharray": "5 4"} if shape.dashed else {}
            return "polyline", {"points": " ".join(f"{x:.1f},{y:.1f}" for x, y in points)} | dash, None
        case Circle(x, y, radius):
            return "circle", _short(cx=x, cy=y, r=radius) | ({"fill": shape.fill} if shape.fill else {}), None
        case Rectangle(x, y, width, height):
            return "rect", _short(x=x, y=y, width=width, height=height), None
        case Text(x, y, text):
            return "text", _short(x=x, y=y) | {"text-anchor": shape.anchor}, text


def _short(**numbers: float) -> dict[str, str]:
    return {name: f"{value:.1f}" for name, value in numbers.items()}


class Style(NamedTuple):
    """How shapes of one look are painted."""

    color: tuple[int, int, int]
    width: int = 1  # of lines
    size: int = 13  # of letters


def picture(drawing: Drawing, styles: Mapping[str, Style]) -> Picture:
    """The drawing on white, each shape in the style of its look. Circles have a thin white edge."""
    width, height = round(drawing.width), round(drawing.height)
    sheet = Image.new("RGB", (width * OVERSAMPLING, height * OVERSAMPLING), PAPER)
    pen = ImageDraw.Draw(sheet)
    for shape in drawing.shapes:
        _paint(pen, shape, styles[shape.look])
    return sheet.resize((width, height), Image.Resampling.LANCZOS)


def _paint(pen: ImageDraw.ImageDraw, shape: Shape, style: Style) -> None:
    """One shape, enlarged by the oversampling."""
    k = OVERSAMPLING
    match shape:
        case Line(x1, y1, x2, y2):
            pen.line([k * x1, k * y1, k * x2, k * y2], style.color, k * style.width)
        case Polyline(points):
            pen.line([(k * x, k * y) for x, y in points], style.color, k * style.width, joint="curve")
        case Circle(x, y, r):
            pen.ellipse([k * (x - r), k * (y - r), k * (x + r), k * (y + r)], style.color, PAPER, k)
        case Rectangle(x, y, width, height):
            pen.rectangle([k * x, k * y, k * (x + width), k * (y + height)], style.color)
        case Text(x, y, text):
            anchor = {"start": "ls", "middle": "ms", "end": "rs"}[shape.anchor]
            words, font = lettering(text, k * style.size)
            pen.text((k * x, k * y), words, style.color, font, anchor=anchor)


def text_width(text: str, size: int) -> float:
    """Pixels that a text takes up in a picture."""
    words, font = lettering(text, size * OVERSAMPLING)
    return font.getlength(words) / OVERSAMPLING
