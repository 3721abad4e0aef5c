from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from teachaugment.commands.report.charts import Line, heat, histogram, lines, number, quantile, strip, ticks


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.492, 0.502), (-3.2, 17), (5, 5), (0, 0), (1e-7, 3e-7), (-2, -2)])
def test_ticks_are_round_rise_and_cover_the_values(low, high):
    found = ticks(low, high)
    assert found == sorted(set(found)) and 2 <= len(found) <= 8
    assert found[0] <= low + 1e-12 and found[-1] >= high - 1e-12


def test_lines_are_drawn_and_can_be_read_as_text():
    text = lines("Loss & <more>", [Line("a<b", [(1, 2.0), (2, 1.0)]), Line("empty", [])])
    tree = ElementTree.fromstring(text.replace("class=at", 'class="at"'))
    (line,) = tree.iter("polyline")
    (x1, y1), (x2, y2) = (map(float, point.split(",")) for point in line.attrib["points"].split())
    assert x1 < x2 and y1 < y2  # a falling loss
    assert "a<b ends at 1" in next(tree.iter("svg")).attrib["aria-label"]
    assert "empty" not in text


def test_no_points_are_no_chart():
    assert lines("Loss", [Line("a", [])]) == "" and histogram("x", []) == ""


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_is_left_out(value):
    assert "nan" not in lines("Loss", [Line("a", [(1, 1.0), (2, value), (3, 2.0)])]).split("legend")[0]


def test_one_epoch_is_a_chart():
    assert "<circle" in lines("Loss", [Line("a", [(1, 1.0)])])


def test_quantiles():
    assert quantile([3, 1, 2], 0.5) == 2 and quantile([0, 1], 0.25) == 0.25 and quantile([7], 0.9) == 7


def test_a_strip_says_its_numbers():
    assert "median 2°" in strip([1, 2, 3], 0, 4, 0, "°")


def test_every_cell_of_a_confusion_matrix_says_what_it_counts():
    text = heat([[3, 1], [0, 2]], ["cat", "<dog>"])
    assert "cat taken for &lt;dog&gt;: 1 of 4" in text and "<dog>" not in text


def test_numbers_are_short():
    assert [number(0.12345), number(1e-5), number(0.5, percent=True), number(1234.0)] == [
        "0.1235",
        "1e-5",
        "50 %",
        "1,234",
    ]
