"""Defaults that follow from other settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from teachaugment.config.resolve import Config, Layer, changes, from_dict, resolve, to_dict
from teachaugment.errors import UserError


def made(**values: Any) -> Config:
    flat = {key.replace("__", "."): value for key, value in values.items()}
    return resolve(Layer(flat, {key: f"--{key}" for key in flat}))


@pytest.mark.parametrize("beginning", [{"model__weights": "FILE"}, {"model__pretrained": True}])
def test_weights_make_a_fine_tuning(beginning):
    config = made(**beginning)
    assert (config.optim.name, config.optim.lr, config.train.epochs, config.train.eval_every) == ("adamw", 5e-4, 30, 1)
    assert 0 < config.teach.begin < 1 and config.optim.label_smoothing > 0
    assert made(**beginning, optim__lr=0.3, train__epochs=7).optim.lr == 0.3
    assert made() == Config() and Config().optim.name == "sgd"


def test_an_optimiser_has_a_learning_rate_of_its_own():
    assert made(optim__name="adamw").optim.lr == 1e-3 and made(optim__name="adamw").train == Config().train
    assert made(optim__name="sgd", model__weights="FILE").optim.lr == 0.01
    assert made(task="segmentation", optim__name="sgd").optim.lr == 0.05


def test_a_pretrained_backbone_of_a_segmentation_network_is_no_fine_tuning():
    assert made(task="segmentation", model__pretrained=True).optim == made(task="segmentation").optim
    assert made(task="segmentation", model__weights="FILE").optim.name == "adamw"


def test_a_folder_of_photographs_gets_a_validation_split(tmp_path: Path):
    for split in ("train", "val"):
        (tmp_path / split / "cat").mkdir(parents=True)
    assert made(data__path=str(tmp_path)).data.val_fraction == 0.1
    assert made(data__path=str(tmp_path), data__val_fraction=0).data.val_fraction == 0
    assert made(data__path=str(tmp_path), task="segmentation").data.val_fraction == 0.1
    assert made(data__path=str(tmp_path), task="simsiam").data.val_fraction == 0
    (tmp_path / "test/cat").mkdir(parents=True)
    assert made(data__path=str(tmp_path)).data.val_fraction == 0
    assert made(data__path="shapes").data.val_fraction == made(data__path="cifar10").data.val_fraction == 0


def test_a_run_keeps_what_it_began_with(tmp_path: Path):
    """Its folder may have another structure, or be gone, when it goes on."""
    before = made(data__path=str(tmp_path / "photos"), model__weights="FILE")
    (tmp_path / "photos").mkdir()
    assert changes(before, from_dict(to_dict(before), "x")) == []


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"optim__freeze": 2}, "--optim.freeze is for pretrained weights; add --pretrained or --weights"),
        ({"optim__freeze_norm": True}, "--optim.freeze_norm is for pretrained weights"),
        ({"optim__freeze": -2}, "--optim.freeze must be a whole number of at least -1"),
        ({"model__weights": "FILE", "model__pretrained": True}, "two beginnings"),
        ({"optim__betas": "0.9"}, "--optim.betas must be two numbers"),
        ({"optim__betas": "0.9,1"}, "--optim.betas must be a list of numbers"),
        ({"data__mean": "0.5,0.5,0.5"}, "data.mean and data.std"),
        ({"task": "simsiam", "model__weights": "FILE"}, "begins with new weights"),
        ({"task": "simsiam", "optim__label_smoothing": 0.1}, "is for labels"),
    ],
)
def test_what_does_not_go_together_is_refused(values, says):
    with pytest.raises(UserError) as error:
        made(**values)
    assert says in str(error.value) and "\n" not in str(error.value)
