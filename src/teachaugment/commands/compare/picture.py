"""A comparison as a picture: every seed a dot, and the paired differences with their intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from teachaugment.show.pictures import INK, PAPER, Picture

SCALE = 2  # drawn larger and then reduced, for smooth edges
ROW, MARGIN, PANEL, GAP, AXIS, TITLE = 46, 20, 360, 44, 34, 46  # pixels
FAINT, DOT = (225, 225, 225), (90, 130, 190)
BETTER, WORSE, OPEN = (20, 125, 60), (185, 45, 45), (95, 95, 95)


@dataclass(frozen=True)
class Panel:
    """A horizontal axis: ``low`` to ``high`` over PANEL pixels from ``left``."""

    left: int
    low: float
    high: float

    def x(self, value: float) -> float:
        return self.left + (value - self.low) / (self.high - self.low) * PANEL


def draw(summary: dict[str, Any]) -> Picture:
    """Left the metric, right the difference to the first strategy; one line of dots for each strategy."""
    strategies = summary["strategies"]
    font, small = (ImageFont.load_default(size=size * SCALE) for size in (13, 11))
    labels = [wrapped(s["label"], 260 * SCALE, font) for s in strategies]
    wide = max(font.getlength(line) for label in labels for line in label) / SCALE
    left = round(MARGIN + wide + 16)
    heights = [max(ROW, 18 * len(label) + 10) for label in labels]
    width, height = left + 2 * PANEL + GAP + MARGIN + 10, MARGIN + TITLE + sum(heights) + AXIS
    sheet = Image.new("RGB", (width * SCALE, height * SCALE), PAPER)
    pen = Pen(ImageDraw.Draw(sheet))
    bottom = height - AXIS
    metric = panel([v for s in strategies for v in s["values"].values()], left)
    ends = [v for s in strategies if (d := s["difference"]) for v in (*d["values"].values(), *(d["interval"] or ()))]
    paired = panel([0.0, *ends], left + PANEL + GAP)
    pen.text((MARGIN, 8), summary["title"], font, INK)
    titles = (
        f"{summary['split']} {summary['metric']}, %: seeds and mean",
        f"difference to {summary['baseline']}, points",
    )
    intervals = f"{100 * summary['confidence']:.0f} % interval"
    for place, title in ((metric, titles[0]), (paired, f"{titles[1]}: seeds, mean, {intervals}")):
        pen.text((place.left, 32), title, small, INK)
        for tick in ticks(place.low, place.high):
            pen.line((place.x(tick), TITLE + 8, place.x(tick), bottom), FAINT, 1)
            shown = f"{tick:+g}" if place is paired and tick else f"{tick:g}"
            pen.text((place.x(tick), bottom + 6), shown, small, INK, "ma")
    pen.line((paired.x(0), TITLE + 8, paired.x(0), bottom), INK, 1)
    top = MARGIN + TITLE - 12
    for s, label, high in zip(strategies, labels, heights, strict=True):
        middle = top + high / 2
        for i, line in enumerate(label):
            pen.text((MARGIN, middle + 18 * (i - len(label) / 2)), line, font, INK)
        for value in s["values"].values():
            pen.dot(metric.x(value), middle, DOT)
        pen.line((metric.x(s["mean"]), middle - 11, metric.x(s["mean"]), middle + 11), INK, 2)
        if d := s["difference"]:
            low, upper = d["interval"] or (d["mean"], d["mean"])
            color = OPEN if d["interval"] is None or low <= 0 <= upper else BETTER if low > 0 else WORSE
            for value in d["values"].values():
                pen.dot(paired.x(value), middle - 7, DOT)
            pen.line((paired.x(low), middle + 6, paired.x(upper), middle + 6), color, 2)
            for end in (low, upper) if d["interval"] else ():
                pen.line((paired.x(end), middle + 2, paired.x(end), middle + 10), color, 2)
            pen.dot(paired.x(d["mean"]), middle + 6, color)
        top += high
    return sheet.resize((width, height), Image.Resampling.LANCZOS)


class Pen:
    """Draws in pixels of the finished picture."""

    def __init__(self, draw: ImageDraw.ImageDraw):
        self.draw = draw

    def text(self, place: tuple[float, float], text: str, font: Any, color: Any, anchor: str = "la") -> None:
        self.draw.text((place[0] * SCALE, place[1] * SCALE), text, color, font, anchor=anchor)

    def line(self, ends: Sequence[float], color: Any, width: int) -> None:
        self.draw.line([SCALE * end for end in ends], color, width * SCALE)

    def dot(self, x: float, y: float, color: Any, radius: float = 4) -> None:
        box = [SCALE * value for value in (x - radius, y - radius, x + radius, y + radius)]
        self.draw.ellipse(box, color, PAPER, SCALE)


def panel(values: Sequence[float], left: int) -> Panel:
    """An axis with some room around the values."""
    low, high = min(values), max(values)
    room = 0.06 * (high - low) or 0.5
    return Panel(left, low - room, high + room)


def ticks(low: float, high: float, count: int = 6) -> list[float]:
    """Round numbers between the ends, about ``count``."""
    rough = (high - low) / count
    size = 10 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
    return [round(i * step, 10) for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def wrapped(label: str, width: float, font: Any) -> list[str]:
    """A label in lines that fit, broken before its settings and between words."""
    lines = [""]
    for part in label.replace(":", " :").split(" "):
        longer = f"{lines[-1]} {part}".replace(" :", ":").strip()
        if lines[-1] and font.getlength(longer) > width:
            lines.append(part)
        else:
            lines[-1] = longer
    return lines
