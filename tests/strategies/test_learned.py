"""From settings to TeachAugment's hyperparameters."""

from __future__ import annotations

from dataclasses import fields

import pytest

from teachaugment.config.resolve import Config
from teachaugment.config.sections import TeachConfig
from teachaugment.hyperparameters import Hyperparameters
from teachaugment.strategies.learned import hyperparameters


@pytest.mark.parametrize(("epochs", "n_buffer"), [(1, 1), (20, 1), (40, 2), (60, 3), (200, 10), (1800, 90)])
def test_a_training_keeps_twenty_snapshots_whatever_its_length(epochs, n_buffer):
    assert hyperparameters(TeachConfig(), epochs).n_buffer == n_buffer
    assert hyperparameters(TeachConfig(n_buffer=7), epochs).n_buffer == 7
    assert hyperparameters(TeachConfig(replay=False, n_buffer=7), epochs).n_buffer == 0


def test_the_defaults_are_the_same_and_every_setting_arrives():
    ours = hyperparameters(Config().teach, epochs=200)
    assert ours == Hyperparameters(augmenter="neural", governed=False)
    own = {"seed", "at_once"}  # of the run
    assert {field.name for field in fields(Hyperparameters)} - own <= {field.name for field in fields(TeachConfig)}
