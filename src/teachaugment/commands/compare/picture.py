"""A comparison as a picture: every seed a dot, and the paired differences with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from teachaugment.show.charts import Axis, dots, interval, upright_grid
from teachaugment.show.drawing import Drawing, Line, Shape, Style, Text, picture, text_width
from teachaugment.show.pictures import INK, Picture

ROW, MARGIN, PANEL, GAP, AXIS, TITLE = 46, 20, 360, 44, 34, 46  # pixels
LABEL, LINE = 260, 18  # pixels: the most for a label's line, and from one line to the next
STYLES = {
    "title": Style(INK),
    "tick": Style(INK, size=11),
    "grid": Style((225, 225, 225)),
    "zero": Style(INK),
    "seed": Style((90, 130, 190)),
    "mean": Style(INK, width=2),
    "better": Style((20, 125, 60), width=2),
    "worse": Style((185, 45, 45), width=2),
    "open": Style((95, 95, 95), width=2),
}


def draw(summary: dict[str, Any]) -> Picture:
    """Left the metric, right the difference to the first strategy; one row of dots for each strategy."""
    return picture(drawing(summary), STYLES)


def drawing(summary: dict[str, Any]) -> Drawing:
    strategies = summary["strategies"]
    labels = [wrapped(s["label"]) for s in strategies]
    heights = [max(ROW, LINE * len(label) + 10) for label in labels]
    left = round(MARGIN + max(text_width(line, STYLES["title"].size) for label in labels for line in label) + 16)
    width, height = left + 2 * PANEL + GAP + MARGIN + 10, MARGIN + TITLE + sum(heights) + AXIS
    metric, differences = panels(strategies, left)
    top, bottom = TITLE + 8, height - AXIS
    seeds = f"{summary['split']} {summary['metric']}, %: seeds and mean"
    shown = f"points: seeds, mean, {100 * summary['confidence']:.0f} % interval"
    paired = f"difference to {summary['baseline']}, {shown}"
    if text_width(paired, STYLES["tick"].size) > PANEL:
        paired = f"difference to the first, {shown}"
    shapes: list[Shape] = [
        Text(MARGIN, 21, summary["title"], "title"),
        Text(metric.start, 43, seeds, "tick"),
        Text(differences.start, 43, paired, "tick"),
        *upright_grid(metric, top, bottom),
        *upright_grid(differences, top, bottom, signed=True),
        Line(differences.at(0), top, differences.at(0), bottom, "zero"),
    ]
    middle = MARGIN + TITLE - 12.0
    for s, label, high in zip(strategies, labels, heights, strict=True):
        middle += high / 2
        first = middle + LINE * (0.7 - len(label) / 2)
        shapes += [Text(MARGIN, first + LINE * i, line, "title") for i, line in enumerate(label)]
        shapes += row(s, metric, differences, middle)
        middle += high / 2
    words = "; ".join(f"{s['label']} {s['mean']:.2f} %" for s in strategies)
    return Drawing(width, height, shapes, f"{summary['title']}: {words}")


def panels(strategies: Sequence[dict[str, Any]], left: float) -> tuple[Axis, Axis]:
    """The axes of the metric and of the differences, beside each other from ``left``."""
    found = [d for s in strategies if (d := s["difference"])]
    values = [v for s in strategies for v in s["values"].values()]
    differences = [v for d in found for v in (*d["values"].values(), *(d["interval"] or ()))]
    return panel(values, left), panel([0.0, *differences], left + PANEL + GAP)


def panel(values: Sequence[float], left: float) -> Axis:
    """An axis with some room around the values."""
    low, high = min(values), max(values)
    room = 0.06 * (high - low) or 0.5
    return Axis(low - room, high + room, left, left + PANEL)


def row(strategy: dict[str, Any], metric: Axis, differences: Axis, middle: float) -> list[Shape]:
    """The dots, means and interval of one strategy."""
    mean = metric.at(strategy["mean"])
    shapes = dots(metric, list(strategy["values"].values()), middle, "seed")
    shapes.append(Line(mean, middle - 11, mean, middle + 11, "mean"))
    if d := strategy["difference"]:
        low, high = d["interval"] or (d["mean"], d["mean"])
        look = "open" if d["interval"] is None or low <= 0 <= high else "better" if low > 0 else "worse"
        shapes += dots(differences, list(d["values"].values()), middle - 7, "seed")
        shapes += interval(differences, low, d["mean"], high, middle + 6, look)
    return shapes


def wrapped(label: str) -> list[str]:
    """A label in lines that fit, broken before its settings and between words."""
    lines = [""]
    for part in label.replace(":", " :").split(" "):
        longer = f"{lines[-1]} {part}".replace(" :", ":").strip()
        if lines[-1] and text_width(longer, STYLES["title"].size) > LABEL:
            lines.append(part)
        else:
            lines[-1] = longer
    return lines
