"""Strategies by name, and policy files, as a run has them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import torch

from teachaugment.config.resolve import SETTINGS
from teachaugment.config.sections import AugmentConfig
from teachaugment.data.folder import FolderSource
from teachaugment.data.splits import DataSet
from teachaugment.data.streamed import StreamedSplit
from teachaugment.engine import build, directory, restore
from teachaugment.engine.display import TrainingDisplay
from teachaugment.engine.run import run
from teachaugment.errors import UserError
from teachaugment.strategies import STRATEGIES
from teachaugment.strategies.fixed import EachView, fixed_augmentation
from teachaugment.strategies.searched import OnSchedule
from teachaugment.strategies.strategy import Setup, Strategy

from .conftest import tiny, trainer

pytestmark = pytest.mark.usefixtures("few_images")


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
    assert fixed(strategy="crop-flip", **given) == (False, 3, 0, 0.4, 0.1)  # who says no flip means it
    assert fixed(strategy="cutout", **given) == (False, 3, 5, 0.4, 0.1)
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


@pytest.mark.parametrize("name", sorted(STRATEGIES.keys() - {"policy-file", "policy", "teachaugment", "ssd"}))
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
