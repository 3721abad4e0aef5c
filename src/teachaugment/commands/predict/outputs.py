"""Predictions as people and programs read them: lines of a terminal, CSV, JSON, and pictures in a folder."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from teachaugment.commands.predict.inputs import Input
from teachaugment.errors import UserError

if TYPE_CHECKING:
    from teachaugment.tasks.prediction import Prediction

ENDINGS = (".csv", ".json", ".jsonl")
CLASS_FILE = "classes.txt"
WIDEST = 60  # of the column with the images' names, on a terminal


@dataclass(frozen=True)
class Row:
    """What is said about one image."""

    image: Input
    number: str  # what stands beside a class: "probability", "share"
    top: list[tuple[str, float]]
    picture: str | None = None  # the file with it, where the prediction is a picture
    more: dict[str, Any] = field(default_factory=dict)  # what JSON says besides

    @property
    def right(self) -> bool | None:
        """Whether the first class is the true one, where that is known."""
        if self.image.true_class is None:
            return None
        return bool(self.top) and self.image.true_class == self.top[0][0]


def check(output: Path) -> None:
    """Complain about a file that cannot be written, before any work."""
    if output.suffix.lower() not in ENDINGS:
        raise UserError(f"--output {output} must end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}")
    if output.is_dir():
        raise UserError(f"--output {output} is a folder")
    if not output.parent.is_dir():
        raise UserError(f"--output {output}: there is no folder {output.parent}")


def write_table(file: BinaryIO, rows: Iterable[Row], ending: str, count: int, labelled: bool, pictures: bool) -> None:
    """All rows as CSV, as one JSON array, or as one JSON object in each line. ``count`` is how many classes a row has,
    at most."""
    text = io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", newline="")
    if ending == ".csv":
        table = csv.writer(text)
        for i, row in enumerate(rows):
            if i == 0:
                numbered = [
                    f"{word}{'' if k == 1 else f'_{k}'}" for k in range(1, count + 1) for word in ("class", row.number)
                ]
                table.writerow(
                    ["image", *numbered, *(["true_class"] if labelled else []), *(["mask"] if pictures else [])]
                )
            cells = [cell for name, value in row.top for cell in (name, f"{value:.6f}")]
            cells += [""] * (2 * count - len(cells))
            if labelled:
                cells.append(row.image.true_class or "")
            table.writerow([row.image.file, *cells, *([row.picture] if pictures else [])])
    elif ending == ".jsonl":
        for row in rows:
            text.write(json.dumps(as_object(row, count, labelled), ensure_ascii=False) + "\n")
    else:
        for i, row in enumerate(rows):
            text.write(("[\n" if i == 0 else ",\n") + json.dumps(as_object(row, count, labelled), ensure_ascii=False))
        text.write("\n]\n")
    text.flush()
    text.detach()


def as_object(row: Row, count: int, labelled: bool) -> dict[str, Any]:
    """One row for JSON: the first class by itself, and all under ``top`` where more were asked for."""
    named = [{"class": name, row.number: round(value, 6)} for name, value in row.top]
    first = named[0] if named else {"class": None, row.number: None}
    made: dict[str, Any] = {"image": row.image.file, **first, **row.more}
    if count > 1:
        made["top"] = named
    if labelled:
        made["true_class"] = row.image.true_class
    return made if row.picture is None else {**made, "mask": row.picture}


def lines(rows: Iterable[Row], images: Sequence[Input]) -> Iterator[str]:
    """The rows for a terminal, in columns."""
    width = min(WIDEST, max(len(printable(image.file)) for image in images))
    for row in rows:
        named = [f"{printable(name)} {100 * value:.1f} %" for name, value in row.top]
        wrong = f"   (is {printable(row.image.true_class)})" if row.right is False else ""
        yield f"{printable(row.image.file):<{width}}  {', '.join(named) or 'nothing'}{wrong}"


def printable(text: object) -> str:
    """Names of files and folders may hold anything: no control character reaches the terminal."""
    return "".join(c if c.isprintable() else "?" for c in str(text))


# --- pictures -------------------------------------------------------------------------------------------------------


def picture_files(images: Sequence[Input], folder: Path) -> list[Path]:
    """A file for the picture of each image, named after it; a number keeps equal names apart.

    Refuses a folder that holds any of the images: a picture may have the name of one.
    """
    where = folder.resolve()
    for image in images:
        if where in Path(image.file).resolve().parents:
            raise UserError(f"the masks would be written among the images, into {folder}; choose another --output")
    taken: set[Path] = set()
    files = []
    for image in images:
        base = folder / Path(image.name).with_suffix(".png")
        number, file = 1, base
        while file in taken:
            number += 1
            file = base.with_stem(f"{base.stem}-{number}")
        taken.add(file)
        files.append(file)
    return files


def write_classes(folder: Path, classes: Sequence[str], prediction: Prediction) -> None:
    """The names of the classes and their colours, for the values of the pictures, as a training reads them."""
    picture = prediction.picture()
    colors = (picture.getpalette() or []) if picture is not None else []
    text = "".join(
        f"{name} {' '.join(map(str, colors[3 * k : 3 * k + 3]))}".rstrip() + "\n" for k, name in enumerate(classes)
    )
    _write(folder / CLASS_FILE, text.encode(errors="backslashreplace"))


def write_picture(file: Path, prediction: Prediction) -> None:
    picture, content = prediction.picture(), io.BytesIO()
    assert picture is not None
    picture.save(content, "PNG")
    _write(file, content.getvalue())


def _write(file: Path, content: bytes) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror}") from None
