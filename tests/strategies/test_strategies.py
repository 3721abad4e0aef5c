"""Strategies by name, copies of a batch, mixing, and consistency regularisation, as a run has them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import small
import torch
from torch import Tensor, nn

from teachaugment.batch import Batch
from teachaugment.config.resolve import SETTINGS, Config
from teachaugment.config.sections import AugmentConfig
from teachaugment.data.folder import FolderSource
from teachaugment.data.splits import DataSet
from teachaugment.data.streamed import StreamedSplit
from teachaugment.engine import build, checkpoint, directory, restore
from teachaugment.engine.display import TrainingDisplay
from teachaugment.engine.run import run
from teachaugment.engine.trainer import Trainer
from teachaugment.errors import UserError
from teachaugment.strategies import STRATEGIES
from teachaugment.strategies.consistency import DISTANCES
from teachaugment.strategies.fixed import EachView, fixed_augmentation
from teachaugment.strategies.searched import OnSchedule
from teachaugment.strategies.strategy import Setup, Strategy

TINY = {
    "data.size": 8, "data.per_class": 2, "train.batch_size": 10, "train.epochs": 2, "train.eval_every": 2,
    "train.tensorboard": False, "teach.n_inner": 2, "teach.n_buffer": 1, "device": "cpu",
}  # fmt: skip


def tiny(**changed: Any) -> Config:
    return small.settings(TINY, changed)


@pytest.fixture(scope="module")
def shapes() -> DataSet:
    data = build.load_data(tiny())
    return replace(data, test=data.test.select(torch.arange(40)))


@pytest.fixture(autouse=True)
def few_images(shapes, monkeypatch):
    """Generated once for all tests, and evaluated on 40 images."""
    monkeypatch.setattr(build, "load_data", lambda config, training=True: replace(shapes))


def trainer(**changed: Any) -> Trainer:
    return build.build(tiny(**changed))


PURE = {  # one step of the target is its gradient
    "optim__lr": 1.0, "optim__momentum": 0, "optim__nesterov": False, "optim__weight_decay": 0,
    "optim__warmup_epochs": 0, "optim__schedule": "constant",
}  # fmt: skip


def weights(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def first_batch(made: Trainer) -> Batch:
    return next(made.batches("train", training=True))


# --- names -------------------------------------------------------------------------------------------------------


def test_every_strategy_of_the_configuration_can_be_built():
    assert SETTINGS["augment.strategy"].metadata["choices"] is STRATEGIES
    for name in STRATEGIES:
        assert callable(STRATEGIES.load(name))


def strategy_of(name: str, data: DataSet, **settings: Any) -> Strategy:
    """A strategy that needs nothing but settings and data."""
    config = replace(tiny(), augment=AugmentConfig(strategy=name, **settings))
    made = trainer()
    return STRATEGIES.load(name)(
        Setup(config, data, made.task, made.target, made.device, lambda _: made.target, made.finite)
    )


def transform_of(strategy: Strategy) -> Any:
    """torchvision's transform inside."""
    assert isinstance(strategy, EachView)
    return strategy.function.transform


def fixed(dataset: Any = None, **settings: Any) -> tuple[Any, ...]:
    """Flip, crop, Cutout, jitter and lighting under these settings, on images of 8 pixels."""
    made, _ = fixed_augmentation(AugmentConfig(**settings), dataset or trainer().data)
    return made.flip, made.crop, made.cutout, made.jitter, made.lighting


def test_the_names_of_the_fixed_augmentation():
    given = {"flip": False, "crop": 3, "cutout": 5, "jitter": 0.4, "lighting": 0.1}
    for name in ("none", "teachaugment", "randaugment"):
        assert fixed(strategy=name, **given) == (False, 3, 5, 0.4, 0.1)  # as before there were such names
    assert fixed(strategy="unaugmented", **given) == (False, 0, 0, 0.0, 0.0)
    assert fixed(strategy="crop-flip", **given) == (True, 3, 0, 0.4, 0.1)
    assert fixed(strategy="cutout", **given) == (True, 3, 5, 0.4, 0.1)
    assert fixed(strategy="crop-flip", crop=0) == (True, 1, 0, 0.0, 0.0)
    assert fixed(strategy="cutout", crop=0, cutout=0) == (True, 1, 4, 0.0, 0.0)


def test_images_that_are_cropped_while_decoding_are_not_cropped_again_and_unaugmented_ones_not_at_all(tmp_path):
    split = StreamedSplit(FolderSource(["a.png"], torch.tensor([0]), tmp_path), (64, 64), area=0.2)
    dataset = replace(trainer().data, train=split, size=(64, 64))
    assert fixed(dataset, strategy="crop-flip", crop=0)[1] == 0
    assert fixed(dataset, strategy="cutout", crop=0)[1:3] == (0, 32)
    _, plain = fixed_augmentation(AugmentConfig(strategy="unaugmented"), dataset)
    assert plain.train.cropped is False and dataset.train.cropped is True


def test_a_run_remembers_the_settings_that_it_was_given():
    made = trainer(augment__strategy="cutout", augment__crop=0)
    assert made.task.cutout == 4 and made.config.augment.cutout == 0


def test_autoaugment_goes_by_the_size_of_the_images():
    def policies(size: int, name: str = "autoaugment") -> Any:
        return transform_of(strategy_of(name, replace(data, size=(size, size))))._policies

    data = trainer().data
    assert policies(32) == policies(64) == policies(224, "autoaugment-cifar10")
    assert policies(65) == policies(224) == policies(32, "autoaugment-imagenet") != policies(32)


def test_torchvisions_strategies_refuse_images_of_two_channels_in_one_line():
    data = replace(trainer().data, channels=2)
    names = [name for name, entry in STRATEGIES.items() if entry.where.startswith(("published", "searched"))]
    assert len(names) == 7
    for name in names:
        with pytest.raises(UserError, match=f"--strategy .*{name.split('-')[0]}.* needs images of 1 or 3 channels"):
            strategy_of(name, data, policy_file="x.json")


def test_randaugment_takes_its_two_numbers():
    strategy = trainer(augment__strategy="randaugment", augment__num_ops=1, augment__magnitude=5).strategy
    assert (transform_of(strategy).num_ops, transform_of(strategy).magnitude) == (1, 5)


@pytest.mark.parametrize("name", sorted(STRATEGIES.keys() - {"policy-file", "policy", "teachaugment"}))
def test_every_strategy_trains_and_is_reproducible(name):
    losses = []
    for _ in range(2):
        torch.manual_seed(len(losses))
        made = trainer(augment__strategy=name)
        losses.append(made.train_epoch(TrainingDisplay(made.total_steps))["train"])
    assert losses[0] == losses[1]


# --- policy files ------------------------------------------------------------------------------------------------


def test_a_policy_file_trains_and_is_not_needed_to_evaluate(tmp_path):
    file, path = tmp_path / "p.json", tmp_path / "run"
    file.write_text(json.dumps([[["Rotate", 0.9, 0.9]], [["Invert", 0.5, 0.5]]]))
    config = tiny(augment__strategy="policy-file", augment__policy_file=str(file), output=str(path))
    metrics = run(build.build(config), directory.create_run(config))
    file.unlink()
    again = restore.evaluate_run(config, path, "last", None)
    assert again["test"]["target"]["accuracy"] == metrics["test"]["target"]["accuracy"]


def test_a_schedule_is_told_the_share_of_the_training_that_is_done(tmp_path, monkeypatch):
    file = tmp_path / "s.txt"
    file.write_text(repr(["1", "0", 5, 100, [0] * 60, [10, 5] * 30]))
    made = trainer(augment__strategy="policy-file", augment__policy_file=f"{file}#200", train__epochs=4)
    told: list[float] = []
    at = OnSchedule.at
    monkeypatch.setattr(OnSchedule, "at", lambda self, progress: told.append(progress) or at(self, progress))
    probabilities = []
    for _ in range(4):
        made.train_epoch(TrainingDisplay(made.total_steps))
        probabilities.append(made.strategy.transform.operations[0].probability)
    assert told == [0, 0.25, 0.5, 0.75] and probabilities == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"augment__strategy": "policy-file"}, "needs --augment.policy_file FILE"),
        ({"augment__copies": 0}, "--augment.copies must be a whole number of at least 1"),
        ({"augment__mix": "mixup", "augment__mix_alpha": 0}, "--augment.mix_alpha must be a number above 0"),
        ({"augment__mix": "mixp"}, "did you mean 'mixup'"),
        ({"augment__magnitude": 31}, "at most 30"),
        ({"teach__objective": "adversaril"}, "did you mean 'adversarial'"),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(changed, says):
    with pytest.raises(UserError, match=says) as error:
        tiny(**changed)
    assert "\n" not in str(error.value)


# --- copies ------------------------------------------------------------------------------------------------------


class Plain(nn.Module):
    """Without batch norm and dropout: the gradient of a mean is the mean of the gradients."""

    def __init__(self, classes: int, channels: int = 3):
        super().__init__()
        self.linear = nn.Linear(channels * 64, classes)

    def forward(self, image: Tensor) -> Tensor:
        return self.linear(image.flatten(1))


@pytest.fixture
def plain(monkeypatch):
    monkeypatch.setattr("teachaugment.models.create", lambda name, classes, channels, *rest: Plain(classes, channels))


@pytest.mark.parametrize("strategy", ["none", "teachaugment", "trivialaugment"])
def test_the_loss_of_copies_is_the_mean_over_independent_draws(plain, strategy, monkeypatch):
    made = trainer(augment__strategy=strategy, augment__copies=3, **PURE)
    seen: list[Batch] = []
    forward = made.task.forward
    monkeypatch.setattr(made.task, "forward", lambda network, batch: seen.append(batch) or forward(network, batch))
    batch, before = first_batch(made), weights(made.target)
    start = Plain(10)
    start.load_state_dict(made.target.state_dict())
    meter = made.task.meter(made.device)
    made.train_step(batch, meter)
    assert len(seen) == 3 and meter.compute()["images"] == 30
    assert not torch.equal(seen[0].image, seen[1].image) and not torch.equal(seen[1].image, seen[2].image)
    assert all(torch.equal(copy.label, batch.label) for copy in seen)
    loss = sum(nn.functional.cross_entropy(start(copy.image), copy.label) for copy in seen) / 3
    loss.backward()
    step = torch.cat([p.grad.flatten() for p in start.parameters()])
    torch.testing.assert_close(before - weights(made.target), step)


def test_copies_are_reproducible_and_one_copy_is_what_there_was():
    runs = []
    for copies in (1, 1, 2, 2):
        made = trainer(augment__copies=copies)
        made.train_epoch(TrainingDisplay(made.total_steps))
        runs.append(weights(made.target))
    assert torch.equal(runs[0], runs[1]) and torch.equal(runs[2], runs[3]) and not torch.equal(runs[0], runs[2])


def test_the_augmenter_sees_each_batch_once_whatever_the_copies(monkeypatch):
    made, seen = trainer(augment__copies=3, teach__n_inner=1), []
    step = made.strategy.step
    monkeypatch.setattr(made.strategy, "step", lambda batch: seen.append(len(batch)) or step(batch))
    made.train_epoch(TrainingDisplay(made.total_steps))
    assert seen == [10, 10]


# --- mixing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mixup", "cutmix"])
@pytest.mark.parametrize("strategy", ["none", "teachaugment", "augmix"])
def test_mixing_on_top_of_a_strategy(name, strategy, monkeypatch):
    made = trainer(augment__strategy=strategy, augment__mix=name)
    seen: list[Any] = []
    loss_of = made.task.loss
    monkeypatch.setattr(made.task, "loss", lambda *given: (loss := loss_of(*given), seen.append((loss, *given)))[0])
    record = made.train_epoch(TrainingDisplay(made.total_steps))
    loss, output, batch = seen[-1]
    assert batch.label.shape == (10, 10)
    by_hand = -(batch.label * output.log_softmax(1)).sum(1).mean()
    assert loss.item() == pytest.approx(by_hand.item(), rel=1e-5)
    assert 0 <= record["train"]["accuracy"] <= 1
    assert made.evaluate("test")["target"]["images"] == 40


def test_mixing_is_part_of_the_targets_update_only():
    made = trainer(augment__mix="mixup", teach__n_inner=1)
    batch = first_batch(made)
    measured = made.train_step(batch, made.task.meter(made.device))
    assert measured is not None and all(value.isfinite() for value in measured.values())
    assert batch.label is not None and batch.label.dtype == torch.int64


def test_training_accuracy_on_mixed_images_goes_by_the_larger_part():
    made = trainer(augment__strategy="none")
    meter = made.task.meter(made.device)
    label = torch.zeros(2, 10)
    label[0, 3], label[0, 4], label[1, 3], label[1, 4] = 0.7, 0.3, 0.2, 0.8
    output = 9.0 * torch.eye(10)[[3, 3]]
    meter.update(output, Batch(torch.zeros(2, 3, 8, 8), label), torch.tensor(0.5))
    assert meter.compute()["accuracy"] == 0.5 and meter.compute()["loss"] == 0.5


# --- consistency regularisation ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DISTANCES)
def test_the_targets_loss_is_its_own_and_the_distance_to_the_teacher(plain, name, monkeypatch):
    made = trainer(augment__strategy=name, **PURE)
    teacher = made.strategy.teacher.model
    with torch.no_grad():
        teacher.linear.weight.add_(torch.randn_like(teacher.linear.weight))
    seen: list[Batch] = []
    forward = made.task.forward
    monkeypatch.setattr(made.task, "forward", lambda network, batch: seen.append(batch) or forward(network, batch))
    start, kept = Plain(10), weights(teacher)
    start.load_state_dict(made.target.state_dict())
    before = weights(made.target)
    monkeypatch.setattr(made.strategy, "step", lambda batch: None)
    meter = made.task.meter(made.device)
    made.train_step(first_batch(made), meter)
    output = start(seen[0].image)
    expected = teacher(seen[0].image)
    loss = nn.functional.cross_entropy(output, seen[0].label) + DISTANCES[name](output, expected)
    loss.backward()
    torch.testing.assert_close(before - weights(made.target), torch.cat([p.grad.flatten() for p in start.parameters()]))
    assert meter.compute()["loss"] == pytest.approx(loss.item(), rel=1e-5)
    assert torch.equal(weights(teacher), kept) and all(p.grad is None for p in teacher.parameters())


@pytest.mark.parametrize("name", DISTANCES)
def test_a_resumed_consistency_run_equals_the_uninterrupted_one(name, tmp_path, monkeypatch):
    def start(path: Path) -> dict[str, Any]:
        config = tiny(augment__strategy=name, output=str(path), train__epochs=3)
        return run(build.build(config), directory.create_run(config))

    whole = start(tmp_path / "whole")
    assert whole["test"].keys() == {"target", "teacher"} and "probabilities" not in whole
    step = Trainer.train_step

    def stops(self: Trainer, *arguments: Any) -> Any:
        if self.step == 3:
            raise KeyboardInterrupt
        return step(self, *arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Trainer, "train_step", stops)
        start(tmp_path / "stopped")
    made, path = restore.resume(
        tiny(augment__strategy=name, output=str(tmp_path / "stopped"), train__epochs=3), tmp_path / "stopped"
    )
    assert made.step == 2
    run(made, path)
    states = [checkpoint.load(tmp_path / name / checkpoint.LAST) for name in ("whole", "stopped")]
    for part in ("target", "consistency"):
        first, second = (torch.utils._pytree.tree_leaves(state[part]) for state in states)
        assert len(first) == len(second) > 0
        assert all(torch.equal(torch.as_tensor(a), torch.as_tensor(b)) for a, b in zip(first, second, strict=True))
    files = [(tmp_path / name / directory.METRICS).read_bytes() for name in ("whole", "stopped")]
    assert files[0] == files[1]
    again = restore.evaluate_run(tiny(augment__strategy=name), tmp_path / "whole", "last", None)
    assert again["test"]["teacher"]["accuracy"] == whole["test"]["teacher"]["accuracy"]


def test_consistency_with_a_pretrained_teacher_is_distillation(tmp_path):
    config = tiny(augment__strategy="none", output=str(tmp_path / "run"))
    run(build.build(config), directory.create_run(config))
    made = trainer(augment__strategy="consistency-kld", teach__teacher=str(tmp_path / "run"))
    teacher = made.strategy.teacher.model
    before = weights(teacher)
    made.train_epoch(TrainingDisplay(made.total_steps))
    assert torch.equal(weights(teacher), before) and not torch.equal(weights(made.target), before)


def test_consistency_in_half_precision():
    made = trainer(augment__strategy="consistency-mse", train__amp="bf16")
    record = made.train_epoch(TrainingDisplay(made.total_steps))
    assert torch.isfinite(torch.tensor(record["train"]["loss"]))
    assert made.evaluate("test").keys() == {"target", "teacher"}
