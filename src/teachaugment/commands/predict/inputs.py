"""Which images a prediction is about: files, folders, and paths that come on standard input."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from teachaugment.errors import UserError

if TYPE_CHECKING:
    from teachaugment.tasks.task import Task

STDIN = "-"


@dataclass(frozen=True)
class Input:
    """One image."""

    file: str  # the path to open, as a person would write it
    name: str  # the path below its folder, or the file's own name: what is written about it is named after it
    true_class: str | None = None  # where its folder says it


def find(words: Sequence[str], lines: Iterable[str], task: Task) -> list[Input]:
    """All images that the words of a command line name, in their order; ``lines`` are those of standard input."""
    found: list[Input] = []
    for word in words:
        path = Path(word).expanduser()
        if word == STDIN:
            paths = [line.rstrip("\r\n") for line in lines]
            found += [Input(each, Path(each).name) for each in paths if each]
        elif path.is_dir():
            files, classes = task.find_images(path)
            if not files:
                raise UserError(f"{path} has no images")
            found += [Input(str(path / f), f, name) for f, name in zip(files, classes, strict=True)]
        elif path.exists():
            found.append(Input(str(path), path.name))
        else:
            raise UserError(f"there is no image or folder {word}")
    if not found:
        raise UserError("no path of an image came on standard input")
    return found
