"""What the values of masks mean: class indices, palette or colours, as ``classes.txt`` says or as they occur."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from teachaugment.batch import IGNORE
from teachaugment.data.decode import open_image, values
from teachaugment.errors import UserError

CLASS_FILE = "classes.txt"
UNKNOWN = -1
Color = tuple[int, int, int]


@dataclass(frozen=True)
class Codes:
    """What the values of masks mean."""

    classes: list[str]
    table: Tensor  # [256] int16: the class of each value, IGNORE, or UNKNOWN
    colors: list[Color] | None = None  # of the classes, for masks that are written in colours and for pictures
    color_table: dict[Color, int] = field(default_factory=dict)  # what the colours of masks mean

    @classmethod
    def of(cls, names: Sequence[str], ignored: set[int], colors: Sequence[Color] | None = None) -> Codes:
        """Value i is called ``names[i]``; the ``ignored`` values and IGNORE itself are no classes."""
        kept = [value for value in range(len(names)) if value not in ignored]
        table = torch.full((256,), UNKNOWN, dtype=torch.int16)
        table[kept] = torch.arange(len(kept), dtype=torch.int16)
        table[[*ignored, IGNORE]] = IGNORE
        named = [names[value] for value in kept]
        if colors is None:
            return cls(named, table)
        meaning = {color: int(table[value]) for value, color in enumerate(colors)}
        return cls(named, table, [colors[value] for value in kept], meaning)

    def read(self, path: Path) -> Tensor:
        """The mask in a file as uint8 [H, W] of classes and IGNORE."""
        found = values(open_image(path), path)
        return self._from_colors(found, path) if found.ndim == 3 else self._from_indices(found, path)

    def _from_indices(self, found: np.ndarray, path: Path) -> Tensor:
        highest = int(found.max())
        if found.min() < 0 or highest > 255:
            raise UserError(f"mask {path} has values from {found.min()} to {highest}; they must lie in 0 … 255")
        mask = self.table[torch.from_numpy(found.astype(np.int64))]
        if bool((mask == UNKNOWN).any()):
            value = int(found[(mask == UNKNOWN).numpy()][0])
            raise UserError(
                f"mask {path} has the value {value}, which is none of the {len(self.classes)} classes; "
                f"name it in classes.txt, or leave it out with --data.ignore {value}"
            )
        return mask.to(torch.uint8)

    def _from_colors(self, found: np.ndarray, path: Path) -> Tensor:
        if not self.color_table:
            raise UserError(
                f"mask {path} is written in colours; say what they mean in classes.txt, as in 'road 128 64 128', "
                "or save class indices"
            )
        keys = np.array([r << 16 | g << 8 | b for r, g, b in self.color_table])
        order = keys.argsort()
        packed = found.astype(np.int64) @ np.array([1 << 16, 1 << 8, 1])
        nearest = np.searchsorted(keys[order], packed).clip(max=len(keys) - 1)
        wrong = keys[order][nearest] != packed
        if wrong.any():
            color = " ".join(map(str, found[wrong][0]))
            raise UserError(f"mask {path} has the colour {color}, which no class in classes.txt has")
        meaning = np.array(list(self.color_table.values()), dtype=np.uint8)
        return torch.from_numpy(meaning[order][nearest])


def class_file(path: Path) -> tuple[list[str], list[Color] | None]:
    """A name in each line, for the values from 0 on, and perhaps a colour: three numbers up to 255 after the name."""
    names, colors = [], []
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'it is not UTF-8'}") from None
    lines = [line.split("#")[0].replace(",", " ").split() for line in text.splitlines()]
    for words in filter(None, lines):
        color = [int(word) for word in words[-3:] if word.isdecimal() and int(word) < 256]
        colored = len(words) > 3 and len(color) == 3
        names.append(" ".join(words[:-3] if colored else words))
        if colored:
            colors.append((color[0], color[1], color[2]))
    if len(names) < 2:
        raise UserError(f"{path} must name at least two classes, one in each line")
    if len(names) > IGNORE:
        raise UserError(f"{path} names {len(names)} classes; there may be {IGNORE} at most")
    if len(set(names)) < len(names):
        raise UserError(f"{path} names {next(n for n in names if names.count(n) > 1)!r} twice")
    if colors and len(colors) < len(names):
        raise UserError(f"{path} gives a colour to some classes; give one to all or to none")
    if len(set(colors)) < len(colors):
        raise UserError(f"{path} gives one colour to two classes")
    return names, colors or None


def values_in_mask(path: Path) -> dict[int, float]:
    """The values in a mask, IGNORE left out, and the share of the pixels that each has. Raises BadImage."""
    mask = torch.from_numpy(values(open_image(path), path).astype("int64"))
    if mask.ndim == 3:
        raise UserError(f"mask {path} is written in colours; say what they mean in {CLASS_FILE}, as 'road 128 64 128'")
    if int(mask.max()) > IGNORE:
        raise UserError(f"mask {path} has the value {int(mask.max())}; class indices must be below {IGNORE}")
    shares = torch.bincount(mask.flatten())[:IGNORE] / mask.numel()
    return {value: float(shares[value]) for value in shares.nonzero().flatten().tolist()}
