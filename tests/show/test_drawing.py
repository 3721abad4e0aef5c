from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

from teachaugment.show.drawing import (
    Circle,
    Drawing,
    Line,
    Polyline,
    Rectangle,
    Style,
    Text,
    picture,
    svg,
    text_width,
)

SHAPES = [
    Line(0, 10, 20, 10, "ink"),
    Polyline([(0, 40), (20, 40), (20, 60)], "ink", dashed=True),
    Circle(50, 20, 8, "ink"),
    Rectangle(70, 10, 20, 20, "ink"),
    Text(95, 55, "Ⅰ<b>&", "ink", "end"),
]
DRAWING = Drawing(100, 80, SHAPES, 'a "quoted" & <marked> drawing')


def test_every_shape_is_an_svg_element_with_its_look_as_class():
    root = ElementTree.fromstring(svg(DRAWING, tabindex="0"))
    assert [child.tag for child in root] == ["line", "polyline", "circle", "rect", "text"]
    assert {child.attrib["class"] for child in root} == {"ink"}
    assert root.attrib["viewBox"] == "0 0 100 80" and root.attrib["tabindex"] == "0"
    assert "stroke-dasharray" in root[1].attrib and root[4].attrib["text-anchor"] == "end"


def test_words_and_texts_stay_text_in_svg():
    text = svg(DRAWING)
    root = ElementTree.fromstring(text)
    assert root.attrib["role"] == "img" and root.attrib["aria-label"] == DRAWING.words
    assert root[4].text == "Ⅰ<b>&" and "<b>" not in text and "<marked>" not in text


def test_a_circle_can_have_a_colour_of_its_own():
    (circle,) = ElementTree.fromstring(svg(Drawing(9, 9, [Circle(4, 4, 2, "pixel", fill="#102030")], "")))
    assert circle.attrib["fill"] == "#102030"


@pytest.mark.parametrize(
    ("shape", "inside", "outside"),
    [
        (SHAPES[0], (10, 10), (30, 10)),
        (SHAPES[1], (20, 50), (10, 50)),
        (SHAPES[2], (50, 20), (60, 20)),
        (SHAPES[3], (80, 20), (95, 20)),
    ],
)
def test_every_shape_is_painted_at_its_place_in_its_colour(shape, inside, outside):
    made = picture(Drawing(100, 80, [shape], ""), {"ink": Style((200, 0, 0), width=2)})
    assert made.size == (100, 80)
    pixels = np.asarray(made).astype(int)
    (x, y), (away_x, away_y) = inside, outside
    assert abs(pixels[y, x] - [200, 0, 0]).max() < 30
    assert (pixels[away_y, away_x] == 255).all()


@pytest.mark.parametrize(
    ("anchor", "sides"), [("start", [False, True]), ("end", [True, False]), ("middle", [True, True])]
)
def test_a_text_lies_on_the_side_of_its_anchor_and_above_its_baseline(anchor, sides):
    made = picture(Drawing(100, 40, [Text(50, 30, "MMMM", "ink", anchor)], ""), {"ink": Style((0, 0, 0))})
    dark = np.asarray(made)[..., 0] < 128
    assert [dark[:, :48].any(), dark[:, 52:].any()] == sides
    assert dark[15:30].any() and not dark[32:].any()


def test_a_longer_text_is_wider():
    assert 0 < text_width("M", 13) < text_width("MM", 13) < text_width("MM", 26)
