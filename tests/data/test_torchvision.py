"""CIFAR and ImageNet through torchvision, on tiny stand-ins of the same file formats."""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path

import numpy as np
import pytest
import torchvision
from PIL import Image

from teachaugment.data import Reading, load
from teachaugment.data.splits import STATISTICS
from teachaugment.data.torchvision import ARCHIVES
from teachaugment.errors import UserError

KINDS = {"cifar10": torchvision.datasets.CIFAR10, "cifar100": torchvision.datasets.CIFAR100}


def write_cifar(root: Path, name: str, monkeypatch: pytest.MonkeyPatch, n: int = 20) -> None:
    """Files of CIFAR's format, and their checksums in torchvision's lists."""
    kind = KINDS[name]
    folder, random = root / kind.base_folder, np.random.default_rng(0)
    folder.mkdir(parents=True)
    classes = 10 if name == "cifar10" else 100
    key = "labels" if name == "cifar10" else "fine_labels"
    lists: dict[str, list[list[str]]] = {"train_list": [], "test_list": []}
    for which, old in (("train_list", kind.train_list), ("test_list", kind.test_list)):
        for file, _ in old:
            pixels = random.integers(0, 256, (n, 3072), dtype=np.uint8)
            content = pickle.dumps({"data": pixels, key: [i % classes for i in range(n)]})
            (folder / file).write_bytes(content)
            lists[which].append([file, hashlib.md5(content).hexdigest()])
    names = pickle.dumps({kind.meta["key"]: [f"class {i}" for i in range(classes)]})
    (folder / kind.meta["filename"]).write_bytes(names)
    monkeypatch.setattr(kind, "meta", {**kind.meta, "md5": hashlib.md5(names).hexdigest()})
    for which, files in lists.items():
        monkeypatch.setattr(kind, which, files)


@pytest.mark.parametrize(("name", "classes", "train"), [("cifar10", 10, 100), ("cifar100", 100, 20)])
def test_cifar_is_read_from_its_root(tmp_path, monkeypatch, name, classes, train):
    write_cifar(tmp_path, name, monkeypatch)
    found = load(name, Reading(root=tmp_path))
    assert (len(found.train), len(found.test), len(found.classes)) == (train, 20, classes)
    assert found.train.image.shape[1:] == (3, 32, 32) and found.size == (32, 32) and found.name == name
    # Those of Fast AutoAugment's code, which are one pair for both.
    assert (found.mean, found.std) == ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))


def test_cifar_is_found_in_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    write_cifar(tmp_path / "teachaugment", "cifar10", monkeypatch)
    found = load("cifar10", Reading(per_class=2, val_fraction=0.2))
    assert len(found.train) == 20 and found.val is not None


def test_a_folder_of_the_name_comes_first_unless_a_root_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cifar10").mkdir()
    with pytest.raises(UserError, match="cifar10 has no class folders"):
        load("cifar10")
    write_cifar(tmp_path / "elsewhere", "cifar10", monkeypatch)
    assert len(load("cifar10", Reading(root=tmp_path / "elsewhere")).train) == 100


def test_without_a_network_one_line_says_what_to_do(tmp_path, monkeypatch, capsys):
    def refused(*arguments: object, **options: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(KINDS["cifar10"], "download", refused)
    with pytest.raises(UserError) as error:
        load("cifar10", Reading(root=tmp_path / "data"))
    text = str(error.value)
    assert (
        "\n" not in text and "no route to host" in text and "--data.root" in text and "cifar-10-python.tar.gz" in text
    )
    assert "downloading cifar10" in capsys.readouterr().err


def test_another_size_is_refused(tmp_path, monkeypatch):
    write_cifar(tmp_path, "cifar10", monkeypatch)
    with pytest.raises(UserError, match=r"32 x 32; leave data\.size out"):
        load("cifar10", Reading(root=tmp_path, size=64))


def write_imagenet(root: Path, n: int = 4, size: tuple[int, int] = (40, 48)) -> Path:
    random = np.random.default_rng(0)
    for split in ("train", "val"):
        for name in ("n01", "n02"):
            (root / split / name).mkdir(parents=True)
            for i in range(n):
                pixels = random.integers(0, 256, (*size, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(root / split / name / f"{i}.jpg")
    return root


@pytest.mark.parametrize("area", [0.08, 1.0])
def test_imagenet_is_cropped_as_the_reading_says_and_tested_on_the_centre(tmp_path, area):
    found = load("imagenet", Reading(root=write_imagenet(tmp_path), size=16, area=area, in_memory="never"))
    assert found.name == "imagenet" and found.classes == ["n01", "n02"] and found.size == (16, 16)
    assert (found.mean, found.std) == STATISTICS["imagenet"]
    assert found.train.area == area and found.train.cropped == (area < 1)
    assert not found.test.cropped and found.test.centre == 224 / 256
    assert found.train.read(0, 0, 0).views[0].shape == (3, 16, 16)


def test_a_part_of_imagenet_that_fits_is_in_memory_unless_random_crops_are_cut_from_it(tmp_path):
    root = write_imagenet(tmp_path, size=(16, 16))
    assert load("imagenet", Reading(root=root, size=16)).train.in_memory
    # Memory would hold the centre alone, although every image has the wanted size.
    assert not load("imagenet", Reading(root=root, size=16, area=0.08)).train.in_memory


def test_the_middle_224_of_256_is_tested(tmp_path):
    root = write_imagenet(tmp_path, n=1)
    pixels = np.zeros((256, 256, 3), dtype=np.uint8)
    pixels[16:240, 16:240] = 255
    for file in (root / "val").rglob("*.jpg"):
        Image.fromarray(pixels).save(file.with_suffix(".png"))
        file.unlink()
    found = load("imagenet", Reading(root=root, in_memory="never"))
    assert (found.test.read(0, 0, 0).views[0] == 255).all()


def test_imagenet_is_224_by_default(tmp_path):
    assert load("imagenet", Reading(root=write_imagenet(tmp_path, n=2))).size == (224, 224)


def test_imagenet_that_is_not_there_is_explained(tmp_path):
    with pytest.raises(UserError, match="neither train/ and val/ nor ILSVRC2012_devkit") as error:
        load("imagenet", Reading(root=tmp_path))
    assert "\n" not in str(error.value) and "--data.root" in str(error.value)


def test_damaged_archives_are_explained(tmp_path):
    for name in ARCHIVES:
        (tmp_path / name).write_bytes(b"nothing")
    with pytest.raises(UserError, match="cannot unpack ImageNet") as error:
        load("imagenet", Reading(root=tmp_path))
    assert "\n" not in str(error.value)
