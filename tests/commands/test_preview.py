from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from teachaugment.augment import create
from teachaugment.commands import cli
from teachaugment.commands.preview import draws
from teachaugment.policy.policy import Policy


def awake(channels: int = 3) -> Policy:
    module = create("neural", channels=channels, classes=2)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, 0.2)
        module.log_odds[:] = 100
    return Policy.of(module, classes=["cat", "dog"])


@pytest.fixture
def files(tmp_path: Path) -> Path:
    awake().save(tmp_path / "policy.safetensors")
    for name, size in (("wide", (40, 90)), ("high", (300, 120))):
        pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{name}.png")
    Image.fromarray(pixels[..., 0]).save(tmp_path / "grey.png")
    return tmp_path


def preview(files: Path, *words: str) -> np.ndarray:
    out = files / "out.png"
    command = ["preview", str(files / "policy.safetensors"), str(files / "wide.png"), str(files / "high.png")]
    assert cli.main([*command, "-o", str(out), *words]) == 0
    return np.array(Image.open(out))


def test_originals_stand_beside_draws(files, capsys):
    first = preview(files)
    assert "2 image(s), 4 version(s)" in capsys.readouterr().out
    assert np.array_equal(first, preview(files)) and not np.array_equal(first, preview(files, "--seed", "1"))
    assert preview(files, "--draws", "6").shape[1] > first.shape[1]
    assert not np.array_equal(first, preview(files, "--class", "dog"))
    still = preview(files, "--strength", "0", "--draws", "1")
    inked = np.flatnonzero((still[30:220] < 250).any((0, 2)))  # the first row: the original, and its one version
    left, right = np.split(inked, np.flatnonzero(np.diff(inked) > 1) + 1)
    assert np.array_equal(still[30:220, left], still[30:220, right])  # which are equal at strength 0


def test_each_version_is_a_function_of_seed_and_number():
    policy, picture = awake(), Image.fromarray(np.zeros((9, 9, 3), dtype=np.uint8))
    few, many = draws(policy, picture, 2, 7), draws(policy, picture, 4, 7)
    assert all(torch.equal(a, b) for a, b in zip(few, many[:2], strict=True))
    assert not torch.equal(many[0], many[1])


def test_grey_images_are_shown_in_the_policys_channels(files, capsys):
    awake(1).save(files / "grey.safetensors")
    words = ["preview", str(files / "grey.safetensors"), str(files / "wide.png"), str(files / "grey.png")]
    assert cli.main([*words, "-o", str(files / "g.png")]) == 0
    awake(2).save(files / "two.safetensors")
    assert cli.main(["preview", str(files / "two.safetensors"), str(files / "grey.png")]) == 2
    assert "only those of 1 and 3" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing.png"], "cannot read image nothing.png: No such file"),
        (["policy.safetensors"], "cannot read image policy.safetensors: not an image"),
        (["wide.png", "--class", "cta"], "did you mean 'cat'"),
        (["wide.png", "--strength", "2"], "strength must be"),
        (["wide.png", "--draws", "0"], "--draws must be at least 1"),
        (["wide.png", "-o", "no/out.png"], "cannot write --output no/out.png"),
        (["wide.png", "-o", "out.xyz"], "cannot write --output out.xyz"),
    ],
)
def test_mistakes_are_said_in_one_line(files, monkeypatch, capsys, words, said):
    monkeypatch.chdir(files)
    assert cli.main(["preview", "policy.safetensors", *words]) == 2
    text = capsys.readouterr().err.strip()
    assert said in text and "\n" not in text
