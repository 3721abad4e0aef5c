"""A small training by the command, and a folder of images, for the tests of several commands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from teachaugment.commands import cli
from teachaugment.data.shapes import shapes


@pytest.fixture(scope="session")
def fast() -> list[str]:
    """The flags of a training that takes seconds."""
    return [
        *("--data.size", "8", "--data.per_class", "2", "--batch-size", "8", "--epochs", "2", "--device", "cpu"),
        *("--eval-every", "2", "--train.tensorboard", "false"),
    ]


@pytest.fixture(scope="session")
def trained_run(tmp_path_factory, fast) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    torch.set_num_threads(1)
    assert cli.main(["train", *fast, "--output", str(path)]) == 0
    return path


@pytest.fixture
def folder(tmp_path) -> Path:
    """Six images of noise in each of two classes."""
    random = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(6):
            pixels = random.integers(0, 256, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{i}.png")
    return tmp_path / "photos"


@pytest.fixture(scope="session")
def photographs(tmp_path_factory) -> Path:
    """JPEGs that have to be resized and cropped: 60 to train with and 23 to test, in four classes."""
    root, data = tmp_path_factory.mktemp("photographs"), shapes(train=150, test=57, size=48)
    for split, part in (("train", data.train), ("test", data.test)):
        for i, (image, label) in enumerate(zip(part.image, part.label.tolist(), strict=True)):
            if label < 4:
                (root / split / data.classes[label]).mkdir(parents=True, exist_ok=True)
                rows = image[:, : 48 - 8 * (i % 2)].permute(1, 2, 0).numpy()
                Image.fromarray(rows).save(root / split / data.classes[label] / f"{i}.jpg", quality=90)
    return root


@pytest.fixture(scope="session")
def photo_run(tmp_path_factory, photographs) -> Path:
    """A network of timm, trained on them for two epochs, of which the validation split has chosen one."""
    pytest.importorskip("timm")
    path = tmp_path_factory.mktemp("runs") / "photos"
    words = [
        "--data",
        str(photographs),
        "--data.size",
        "32",
        "--data.centre",
        "0.8",
        "--data.interpolation",
        "bilinear",
        "--data.in_memory",
        "never",
        "--model",
        "timm/test_resnet",
    ]
    words += ["--epochs", "2", "--eval-every", "1", "--batch-size", "10", "--lr", "0.02", "--val-fraction", "0.1"]
    torch.set_num_threads(1)
    words += ["--device", "cpu", "--train.tensorboard", "false", "--output", str(path)]
    assert cli.main(["train", *words]) == 0
    return path


@pytest.fixture(scope="session")
def mask_run(tmp_path_factory) -> Path:
    """A segmenter after one epoch on a few of the built-in images."""
    path = tmp_path_factory.mktemp("runs") / "masks"
    words = ["--task", "segmentation", "--data.per_class", "2", "--data.size", "16", "--epochs", "1", "--device", "cpu"]
    torch.set_num_threads(1)
    assert cli.main(["train", *words, "--train.tensorboard", "false", "--output", str(path)]) == 0
    return path
