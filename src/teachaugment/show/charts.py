"""What charts are made of: axes with round numbers, lines over epochs, histograms, dots with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from teachaugment.show.drawing import Circle, Drawing, Line, Polyline, Rectangle, Shape, Text

WIDTH, HEIGHT = 560, 250  # of a chart of lines
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 12, 30  # its margins
COLORS = 8  # looks "s0", "s1", …
FEW = 15  # points of a line; with fewer each has a dot


class Axis(NamedTuple):
    """Values from ``low`` to ``high`` along the pixels from ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """The pixel of a value."""
        return self.start + (value - self.low) / ((self.high - self.low) or 1) * (self.end - self.start)

    def ticks(self, count: int) -> list[float]:
        """About ``count`` round numbers between the ends."""
        return [tick for tick in ticks(self.low, self.high, count) if self.low <= tick <= self.high]


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About ``count`` round numbers from just below ``low`` to just above ``high``."""
    span = high - low or abs(high) or 1.0
    rough = span / max(count - 1, 1)
    power = 10 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [k * step for k in range(first, max(last, first + 1) + 1)]


def number(value: float, percent: bool = False) -> str:
    """A number as short as it can be read."""
    if percent:
        return f"{100 * value:.3g} %"
    if value and math.isfinite(value) and (abs(value) < 1e-3 or abs(value) >= 1e6):
        mantissa, exponent = f"{value:.2e}".split("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def quantile(values: Sequence[float], share: float) -> float:
    """Linear between the sorted values."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def spread(values: Sequence[float], unit: str = "") -> str:
    """Where most values lie, in words."""
    low, middle, high = (quantile(values, share) for share in (0.05, 0.5, 0.95))
    return f"median {middle:.3g}{unit}, 90 % between {low:.3g} and {high:.3g}{unit}"


@dataclass(frozen=True)
class Figure:
    """A drawing with a title above it and a note below it."""

    title: str
    drawing: Drawing
    note: str = ""


class Series(NamedTuple):
    """A line of a chart: (epoch, value) from left to right."""

    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False
    color: int | None = None  # of the palette; None: by its place among the lines


class Key(NamedTuple):
    """A line's entry in the legend."""

    name: str
    look: str
    dashed: bool
    final: str  # the last value
    values: list[tuple[str, str]]  # epoch and value


@dataclass(frozen=True)
class LineChart:
    """Lines over epochs with a legend, and the axis by which a pointer's place is read."""

    title: str
    drawing: Drawing
    keys: Sequence[Key]
    epochs: Axis


def line_chart(
    title: str, series: Sequence[Series], percent: bool = False, least: tuple[float, ...] = ()
) -> LineChart | None:
    """Lines over epochs; values that are not finite are left out. None without points.

    ``least``: values that the axis has in any case, so that noise does not fill it.
    """
    series = [s for s in series if s.points]
    if not series:
        return None
    xs = [x for s in series for x, _ in s.points]
    ys = [y for s in series for _, y in s.points if math.isfinite(y)]
    ys += least if ys else ()
    marks = ticks(min(ys), max(ys)) if ys else [0.0, 1.0]
    across = Axis(min(xs), max(xs), LEFT, WIDTH - RIGHT)
    down = Axis(marks[0], marks[-1], HEIGHT - BOTTOM, TOP)
    shapes: list[Shape] = []
    for y in marks:
        shapes.append(Line(LEFT, down.at(y), WIDTH - RIGHT, down.at(y), "grid"))
        shapes.append(Text(LEFT - 8, down.at(y) + 4, number(y, percent), "tick", "end"))
    shapes += [Text(across.at(x), HEIGHT - 10, f"{x:g}", "tick", "middle") for x in across.ticks(7) if x == round(x)]
    keys = []
    for place, s in enumerate(series):
        color = f"s{(place if s.color is None else s.color) % COLORS}"
        points = [(across.at(x), down.at(y)) for x, y in s.points if math.isfinite(y)]
        if len(points) < FEW:
            shapes += [Circle(x, y, 3, f"dot {color}") for x, y in points]
        shapes.append(Polyline(points, f"line {color}", s.dashed))
        values = [(f"{x:g}", number(y, percent)) for x, y in s.points]
        keys.append(Key(s.name, color, s.dashed, values[-1][1], values))
    shapes.append(Line(LEFT, TOP, LEFT, HEIGHT - BOTTOM, "cursor"))
    words = f"{title}: " + ", ".join(f"{key.name} ends at {key.final}" for key in keys)
    return LineChart(title, Drawing(WIDTH, HEIGHT, shapes, words), keys, across)


def histogram(title: str, values: Sequence[float], unit: str = "", center: float = 0.0) -> Figure | None:
    """How values are distributed, and where among them is the value that means no change. None without values.

    The axis has all values and the one that means no change, and nothing besides.
    """
    if not values:
        return None
    width, height, bins = 240, 96, 24
    low, high = min(*values, center), max(*values, center)
    reach = max(high - low, 1e-6)
    counts = [0] * bins
    for v in values:
        counts[min(int((v - low) / reach * bins), bins - 1)] += 1
    bottom, middle, bar = height - 20, width * (center - low) / reach, width / bins
    shapes: list[Shape] = [Line(middle, 0, middle, bottom, "zero")]
    for k, count in enumerate(counts):
        tall = (bottom - 4) * count / max(counts)
        shapes.append(Rectangle(k * bar + 0.5, bottom - tall, bar - 1, tall, "bar"))
    shapes += [Text(0, height - 4, f"{low:.2g}", "tick"), Text(width, height - 4, f"{high:.2g}{unit}", "tick", "end")]
    if 40 < middle < width - 60:  # otherwise it would run into the ends
        shapes.append(Text(middle, height - 4, f"{center:g}", "tick", "middle"))
    note = spread(values, unit)
    return Figure(title, Drawing(width, height, shapes, f"{title}: {note}"), note)


def strip(values: Sequence[float], axis: Axis, center: float, unit: str = "") -> Drawing | None:
    """A distribution in a cell of a table: a line from 5 to 95 %, a box over the middle half, a mark at the median."""
    if not values:
        return None
    low, left, middle, right, high = (axis.at(quantile(values, share)) for share in (0.05, 0.25, 0.5, 0.75, 0.95))
    shapes: list[Shape] = [
        Line(axis.at(center), 0, axis.at(center), 16, "zero"),
        Line(low, 8, high, 8, "whisker"),
        Rectangle(left, 4, max(right - left, 0.5), 8, "box"),
        Rectangle(middle - 0.6, 2, 1.2, 12, "median"),
    ]
    return Drawing(axis.end, 16, shapes, spread(values, unit))


def upright_grid(axis: Axis, top: float, bottom: float, signed: bool = False) -> list[Shape]:
    """Upright lines at round numbers of a horizontal axis, and the numbers below them."""
    shapes: list[Shape] = []
    for tick in axis.ticks(6):
        text = f"{tick:+g}" if signed and tick else f"{tick:g}"
        shapes.append(Line(axis.at(tick), top, axis.at(tick), bottom, "grid"))
        shapes.append(Text(axis.at(tick), bottom + 16, text, "tick", "middle"))
    return shapes


def dots(axis: Axis, values: Sequence[float], y: float, look: str) -> list[Shape]:
    """A dot for each value."""
    return [Circle(axis.at(value), y, 4, look) for value in values]


def interval(axis: Axis, low: float, mean: float, high: float, y: float, look: str) -> list[Shape]:
    """A line with ends from ``low`` to ``high``, and a dot at the mean."""
    shapes: list[Shape] = [Line(axis.at(low), y, axis.at(high), y, look)]
    shapes += [Line(axis.at(end), y - 4, axis.at(end), y + 4, look) for end in (low, high) if low < high]
    return [*shapes, *dots(axis, [mean], y, look)]
