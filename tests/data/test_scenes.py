from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from teachaugment.batch import IGNORE
from teachaugment.data import MASKS, Reading, lacks_validation, load
from teachaugment.data.codes import Codes, class_file
from teachaugment.data.loader import batches
from teachaugment.data.pairs import PairSplit
from teachaugment.data.splits import DataSet, Split
from teachaugment.data.windows import random_window
from teachaugment.errors import UserError

RANDOM = np.random.default_rng(0)


def load_masks(source: str | Path, **how: Any) -> DataSet:
    return load(source, Reading(**how), MASKS)


def save(root: Path, stem: str, size: tuple[int, int] = (12, 16), values: int = 3, **changed: Any) -> None:
    """An image and its mask: images/STEM.jpg and masks/STEM.png, or as ``stem`` says with a * for the folder."""
    where = stem if "*" in stem else f"*/{stem}"
    image, mask = (root / f"{where.replace('*', kind)}.png" for kind in ("images", "masks"))
    for path in (image, mask):
        path.parent.mkdir(parents=True, exist_ok=True)
    pixels = RANDOM.integers(0, 256, (*size, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(image.with_suffix(".jpg"))
    made = changed.get("mask", np.arange(size[0] * size[1], dtype=np.uint8).reshape(size) % values)
    Image.fromarray(made).save(mask)


@pytest.fixture
def folder(tmp_path) -> Path:
    for i in range(10):
        save(tmp_path, f"scene-{i}")
    return tmp_path


def test_images_and_masks_are_paired_by_stem_and_a_fifth_is_tested_on(folder):
    data = load_masks(folder)
    assert (len(data.train), len(data.test)) == (8, 2) and data.size == (12, 16)
    assert data.classes == ["class 0", "class 1", "class 2"]
    assert isinstance(data.train, Split) and data.train.mask is not None
    assert data.train.mask.shape == (8, 12, 16) and data.train.mask.max() == 2
    again = load_masks(folder)
    assert torch.equal(again.train.image, data.train.image)
    assert not torch.equal(load_masks(folder, seed=1).train.image, data.train.image)


@pytest.mark.parametrize("layout", ["*/{}/a/{}", "{}/*/{}"])
def test_splits_may_be_above_or_below(tmp_path, layout):
    for split, n in (("train", 4), ("val", 2), ("test", 3)):
        for i in range(n):
            save(tmp_path, layout.format(split, f"{split}{i}"))
    data = load_masks(tmp_path)
    assert data.val is not None and (len(data.train), len(data.val), len(data.test)) == (4, 2, 3)


def test_val_alone_is_what_is_tested_on(tmp_path):
    for split in ("train", "val"):
        for i in range(3):
            save(tmp_path, f"{split}/*/{i}")
    data = load_masks(tmp_path, val_fraction=0.3)
    assert data.val is not None and (len(data.train), len(data.val), len(data.test)) == (2, 1, 3)


@pytest.mark.parametrize("layout", ["{split}{kind}/x", "{split}/{kind}/x", "{kind}/{split}/x", "{kind}/x"])
@pytest.mark.parametrize("masks", ["annot", "Annotations", "labels"])
def test_masks_may_be_called_otherwise_and_be_beside_the_images(tmp_path, layout, masks):
    for split, n in (("train", 5), ("val", 2), ("test", 3)):
        for i in range(n):
            pixels = RANDOM.integers(0, 3, (12, 16), dtype=np.uint8)
            for kind in ("images", masks):
                word = ("" if kind == "images" else masks) if layout.startswith("{split}{kind}") else kind
                behind = f"{split}{i}" + ("_L" if kind == masks else "")
                path = tmp_path / layout.format(split=split, kind=word).replace("/x", f"/{behind}.png")
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(pixels if kind == masks else np.stack([pixels] * 3, -1)).save(path)
    data = load_masks(tmp_path, ignore=2)
    if layout == "{kind}/x":
        assert (len(data.train), data.val, len(data.test)) == (8, None, 2)
    else:
        assert data.val is not None and (len(data.train), len(data.val), len(data.test)) == (5, 2, 3)
    assert lacks_validation(str(tmp_path)) == (layout == "{kind}/x")
    one = data.train.image[0, 0]
    assert torch.equal(torch.where(one == 2, IGNORE, one), data.train.mask[0])


def test_a_value_that_looks_like_no_class_is_pointed_out(tmp_path):
    for i in range(4):
        save(tmp_path, str(i), values=12)
    with pytest.warns(UserWarning, match=r"highest value of the masks, 11, is in 4 of 4 masks, .*--data.ignore 11"):
        load_masks(tmp_path)
    save(tmp_path, "0", mask=np.full((12, 16), 200, dtype=np.uint8))
    with pytest.warns(UserWarning, match=r"200, is far above the others \(0 … 11\)"):
        load_masks(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_masks(tmp_path, ignore=200)
        (tmp_path / "classes.txt").write_text("\n".join(f"c{i}" for i in range(201)))
        load_masks(tmp_path)


def test_names_come_from_the_class_file_and_void_is_no_class(folder):
    (folder / "classes.txt").write_text("sky\nvoid  # nothing known\nroad and pavement\n")
    data = load_masks(folder)
    assert data.classes == ["sky", "road and pavement"]
    assert data.train.mask.unique().tolist() == [0, 1, IGNORE]


def test_a_value_can_be_left_out(folder):
    data = load_masks(folder, ignore=1)
    assert data.classes == ["class 0", "class 2"] and data.train.mask.unique().tolist() == [0, 1, IGNORE]


def test_palettes_are_read_as_indices(folder):
    path = folder / "masks" / "scene-0.png"
    plain = np.array(Image.open(path))
    with_palette = Image.fromarray(plain, mode="P")
    with_palette.putpalette([200, 10, 10, 10, 200, 10, 10, 10, 200] + [0] * 759)
    with_palette.save(path)
    assert torch.equal(Codes.of(["a", "b", "c"], set()).read(path), torch.from_numpy(plain))


def test_masks_in_colours_are_read_with_the_colours_of_the_class_file(tmp_path):
    colors = np.array([[128, 64, 128], [0, 0, 0], [70, 130, 180]], dtype=np.uint8)
    index = RANDOM.integers(0, 3, (12, 16))
    for i in range(3):
        save(tmp_path, str(i), mask=colors[index])
    (tmp_path / "classes.txt").write_text("road 128 64 128\nvoid,0,0,0\nblue sky 70 130 180\n")
    data = load_masks(tmp_path)
    assert data.classes == ["road", "blue sky"] and data.colors == [(128, 64, 128), (70, 130, 180)]
    assert torch.equal(data.train.mask[0], torch.tensor([0, IGNORE, 1], dtype=torch.uint8)[torch.from_numpy(index)])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("road\n", "at least two classes"),
        ("road\nroad\n", "names 'road' twice"),
        ("road 1 2 3\nsky\n", "give one to all or to none"),
        ("road 1 2 3\nsky 1 2 3\n", "one colour to two classes"),
    ],
)
def test_a_wrong_class_file_is_refused(tmp_path, text, says):
    (tmp_path / "classes.txt").write_text(text)
    with pytest.raises(UserError, match=says):
        class_file(tmp_path / "classes.txt")


def broken(folder: Path, what: str) -> dict[str, Any]:
    if what == "size":
        Image.fromarray(np.zeros((5, 6), dtype=np.uint8)).save(folder / "masks" / "scene-3.png")
    elif what == "value":
        (folder / "classes.txt").write_text("a\nb\n")
        for i in range(10):
            low = 3 if i == 3 else 2
            Image.fromarray(np.arange(192, dtype=np.uint8).reshape(12, 16) % low).save(folder / f"masks/scene-{i}.png")
    elif what == "missing":
        (folder / "masks" / "scene-3.png").unlink()
    elif what == "empty":
        for path in (folder / "images").iterdir():
            path.unlink()
    elif what == "folder":
        (folder / "images").rename(folder / "pictures")
    elif what == "color":
        Image.fromarray(np.zeros((12, 16, 3), dtype=np.uint8)).save(folder / "masks" / "scene-3.png")
    elif what == "one":
        for path in (folder / "masks").iterdir():
            Image.fromarray(np.full((12, 16), 255, dtype=np.uint8)).save(path)
    elif what == "sizes":
        save(folder, "scene-3", size=(20, 16))
    elif what == "unreadable":
        (folder / "images" / "scene-3.jpg").write_bytes(b"nothing")
    elif what == "twice":
        Image.fromarray(np.zeros((12, 16), dtype=np.uint8)).save(folder / "images" / "scene-3.png")
    elif what == "16 bits":
        Image.fromarray(np.full((12, 16), 300, dtype=np.uint16)).save(folder / "masks" / "scene-3.png")
    elif what == "per_class":
        return {"per_class": 3}
    elif what == "resized":
        return {"size": 32}
    return {}


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("size", r"image .*scene-3.jpg is 16×12 and its mask .*scene-3.png is 6×5; they must be of one size"),
        ("value", r"mask .*scene-3.png has the value 2, which is none of the 2 classes; .*--data.ignore 2"),
        ("missing", r"image .*scene-3.jpg has no mask; expected .*masks/scene-3.png"),
        ("empty", r"images has no images"),
        ("folder", r"has neither images/ and masks/ nor .* trainannot/; .* found masks/, pictures/"),
        ("color", r"mask .*scene-3.png is written in colours; .*classes.txt"),
        ("one", r"only one class; .* 255 means"),
        ("sizes", r"training images differ in size .*scene-3.*--data.crop"),
        ("unreadable", r"cannot read image .*scene-3.jpg"),
        ("twice", r"scene-3.jpg and .*scene-3.png have the same name"),
        ("16 bits", r"mask .*scene-3.png has the value 300"),
        ("per_class", r"data.per_class is for classification"),
        ("resized", r"data.size is for classification"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_that_names_the_file(folder, what, says):
    options = broken(folder, what)
    with pytest.raises(UserError, match=says) as error:
        load_masks(folder, **options)
    assert "\n" not in str(error.value)


def test_unreadable_images_can_be_skipped(folder):
    broken(folder, "unreadable")
    with pytest.warns(UserWarning, match=r"skipped 1 unreadable image: .*scene-3.jpg"):
        data = load_masks(folder, bad_images="skip")
    assert len(data.train) + len(data.test) == 9


@pytest.mark.parametrize("in_memory", ["always", "never"])
def test_random_windows_are_a_function_of_seed_epoch_and_index(folder, in_memory):
    data = load_masks(folder, crop=8, scale=2.0, in_memory=in_memory)
    assert isinstance(data.train, PairSplit) and data.size == (8, 8)

    def epoch(number: int, workers: int = 0, seed: int = 0) -> list[Any]:
        made = batches(data.train, 4, seed=seed, epoch=number, shuffle=True, device="cpu", workers=workers)
        return sorted(((int(i), x, m) for b in made for i, x, m in zip(b.index, b.image, b.mask, strict=True)))

    first = epoch(1)
    assert all(image.shape == (3, 8, 8) and mask.shape == (8, 8) for _, image, mask in first)
    for other, same in ((epoch(1, workers=1), True), (epoch(2), False), (epoch(1, seed=1), False)):
        equal = [torch.equal(a[1], b[1]) and torch.equal(a[2], b[2]) for a, b in zip(first, other, strict=True)]
        assert all(equal) if same else not any(equal)


def test_evaluation_is_of_whole_images_of_any_size(tmp_path):
    for i, size in enumerate([(12, 16), (12, 16), (9, 10), (12, 16)]):
        save(tmp_path, f"val/*/{i}", size=size)
        save(tmp_path, f"train/*/{i}")
    data = load_masks(tmp_path)
    found = list(batches(data.test, 4, seed=0, epoch=0, shuffle=False, device="cpu"))
    assert [b.image.shape for b in found] == [(3, 3, 12, 16), (1, 3, 9, 10)]
    assert [b.index.tolist() for b in found] == [[0, 1, 3], [2]]
    assert all(b.mask is not None and b.mask.dtype == torch.int64 and b.image.max() <= 1 for b in found)


def test_image_and_mask_stay_aligned_in_a_window():
    """An image that shows its own mask still shows it, and what lies outside is black and ignored."""
    mask = torch.zeros(40, 60, dtype=torch.uint8)
    mask[10:30, 15:50] = 200
    seen = set()
    for seed in range(40):
        random = torch.rand(3, generator=torch.Generator().manual_seed(seed)).tolist()
        image, cut = random_window(mask.expand(3, -1, -1), mask, (48, 32), 2.0, random)
        assert image.shape == (3, 48, 32) and cut.shape == (48, 32) and image.dtype == cut.dtype == torch.uint8
        outside = cut == IGNORE
        assert image[:, outside].sum() == 0
        wrong = ((image[0].int() - cut.int()).abs() > 120) & ~outside
        assert wrong.float().mean() < 0.02
        seen.add(bool(outside.any()))
    assert seen == {True, False}


def test_without_magnification_a_window_is_a_piece_of_the_image():
    image = torch.arange(5 * 7, dtype=torch.uint8).reshape(1, 5, 7)
    cut, mask = random_window(image, image[0], (3, 4), 1.0, [0.5, 0.99, 0.0])
    assert torch.equal(cut[0], mask) and torch.equal(mask, image[0, 2:5, 0:4])


def test_the_whole_split_is_read_without_windows(folder):
    data = load_masks(folder, crop=8)
    assert data.train.cropped and data.train.in_memory
    whole = data.train.whole().read(0, 0, 0)
    assert whole.views[0].shape == (3, 12, 16) and whole.mask.shape == (12, 16)


def cityscapes_files(root: Path) -> None:
    for split, n in (("train", 3), ("val", 2)):
        for kind in ("leftImg8bit", "gtFine"):
            (root / kind / split / "ulm").mkdir(parents=True)
        for i in range(n):
            name = f"ulm_00000{i}_000019"
            Image.fromarray(RANDOM.integers(0, 256, (16, 32, 3), dtype=np.uint8)).save(
                root / "leftImg8bit" / split / "ulm" / f"{name}_leftImg8bit.png"
            )
            ids = np.arange(512, dtype=np.uint8).reshape(16, 32) % 34
            Image.fromarray(ids).save(root / "gtFine" / split / "ulm" / f"{name}_gtFine_labelIds.png")


def test_cityscapes_has_19_classes(tmp_path):
    cityscapes_files(tmp_path)
    data = load_masks("cityscapes", root=tmp_path, crop=8)
    assert (len(data.train), len(data.test), len(data.classes)) == (3, 2, 19)
    assert data.classes[0] == "road" and data.classes[18] == "bicycle" and data.colors[0] == (128, 64, 128)
    mask = data.test.mask[0].flatten()
    # label ids 7 road, 8 sidewalk, 11 building, 33 bicycle; 0 unlabeled, 9 parking and 29 caravan do not count
    assert mask[[7, 8, 11, 33, 0, 9, 29]].tolist() == [0, 1, 2, 18, IGNORE, IGNORE, IGNORE]
    assert data.mean == (0.485, 0.456, 0.406)


def test_cityscapes_that_is_not_there_is_explained(tmp_path):
    with pytest.raises(UserError, match=r"cityscapes is not in .*leftImg8bit.*--data.root"):
        load_masks("cityscapes", root=tmp_path)
    with pytest.raises(UserError, match="--task segmentation"):
        load("cityscapes", Reading(root=tmp_path))
    with pytest.raises(UserError, match=r"data\.ignore is for your own masks"):
        load_masks("cityscapes", root=tmp_path, ignore=3)


def test_shapes_have_a_background():
    data = load_masks("shapes", size=8, per_class=1)
    assert data.classes[0] == "background" and len(data.classes) == 11 and len(data.train) == 10
    with pytest.raises(UserError, match="not for shapes"):
        load_masks("shapes", crop=8)
