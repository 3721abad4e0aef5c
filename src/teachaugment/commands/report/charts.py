"""Charts as inline SVG: lines over epochs, histograms, small marks in tables. Colours come from the style sheet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from teachaugment.commands.report.record import Points

WIDTH, HEIGHT = 560, 250
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 12, 30


class Line(NamedTuple):
    name: str
    points: Points
    dashed: bool = False
    color: int | None = None  # of the palette; None: by its place among the lines


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers from just below ``low`` to just above ``high``."""
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
    return f"{value:,.4g}"


def lines(title: str, series: Sequence[Line], percent: bool = False) -> str:
    """Lines over epochs, with a legend that a script turns into a reading of the values; empty without points."""
    series = [s for s in series if s.points]
    if not series:
        return ""
    xs = [x for s in series for x, _ in s.points]
    ys = [y for s in series for _, y in s.points if math.isfinite(y)]
    marks = ticks(min(ys), max(ys)) if ys else [0.0, 1.0]
    x0, x1 = min(xs), max(xs)
    y0, y1 = marks[0], marks[-1]

    def across(x: float) -> float:
        return LEFT + (x - x0) / ((x1 - x0) or 1) * (WIDTH - LEFT - RIGHT)

    def down(y: float) -> float:
        return HEIGHT - BOTTOM - (y - y0) / ((y1 - y0) or 1) * (HEIGHT - TOP - BOTTOM)

    parts = []
    for y in marks:
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{down(y):.1f}" y2="{down(y):.1f}"/>')
        text = escape(number(y, percent))
        parts.append(f'<text class="tick" x="{LEFT - 8}" y="{down(y) + 4:.1f}" text-anchor="end">{text}</text>')
    for x in [t for t in ticks(x0, x1, 7) if x0 <= t <= x1 and t == round(t)]:
        parts.append(f'<text class="tick" x="{across(x):.1f}" y="{HEIGHT - 10}" text-anchor="middle">{x:g}</text>')
    keys = []
    for place, s in enumerate(series):
        color = f"s{(place if s.color is None else s.color) % 8}"
        points = [(across(x), down(y)) for x, y in s.points if math.isfinite(y)]
        where = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dash = ' stroke-dasharray="5 4"' if s.dashed else ""
        if len(points) < 15:
            parts += [f'<circle class="dot {color}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in points]
        parts.append(f'<polyline class="line {color}" points="{where}"{dash}/>')
        last = number(s.points[-1][1], percent)
        values = escape(";".join(f"{x:g}:{number(y, percent)}" for x, y in s.points), quote=True)
        keys.append(
            f'<li data-values="{values}"><i class="key {color}{" dashed" if s.dashed else ""}"></i>'
            f"{escape(s.name)} <b>{escape(last)}</b></li>"
        )
    says = f"{title}: " + ", ".join(f"{s.name} ends at {number(s.points[-1][1], percent)}" for s in series)
    return (
        f'<figure class="chart" data-x="{x0:g},{x1:g},{LEFT},{WIDTH - RIGHT},{WIDTH}">'
        f"<figcaption>{escape(title)} <span class=at></span></figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(says, quote=True)}" tabindex="0">'
        f'{"".join(parts)}<line class="cursor" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/></svg>'
        f'<ul class="legend">{"".join(keys)}</ul></figure>'
    )


def histogram(title: str, values: Sequence[float], unit: str = "", bins: int = 24, center: float = 0.0) -> str:
    """How values are distributed, around the value that means no change."""
    if not values:
        return ""
    reach = max(max(abs(v - center) for v in values), 1e-6)
    width = 2 * reach / bins
    counts = [0] * bins
    for v in values:
        counts[min(int((v - center + reach) / width), bins - 1)] += 1
    wide, high, most = 240, 96, max(counts)
    bars = []
    for k, count in enumerate(counts):
        h = (high - 24) * count / most
        bars.append(f'<rect class="bar" x="{k * wide / bins + 0.5:.1f}" y="{high - 20 - h:.1f}" '
                    f'width="{wide / bins - 1:.1f}" height="{h:.1f}"/>')  # fmt: skip
    middle, spread = quantile(values, 0.5), (quantile(values, 0.05), quantile(values, 0.95))
    says = f"median {middle:.3g}{unit}, 90 % between {spread[0]:.3g} and {spread[1]:.3g}{unit}"
    ends = f'<text class="tick" x="0" y="{high - 4}">{center - reach:.2g}</text>'
    ends += f'<text class="tick" x="{wide / 2}" y="{high - 4}" text-anchor="middle">{center:g}</text>'
    ends += f'<text class="tick" x="{wide}" y="{high - 4}" text-anchor="end">{center + reach:.2g}{escape(unit)}</text>'
    label = escape(f"{title}: {says}", quote=True)
    return (
        f'<figure class="small"><figcaption>{escape(title)}</figcaption>'
        f'<svg viewBox="0 0 {wide} {high}" role="img" aria-label="{label}">'
        f'<line class="zero" x1="{wide / 2}" x2="{wide / 2}" y1="0" y2="{high - 20}"/>{"".join(bars)}{ends}</svg>'
        f"<p class=note>{escape(says)}</p></figure>"
    )


def quantile(values: Sequence[float], share: float) -> float:
    """Linear between the sorted values."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def strip(values: Sequence[float], low: float, high: float, center: float, unit: str = "") -> str:
    """A distribution in a cell of a table: a line from 5 to 95 %, a box over the middle half, a mark at the median."""
    if not values:
        return '<span class="none">–</span>'
    span = (high - low) or 1.0
    at = [100 * (quantile(values, q) - low) / span for q in (0.05, 0.25, 0.5, 0.75, 0.95)]
    zero = 100 * (center - low) / span
    numbers = [quantile(values, q) for q in (0.05, 0.5, 0.95)]
    says = escape(
        f"median {numbers[1]:.3g}{unit}, 90 % between {numbers[0]:.3g} and {numbers[2]:.3g}{unit}", quote=True
    )
    return (
        f'<svg class="strip" viewBox="0 0 100 16" preserveAspectRatio="none" role="img" aria-label="{says}">'
        f"<title>{says}</title>"
        f'<line class="zero" x1="{zero:.1f}" x2="{zero:.1f}" y1="0" y2="16"/>'
        f'<line class="whisker" x1="{at[0]:.1f}" x2="{at[4]:.1f}" y1="8" y2="8"/>'
        f'<rect class="box" x="{at[1]:.1f}" y="4" width="{max(at[3] - at[1], 0.5):.1f}" height="8"/>'
        f'<rect class="median" x="{at[2] - 0.6:.1f}" y="2" width="1.2" height="12"/></svg>'
    )


def bar(share: float) -> str:
    """A share of one as a bar with its number."""
    return (
        f'<span class="share"><span style="width:{100 * min(max(share, 0), 1):.1f}%"></span></span>'
        f'<span class="num">{share:.2f}</span>'
    )


def heat(matrix: Sequence[Sequence[float]], names: Sequence[str]) -> str:
    """A confusion matrix as a table: rows are the true classes, shares of a row are shades and percents."""
    head = "".join(f'<th scope="col" title="{escape(n, quote=True)}"><span>{escape(n)}</span></th>' for n in names)
    rows = []
    for i, row in enumerate(matrix):
        total = sum(row)
        cells = []
        for j, count in enumerate(row):
            share = count / total if total else 0.0
            kind = "right" if i == j else "wrong"
            says = escape(f"{names[i]} taken for {names[j]}: {count:g} of {total:g}", quote=True)
            text = f"{100 * share:.0f}" if share >= 0.005 else ""
            strong = " strong" if share > 0.55 else ""
            cells.append(f'<td class="{kind}{strong}" style="--share:{share:.3f}" title="{says}">{text}</td>')
        rows.append(f'<tr><th scope="row">{escape(names[i])}</th>{"".join(cells)}</tr>')
    return (
        '<div class="scroll"><table class="heat"><caption>true class down, chosen class across, percent of the true '
        f"class</caption><thead><tr><td></td>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )
