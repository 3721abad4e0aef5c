"""Pixel colours as points in the RGB cube, as in the paper's figure on the colour regularisation."""

from __future__ import annotations

import math

from torch import Tensor

from teachaugment.show.charts import Figure
from teachaugment.show.drawing import Circle, Drawing, Line, Shape, Text

SIZE = 300
TURN = math.pi / 6
EDGES = (
    ((0, 0, 0), (1, 0, 0)), ((0, 0, 0), (0, 1, 0)), ((0, 0, 0), (0, 0, 1)),
    ((1, 0, 0), (1, 1, 0)), ((0, 1, 0), (1, 1, 0)), ((1, 0, 0), (1, 0, 1)),
    ((0, 1, 0), (0, 1, 1)), ((0, 0, 1), (1, 0, 1)), ((0, 0, 1), (0, 1, 1)),
)  # fmt: skip
NAMES = (("R", (1.08, 0, 0)), ("G", (0, 1.08, 0)), ("B", (0, 0, 1.06)))


def project(red: float, green: float, blue: float) -> tuple[float, float]:
    """Isometric: red to the lower left, green to the lower right, blue up."""
    x = (green - red) * math.cos(TURN)
    y = (green + red) * math.sin(TURN) - blue
    unit = SIZE / 2.25
    return SIZE / 2 + x * unit, SIZE * 0.5 + y * unit


def cube(title: str, colors: Tensor) -> Figure:
    """Colours [P, 3] in [0, 1], each as a dot of its own colour."""
    shapes: list[Shape] = [Line(*project(*start), *project(*end), "grid") for start, end in EDGES]
    shapes += [Text(*project(*corner), name, "tick", "middle") for name, corner in NAMES]
    for color in colors.tolist():
        paint = "".join(f"{round(255 * part):02x}" for part in color)
        shapes.append(Circle(*project(*color), 1.7, "pixel", fill=f"#{paint}"))
    mean = ", ".join(f"{100 * part:.0f} %" for part in colors.mean(0).tolist())
    words = f"{title}: {len(colors)} pixel colours in the RGB cube, mean {mean}"
    return Figure(title, Drawing(SIZE, SIZE, shapes, words), f"mean of red, green and blue: {mean}")
