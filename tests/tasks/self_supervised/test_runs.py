"""Whole runs without labels, as small as they can be: every method, every strategy, resumed and evaluated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import small
import torch

from teachaugment.commands.cli import main
from teachaugment.config.resolve import Config
from teachaugment.engine import build, checkpoint, directory, restore
from teachaugment.engine.run import run
from teachaugment.engine.trainer import Trainer
from teachaugment.errors import UserError
from teachaugment.policy.load import load_policy

TINY = {
    "task": "simsiam", "data.size": 8, "data.per_class": 3, "train.batch_size": 8, "train.epochs": 3,
    "train.eval_every": 3, "train.tensorboard": False, "teach.n_inner": 2, "device": "cpu", "views.dim": 8,
    "views.hidden": 4, "views.queue": 16,
}  # fmt: skip


def tiny(**changed: Any) -> Config:
    own = TINY if changed.get("task") != "classification" else {k: v for k, v in TINY.items() if "views." not in k}
    return small.settings(own, changed)


def few_tests(trainer: Trainer) -> Trainer:
    return small.few_tests(trainer, 50)


def train(path: Path, **changed: Any) -> dict[str, Any]:
    return small.train(tiny(output=str(path), **changed), tests=50)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


@pytest.fixture(scope="module")
def simsiam(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "simsiam"
    train(path)
    return path


def test_a_run_leaves_two_policies_and_says_how_good_the_features_are(simsiam):
    metrics = json.loads((simsiam / directory.METRICS).read_text())
    assert metrics["test"].keys() == {"target", "teacher"}
    assert 0 <= metrics["test"]["target"]["knn"] <= 1 and metrics["test"]["target"]["images"] == 50
    images = torch.rand(3, 3, 8, 8)
    for name in (directory.POLICY, directory.SECOND_POLICY):
        assert load_policy(simsiam / name)(images).shape == images.shape
    lines = [json.loads(line) for line in (simsiam / directory.LOG).read_text().splitlines()]
    epoch = lines[1]
    assert {"loss", "spread", "rank"} <= epoch["train"].keys() and "knn" in lines[3]["test"]["target"]
    assert {"objective", "p_color_1", "p_geometric_2"} <= epoch["teach"].keys()


class Stopped(Exception):
    pass


@pytest.mark.parametrize("task", ["simsiam", "byol", "moco"])
def test_a_resumed_run_equals_the_uninterrupted_one(task, tmp_path, monkeypatch):
    step = Trainer.train_step

    def stops(self: Trainer, *arguments: Any) -> Any:
        if self.step == 7:
            raise Stopped
        return step(self, *arguments)

    whole, part = tmp_path / "whole", tmp_path / "part"
    train(whole, task=task)
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(Trainer, "train_step", stops)
        train(part, task=task)
    torch.manual_seed(99)
    trainer, _ = restore.resume(tiny(output=str(part), task=task), part)
    assert trainer.epoch == 2
    run(few_tests(trainer), part)
    first, second = (checkpoint.load(path / checkpoint.LAST) for path in (whole, part))
    for state in (first, second):
        del state["config"]["output"]
    assert same(first, second)
    assert (whole / directory.METRICS).read_bytes() == (part / directory.METRICS).read_bytes()


@pytest.mark.parametrize("strategy", ["none", "trivialaugment", "randaugment"])
def test_fixed_strategies_come_on_top_of_the_views(strategy, tmp_path):
    metrics = train(tmp_path / "run", augment__strategy=strategy, train__epochs=1)
    assert metrics["test"].keys() == {"target"} and "probabilities" not in metrics


def test_each_view_gets_a_draw_of_its_own():
    trainer = build.build(tiny(augment__strategy="trivialaugment"))
    image = torch.rand(32, 3, 8, 8)
    out = trainer.strategy.augment(trainer.task.before(next(trainer.batches("train")), trainer.generator))
    assert out.image.shape == out.others[0].shape
    from teachaugment.batch import Batch

    twice = trainer.strategy.augment(Batch(image, others=(image,)))
    assert not torch.equal(twice.image, twice.others[0])


def test_the_predictors_learning_rate_stays_if_asked():
    trainer = build.build(tiny(views__fixed_lr=True))
    batch = next(trainer.batches("train", training=True))
    trainer.step = trainer.total_steps - 1
    trainer.train_step(batch, trainer.task.meter(trainer.device))
    rates = {id(p): group["lr"] for group in trainer.optimizer.param_groups for p in group["params"]}
    assert {rates[id(p)] for p in trainer.target.predictor.parameters()} == {trainer.config.optim.lr}
    assert {rates[id(p)] for p in trainer.target.backbone.parameters()} == {0.0}


@pytest.mark.parametrize(("task", "zero"), [("simsiam", True), ("byol", True), ("moco", False)])
def test_residual_blocks_begin_as_in_the_methods_own_code(task, zero):
    network = build.build(tiny(task=task, model__name="torchvision/resnet18")).target.backbone
    assert network.layer1[0].bn2.weight.eq(0 if zero else 1).all() and network.layer1[0].bn1.weight.eq(1).all()


def test_a_collapse_is_said_once_in_a_run(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("teachaugment.tasks.self_supervised.neighbours.spread", lambda output: torch.tensor(0.01))
    train(tmp_path / "run", augment__strategy="none")
    assert capsys.readouterr().err.count("epoch 1: collapse: the network gives nearly the same output") == 1


@pytest.mark.parametrize("task", ["byol", "moco"])
def test_a_teacher_that_is_no_slower_than_the_methods_own_average_is_refused(task):
    with pytest.raises(UserError, match=r"teach.ema_decay must be above views.momentum \(0.99\)"):
        build.build(tiny(task=task, teach__ema_decay=0.99))


def test_settings_of_classification_are_refused():
    with pytest.raises(UserError, match=r"augment.cutout is not for simsiam"):
        build.build(tiny(augment__cutout=4))


def test_half_precision(tmp_path):
    assert train(tmp_path / "run", train__amp="bf16", train__epochs=1)["test"].keys() == {"target", "teacher"}


def test_linear_evaluation_of_a_run(simsiam, capsys):
    assert main(["linear", str(simsiam), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result == json.loads((simsiam / "linear.json").read_text())
    assert result["protocol"] == "cached" and result["test"].keys() == {"target", "teacher", "untrained"}
    assert all(0 <= r["accuracy"] <= 1 and r["images"] == 2000 for r in result["test"].values())
    assert main(["linear", str(simsiam), "--epochs", "2", "--batch-size", "16"]) == 0
    said = capsys.readouterr().out
    assert "untrained" in said and "LARS, 2 epochs, batch 16, learning rate 0.00625" in said


def test_linear_evaluation_says_what_is_wrong(simsiam, capsys):
    assert main(["linear", str(simsiam), "--protocol", "cached", "--epochs", "2"]) == 2
    assert "--epochs is for --protocol simsiam" in capsys.readouterr().err
    assert main(["linear", str(simsiam / "nowhere")]) == 2
    assert "is not a run directory" in capsys.readouterr().err


def test_the_untrained_network_has_the_runs_own_initial_weights(simsiam):
    from teachaugment.engine.features import untrained_features

    trainer, _ = restore.load_run(tiny(output=str(simsiam)), simsiam)
    start = build.build(tiny())
    for a, b in zip(untrained_features(trainer)[0].parameters(), start.target.backbone.parameters(), strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(next(trainer.target.parameters()), next(start.target.parameters()))


@pytest.mark.parametrize("task", ["simsiam", "classification"])
def test_an_exported_backbone_loads_into_torchvision_and_timm(task, tmp_path, capsys):
    import timm
    import torchvision
    from safetensors.torch import load_file

    path, file = tmp_path / "run", tmp_path / "net.safetensors"
    train(path, task=task, model__name="torchvision/resnet18", data__size=32, train__epochs=1, augment__strategy="none")
    assert main(["export", str(path), "--backbone", "--output", str(file)]) == 0
    assert "512 features" in capsys.readouterr().out
    tensors, target = load_file(file), checkpoint.load(path / checkpoint.LAST)["target"]
    ours = torchvision.models.resnet18()
    missing = ours.load_state_dict(tensors, strict=False)
    assert set(missing.missing_keys) == {"fc.weight", "fc.bias"} and not missing.unexpected_keys
    prefix = "backbone." if task == "simsiam" else ""
    assert torch.equal(ours.layer4[1].conv2.weight, target[f"{prefix}layer4.1.conv2.weight"])
    theirs = timm.create_model("resnet18", num_classes=0)
    theirs.load_state_dict(tensors)  # strict
    ours.fc = torch.nn.Identity()
    image = torch.rand(2, 3, 64, 64)
    assert torch.allclose(ours.eval()(image), theirs.eval()(image), atol=1e-4)


def test_what_cannot_be_exported_is_said(simsiam, capsys):
    assert main(["export", str(simsiam), "--backbone", "--onnx", "x.onnx"]) == 2
    assert "leave them out with --backbone" in capsys.readouterr().err
    assert main(["export", str(simsiam), "--backbone", "--output", "x.pt"]) == 2
    assert "must end in .safetensors" in capsys.readouterr().err


def test_both_policies_are_exported_and_train_others(simsiam, tmp_path, capsys):
    assert main(["export", str(simsiam), "-o", str(tmp_path / "p.safetensors")]) == 0
    assert capsys.readouterr().out.count("the policy of epoch 3") == 2
    kept = [
        load_policy(path).augmenter.state_dict() for path in (tmp_path / "p.safetensors", tmp_path / "p-2.safetensors")
    ]
    teach = checkpoint.load(simsiam / checkpoint.LAST)["teach"]
    assert same(kept, [teach["augmenter"], teach["second"]])
    metrics = train(tmp_path / "run", augment__policy=str(tmp_path / "p.safetensors"), train__epochs=1)
    assert metrics["test"].keys() == {"target"}
