from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest

from teachaugment.show.charts import (
    Axis,
    Series,
    dots,
    histogram,
    interval,
    line_chart,
    number,
    quantile,
    strip,
    ticks,
    upright_grid,
)
from teachaugment.show.drawing import Circle, Line, Polyline, Rectangle, Text, svg


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.492, 0.502), (-3.2, 17), (5, 5), (0, 0), (1e-7, 3e-7), (-2, -2)])
def test_ticks_are_round_rise_and_cover_the_values(low, high):
    found = ticks(low, high)
    assert found == sorted(set(found)) and 2 <= len(found) <= 8
    assert found[0] <= low + 1e-12 and found[-1] >= high - 1e-12


def test_the_ticks_of_an_axis_are_round_numbers_between_its_ends():
    assert Axis(49.3, 61, 0, 360).ticks(6) == [50, 52.5, 55, 57.5, 60]
    assert Axis(-1.2, 6.5, 0, 360).ticks(5) == [0, 2, 4, 6]
    assert len(Axis(0.0, 0.02, 0, 360).ticks(6)) > 3


def test_an_axis_runs_either_way_and_one_value_is_at_its_start():
    assert [Axis(0, 10, 100, 200).at(v) for v in (0, 5, 10)] == [100, 150, 200]
    assert Axis(0, 1, 80, 20).at(0.25) == 65
    assert Axis(3, 3, 10, 20).at(3) == 10


def test_lines_are_drawn_and_can_be_read_as_text():
    chart = line_chart("Loss & <more>", [Series("a<b", [(1, 2.0), (2, 1.0)]), Series("empty", [])])
    (line,) = (shape for shape in chart.drawing.shapes if isinstance(shape, Polyline))
    (x1, y1), (x2, y2) = line.points
    assert x1 < x2 and y1 < y2  # a falling loss
    assert "a<b ends at 1" in ElementTree.fromstring(svg(chart.drawing)).attrib["aria-label"]
    (key,) = chart.keys
    assert (key.name, key.final, key.values) == ("a<b", "1", [("1", "2"), ("2", "1")])


def test_no_points_are_no_chart():
    assert line_chart("Loss", [Series("a", [])]) is None
    assert histogram("x", []) is None and strip([], Axis(0, 1, 0, 100), 0) is None


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_is_left_out(value):
    chart = line_chart("Loss", [Series("a", [(1, 1.0), (2, value), (3, 2.0)])])
    (line,) = (shape for shape in chart.drawing.shapes if isinstance(shape, Polyline))
    assert len(line.points) == 2 and all(math.isfinite(y) for _, y in line.points)
    assert "nan" not in svg(chart.drawing) and "inf" not in svg(chart.drawing)


def test_a_chart_of_nothing_finite_is_still_a_chart():
    assert line_chart("Loss", [Series("a", [(1, math.nan)])]).keys[0].final == "nan"


def test_one_epoch_is_a_chart():
    chart = line_chart("Loss", [Series("a", [(1, 1.0)])])
    assert any(isinstance(shape, Circle) for shape in chart.drawing.shapes)


def test_quantiles():
    assert quantile([3, 1, 2], 0.5) == 2 and quantile([0, 1], 0.25) == 0.25 and quantile([7], 0.9) == 7


def test_every_value_is_in_a_bar_of_a_histogram():
    figure = histogram("Rotation", [-1.0, 0.1, 0.1, 1.0], "°")
    bars = [shape for shape in figure.drawing.shapes if isinstance(shape, Rectangle) and shape.height]
    assert len(bars) == 3 and max(bars, key=lambda bar: bar.height).x == pytest.approx(130.5)
    assert "median 0.1°" in figure.note and figure.drawing.words == f"Rotation: {figure.note}"


def test_a_strip_says_its_numbers():
    assert "median 2°" in strip([1, 2, 3], Axis(0, 4, 0, 100), 0, "°").words


def test_a_grid_has_a_number_under_each_line_and_signs_where_they_matter():
    shapes = upright_grid(Axis(-5, 5, 0, 100), 0, 50, signed=True)
    lines = [shape.x1 for shape in shapes if isinstance(shape, Line)]
    texts = [shape for shape in shapes if isinstance(shape, Text)]
    assert [text.x for text in texts] == lines
    assert {text.text for text in texts} >= {"+2", "0", "-2"}


def test_an_interval_has_ends_and_a_mean_and_a_single_value_has_no_ends():
    axis = Axis(0, 10, 0, 100)
    made = interval(axis, 2, 3, 6, 20, "better")
    assert [(s.x1, s.x2) for s in made if isinstance(s, Line)] == [(20, 60), (20, 20), (60, 60)]
    assert made[-1] == dots(axis, [3], 20, "better")[0]
    assert sum(isinstance(s, Line) for s in interval(axis, 3, 3, 3, 20, "open")) == 1


def test_numbers_are_short():
    assert [number(0.12345), number(1e-5), number(0.5, percent=True), number(1234.0)] == [
        "0.123",
        "1e-5",
        "50 %",
        "1,234",
    ]
