"""A small real run, trained once: a folder of images of strangers, whose names try to break out of the page."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from PIL import Image

from teachaugment.commands.cli import main

NASTY = "<script>alert(1)</script>".replace("/", "∕")  # a folder cannot have a slash in its name
CLASSES = [NASTY, 'quote " & <b>', "plain"]


@pytest.fixture(scope="session")
def photos(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    generator = torch.Generator().manual_seed(0)
    for split, count in (("train", 8), ("test", 4)):
        for k, name in enumerate(CLASSES):
            (folder / split / name).mkdir(parents=True)
            for i in range(count):
                pixels = torch.rand(16, 16, 3, generator=generator) * 0.3
                pixels[4 * k : 4 * k + 6, 3:13, k] += 0.6
                Image.fromarray((pixels * 255).to(torch.uint8).numpy()).save(folder / split / name / f"{i}.png")
    return folder


@pytest.fixture(scope="session")
def train_run(photos):
    """Trains into a directory, with more flags."""

    def train(path: Path, *more: str) -> Path:
        fixed = ["--data", str(photos), "--epochs", "3", "--batch-size", "12", "--train.tensorboard", "false"]
        fixed += ["--val-fraction", "0"]
        learned = ["--strategy", "teachaugment", "--teach.n_inner", "1", "--teach.n_buffer", "1"]
        learned = [] if "--strategy" in more else learned
        assert main(["train", *fixed, *learned, "--device", "cpu", "--output", str(path), *more]) == 0
        return path

    return train


@pytest.fixture(scope="session")
def run(train_run, tmp_path_factory) -> Path:
    return train_run(tmp_path_factory.mktemp("runs") / "learned", "--train.eval_every", "1")


@pytest.fixture(scope="session")
def plain(train_run, tmp_path_factory) -> Path:
    return train_run(tmp_path_factory.mktemp("runs") / "plain", "--strategy", "none", "--lr", "0.05")
