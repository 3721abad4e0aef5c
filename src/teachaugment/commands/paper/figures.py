"""Figures 4 and 8 to 11: what finished runs have learned, drawn once and kept as pictures beside the rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import torch
from PIL import Image, ImageDraw
from torch import Tensor

from teachaugment.batch import Batch
from teachaugment.commands.paper.items import Item, PaperRow, Place
from teachaugment.commands.paper.plan import Task, row_key
from teachaugment.commands.report.cube import EDGES, NAMES, SIZE, project
from teachaugment.commands.report.images import sheet
from teachaugment.data.loader import batches
from teachaugment.engine import checkpoint, directory, restore
from teachaugment.files import write_atomically
from teachaugment.losses import color_distance
from teachaugment.seeds import derive
from teachaugment.show.fonts import lettering
from teachaugment.show.pictures import INK, PAPER, Picture, comparison

COLORED = 128  # images whose pixels are drawn
SHEET = 20  # images of a sheet, of as many classes as there are
STRIP = 8  # images above a cube


@dataclass(frozen=True)
class Look:
    """Training images, and what a run's augmenter makes of them."""

    before: Batch
    names: list[str]
    colored: Tensor  # by the colour part alone
    after: Tensor
    mean_std: tuple[Tensor, Tensor]


def make(items: Mapping[str, Item], tasks: Sequence[Task], results: Path, scale: str) -> None:
    """Draw the pictures whose runs are finished and that are not there yet, and keep the numbers that go with them."""
    by_key = {task.key: task for task in tasks}
    numbers = read_numbers(results, scale)
    for item in (item for item in items.values() if item.picture):
        for name, parts in pictures_of(item):
            path = results / file_name(item, name, scale)
            runs = [by_key.get(row_key(row, place, scale, item.seeds[0])) for place, row in parts]
            if path.exists() or any(task is None or not there(task) for task in runs):
                continue
            looks = [look(task.run.path, COLORED) for task in runs if task is not None]
            labels = [label_of(item, place, row) for place, row in parts]
            drawn = colors(looks, labels) if item.picture == "colors" else images(looks, labels)
            write_atomically(path, partial(_save, drawn))
            for (place, row), seen in zip(parts, looks, strict=True):
                numbers[item.name, place.name, row.label] = measured(seen)
    lines = [json.dumps({"figure": f, "place": p, "row": r, **found}) for (f, p, r), found in numbers.items()]
    if lines:
        text = "\n".join(lines) + "\n"
        write_atomically(numbers_file(results, scale), lambda file: file.write(text.encode()))


def pictures_of(item: Item) -> list[tuple[str, list[tuple[Place, PaperRow]]]]:
    """The pictures of a figure: one for each place with its rows, or where there is one row, one with all places."""
    if len(item.rows) == 1:
        return [("", [(place, item.rows[0]) for place in item.places])]
    return [(place.name, [(place, row) for row in item.rows]) for place in item.places]


def label_of(item: Item, place: Place, row: PaperRow) -> str:
    """What tells a version apart from the others of its picture."""
    return row.label if len(item.rows) > 1 or len(item.places) == 1 else place.short


def file_name(item: Item, picture: str, scale: str) -> str:
    return "-".join(part for part in (item.name, picture, "" if scale == "laptop" else scale) if part) + ".png"


def numbers_file(results: Path, scale: str) -> Path:
    return results / f"{scale}-figures.jsonl"


def read_numbers(results: Path, scale: str) -> dict[tuple[str, str, str], Mapping[str, float]]:
    path = numbers_file(results, scale)
    found: dict[tuple[str, str, str], Mapping[str, float]] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        row: dict[str, Any] = json.loads(line)
        found[row.pop("figure"), row.pop("place"), row.pop("row")] = row
    return found


def there(task: Task) -> bool:
    return (task.run.path / directory.METRICS).exists() and checkpoint.exists(task.run.path)


@torch.no_grad()
def look(path: Path, count: int) -> Look:
    """Some training images of a run, and one draw of its augmenter for each."""
    trainer, _ = restore.load_run(directory.settings_of(path), path, keep_strategy=True)
    split, seed = trainer.data.train, trainer.config.seed
    drawn = next(batches(split, min(count, len(split)), seed=seed, epoch=0, shuffle=True, device=trainer.device))
    batch = trainer.task.examples(drawn)
    augmenter = trainer.strategy.views[0].augmenter
    generator = torch.Generator(device=trainer.device).manual_seed(derive(seed, "paper", "figure"))
    draw = augmenter.sample(len(batch), batch.label if augmenter.settings.classes else None, generator)
    colored = augmenter.color(batch, draw)
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (trainer.data.mean, trainer.data.std))
    after = augmenter.warp(colored, draw)
    names = trainer.task.captions(batch)
    names = names[
        :: max(1, len(names) // len(batch))
    ]  # a task may show several pictures of an image; this is the first
    return Look(batch, names, colored.image, after.image, (mean, std))


def measured(seen: Look) -> dict[str, float]:
    """How far colours are from the data's, as Eq. 2 measures it, and how much a pixel changes on average."""
    mean, std = seen.mean_std
    generator = torch.Generator().manual_seed(0)
    before, after = ((image - mean) / std for image in (seen.before.image, seen.colored))
    distance = float(color_distance(before, after, positions=None, generator=generator))
    return {"color_distance": distance, "change": float((seen.after - seen.before.image).abs().mean())}


def images(looks: Sequence[Look], labels: Sequence[str]) -> Picture:
    """Originals, each beside what the augmenters make of it."""
    count = min(SHEET, len(looks[0].names))
    versions = [seen.after[:count] for seen in looks]
    headings = ("original", ", ".join(labels))
    return comparison(looks[0].before.image[:count], versions, looks[0].names[:count], columns=2, headings=headings)


def colors(looks: Sequence[Look], labels: Sequence[str]) -> Picture:
    """All pixels in the RGB cube: of the originals and of what each augmenter makes of them, some images above each."""
    shown = [looks[0].before.image, *(seen.colored for seen in looks)]
    strips = [Image.fromarray(_pixels(sheet(image[None, :STRIP]))) for image in shown]
    wide, high = 2 * SIZE, strips[0].height * 2 * SIZE // strips[0].width
    whole = Image.new("RGB", (len(shown) * wide, wide + high + 30), PAPER)
    pen = ImageDraw.Draw(whole)
    for column, (image, strip, label) in enumerate(zip(shown, strips, ["original", *labels], strict=True)):
        words, font = lettering(label, 20)
        pen.text((column * wide + 10, 2), words, INK, font)
        whole.paste(strip.resize((wide - 12, high), Image.Resampling.NEAREST), (column * wide + 6, 30))
        whole.paste(raster(image), (column * wide, 30 + high))
    return whole


def raster(image: Tensor) -> Picture:
    """Every pixel of images [B, 3, H, W] as a point of its colour, in the cube as the report draws it."""
    points = image.permute(0, 2, 3, 1).reshape(-1, 3).clamp(0, 1)
    points = points[points.sum(1).argsort()]  # light before dark
    side = 2 * SIZE
    canvas = Image.new("RGB", (side, side), PAPER)
    pen = ImageDraw.Draw(canvas)
    for start, end in EDGES:
        pen.line([2 * place for corner in (start, end) for place in project(*corner)], (200, 200, 200), 2)
    for name, corner in NAMES:
        across, down = project(*corner)
        pen.text((2 * across, 2 * down), name, INK, lettering(name, 18)[1], anchor="mm")
    red, green, blue = points.unbind(1)
    x, y = project(red, green, blue)  # type: ignore[arg-type]  # numbers of all points at once
    found = torch.tensor(bytearray(canvas.tobytes()), dtype=torch.uint8).view(side, side, 3)
    rows, columns = ((2 * torch.as_tensor(place)).long().clamp(0, side - 2) for place in (y, x))
    colors = (points * 255).round().to(torch.uint8)
    for below in (0, 1):
        for right in (0, 1):
            found[rows + below, columns + right] = colors
    return Image.fromarray(found.numpy())


def _pixels(image: Tensor) -> Any:
    return (image.clamp(0, 1) * 255).round().to(torch.uint8).permute(1, 2, 0).contiguous().numpy()


def _save(picture: Picture, file: BinaryIO) -> None:
    picture.quantize(256).save(file, "PNG", optimize=True)
