from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from teachaugment import presets
from teachaugment.commands.compare.comparisons import COMPARISONS, entries, find
from teachaugment.commands.compare.old_rows import read_words
from teachaugment.commands.compare.plan import BASE, configure, identity, plan, shared_settings, split_strategies, words
from teachaugment.config.flags import given_layers
from teachaugment.config.resolve import Config, Layer, resolve
from teachaugment.engine.build import build
from teachaugment.errors import UserError


def shared(*flags: str) -> Layer:
    return shared_settings(read_words(flags))


TINY = shared("--data.size", "8", "--data.per_class", "2", "--batch-size", "8", "--epochs", "1", "--device", "cpu")


def one(strategy: str, seed: int = 0, *flags: str) -> str:
    return identity(configure(shared(*flags), strategy, seed))


def test_for_one_seed_weights_and_data_order_are_the_same_and_for_another_they_are_not():
    runs = plan(TINY, ["none", "teachaugment", "trivialaugment"], [3, 4], Path("out"))
    trainers = [build(replace(run.config, output=None)) for run in runs]
    assert [(run.strategy, run.seed) for run in runs[:4]] == [
        ("none", 3), ("teachaugment", 3), ("trivialaugment", 3), ("none", 4)
    ]  # fmt: skip
    weights = [trainer.target.state_dict() for trainer in trainers]
    orders = [torch.cat([batch.index for batch in trainer.batches("train", training=True)]) for trainer in trainers]
    for other in (1, 2):
        assert all(torch.equal(weights[0][name], weights[other][name]) for name in weights[0])
        assert torch.equal(orders[0], orders[other])
    assert not torch.equal(orders[0], orders[3])
    assert not all(torch.equal(weights[0][name], weights[3][name]) for name in weights[0])


def test_runs_of_one_seed_differ_in_what_their_strategy_sets_and_in_nothing_else():
    given = shared("--epochs", "7", "--lr", "0.05")
    first, second = (configure(given, strategy, 2) for strategy in ("none", "teachaugment:teach.n_inner=1:lr=0.2"))
    assert (second.augment.strategy, second.teach.n_inner, second.optim.lr) == ("teachaugment", 1, 0.2)
    same = replace(second, augment=first.augment, teach=first.teach, optim=first.optim)
    assert same == first and first.train.epochs == 7 and first.seed == 2


def test_a_run_is_known_by_its_settings_and_not_by_how_they_were_written():
    assert one("teachaugment:teach.n_inner=1") == one("teachaugment", 0, "--teach.n-inner", "1")
    assert one("teachaugment:teach.n_inner=5") == one("teachaugment")  # the default
    assert one("none", 0, "--device", "cpu", "--workers", "2") == one("none")
    assert len({one("none"), one("none", 1), one("teachaugment"), one("none", 0, "--epochs", "9")}) == 4


@pytest.mark.parametrize(
    "flags",
    [
        (
            "--optim.schedule",
            "step",
            "--optim.milestones",
            "3,6",
            "--optim.nesterov",
            "false",
            "--teach.fraction",
            "0.5",
        ),
        ("--task", "segmentation"),
        ("--task", "segmentation", "--epochs", "40", "--augment.crop", "4"),  # the defaults of another task
        ("--task", "simsiam", "--train.tensorboard", "true", "--views.grey", "0.2"),
        ("--task", "byol", "--data", "photos", "--optim.nesterov", "true"),
    ],
)
def test_the_flags_of_a_run_make_its_configuration_again(flags):
    config = configure(shared(*flags), "teachaugment", 1)
    assert config.task == resolve(*read_words(flags)).task
    assert resolve(*read_words(words(config))) == config


def test_a_run_gets_no_flags_that_its_strategy_has_no_use_for():
    both = shared("--optim.nesterov", "false", "--teach.fraction", "0.5")
    assert any("teach.fraction" in word for word in words(configure(both, "teachaugment", 1)))
    for strategy in ("none", "adaptive"):
        found = words(configure(both, strategy, 1))
        assert any("optim.nesterov" in word for word in found) and not any("teach." in word for word in found)


def test_shared_settings_are_what_was_said_as_plain_data(tmp_path):
    (tmp_path / "my.yaml").write_text("train: {epochs: 5}\noptim: {milestones: [2, 4], nesterov: false}\n")
    layers = given_layers("cifar10-small", str(tmp_path / "my.yaml"), {"optim.lr": ("--lr", "0.2")})
    found = shared_settings(layers).values
    assert (
        found.items() >= {"train.epochs": 5, "optim.nesterov": False, "optim.lr": 0.2, "model.name": "wrn-16-1"}.items()
    )
    assert found["optim.milestones"] == [2, 4] and json.loads(json.dumps(found)) == found
    assert not {"seed", "output", "augment.strategy"} & found.keys()
    written = Layer(found, {key: key for key in found})
    assert configure(written, "none", 3) == resolve(*layers, layer(augment__strategy="none", seed=3))
    assert shared("--task", "segmentation", "--epochs", "20").values == {
        "task": "segmentation",
        "train.epochs": 20,
    }


def test_what_was_said_is_kept_even_where_it_is_the_default():
    """Another version may have another default: a row of this one must go on saying what it was."""
    assert shared("--teach.color_weight", "10", "--teach.context", "hidden").values == {
        "teach.color_weight": 10.0,
        "teach.context": "hidden",
    }


def test_a_message_about_a_shared_setting_names_the_flag_that_gave_it():
    with pytest.raises(UserError, match=r"^--optim.milestones must end before the last epoch \(9\)"):
        configure(shared("--optim.milestones", "20"), "none:epochs=9", 0)


def layer(**values: object) -> Layer:
    flat = {key.replace("__", "."): value for key, value in values.items()}
    return Layer(flat, {key: key for key in flat})


def test_every_run_has_a_directory_of_its_own():
    runs = plan(TINY, ["none", "none:lr=0.2", "teachaugment:teach.n_inner=1"], range(3), Path("out"))
    assert len({run.path for run in runs}) == 9
    assert all(run.path.parent == Path("out/runs") and ":" not in run.path.name for run in runs)


def test_a_teacher_is_trained_first_and_the_baseline_may_be_it():
    runs = plan(TINY, ["teachaugment:teacher=@cnn-4", "none", "teachaugment:teacher=@wrn-16-1"], [5], Path("out"))
    assert [run.strategy for run in runs] == [
        "none", "teachaugment:teacher=@cnn-4", "none:model.name=wrn-16-1", "teachaugment:teacher=@wrn-16-1"
    ]  # fmt: skip
    assert [run.needs for run in runs] == [None, runs[0], None, runs[2]] and runs[2].config.model.name == "wrn-16-1"


def test_a_teacher_of_the_paper_is_trained_with_the_numbers_of_its_own_network():
    def teacher(preset: str, network: str, **changed: object) -> Config:
        shared = shared_settings([BASE, presets.layer(preset), layer(**changed)])
        return plan(shared, [f"teachaugment:teacher=@{network}"], [0], Path("out"))[0].config

    wide = teacher("cifar100-wrn-40-2", "wrn-28-10")
    own = resolve(presets.layer("cifar100-wrn-28-10"))
    assert wide.model == own.model and wide.augment == replace(own.augment, strategy="none")
    assert wide.optim == own.optim and wide.optim.weight_decay == 5e-4
    assert (wide.train.epochs, wide.train.batch_size) == (200, 128)
    pyramid = teacher("cifar10-wrn-40-2", "pyramidnet-272-200")
    assert pyramid.optim == resolve(presets.layer("cifar10-pyramidnet-272-200")).optim
    assert (pyramid.train.epochs, pyramid.train.batch_size) == (1800, 64)
    # What was asked for is kept, and a network without numbers of its own has those of the one it teaches.
    short = teacher("cifar10-wrn-40-2", "wrn-28-10", train__epochs=10, optim__weight_decay=1e-3)
    assert (short.train.epochs, short.optim.weight_decay) == (10, 1e-3)
    assert teacher("cifar10-wrn-40-2", "wrn-16-2").optim.weight_decay == 2e-4


@pytest.mark.parametrize(
    ("strategies", "says"),
    [
        ("none,teachaugmnt", "did you mean 'teachaugment'?"),
        ("none,teachaugment:teach.n_iner=1", "did you mean 'teach.n_inner'?"),
        ("none,teachaugment:n_inner", "must be a setting such as teach.n_inner=1"),
        ("none,teachaugment:teach.n_inner=0", "teach.n_inner must be a whole number of at least 1, not '0'"),
        ("teachaugment,teachaugment:teach.n_inner=5", "have the same settings"),
        ("none,none", "has none twice"),
        (",", "must name strategies"),
    ],
)
def test_a_wrong_strategy_gets_one_line(strategies, says):
    with pytest.raises(UserError) as error:
        plan(TINY, split_strategies(strategies), [0], Path("out"))
    assert says in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("name", COMPARISONS)
def test_a_named_comparison_makes_runs_that_differ(name):
    found = entries(find(name), "cnn-4", "wrn-16-1" if name == "teachers" else None)
    settings = shared("--task", "detection") if name == "detection" else TINY
    runs = plan(settings, [entry.strategy for entry in found], [0, 1], Path("out"))
    assert len({run.key for run in runs}) == len(runs) >= 2 * len(found)
    assert len({entry.label for entry in found}) == len(found)


def test_a_comparison_that_is_not_known_or_lacks_something_gets_one_line():
    with pytest.raises(UserError, match="did you mean 'teachers'"):
        find("teacher")
    with pytest.raises(UserError, match="--stronger"):
        entries(find("teachers"), "cnn-4", None)
    with pytest.raises(UserError, match="another network"):
        entries(find("teachers"), "cnn-4", "cnn-4")
