"""The parts of a page that show what was learned and who recognises it: pictures, distributions, colours, mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import torch

from teachaugment.commands.report.charts import bar, heat, histogram, quantile, strip
from teachaugment.commands.report.cube import cube
from teachaugment.commands.report.frames import Film
from teachaugment.commands.report.images import img
from teachaugment.commands.report.observe import Disagreement, Observation
from teachaugment.commands.report.record import Record
from teachaugment.show import pictures

SHOWN = 20  # classes in a table
CONFUSIONS = 12  # pairs of classes in a list


def film(film: Film) -> str:
    """Originals above draws, and a slider over the frames where there are several."""
    last = len(film.frames) - 1
    columns = film.originals.shape[0]
    names = "".join(f'<span title="{escape(name, quote=True)}">{escape(name)}</span>' for name in film.names)
    pictures = []
    for k, (name, draws) in enumerate(film.frames):
        alt = f"{len(draws)} augmented versions of each image above, {name}"
        hidden = "" if k == last else " hidden"
        pictures.append(img(draws, alt, f' data-name="{escape(name, quote=True)}"{hidden}'))
    slider = ""
    if last > 0:
        slider = (
            f'<div class="slider"><label for="moment">Snapshot</label><input type="range" id="moment" min="0" '
            f'max="{last}" value="{last}" step="1" aria-valuetext="{escape(film.frames[last][0], quote=True)}">'
            f'<output for="moment">{escape(film.frames[last][0])}</output>'
            '<button type="button" id="play">Play</button></div>'
        )
    return (
        f'{slider}<div class="scroll"><div class="film" style="--columns:{columns}"><p class="row">original</p>'
        f"{img(film.originals[None], 'original training images: ' + ', '.join(film.names))}"
        f'<p class="names" aria-hidden="true">{names}</p>'
        f'<p class="row">augmented, {len(film.frames[last][1])} draws</p>'
        f'<div class="frames">{"".join(pictures)}</div></div></div>'
    )


def distributions(seen: Observation, classes: Sequence[str]) -> str:
    """All images together as histograms, then each class in a row."""
    parts = []
    for name, q in seen.quantities.items():
        parts.append(histogram(name.capitalize(), known(q.values.tolist()), q.unit, center=q.neutral))
    charts = f'<div class="smalls">{"".join(parts)}</div>' if any(parts) else ""
    return charts + class_table(seen, classes)


def class_table(seen: Observation, classes: Sequence[str]) -> str:
    """How often each part acts and what it does, for each class; of many classes those with the largest difference."""
    per_class = {name: p for name, p in seen.probabilities.items() if len(p) == len(classes) > 1}
    rows: list[tuple[str, int | None]] = [(name, k) for k, name in enumerate(classes)] if per_class else []
    note = ""
    if len(rows) > SHOWN:
        shares = list(per_class.values())
        order = sorted(range(len(classes)), key=lambda k: sum(p[k] for p in shares))
        few = [*order[: SHOWN // 2], *order[-SHOWN // 2 :]]
        rows = [(classes[k], k) for k in few]
        note = f"<p class=note>{SHOWN} of {len(classes)} classes: those augmented least often and most often.</p>"
    if not rows:
        rows = [("all images", None)]
    short = {"color": "p<sub>c</sub> colour", "geometric": "p<sub>g</sub> geometry"}
    shown = per_class or {name: p for name, p in list(seen.probabilities.items())[:4] if len(p) == 1}
    heads = [short.get(name, escape(name)) for name in shown] + [escape(name) for name in seen.quantities]
    limits = {}
    for name, q in seen.quantities.items():
        values = known(q.values.tolist())
        limits[name] = (quantile(values, 0.01), quantile(values, 0.99)) if values else (0.0, 1.0)
    labels = torch.tensor(seen.labels)
    body = []
    for name, k in rows:
        cells = [f"<td>{bar(p[k or 0])}</td>" for p in shown.values()]
        for key, q in seen.quantities.items():
            mine = q.values if k is None else q.values[labels == k]
            low, high = limits[key]
            low, high = min(low, q.neutral), max(high, q.neutral)
            cells.append(f"<td>{strip(known(mine.tolist()), low, high, q.neutral, q.unit)}</td>")
        body.append(f'<tr><th scope="row">{escape(name)}</th>{"".join(cells)}</tr>')
    if not heads:
        return ""
    head = "".join(f'<th scope="col">{text}</th>' for text in heads)
    return (
        '<div class="scroll"><table class="learned"><caption>Line: 5 to 95 % of the images to which the part is '
        "applied; box: the middle half; mark: the median; the thin upright line means no change</caption>"
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>{note}"
    )


def known(values: Sequence[float]) -> list[float]:
    return [v for v in values if v == v]


def colors(seen: Observation) -> str:
    if seen.colors is None:
        return ""
    before, after = seen.colors
    return f'<div class="cubes">{cube("Original pixels", before)}{cube("After the colour augmentation", after)}</div>'


def hardest(record: Record) -> str:
    """Each class's accuracy or IoU, the worst first."""
    result, classes = record.metrics.get("test", {}).get("target", {}), record.metrics.get("classes", [])
    key = "class_iou" if "class_iou" in result else "class_accuracy"
    shares = [(s, str(name)) for s, name in zip(result.get(key, []), classes, strict=False) if s is not None]
    if not shares:
        return ""
    shares.sort()
    rows = "".join(f'<tr><th scope="row">{escape(n)}</th><td>{bar(s)}</td></tr>' for s, n in shares[:SHOWN])
    what = "IoU" if key == "class_iou" else "accuracy"
    title = f"{min(SHOWN, len(shares))} hardest of {len(shares)} classes" if len(shares) > SHOWN else "hardest first"
    caption = f"<caption>{what} on test images, {title}</caption>"
    return f'<div class="scroll"><table class="plain">{caption}{rows}</table></div>'


def confusion(record: Record) -> str:
    """The matrix, or of many classes the pairs that are taken for each other most often."""
    matrix: Any = record.metrics.get("test", {}).get("target", {}).get("confusion")
    classes = [str(name) for name in record.metrics.get("classes", [])]
    if not matrix or len(matrix) != len(classes):
        return ""
    if len(classes) <= SHOWN:
        return heat(matrix, classes)
    pairs = [(row[j], i, j, sum(row)) for i, row in enumerate(matrix) for j in range(len(row)) if i != j and row[j]]
    pairs.sort(reverse=True)
    rows = "".join(
        f'<tr><th scope="row">{escape(classes[i])}</th><td>taken for {escape(classes[j])}</td>'
        f"<td>{n} of {total}</td></tr>"
        for n, i, j, total in pairs[:CONFUSIONS]
    )
    return f'<div class="scroll"><table class="plain"><caption>most frequent mistakes</caption>{rows}</table></div>'


def disagreements(found: Sequence[Disagreement]) -> str:
    """Cards with the image, before and after, and the two opinions."""
    cards = []
    for d in found:
        pair = torch.stack([pictures.rgb(d.original[None])[0], pictures.rgb(d.augmented[None])[0]])[None]
        alt = f"{d.label}, original and augmented"
        opinions = "".join(
            f'<li class="{"yes" if choice == d.label else "no"}">{who}: {escape(choice)}, {100 * sure:.0f} % sure</li>'
            for who, (choice, sure) in (("target", d.target), ("teacher", d.teacher))
        )
        cards.append(f'<li class="card">{img(pair, alt)}<b>{escape(d.label)}</b><ul>{opinions}</ul></li>')
    return f'<ul class="cards">{"".join(cards)}</ul>' if cards else ""
