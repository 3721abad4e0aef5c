from __future__ import annotations

import shutil
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from teachaugment.augment import create
from teachaugment.commands import cli, explore
from teachaugment.errors import UserError
from teachaugment.policy.policy import Policy


@pytest.fixture
def file(tmp_path: Path) -> Path:
    module = create("neural", classes=2)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, 0.2)
        module.log_odds[:] = 100
    path = tmp_path / "runs" / "one" / "policy.safetensors"
    path.parent.mkdir(parents=True)
    Policy.of(module, classes=["cat", "dog"], provenance={"data": "pets"}).save(path)
    return path


def picture() -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (50, 400, 3), dtype=np.uint8))


@pytest.fixture
def uploaded(tmp_path: Path) -> str:
    picture().save(tmp_path / "picture.png")
    return str(tmp_path / "picture.png")


def test_versions_follow_class_seed_and_strength(file, uploaded):
    def made(context: str | None = None, seed: int = 0, strength: float = 1.0) -> list[np.ndarray]:
        return [np.array(version) for version in explore.explore(file, uploaded, context, seed, strength)]

    first = made()
    assert len(first) == explore.VERSIONS and first[0].shape == (40, 320, 3)
    assert all(np.array_equal(a, b) for a, b in zip(first, made(), strict=True))
    for other in (made("dog"), made(seed=1), made(strength=0.5)):
        assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))
    assert all(np.array_equal(version, made(strength=0)[0]) for version in made(strength=0))
    assert explore.explore(file, None, None, 0, 1.0) == []


def test_the_page_is_built_and_answers_on_this_machine_only(file, uploaded, tmp_path):
    pytest.importorskip("gradio")
    page = explore.interface(file.parent, str(tmp_path))
    try:
        _, address, shared = explore.launch(page, None, browser=False, wait=False)
        assert address.startswith("http://127.0.0.1:") and not shared and page.server_name == "127.0.0.1"
        with urllib.request.urlopen(address, timeout=20) as answer:
            assert answer.status == 200 and b"TeachAugment" in answer.read()
        function = next(iter(page.fns.values()))
        assert len(function.fn(uploaded, "cat", 3, 0.5)) == explore.VERSIONS
        assert page.fns and all(len(function.inputs) == 4 for function in page.fns.values())
    finally:
        page.close()


def test_the_newest_run_is_taken(file, tmp_path, monkeypatch, capsys):
    assert explore.newest_run(tmp_path / "runs") == file.parent
    monkeypatch.chdir(tmp_path / "runs")
    assert cli.main(["explore"]) == 2
    assert "no run with a policy under runs/" in capsys.readouterr().err


def test_without_gradio_it_says_what_to_install(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    with pytest.raises(UserError, match=r"pip install '\.\[explore\]"):
        explore.interface(file, str(file.parent))


def test_the_page_of_a_run_opens_with_its_images(trained_run, folder, tmp_path):
    pytest.importorskip("gradio")
    shown = tmp_path / "shown"
    shown.mkdir()
    found = explore.run_images(trained_run, str(shown))
    assert len(found) == 10 and all(Image.open(image).size == (8, 8) for image in found.values())
    page = explore.interface(trained_run, str(shown))
    kinds = {type(block).__name__: block for block in page.blocks.values()}
    assert kinds["Image"].value is not None and len(kinds["Gallery"].value) == explore.VERSIONS
    words = ["--data", str(folder), "--epochs", "1", "--device", "cpu", "--train.tensorboard", "false"]
    assert cli.main(["train", *words, "--output", str(tmp_path / "run")]) == 0
    assert list(explore.run_images(tmp_path / "run", str(shown))) == ["cat", "dog"]
    shutil.rmtree(folder)
    for gone in ("run", "policy.safetensors"):
        assert explore.run_images(tmp_path / gone, str(shown)) == {}
