"""``teachaugment export --target``: the trained network leaves the run, and says the same elsewhere."""

from __future__ import annotations

import csv
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from PIL import Image
from torch import nn

from teachaugment import load_model, models
from teachaugment.commands import cli
from teachaugment.commands.export import FORMATS
from teachaugment.commands.export.network import CLOSE, Deployed, check
from teachaugment.errors import UserError


def error(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line of a command that fails."""
    capsys.readouterr()
    assert cli.main(["export", *words]) == 2
    said = capsys.readouterr()
    assert not said.out and said.err.count("\n") == 1, said
    return said.err


def prepared(photographs: Path) -> tuple[list[Path], torch.Tensor]:
    """The test photographs as somebody prepares them who has read the model card and has Pillow alone."""
    files = sorted((photographs / "test").rglob("*.jpg"))
    images = []
    for file in files:
        with Image.open(file) as opened:
            width, height = opened.size
            side = 0.8 * min(width, height)
            left, top = (width - side) / 2, (height - side) / 2
            small = opened.resize((32, 32), Image.Resampling.BILINEAR, box=(left, top, left + side, top + side))
        images.append(torch.from_numpy(np.array(small)).permute(2, 0, 1).float() / 255)
    return files, torch.stack(images)


@pytest.fixture(scope="module")
def predicted(photo_run, photographs, tmp_path_factory) -> dict[str, dict[str, str]]:
    """What ``teachaugment predict`` says about the test photographs."""
    file = tmp_path_factory.mktemp("predicted") / "p.csv"
    assert cli.main(["predict", str(photo_run), str(photographs / "test"), "-o", str(file)]) == 0
    with open(file, newline="") as opened:
        return {row["image"]: row for row in csv.DictReader(opened)}


def same(probabilities: torch.Tensor, classes: list[str], files: list[Path], predicted) -> None:
    assert len(files) == len(predicted) == len(probabilities)
    for file, p in zip(files, probabilities, strict=True):
        row = predicted[str(file)]
        assert classes[int(p.argmax())] == row["class"]
        assert float(p.max()) == pytest.approx(float(row["probability"]), abs=1e-4)


def test_the_weights_predict_the_same_in_plain_timm_code(photo_run, photographs, predicted, tmp_path, capsys):
    timm = pytest.importorskip("timm")
    file = tmp_path / "n.safetensors"
    assert cli.main(["export", str(photo_run), "--target", "safetensors", "-o", str(file)]) == 0
    assert "checked by running it" in capsys.readouterr().out
    with safetensors.safe_open(file, "pt") as opened:
        about = {key: json.loads(text) for key, text in opened.metadata().items() if key != "format"}
    network = timm.create_model("test_resnet", num_classes=4)
    network.load_state_dict(safetensors.torch.load_file(file))
    mean, std = (torch.tensor(about[name]).view(-1, 1, 1) for name in ("mean", "std"))
    files, images = prepared(photographs)
    assert about["size"] == [32, 32] and about["interpolation"] == "bilinear" and about["centre"] == 0.8
    with torch.no_grad():
        same(network.eval()((images - mean) / std).softmax(1), about["classes"], files, predicted)


def test_the_onnx_file_predicts_the_same(photo_run, photographs, predicted, tmp_path, capsys):
    onnxruntime = pytest.importorskip("onnxruntime")
    file = tmp_path / "n.onnx"
    assert cli.main(["export", str(photo_run), "--target", "onnx", "-o", str(file)]) == 0
    assert "warning" not in capsys.readouterr().err
    session = onnxruntime.InferenceSession(str(file))
    about = {key: json.loads(text) for key, text in session.get_modelmeta().custom_metadata_map.items()}
    files, images = prepared(photographs)
    (found,) = session.run(None, {"image": images.numpy()})
    assert about["classes"] == load_model(photo_run).classes and about["size"] == [32, 32]
    same(torch.from_numpy(found), about["classes"], files, predicted)
    program_of_the_card(file)


@pytest.mark.parametrize("target", ["torchscript", "pt2"])
@pytest.mark.filterwarnings("ignore:`torch.jit:FutureWarning")  # of the program that loads it
def test_the_programs_of_torch_predict_the_same(photo_run, photographs, predicted, tmp_path, target):
    pytest.importorskip("timm")
    file = tmp_path / f"n{FORMATS[target].ending}"
    assert cli.main(["export", str(photo_run), "--target", target, "-o", str(file)]) == 0
    names = program_of_the_card(file)
    files, images = prepared(photographs)
    same(names["network"](images), names["classes"], files, predicted)


def program_of_the_card(file: Path) -> dict:
    """Run what the model card beside ``file`` shows, and return its names."""
    text = file.with_name(f"{file.name}.md").read_text()
    (source,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict = {}
    exec(source.replace(f'"{file.name}"', f'"{file}"'), names)
    assert names["probabilities"].shape[0] == 1
    return names


@pytest.mark.parametrize("name", ["cnn-4", "torchvision/resnet18", "timm/test_vit", "smp/unet-resnet18", "unet-16"])
def test_the_weights_load_as_the_card_says(name, fast, tmp_path, capsys):
    """Networks of every source, with the names that their own packages give the weights."""
    if (package := name.partition("/")[0]) in ("timm", "smp"):
        pytest.importorskip({"smp": "segmentation_models_pytorch"}.get(package, package))
    masks = ["--task", "segmentation"] if "unet" in name else []
    words = ["--data.size", "32", "--model", name, *masks, "--strategy", "none", "--epochs", "1"]
    assert cli.main(["train", *fast, *words, "--output", str(tmp_path / "run")]) == 0
    assert cli.main(["export", str(tmp_path / "run"), "--target", "safetensors"]) == 0
    names = program_of_the_card(tmp_path / "run" / "network.safetensors")
    model = load_model(tmp_path / "run")
    image = torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        found = names["network"](model.task.normalize(image))
        torch.testing.assert_close(found, model.network(model.task.normalize(image)))
    assert names["about"]["classes"] == model.classes


def test_half_precision_halves_the_file_and_little_else(photo_run, tmp_path):
    whole, half = tmp_path / "whole.safetensors", tmp_path / "half.safetensors"
    words = ["export", str(photo_run), "--target", "safetensors"]
    assert cli.main([*words, "-o", str(whole)]) == 0 and cli.main([*words, "--half", "-o", str(half)]) == 0
    tensors = safetensors.torch.load_file(half)
    assert {t.dtype for t in tensors.values()} == {torch.float16, torch.int64}  # batch norm counts its batches
    assert half.stat().st_size < 0.6 * whole.stat().st_size
    assert "16 bits" in Path(f"{half}.md").read_text()


def test_the_best_epoch_and_the_teacher_can_be_taken(photo_run, tmp_path):
    for words, model in (
        ([], load_model(photo_run, checkpoint="best")),
        (["--checkpoint", "last", "--which", "teacher"], load_model(photo_run, checkpoint="last", which="teacher")),
    ):
        file = tmp_path / "n.safetensors"
        assert cli.main(["export", str(photo_run), "--target", "safetensors", "-o", str(file), *words]) == 0
        saved = safetensors.torch.load_file(file)
        assert all(torch.equal(value, saved[name]) for name, value in model.network.state_dict().items())
    assert "moving average" in Path(f"{file}.md").read_text()


def test_a_file_that_says_something_else_is_not_written(photo_run, tmp_path, capsys, monkeypatch):
    """The check is real: a network that was changed on its way out is found out, and so are numbers that are none."""
    format, model = FORMATS.load("safetensors"), load_model(photo_run, device="cpu")
    changed = Deployed(model)
    assert check(format, format.content(changed, {}), model, CLOSE) == 0
    last = [module for module in changed.network.modules() if isinstance(module, nn.Linear)][-1]
    for factor in (1.01, float("nan")):
        last.weight.data *= factor
        with pytest.raises(UserError, match="gives other probabilities than the run's network"):
            check(format, format.content(changed, {}), model, CLOSE)
    content = format.content
    monkeypatch.setattr(format, "content", lambda deployed, about: content(changed, about))
    file = tmp_path / "n.safetensors"
    assert "nothing was written" in error(capsys, str(photo_run), "--target", "safetensors", "-o", str(file))
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_exported_is_said_in_one_line(photo_run, tmp_path, capsys, monkeypatch):
    run = str(photo_run)
    assert "must end in .onnx" in error(capsys, run, "--target", "onnx", "-o", str(tmp_path / "n.safetensors"))
    assert "leave them out with --target" in error(capsys, run, "--target", "onnx", "--snapshots")
    assert "name its format with --target" in error(capsys, run, "--half")
    assert "name one" in error(capsys, run, "--target", "onnx", "--backbone")
    assert "choose from" in error(capsys, run, "--target", "tensorflow")
    assert "is not a run directory" in error(capsys, str(tmp_path / "nothing"), "--target", "onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert "onnxruntime is not installed; install it with: pip" in error(capsys, run, "--target", "onnx")
    assert not list(photo_run.glob("network*"))


def test_a_plain_network_is_the_one_of_its_package():
    smp = pytest.importorskip("segmentation_models_pytorch")
    assert isinstance(models.plain(models.create("smp/unet-resnet18", 3)), smp.Unet)
    network = models.create("cnn-4", 3)
    assert models.plain(network) is network
