"""Pixel colours as points in the RGB cube, as in the paper's figure on the colour regularisation."""

from __future__ import annotations

import math
from html import escape

from torch import Tensor

SIZE = 300
TURN = math.pi / 6


def project(red: float, green: float, blue: float) -> tuple[float, float]:
    """Isometric: red to the lower left, green to the lower right, blue up."""
    x = (green - red) * math.cos(TURN)
    y = (green + red) * math.sin(TURN) - blue
    unit = SIZE / 2.25
    return SIZE / 2 + x * unit, SIZE * 0.5 + y * unit


def cube(title: str, colors: Tensor) -> str:
    """Colours [P, 3] in [0, 1], each as a dot of its own colour."""
    edges = []
    for start, end in (((0, 0, 0), (1, 0, 0)), ((0, 0, 0), (0, 1, 0)), ((0, 0, 0), (0, 0, 1)),
                       ((1, 0, 0), (1, 1, 0)), ((0, 1, 0), (1, 1, 0)), ((1, 0, 0), (1, 0, 1)),
                       ((0, 1, 0), (0, 1, 1)), ((0, 0, 1), (1, 0, 1)), ((0, 0, 1), (0, 1, 1))):  # fmt: skip
        (x1, y1), (x2, y2) = project(*start), project(*end)
        edges.append(f'<line class="grid" x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}"/>')
    names = []
    for name, corner in (("R", (1.08, 0, 0)), ("G", (0, 1.08, 0)), ("B", (0, 0, 1.06))):
        x, y = project(*corner)
        names.append(f'<text class="tick" x="{x:.0f}" y="{y:.0f}" text-anchor="middle">{name}</text>')
    dots = []
    for color in colors.tolist():
        x, y = project(*color)
        paint = "".join(f"{round(255 * part):02x}" for part in color)
        dots.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1.7" fill="#{paint}"/>')
    mean = ", ".join(f"{100 * part:.0f} %" for part in colors.mean(0).tolist())
    label = escape(f"{title}: {len(colors)} pixel colours in the RGB cube, mean {mean}", quote=True)
    return (
        f'<figure class="cube"><figcaption>{escape(title)}</figcaption><svg viewBox="0 0 {SIZE} {SIZE}" role="img" '
        f'aria-label="{label}">{"".join(edges)}{"".join(names)}<g class="dots">{"".join(dots)}</g></svg>'
        f"<p class=note>mean of red, green and blue: {mean}</p></figure>"
    )
