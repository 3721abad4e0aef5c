"""Images and masks that are found by pattern."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from teachaugment.config.defaults import other_defaults
from teachaugment.data import MASKS, Reading, load
from teachaugment.errors import UserError

from .test_scenes import RANDOM, load_masks, save


def draw(path: Path, mask: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(RANDOM.integers(0, 2, (12, 16) if mask else (12, 16, 3), dtype=np.uint8)).save(path)


def test_images_and_masks_by_pattern_in_one_folder(tmp_path):
    for i in range(5):
        draw(tmp_path / f"photos/deep/{i}.png", mask=False)
        draw(tmp_path / f"photos/deep/{i}_mask.png", mask=True)
    draw(tmp_path / "elsewhere/9.png", mask=False)
    data = load_masks(tmp_path, images="photos/*.png", masks="photos/*_mask.png")
    assert (len(data.train), data.val, len(data.test)) == (4, None, 1)


def test_patterns_may_name_the_split(tmp_path):
    for split, n in (("Train", 3), ("valid", 2), ("test", 1), ("extra", 4)):
        for i in range(n):
            draw(tmp_path / f"{split}/rgb/{i}.png", mask=False)
            draw(tmp_path / f"truth/{split}/{i}.png", mask=True)
    patterns = {"images": "{split}/rgb/*.png", "masks": "truth/{split}/*.png"}
    data = load_masks(tmp_path, **patterns)
    assert data.val is not None and (len(data.train), len(data.val), len(data.test)) == (3, 2, 1)
    flags = {"task": "segmentation", "data.path": str(tmp_path), "data.images": patterns["images"]}
    assert "data.val_fraction" not in other_defaults(flags)
    (tmp_path / "truth/Train/1.png").unlink()
    with pytest.raises(UserError, match=r"Train/rgb/1.png has no mask; expected .*truth/Train/1.png"):
        load_masks(tmp_path, **patterns)


@pytest.mark.parametrize(
    ("images", "masks", "says"),
    [
        ("*.png", None, "give both"),
        ("a.png", "*.png", r"data.images is 'a.png'; it must have one \*"),
        ("*.png", "*/*.png", "data.masks is"),
        ("{split}/*.png", "masks/*.png", "must be in both"),
        ("photos/*.gif", "masks/*.png", r"no images by the pattern 'photos/\*.gif', and found images/, masks/"),
    ],
)
def test_patterns_that_cannot_be_are_refused(tmp_path, images, masks, says):
    save(tmp_path, "0")
    with pytest.raises(UserError, match=says):
        load_masks(tmp_path, images=images, masks=masks)
    with pytest.raises(UserError, match="for a folder of yours; leave them out for shapes"):
        load("shapes", Reading(images=images, masks=masks), MASKS)
