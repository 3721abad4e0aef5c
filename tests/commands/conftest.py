"""A small training by the command, and a folder of images, for the tests of several commands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from teachaugment.commands import cli


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
