"""Detection from end to end: both updates, pictures, report, resuming, evaluation, predictions, export."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import small
import torch
from PIL import Image

from teachaugment import load_model
from teachaugment.commands import cli
from teachaugment.commands.train import outcome
from teachaugment.config.resolve import Config
from teachaugment.engine import build, checkpoint, directory, restore
from teachaugment.engine.display import TrainingDisplay
from teachaugment.engine.run import run
from teachaugment.errors import UserError

TINY = {
    "task": "detection", "train.batch_size": 4, "train.epochs": 2, "train.tensorboard": False, "teach.n_inner": 1,
    "teach.n_buffer": 1, "device": "cpu",
}  # fmt: skip


def tiny(data: Path, **changed: Any) -> Config:
    return small.settings({**TINY, "data.path": str(data)}, changed)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Ten images of 64 x 48 with a square in each, red or blue, as YOLO has them."""
    root = tmp_path_factory.mktemp("squares")
    for i in range(10):
        split, color = "train" if i < 8 else "val", ((220, 30, 30), (30, 30, 220))[i % 2]
        picture = Image.new("RGB", (64, 48), (90, 90 + i, 90))
        picture.paste(color, (8 + i, 10, 28 + i, 30))
        for kind in ("images", "labels"):
            (root / kind / split).mkdir(parents=True, exist_ok=True)
        picture.save(root / "images" / split / f"{i}.png")
        box = f"{i % 2} {(18 + i) / 64} {20 / 48} {20 / 64} {20 / 48}\n"
        (root / "labels" / split / f"{i}.txt").write_text(box)
    (root / "data.yaml").write_text("train: images/train\nval: images/val\nnames: [red, blue]\n")
    return root


@pytest.fixture(scope="module")
def finished(folder, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="no report")
        small.train(tiny(folder, output=str(path)), tests=2)
    return path


def test_a_run_leaves_metrics_policy_pictures_and_a_report(finished):
    metrics = json.loads((finished / directory.METRICS).read_text())
    assert metrics["metric"] == "map" and metrics["classes"] == ["red", "blue"]
    for name in ("target", "teacher"):
        assert len(metrics["test"][name]["class_map"]) == 2 and 0 <= metrics["test"][name]["map"] <= 1
        assert metrics["test"][name]["boxes"] == 2
    for name in (directory.PICTURE, directory.PREDICTIONS):
        assert Image.open(finished / name).width > 200
    assert (finished / directory.POLICY).exists()
    page = (finished / directory.REPORT).read_text()
    assert "mAP" in page and "average precision" in page
    out = outcome("detection", metrics, finished)
    assert "% mAP on 2 test images" in out and directory.PREDICTIONS in out


def test_a_resumed_run_equals_the_uninterrupted_one(finished, folder, tmp_path):
    path = tmp_path / "run"
    config = tiny(folder, output=str(path))
    trainer = build.build(config)
    directory.create_run(config)
    trainer.train_epoch(TrainingDisplay(trainer.total_steps))
    checkpoint.save(path / checkpoint.LAST, trainer.state_dict())
    resumed, _ = restore.resume(config, path)
    run(resumed, path)
    mine, whole = (checkpoint.load(place / checkpoint.LAST) for place in (path, finished))
    for part in (lambda state: state["target"], lambda state: state["teach"]["augmenter"]):
        assert all(torch.equal(value, part(whole)[key]) for key, value in part(mine).items())
    assert (path / directory.METRICS).read_bytes() == (finished / directory.METRICS).read_bytes()


def test_it_is_evaluated_and_predicts_boxes_in_the_images_own_pixels(finished, folder, tmp_path, capsys):
    assert cli.main(["evaluate", str(finished)]) == 0
    assert "mAP on 2 test images" in capsys.readouterr().out
    picture = tmp_path / "large.png"
    Image.open(folder / "images" / "val" / "8.png").resize((128, 96)).save(picture)
    output = tmp_path / "found.json"
    assert cli.main(["predict", str(finished), str(picture), "--output", str(output)]) == 0
    (row,) = json.loads(output.read_text())
    assert isinstance(row["boxes"], list) and "class" in row
    found = load_model(finished).predict(picture)
    assert len(found.boxes) > 0 and found.boxes[:, 2].max() <= 128 and found.boxes[:, 3].max() <= 96
    assert found.boxes[:, 2].max() > 64  # those of the image itself, not of what the network saw


@pytest.mark.parametrize("format", ["pt2", "safetensors"])
def test_its_network_is_exported(finished, tmp_path, format):
    endings = {"pt2": ".pt2", "safetensors": ".safetensors"}
    file = tmp_path / f"network{endings[format]}"
    assert cli.main(["export", str(finished), "--target", format, "--output", str(file)]) == 0
    assert file.stat().st_size > 100_000


def test_a_detector_of_torchvision_is_exported_as_weights_alone(folder, tmp_path, capsys):
    config = tiny(folder, model__name="ssdlite-mobilenet-v3", augment__strategy="none", output=str(tmp_path / "run"))
    trainer = build.build(config)
    path = directory.create_run(config)
    checkpoint.save(path / checkpoint.LAST, trainer.state_dict())
    assert cli.main(["export", str(path), "--target", "onnx"]) == 2
    assert "cannot be written as onnx" in capsys.readouterr().err
    assert cli.main(["export", str(path), "--target", "safetensors"]) == 0
    card = (path / "network.safetensors.md").read_text()
    assert "boxes = network((images - mean) / std)  #" in card and "upper left corner" in card


@pytest.mark.parametrize("strategy", ["none", "ssd", "trivialaugment", "crop-flip"])
def test_a_step_of_other_strategies(folder, strategy):
    trainer = build.build(tiny(folder, augment__strategy=strategy, augment__area=0.5, augment__crop=2))
    trainer.strategy.at(0.0)
    meter = trainer.task.meter(trainer.device)
    batch = next(trainer.batches("train", training=True))
    before = [p.clone() for p in trainer.target.parameters()]
    trainer.train_step(batch, meter)
    assert meter.compute()["loss"] > 0
    assert any(not torch.equal(a, b) for a, b in zip(before, trainer.target.parameters(), strict=True))


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"augment__strategy": "augmix"}, "no box can follow"),
        ({"augment__mix": "mixup"}, "mixes the labels"),
        ({"data__centre": 0.9}, "images are shown whole"),
        ({"augment__cutout": 4}, "is for classification"),
        ({"teach__objective": "pointaugment"}, "pointaugment compares the classes"),
        ({"teach__augmenter": "online"}, "bends images"),
    ],
)
def test_what_does_not_suit_boxes_is_refused(folder, changed, says):
    with pytest.raises(UserError, match=says):
        trainer = build.build(tiny(folder, **changed))
        trainer.strategy.augment(next(trainer.batches("train", training=True)))


def test_the_strategy_of_ssd_is_for_boxes():
    with pytest.raises(UserError, match="use --task detection"):
        small.settings({"augment.strategy": "ssd"}, {})
