"""Runs that begin with weights: frozen parts, the chosen epoch, patience, and an exact resume of all of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import small
import torch
from safetensors.torch import save_file

from teachaugment import models
from teachaugment.config.resolve import Config
from teachaugment.engine import build, checkpoint, directory, restore
from teachaugment.engine.choosing import note_best, out_of_patience
from teachaugment.engine.display import TrainingDisplay
from teachaugment.engine.finite import tensors_in
from teachaugment.engine.trainer import Trainer
from teachaugment.errors import UserError
from teachaugment.models.weights import read_weights

TINY = {
    "data.size": 8, "data.per_class": 4, "data.val_fraction": 0.05, "train.batch_size": 8, "train.epochs": 4,
    "train.tensorboard": False, "teach.n_buffer": 1, "teach.begin": 0.5, "device": "cpu",
}  # fmt: skip


@pytest.fixture(scope="module")
def weights(tmp_path_factory) -> Path:
    """As if another training on seven classes had left them."""
    return saved(tmp_path_factory.mktemp("weights"), 7)


def saved(folder: Path, classes: int) -> Path:
    torch.manual_seed(0)
    save_file(models.create("cnn-4", classes).state_dict(), folder / "earlier.safetensors")
    return folder / "earlier.safetensors"


def tiny(weights: Path, **changed: Any) -> Config:
    return small.settings({**TINY, "model.weights": str(weights)}, changed)


def train(config: Config) -> dict[str, Any]:
    return small.train(config, tests=20)


def epoch(trainer: Trainer) -> None:
    trainer.train_epoch(TrainingDisplay(trainer.total_steps))


def copy(network: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in network.state_dict().items()}


def changed(network: torch.nn.Module, before: dict[str, torch.Tensor]) -> set[str]:
    return {name for name, value in network.state_dict().items() if not torch.equal(value, before[name])}


def test_target_and_teacher_begin_with_the_weights(weights, capsys):
    trainer = build.build(tiny(weights))
    given = read_weights(str(weights))
    for network in (trainer.target, trainer.strategy.teacher.model):
        assert torch.equal(network.state_dict()["features.0.0.weight"], given["features.0.0.weight"])
    assert "(10 classes, 7 in the file)" in capsys.readouterr().err
    line = build.describe(trainer, Path("somewhere"))
    assert f"fine-tuned from {weights}" in line and "lr 0.0005 (adamw)" in line


def test_a_frozen_backbone_stays_as_it_is_and_then_learns(weights):
    trainer = build.build(tiny(weights, optim__freeze=1, augment__strategy="none"))
    before = copy(trainer.target)
    epoch(trainer)
    assert changed(trainer.target, before) == {"head.weight", "head.bias"}
    epoch(trainer)
    assert changed(trainer.target, before) >= {"features.0.0.weight", "features.0.1.running_mean", "head.weight"}


def test_a_backbone_frozen_for_good(weights):
    trainer = build.build(tiny(weights, optim__freeze=-1, augment__strategy="none"))
    before = copy(trainer.target)
    for _ in range(2):
        epoch(trainer)
    assert changed(trainer.target, before) == {"head.weight", "head.bias"}


def test_frozen_batch_norm(weights):
    trainer = build.build(tiny(weights, optim__freeze_norm=True, augment__strategy="none"))
    before = copy(trainer.target)
    epoch(trainer)
    expected = {f"features.{k}.0.weight" for k in (0, 2, 4, 6)} | {"head.weight", "head.bias"}
    assert changed(trainer.target, before) == expected


def test_learned_augmentation_waits_until_the_head_is_fitted(weights):
    trainer = build.build(tiny(weights, teach__begin=0.25))
    teach = trainer.strategy.teach
    augmenter, teacher = copy(teach.augmenter), copy(teach.teacher.model)
    epoch(trainer)
    assert changed(teach.augmenter, augmenter) == set() and len(teach.replay) == 0
    assert "head.weight" in changed(teach.teacher.model, teacher)
    image = next(trainer.batches("train"))
    assert torch.equal(trainer.strategy.augment(image).image, image.image)
    epoch(trainer)
    assert changed(teach.augmenter, augmenter) and len(teach.replay) == 1


class Stopped(Exception):
    pass


@pytest.mark.parametrize("stop_at", [7, 12])
def test_a_resumed_run_equals_the_uninterrupted_one(weights, tmp_path, monkeypatch, stop_at):
    own = {"optim__freeze": 2, "optim__layer_decay": 0.8, "optim__backbone_lr": 0.5, "train__patience": 3}
    train(tiny(weights, output=str(tmp_path / "whole"), **own))
    config, step = tiny(weights, output=str(tmp_path / "run"), **own), Trainer.train_step

    def stops(self: Trainer, *arguments: Any) -> Any:
        if self.step == stop_at:
            raise Stopped
        return step(self, *arguments)

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(Trainer, "train_step", stops)
        train(config)
    small.go_on(config, tmp_path / "run", tests=20)
    first, second = (checkpoint.load(tmp_path / name / checkpoint.LAST) for name in ("whole", "run"))
    tensors = [dict(tensors_in(state)) for state in (first, second)]
    assert tensors[0].keys() == tensors[1].keys() and any("exp_avg" in name for name in tensors[0])
    assert [name for name, value in tensors[0].items() if not torch.equal(value, tensors[1][name])] == []
    assert (first["best"], first["epoch"]) == (second["best"], second["epoch"])
    assert first["optimizer"]["param_groups"] == second["optimizer"]["param_groups"]
    metrics = [(tmp_path / name / directory.METRICS).read_text() for name in ("whole", "run")]
    assert metrics[0] == metrics[1]


def test_patience_ends_a_run_that_gets_no_better(tmp_path):
    path, weights = tmp_path / "run", saved(tmp_path, 10)  # with a head for these classes: predictions stay as they are
    config = tiny(weights, output=str(path), train__epochs=9, train__patience=2, optim__lr=1e-20, optim__freeze=-1)
    metrics = train(config)
    assert metrics["epoch"] == 3 and metrics["best"]["highest_epoch"] == 1  # all are equal, and the last one is kept
    assert metrics["best"]["epoch"] == 3
    events = [json.loads(line)["event"] for line in (path / directory.LOG).read_text().splitlines()]
    assert events == ["start", "epoch", "epoch", "epoch", "end"]
    assert checkpoint.load(path / checkpoint.LAST)["epoch"] == 3
    trainer, _ = restore.resume(config, path)
    assert "2 evaluations without a better one than that of epoch 1" in out_of_patience(trainer)


def test_patience_needs_a_validation_split(weights):
    with pytest.raises(UserError, match=r"--patience waits .* add --val-fraction"):
        build.build(tiny(weights, train__patience=2, data__val_fraction=0))


def test_the_teacher_may_be_chosen(weights):
    trainer = build.build(tiny(weights))

    def noted(at: int, target: float, teacher: float) -> bool:
        trainer.epoch = at
        return note_best(trainer, {"val": {"target": {"accuracy": target}, "teacher": {"accuracy": teacher}}})

    def chosen() -> tuple[int, str, float]:
        return trainer.best["epoch"], trainer.best["model"], trainer.best["accuracy"]

    assert noted(1, 0.5, 0.6) and chosen() == (1, "teacher", 0.6)
    assert not noted(2, 0.1, 0.0)
    assert noted(3, 0.7, 0.7) and chosen() == (3, "target", 0.7)


@pytest.mark.parametrize(("images", "kept"), [(100, 3), (10_000, 1)])
def test_of_epochs_that_chance_may_tell_apart_the_last_is_kept(weights, images, kept):
    trainer = build.build(tiny(weights))
    trainer.data.val = trainer.data.val.select(torch.zeros(images, dtype=torch.long))
    for epoch, accuracy in enumerate([0.90, 0.85, 0.88, 0.86], 1):  # of 100 images 3 points are chance, of 10,000 0.3
        trainer.epoch = epoch
        note_best(trainer, {"val": {"target": {"accuracy": accuracy}}})
    assert trainer.best["epoch"] == kept and trainer.best["highest_epoch"] == 1


def test_images_are_read_as_those_of_the_pretraining(weights, tmp_path):
    pytest.importorskip("timm")
    from teachaugment.tasks.classification.task import Classification

    name = {"model__name": "timm/tf_efficientnet_lite0", "data__path": str(tmp_path), "data__size": None}
    d = Classification.settle(tiny(weights, **name)).data
    assert (d.size, d.mean, d.std, d.centre, d.interpolation) == (224, (0.5,) * 3, (0.5,) * 3, 0.875, "bicubic")
    said = {"data__size": 64, "data__mean": "0.1,0.2,0.3", "data__std": "1,1,1", "data__centre": 1}
    d = Classification.settle(tiny(weights, **{**name, **said})).data
    assert (d.size, d.mean, d.centre) == (64, (0.1, 0.2, 0.3), 1)
    d = Classification.settle(tiny(weights, **{**name, "data__path": "shapes"})).data
    assert d.size is None and d.mean == (0.5,) * 3
    d = Classification.settle(tiny(weights, **{**name, "model__weights": None})).data
    assert d.size is None and d.mean == ()
