"""A flag that would do nothing is refused, and a flag that is not there leads to the one that is meant."""

from __future__ import annotations

import pytest

from teachaugment.commands import cli
from teachaugment.config.resolve import Layer, resolve
from teachaugment.config.unused import check_used
from teachaugment.errors import UserError

PAPER = {"augment__strategy": "teachaugment"}


def refused(**given):
    values = {key.replace("__", "."): value for key, value in given.items()}
    layer = Layer(values, {key: f"--{key}" for key in values})
    config = resolve(layer)
    try:
        check_used(config, layer.names)
    except UserError as error:
        assert "\n" not in str(error)
        return str(error)
    return None


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"augment__strategy": "none", "teach__teacher": "runs/x"}, "--teach.teacher is not used by the strategy none"),
        ({"augment__policy": "runs/x", "teach__n_inner": 1}, "--teach.n_inner is not used by the strategy policy"),
        ({"augment__strategy": "consistency-kld", "teach__n_inner": 1}, "--teach.n_inner is not used"),
        ({"augment__num_ops": 3}, "--augment.num_ops is not used by the strategy adaptive, but by randaugment;"),
        ({"teach__n_inner": 1}, "--teach.n_inner is not used by the strategy adaptive, but by teachaugment;"),
        ({"teach__teacher": "runs/x"}, "--teach.teacher is not used by the strategy adaptive"),
        ({"optim__betas": "0.9,0.99"}, "--optim.betas does nothing here: it is for --optim.name adamw"),
        ({"optim__name": "adamw", "optim__momentum": 0.5}, "--optim.momentum does nothing here"),
        ({"optim__milestones": "3,6"}, "--optim.milestones does nothing here"),
        ({"augment__mix_alpha": 0.2}, "--augment.mix_alpha does nothing here"),
        ({**PAPER, "teach__replay": False, "teach__replay_decay": 0.5}, "--teach.replay_decay does nothing here"),
        ({**PAPER, "teach__teacher": "runs/x", "teach__ema_decay": 0.9}, "it is for the moving average"),
        (
            {"model__name": "timm/efficientnet_lite0.ra_in1k"},
            "names the pretrained weights ra_in1k, and the network would begin with random ones; add --pretrained",
        ),
    ],
)
def test_what_would_do_nothing_is_refused(given, says):
    assert says in (refused(**given) or "")


@pytest.mark.parametrize(
    "given",
    [
        {**PAPER, "teach__n_inner": 1, "teach__teacher": "runs/x"},
        {"teach__ema_decay": 0.9, "teach__ema_warmup": 1},
        {"augment__strategy": "consistency-mse", "teach__teacher": "runs/x"},
        {"augment__strategy": "randaugment", "augment__num_ops": 3},
        {"augment__strategy": "none", "teach__n_inner": 5},  # the default: nothing is lost
        {"optim__name": "adamw", "optim__betas": "0.9,0.99"},
        {"model__name": "timm/efficientnet_lite0.ra_in1k", "model__pretrained": True},
        {"augment__policy": "runs/x"},
    ],
)
def test_what_is_used_is_not(given):
    assert refused(**given) is None


def test_views_are_for_self_supervised_tasks():
    with pytest.raises(UserError, match=r"--views\.area is for simsiam; leave it out, or add --task simsiam"):
        refused(views__area=0.5)
    assert refused(views__area=0.5, task="moco") is None


@pytest.mark.parametrize(
    ("flag", "meant"),
    [
        ("--label-smoothing", "--optim.label_smoothing"),
        ("--optimizer", "--optim.name"),
        ("--weight_decay", "--optim.weight_decay"),
        ("--n-inner", "--teach.n_inner"),
        ("--learning-rate", "--lr"),
        ("--epochss", "--epochs"),
        ("--img-size", "--data.size"),
    ],
)
def test_a_flag_that_is_not_there_leads_to_the_one_that_is_meant(flag, meant, capsys):
    assert cli.main(["train", flag, "1"]) == 2
    assert f"; did you mean '{meant}'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "meant"),
    [("resnet18", "torchvision/resnet18"), ("ResNet-34", "torchvision/resnet34"), ("wrn-16-3", "wrn-16-2")],
)
def test_a_network_of_another_package_is_found_by_its_name(name, meant, capsys):
    assert cli.main(["train", "--model", name, "--device", "cpu"]) == 2
    assert f"unknown model {name!r}; did you mean {meant!r}?" in capsys.readouterr().err


def test_the_command_refuses_flags_but_not_what_a_preset_says(capsys, tmp_path):
    assert cli.main(["train", "--strategy", "none", "--teacher", "runs/x"]) == 2
    assert "--teacher is not used by the strategy none" in capsys.readouterr().err
    assert cli.main(["compare", "--strategies", "none:teach.n_inner=1,teachaugment"]) == 2
    assert "--strategies none:teach.n_inner=1: teach.n_inner is not used" in capsys.readouterr().err
    values = {"augment.strategy": "none", "teach.smoothing": 0.5}
    config = resolve(Layer(values, {key: f"preset: {key}" for key in values}))
    check_used(config, {})
