"""Images with boxes: three layouts of folders, what is wrong with boxes, sizes, and the set that is built in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from PIL import Image

from teachaugment.batch import NO_BOX
from teachaugment.data import BOXES, Reading, load
from teachaugment.data.boxes import canvas, fit
from teachaugment.data.figures import generate
from teachaugment.data.loader import batches
from teachaugment.data.shapes import TRAIN
from teachaugment.errors import UserError

BOX = (10, 5, 30, 20)  # in images of 40 x 30
OBJECT = """
  <object>
    <name>{name}</name>
    <bndbox><xmin>{box[0]}</xmin><ymin>{box[1]}</ymin><xmax>{box[2]}</xmax><ymax>{box[3]}</ymax></bndbox>
  </object>"""


def image_at(path: Path, size: tuple[int, int] = (40, 30)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = Image.new("RGB", size)
    picture.paste((255, 255, 255), BOX)
    picture.save(path)


def voc(root: Path, boxes: dict[str, list[tuple]] | None = None, size: tuple[int, int] = (40, 30)) -> Path:
    """Four images, of which the first three are to be trained on; a cat in each unless ``boxes`` say otherwise."""
    for i in range(4):
        image_at(root / "JPEGImages" / f"{i}.png", size)
        objects = "".join(OBJECT.format(name=n, box=b) for n, b in (boxes or {}).get(f"{i}", [("cat", BOX)]))
        (root / "Annotations").mkdir(exist_ok=True)
        (root / "Annotations" / f"{i}.xml").write_text(f"<annotation>{objects}\n</annotation>")
    lists = root / "ImageSets" / "Main"
    lists.mkdir(parents=True)
    (lists / "train.txt").write_text("0\n1\n2\n")
    (lists / "val.txt").write_text("3\n")
    return root


def coco(root: Path) -> Path:
    for split, first in (("train2017", 0), ("val2017", 3)):
        images = [{"id": 10 + i, "file_name": f"{i}.png"} for i in range(first, first + (3 if first == 0 else 1))]
        for row in images:
            image_at(root / split / row["file_name"])
        rows = [{"id": row["id"], "image_id": row["id"], "category_id": 7, "bbox": [10, 5, 20, 15]} for row in images]
        crowd = {"id": 99, "image_id": images[0]["id"], "category_id": 7, "bbox": [0, 0, 40, 30], "iscrowd": 1}
        (root / "annotations").mkdir(exist_ok=True)
        content = {"images": images, "annotations": [*rows, crowd], "categories": [{"id": 7, "name": "cat"}]}
        (root / "annotations" / f"instances_{split}.json").write_text(json.dumps(content))
    return root


def yolo(root: Path) -> Path:
    for split, numbers in (("train", (0, 1, 2)), ("valid", (3,))):
        for i in numbers:
            image_at(root / split / "images" / f"{i}.png")
            labels = root / split / "labels"
            labels.mkdir(exist_ok=True)
            (labels / f"{i}.txt").write_text(f"0 {20 / 40} {12.5 / 30} {20 / 40} {15 / 30}\n")
    (root / "data.yaml").write_text("train: ../train/images\nval: ../valid/images\nnames: {0: cat}\n")
    return root


@pytest.mark.parametrize("layout", [voc, coco, yolo])
@pytest.mark.parametrize("in_memory", ["auto", "never"])
def test_a_folder_is_read_in_each_layout(tmp_path, layout, in_memory):
    data = load(layout(tmp_path), Reading(in_memory=in_memory), BOXES)
    assert (data.classes, len(data.train), len(data.test), data.size) == (["cat"], 3, 1, (30, 40))
    for split, count in ((data.train, 3), (data.test, 1)):
        (batch,) = batches(split, 8, seed=0, epoch=0, shuffle=False, device="cpu")
        assert len(batch) == count
        assert batch.boxes[:, 0].round(decimals=4).tolist() == [[*BOX, 0]] * count
        assert (batch.boxes[:, 1:, 4] == NO_BOX).all()
        left, top, right, bottom = BOX
        assert batch.image[:, :, top:bottom, left:right].min() == 1  # the boxes are where the paint is


@pytest.mark.parametrize(
    ("name", "box", "says"),
    [
        ("cat", (10, 5, 10, 20), "the box is empty"),
        ("cat", (30, 5, 10, 20), "swapped corners"),
        ("cat", (10, 5, 300, 20), "outside its image of 40×30"),
        ("cat", ("nan", 5, 30, 20), "no number"),
        ("cat", ("a", 5, 30, 20), "needs a name and a bndbox"),
        ("dog", BOX, "class 'dog' is unknown"),
    ],
)
def test_a_bad_box_is_refused_by_file_and_line_or_skipped_and_counted(tmp_path, name, box, says):
    root = voc(tmp_path, {"3": [("cat", BOX), (name, box)]})
    with pytest.raises(UserError, match=rf"3\.xml, line 6: .*{says}"):
        load(root, Reading(), BOXES)
    with pytest.warns(UserWarning, match=r"skipped 1 bad box"):
        data = load(root, Reading(bad_images="skip"), BOXES)
    assert len(data.test) == 1 and (data.test.boxes[..., 4] != NO_BOX).sum() == 1


def test_bad_lines_and_annotations_are_named(tmp_path):
    root = yolo(tmp_path / "yolo")
    (root / "train" / "labels" / "1.txt").write_text("0 0.5 0.5 0.2 0.2\n5 0.5 0.5 0.2 0.2\n")
    with pytest.raises(UserError, match=r"1\.txt, line 2: class 5 is unknown"):
        load(root, Reading(), BOXES)
    (root / "train" / "labels" / "1.txt").write_text("0 0.5 0.5\n")
    with pytest.raises(UserError, match=r"1\.txt, line 1: expected a class's number and four numbers"):
        load(root, Reading(), BOXES)
    root = coco(tmp_path / "coco")
    file = root / "annotations" / "instances_train2017.json"
    content = json.loads(file.read_text())
    content["annotations"][1]["bbox"] = [10, 5, -3, 4]
    file.write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"train2017.json, annotation 11: the box has swapped corners"):
        load(root, Reading(), BOXES)


def test_a_missing_image_or_annotation_is_refused_or_skipped(tmp_path):
    root = voc(tmp_path)
    (root / "JPEGImages" / "1.png").unlink()
    with pytest.raises(UserError, match=r"1\.jpg: No such file"):
        load(root, Reading(), BOXES)
    (root / "Annotations" / "2.xml").write_text("<annotation><object>")
    with pytest.warns(UserWarning, match=r"skipped 2 bad"):
        assert len(load(root, Reading(bad_images="skip"), BOXES).train) == 1


def test_entities_in_annotations_are_refused(tmp_path):
    root = voc(tmp_path)
    (root / "Annotations" / "0.xml").write_text('<!DOCTYPE a [<!ENTITY x "y">]>\n<annotation></annotation>')
    with pytest.raises(UserError, match="declares an entity"):
        load(root, Reading(), BOXES)


def test_a_folder_without_boxes_says_what_is_expected(tmp_path):
    with pytest.raises(UserError, match=r"Pascal VOC.*COCO.*YOLO"):
        load(tmp_path, Reading(), BOXES)
    with pytest.raises(UserError, match="cifar10 has no boxes; detection takes shapes or a folder"):
        load("cifar10", Reading(), BOXES)


def test_images_of_different_sizes_are_fitted_into_one(tmp_path):
    root = voc(tmp_path)
    image_at(root / "JPEGImages" / "1.png", (80, 90))
    data = load(root, Reading(size=60), BOXES)
    assert data.size == (60, 60)
    (batch,) = batches(data.train, 8, seed=0, epoch=0, shuffle=False, device="cpu")
    assert batch.boxes[0, 0].tolist() == [15, 7.5, 45, 30, 0]  # 40 x 30 became 60 x 45
    assert batch.boxes[1, 0, :4].tolist() == pytest.approx([value * 60 / 90 for value in BOX])
    assert batch.image[0, :, 46:].max() == 0


def test_the_canvas_has_the_proportions_that_all_images_share():
    assert canvas([(480, 640)] * 3, None) == (384, 512)
    assert canvas([(480, 640), (240, 320)], (160, 160)) == (120, 160)
    assert canvas([(480, 640), (640, 480)], (160, 160)) == (160, 160)
    assert canvas([(30, 40)], None) == (30, 40)


def test_what_fits_stays_as_it_is():
    image = torch.randint(256, (3, 20, 30), dtype=torch.uint8)
    made, scale = fit(image, (20, 30))
    assert made is image and scale == 1
    made, scale = fit(image, (40, 90))
    assert made.shape == (3, 40, 90) and made.dtype == torch.uint8 and scale == 2


def test_the_built_in_set_has_boxes_around_its_figures():
    some, more = generate(3, 48, TRAIN, 0, "train"), generate(5, 48, TRAIN, 0, "train")
    assert torch.equal(some.image, more.image[:3]) and torch.equal(some.boxes, more.boxes[:3])
    there = some.boxes[..., 4] != NO_BOX
    assert there.any(1).all() and there.shape[1] == 4
    sides = (some.boxes[..., 2:4] - some.boxes[..., :2])[there]
    assert sides.min() >= 5 and sides.max() <= 30


def test_the_built_in_set_is_read_by_its_name():
    data = load("shapes", Reading(size=32, val_fraction=0.1), BOXES)
    assert (len(data.train), len(data.val), len(data.test), len(data.classes)) == (450, 50, 300, 10)
    with pytest.raises(UserError, match="at least 32 pixels"):
        load("shapes", Reading(size=16), BOXES)
