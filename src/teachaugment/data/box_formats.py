"""Folders of images with boxes: Pascal VOC's layout, COCO's JSON, YOLO's text files; which one a folder has is seen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.parsers import expat

import yaml

from teachaugment.data.boxes import Box, Scene, finish_boxes
from teachaugment.data.codes import CLASS_FILE
from teachaugment.data.decode import ADVICE, BadImage
from teachaugment.data.files import image_files
from teachaugment.data.opened import endings
from teachaugment.data.reading import Reading
from teachaugment.data.splits import DataSet
from teachaugment.errors import UserError

Found = dict[str, list[Scene]]  # by split
NAMES = {"train": ("train", "trainval"), "val": ("val", "valid", "validation"), "test": ("test",)}  # of splits
CORNERS = ("xmin", "ymin", "xmax", "ymax")  # as VOC calls them


def load_boxes(source: str | Path, reading: Reading) -> DataSet:
    """A folder with boxes in one of the three layouts."""
    root = Path(source).expanduser()
    described = sorted([*root.glob("data.y*ml"), *root.glob("dataset.y*ml")])
    if described:
        found, classes = yolo(described[0])
    elif (root / "Annotations").is_dir():
        found, classes = voc(root)
    elif files := coco_files(root):
        found, classes = coco(root, files)
    else:
        raise UserError(
            f"{root} has no boxes: expected Annotations/ and JPEGImages/ (Pascal VOC), a .json with images and "
            "annotations (COCO), or data.yaml (YOLO)"
        )
    return finish_boxes(root.resolve().name.lower(), root, found, classes, reading)


# --- Pascal VOC ------------------------------------------------------------------------------------------------------


def voc(root: Path) -> tuple[Found, list[str]]:
    """Annotations/NAME.xml beside JPEGImages/NAME.jpg, and lists of names in ImageSets/Main."""
    listed: dict[str, list[str]] = {}
    for split, names in NAMES.items():
        for file in (root / "ImageSets" / "Main" / f"{name}.txt" for name in names):
            if file.is_file() and split not in listed:
                listed[split] = [line.split()[0] for line in _text(file).splitlines() if line.strip()]
    if "train" not in listed:
        listed = {"train": sorted(path.stem for path in (root / "Annotations").glob("*.xml"))}
    found = {split: [_voc_scene(root, stem) for stem in stems] for split, stems in listed.items()}
    if (root / CLASS_FILE).is_file():
        return found, [line.strip() for line in _text(root / CLASS_FILE).splitlines() if line.strip()]
    read = (box for scene in found["train"] for box in scene.boxes if isinstance(box, Box))
    return found, sorted({str(box.kind) for box in read})


def _voc_scene(root: Path, stem: str) -> Scene:
    file = root / "Annotations" / f"{stem}.xml"
    images = root / "JPEGImages"
    there = (images / f"{stem}{ending}" for ending in (".jpg", ".png", ".jpeg", *endings()))
    image = next((path for path in there if path.is_file()), images / f"{stem}.jpg")
    try:
        return Scene(image, list(_voc_boxes(file)))
    except BadImage as error:
        return Scene(image, [], error)


def _voc_boxes(file: Path) -> Iterator[Box | BadImage]:
    """The objects of one file. Nothing in it is resolved or expanded."""
    path: list[str] = []  # from the root to the element that is open
    objects: list[dict[str, Any]] = []
    parser = expat.ParserCreate()

    def begin(tag: str, attributes: dict[str, str]) -> None:
        path.append(tag)
        if path[1:] == ["object"]:
            objects.append({"line": parser.CurrentLineNumber})

    def text(data: str) -> None:
        key = path[-1] if path[1:] in (["object", "name"], *(["object", "bndbox", c] for c in CORNERS)) else None
        if key is not None:
            objects[-1][key] = objects[-1].get(key, "") + data

    def refuse(*declared: Any) -> None:
        raise BadImage(
            f"{file}, line {parser.CurrentLineNumber}: declares an entity, which no annotation needs{ADVICE}"
        )

    parser.StartElementHandler, parser.CharacterDataHandler, parser.EntityDeclHandler = begin, text, refuse
    parser.EndElementHandler = lambda tag: path.pop()
    try:
        parser.Parse(file.read_bytes(), True)
    except OSError as error:
        raise BadImage(f"cannot read {file}: {error.strerror}{ADVICE}") from None
    except expat.ExpatError as error:
        raise BadImage(f"{file}, line {error.lineno}: not XML ({expat.errors.messages[error.code]}){ADVICE}") from None
    for found in objects:
        where = f"{file}, line {found['line']}"
        try:
            left, upper, right, lower = (float(found[corner]) for corner in CORNERS)
            yield Box((left, upper, right, lower), found["name"].strip(), where)
        except (KeyError, ValueError):
            yield BadImage(f"{where}: an object needs a name and a bndbox with {', '.join(CORNERS)}{ADVICE}")


# --- COCO ------------------------------------------------------------------------------------------------------------


def coco_files(root: Path) -> dict[str, Path]:
    """The JSON files of the splits; one alone is that of all images."""
    found: dict[str, Path] = {}
    candidates = sorted(
        [*root.glob("annotations/*.json"), *root.glob("*.json"), *root.glob("*/_annotations.coco.json")]
    )
    boxes = [file for file in candidates if "caption" not in file.name and "keypoint" not in file.name]
    for split, names in NAMES.items():
        for file in boxes:
            said = file.parent.name if file.name == "_annotations.coco.json" else file.stem
            if names[0] in said.lower() and split not in found:
                found[split] = file
    return found if "train" in found else ({"train": boxes[0]} if len(boxes) == 1 else {})


def coco(root: Path, files: dict[str, Path]) -> tuple[Found, list[str]]:
    """Boxes of crowds, which stand for many objects, are left out."""
    found: Found = {}
    classes: list[str] = []
    for split, file in files.items():
        try:
            content = json.loads(_text(file))
            names = {row["id"]: str(row["name"]) for row in content["categories"]}
            boxes: dict[Any, list[Box | BadImage]] = {row["id"]: [] for row in content["images"]}
            for number, row in enumerate(content["annotations"]):
                where = f"{file}, annotation {row.get('id', number)}"
                if row["image_id"] not in boxes:
                    raise UserError(f"{where}: there is no image {row['image_id']}")
                if not row.get("iscrowd"):
                    left, upper, wide, high = map(float, row["bbox"])
                    kind = names.get(row["category_id"], f"number {row['category_id']}")
                    boxes[row["image_id"]].append(Box((left, upper, left + wide, upper + high), kind, where))
            found[split] = [
                Scene(_coco_image(root, file, str(row["file_name"])), boxes[row["id"]]) for row in content["images"]
            ]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else " ".join(str(error).split())
            raise UserError(f"{file} is not COCO's JSON with boxes: {reason}") from None
        classes = classes or [names[key] for key in sorted(names)]
    return found, classes


def _coco_image(root: Path, file: Path, name: str) -> Path:
    """Where an image is: beside its JSON, in images/, or in the folder that the JSON's name ends with (train2017)."""
    last = file.stem.rpartition("_")[2]
    places = (file.parent, root, root / "images", root / last, root / "images" / last)
    return next((place / name for place in places if (place / name).is_file()), root / "images" / name)


# --- YOLO ------------------------------------------------------------------------------------------------------------


def yolo(file: Path) -> tuple[Found, list[str]]:
    """data.yaml names the folders of images and the classes; boxes are in labels/ beside images/."""
    try:
        content = yaml.safe_load(_text(file))
        names = content["names"]
        classes = [str(names[key]) for key in sorted(names)] if isinstance(names, dict) else [str(n) for n in names]
        places = {split: content[key] for split, keys in NAMES.items() for key in keys if content.get(key)}
    except (yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{file} is not YOLO's description of a data set with train and names: {reason}") from None
    base = file.parent / str(content.get("path") or "")
    if not base.is_dir():
        base = file.parent
    found: Found = {}
    for split, given in places.items():
        folders = [_yolo_folder(base, str(place), file) for place in (given if isinstance(given, list) else [given])]
        images = [folder / name for folder in folders for name in image_files(folder)]
        found[split] = [Scene(image, list(_yolo_boxes(_yolo_labels(image)))) for image in images]
    return found, classes


def _yolo_folder(base: Path, place: str, file: Path) -> Path:
    """A folder below the data set; some descriptions begin with ../ although it is not above."""
    for folder in (base / place, base / place.removeprefix("../")):
        if folder.is_dir():
            return folder
    raise UserError(f"{file}: there is no folder {base / place}")


def _yolo_labels(image: Path) -> Path:
    parts = list(image.parts)
    for i in range(len(parts) - 2, -1, -1):
        if parts[i] == "images":
            parts[i] = "labels"
            break
    return Path(*parts).with_suffix(".txt")


def _yolo_boxes(file: Path) -> Iterator[Box | BadImage]:
    """Class, centre and sides in each line, as shares of the image; an image without a file has no boxes."""
    if not file.is_file():
        return
    for number, line in enumerate(_text(file).splitlines(), 1):
        if not line.strip():
            continue
        where = f"{file}, line {number}"
        try:
            kind, x, y, wide, high = line.split()
            middle_x, middle_y, half_x, half_y = float(x), float(y), float(wide) / 2, float(high) / 2
            corners = (middle_x - half_x, middle_y - half_y, middle_x + half_x, middle_y + half_y)
            yield Box(corners, int(kind), where, relative=True)
        except ValueError:
            yield BadImage(f"{where}: expected a class's number and four numbers, not {line.strip()[:60]!r}{ADVICE}")


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"cannot read {file}: not text in UTF-8") from None
