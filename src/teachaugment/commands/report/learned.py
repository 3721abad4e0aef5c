"""What was learned and who recognises it: pictures, distributions, colours, disagreements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from teachaugment.commands.report.cube import cube
from teachaugment.commands.report.frames import Film
from teachaugment.commands.report.images import InlineImage, inline_image
from teachaugment.commands.report.observe import Disagreement, Observation
from teachaugment.commands.report.transform import Quantity
from teachaugment.show import pictures
from teachaugment.show.charts import Axis, Figure, histogram, quantile, strip
from teachaugment.show.drawing import Drawing

CLASSES = 20  # in a table
PARTS = 4  # of the augmentation whose probability is the same for all classes
SYMBOLS = {"color": ("c", "colour"), "geometric": ("g", "geometry")}  # the paper's index of p, and a word


@dataclass(frozen=True)
class FilmImages:
    """Originals above draws of each frame."""

    names: list[str]
    columns: int
    draws: int
    originals: InlineImage
    frames: list[tuple[str, InlineImage]]  # the last one is shown first


def film_images(film: Film) -> FilmImages:
    frames = []
    for name, draws in film.frames:
        alt = f"{len(draws)} augmented versions of each image above, {name}"
        frames.append((name, inline_image(draws, alt)))
    originals = inline_image(film.originals[None], "original training images: " + ", ".join(film.names))
    return FilmImages(film.names, len(film.originals), len(film.frames[-1][1]), originals, frames)


class ClassRow(NamedTuple):
    name: str
    shares: list[float]  # how often each part acts
    strips: list[Drawing | None]  # what it does


@dataclass(frozen=True)
class Distributions:
    """All images together as histograms, then each class in a row."""

    histograms: list[Figure]
    parts: list[tuple[str, str]]  # the index of p, where the paper has one, and the name
    quantities: list[str]
    rows: list[ClassRow]
    note: str


def distributions(seen: Observation, classes: Sequence[str]) -> Distributions | None:
    """How often each part acts and what it does; of many classes those with the largest difference."""
    per_class = {name: p for name, p in seen.probabilities.items() if len(p) == len(classes) > 1}
    alike = {name: p for name, p in list(seen.probabilities.items())[:PARTS] if len(p) == 1}
    shares = per_class or alike
    changing = {name: q for name, q in seen.quantities.items() if any(value != q.neutral for value in known(q.values))}
    if not shares and not changing:
        return None
    figures = [histogram(name.capitalize(), known(q.values), q.unit, q.neutral) for name, q in changing.items()]
    shown: list[int | None] = [None]
    note = ""
    if per_class:
        order = list(range(len(classes)))
        if len(order) > CLASSES:
            order.sort(key=lambda k: sum(p[k] for p in per_class.values()))
            order = [*order[: CLASSES // 2], *order[-CLASSES // 2 :]]
            note = f"{CLASSES} of {len(classes)} classes: those augmented least often and most often."
        shown = [*order]
    rows = [
        ClassRow(
            "all images" if k is None else classes[k], [p[k or 0] for p in shares.values()], strips(seen, k, changing)
        )
        for k in shown
    ]
    return Distributions(
        [figure for figure in figures if figure is not None],
        [SYMBOLS.get(name, ("", name)) for name in shares],
        list(changing),
        rows,
        note,
    )


def strips(seen: Observation, label: int | None, quantities: Mapping[str, Quantity]) -> list[Drawing | None]:
    """The distribution of each quantity in one class or in all, on an axis that all classes share."""
    labels = torch.tensor(seen.labels)
    made = []
    for q in quantities.values():
        values = known(q.values)
        low, high = (quantile(values, 0.01), quantile(values, 0.99)) if values else (0.0, 1.0)
        axis = Axis(min(low, q.neutral), max(high, q.neutral), 0, 100)
        mine = values if label is None else known(q.values[labels == label])
        made.append(strip(mine, axis, q.neutral, q.unit))
    return made


def known(values: Tensor) -> list[float]:
    """Those of the images to which the part was applied."""
    return [value for value in values.tolist() if value == value]


def colors(seen: Observation) -> list[Figure] | None:
    """The colours of pixels before and after; None where images have no colours."""
    if seen.colors is None:
        return None
    before, after = seen.colors
    return [cube("Original pixels", before), cube("After the colour augmentation", after)]


class Opinion(NamedTuple):
    who: str
    choice: str
    sure: float
    right: bool


class Card(NamedTuple):
    """An image before and after, and what target and teacher think of it."""

    label: str
    image: InlineImage
    opinions: list[Opinion]


def cards(found: Sequence[Disagreement]) -> list[Card] | None:
    """None where they do not disagree."""
    made = []
    for d in found:
        pair = torch.stack([pictures.rgb(d.original[None])[0], pictures.rgb(d.augmented[None])[0]])[None]
        answers = (("target", d.target), ("teacher", d.teacher))
        opinions = [Opinion(who, choice, sure, choice == d.label) for who, (choice, sure) in answers]
        made.append(Card(d.label, inline_image(pair, f"{d.label}, original and augmented"), opinions))
    return made or None
