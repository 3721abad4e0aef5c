"""Images and masks by pattern: ``photos/*.jpg`` with ``photos/*_mask.png``, where ``*`` stands for the same in both.

A ``{split}`` in both is a folder or word that names the split: train, val or test, in any of their spellings.
"""

from __future__ import annotations

import re
from pathlib import Path

from teachaugment.data.files import image_files
from teachaugment.data.finish_masks import Pairs
from teachaugment.data.folders import SPLIT_NAMES, SPLITS, contents
from teachaugment.errors import UserError

STAR, SPLIT = "*", "{split}"


def both_patterns(images: str | None, masks: str | None) -> tuple[str, str] | None:
    """Both or neither, each with one ``*``, and ``{split}`` in both or in none."""
    if images is None and masks is None:
        return None
    if images is None or masks is None:
        raise UserError("data.images and data.masks are patterns for one another; give both")
    for name, pattern in (("data.images", images), ("data.masks", masks)):
        if pattern.count(STAR) != 1 or pattern.count(SPLIT) > 1:
            raise UserError(f"{name} is {pattern!r}; it must have one {STAR}, and may have one {SPLIT}: photos/*.jpg")
    if (SPLIT in images) != (SPLIT in masks):
        raise UserError(f"{SPLIT} must be in both of data.images and data.masks, or in none of them")
    return images, masks


def pairs_by_pattern(root: Path, images: str, masks: str) -> dict[str, Pairs]:
    """The pairs by split, or under "" where the patterns have none. A file that may be a mask is no image."""
    found: dict[str, Pairs] = {}
    files, image, mask = image_files(root), _expression(images), _expression(masks)
    there = set(files)
    for file in files:
        match = image.fullmatch(file)
        if match is None or (images != masks and mask.fullmatch(file)):
            continue
        named = match.groupdict().get("split", "")
        split = SPLIT_NAMES.get(named.lower(), "") if named else ""
        if named and not split:
            continue
        other = masks.replace(SPLIT, named).replace(STAR, match["star"])
        if other not in there:
            raise UserError(f"image {root / file} has no mask; expected {root / other}")
        found.setdefault(split, []).append((file, other))
    if not {"", "train"} & set(found):
        what = "training images" if found else "images"
        raise UserError(f"{root} has no {what} by the pattern {images!r}, and found {contents(root)}")
    return {split: found[split] for split in ("", *SPLITS) if split in found}


def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace(r"\*", "(?P<star>.+)").replace(r"\{split\}", "(?P<split>[^/]+?)"))
