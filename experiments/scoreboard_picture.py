"""The scoreboard as a picture: for each setting how far the strategies are from no augmentation, with intervals."""

from __future__ import annotations

from collections.abc import Mapping

from teachaugment.commands.compare.picture import STYLES as COMPARISON
from teachaugment.commands.compare.picture import panel
from teachaugment.commands.compare.statistics import Group, summarize
from teachaugment.show.charts import interval, upright_grid
from teachaugment.show.drawing import Circle, Drawing, Line, Shape, Style, Text, picture, text_width
from teachaugment.show.pictures import Picture

MARGIN, LEGEND, STEP, GAP, AXIS = 20, 44, 15, 16, 34  # pixels
LOOKS = {
    "TrivialAugment": Style((200, 120, 20), width=2),
    "TeachAugment": Style((90, 130, 190), width=2),
    "adaptive": Style((20, 125, 60), width=2),
}
STYLES = {**COMPARISON, **LOOKS}


def draw(settings: Mapping[str, Mapping[str, Group]], baseline: str = "none") -> Picture | None:
    """``settings``: by title, the strategies' runs. None, if nothing can be compared yet."""
    rows = {title: differences(groups, baseline) for title, groups in settings.items()}
    rows = {title: found for title, found in rows.items() if found}
    ends = [end for found in rows.values() for numbers in found.values() for end in numbers]
    if not ends:
        return None
    left = round(MARGIN + max(text_width(title, STYLES["tick"].size) for title in rows) + 16)
    axis = panel([0.0, *ends], left)
    high = [STEP * len(found) + GAP for found in rows.values()]
    top, bottom = LEGEND, LEGEND + sum(high)
    shapes: list[Shape] = upright_grid(axis, top, bottom, signed=True)
    shapes.append(Line(axis.at(0), top, axis.at(0), bottom, "zero"))
    shapes.append(Text(MARGIN, 21, f"points from {baseline}: mean and 95 % interval of paired seeds", "title"))
    place = axis.start
    for name in LOOKS:
        shapes += [Circle(place + 4, 34, 4, name), Text(place + 14, 38, name, "tick")]
        place += 30 + text_width(name, STYLES["tick"].size)
    y = top
    for (title, found), tall in zip(rows.items(), high, strict=True):
        shapes.append(Text(MARGIN, y + tall / 2 + 4, title, "tick"))
        for k, (name, (low, mean, most)) in enumerate(found.items()):
            shapes += interval(axis, low, mean, most, y + GAP / 2 + STEP * (k + 0.5), name)
        y += tall
        shapes.append(Line(MARGIN, y, axis.end, y, "grid"))
    width, height = round(axis.end + MARGIN), round(bottom + AXIS)
    return picture(Drawing(width, height, shapes, "The scoreboard"), STYLES)


def differences(groups: Mapping[str, Group], baseline: str) -> dict[str, tuple[float, float, float]]:
    """Low end, mean and high end of each strategy's difference to the baseline; one seed has no interval."""
    found = {}
    for name in LOOKS:
        if not groups[name].rows or not groups[baseline].rows:
            continue
        difference = summarize([groups[baseline], groups[name]])["strategies"][1]["difference"]
        if difference is not None:
            low, high = difference["interval"] or (difference["mean"], difference["mean"])
            found[name] = (low, difference["mean"], high)
    return found
