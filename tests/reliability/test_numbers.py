"""A loss, gradient or weight that is not finite, anywhere: noticed in its step, by name, and never in a checkpoint."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from teachaugment.algorithm import TeachAugment
from teachaugment.engine import checkpoint, directory, finite
from teachaugment.engine.precision import Precision
from teachaugment.engine.trainer import Trainer
from teachaugment.tasks.classification.task import Classification

STEP = 7  # in the second epoch, where there is a checkpoint already


def spoiled_loss(value: float) -> None:
    real = Trainer.train_step

    def train_step(self: Trainer, *arguments: Any) -> Any:
        loss = Classification.loss
        if self.step + 1 == STEP:
            Classification.loss = lambda *a: loss(*a) * value
        try:
            return real(self, *arguments)
        finally:
            Classification.loss = loss

    Trainer.train_step = train_step


def spoiled_images(value: float) -> None:
    """From which the target's batch norm learns before its loss is known."""
    real = Trainer.train_step

    def train_step(self: Trainer, batch: Any, meter: Any) -> Any:
        if self.step + 1 == STEP:
            batch = batch.replace(image=batch.image.clone())
            batch.image[0, 0, 0, 0] = value
        return real(self, batch, meter)

    Trainer.train_step = train_step


def spoiled_gradient(network: str, which: int, value: float) -> None:
    real = finite.Finite.update

    def update(self: Any, name: str, module: Any, losses: Any, **more: Any) -> bool:
        if name == network and self.step >= STEP and not getattr(module, "spoiled", False):
            module.spoiled = True
            list(module.parameters())[which].grad.view(-1)[0] = value
        return real(self, name, module, losses, **more)

    finite.Finite.update = update


def spoiled_weight(network: str, which: int, value: float) -> None:
    """As a memory error would: nothing but the weight itself."""
    owner, name = (Precision, "step") if network == "target" else (TeachAugment, "update_augmenter")
    real, count = getattr(owner, name), 0

    def call(self: Any, *arguments: Any) -> Any:
        nonlocal count
        count += 1
        result = real(self, *arguments)
        if count == (STEP if network == "target" else STEP // 2 + 1):
            parameters = arguments[1] if network == "target" else list(self.augmenter.parameters())
            parameters[which].data.view(-1)[0] = value
        return result

    setattr(owner, name, call)


def spoiled_term(name: str, value: float) -> None:
    """One of the augmenter's terms, its gradients being in order."""
    real = TeachAugment.backward

    def backward(self: TeachAugment, *arguments: Any) -> dict[str, torch.Tensor]:
        found = real(self, *arguments)
        return {**found, name: found[name] * value} if self.steps >= STEP and not spoiled.append(1) else found

    spoiled: list[int] = []
    TeachAugment.backward = lambda self, *a: backward(self, *a) if not spoiled else real(self, *a)


# What is spoiled, with which number, and what is said about it.
PLACES = [
    (lambda: spoiled_loss(math.nan), "the target's loss"),
    (lambda: spoiled_loss(math.inf), "the target's loss"),
    (lambda: spoiled_images(math.nan), "the target's loss"),
    (lambda: spoiled_images(math.inf), "the target's loss"),
    (lambda: spoiled_gradient("target", 0, math.nan), "the gradient of the target's"),
    (lambda: spoiled_gradient("target", 5, -math.inf), "the gradient of the target's"),
    (lambda: spoiled_gradient("target", -1, math.nan), "the gradient of the target's"),
    (lambda: spoiled_gradient("target", 3, math.inf), "the gradient of the target's"),
    (lambda: spoiled_gradient("augmenter", 0, math.nan), "the gradient of the augmenter's"),
    (lambda: spoiled_gradient("augmenter", 3, math.inf), "the gradient of the augmenter's"),
    (lambda: spoiled_gradient("augmenter", -1, math.nan), "the gradient of the augmenter's"),
    (lambda: spoiled_term("objective", math.nan), "the augmenter's objective"),
    (lambda: spoiled_term("color_distance", math.inf), "the augmenter's color_distance"),
    (lambda: spoiled_term("target_term", math.nan), "the augmenter's target_term"),
    (lambda: spoiled_term("teacher_term", -math.inf), "the augmenter's teacher_term"),
    (lambda: spoiled_weight("target", 0, math.nan), "the target's weight"),
    (lambda: spoiled_weight("target", 4, math.inf), "the target's weight"),
    (lambda: spoiled_weight("target", -1, math.nan), "the target's weight"),
    (lambda: spoiled_weight("augmenter", 0, math.nan), "the augmenter's weight"),
    (lambda: spoiled_weight("augmenter", -1, -math.inf), "the augmenter's weight"),
]
SKIPPED = [place for place in PLACES if "weight" not in place[1]]  # a weight cannot be skipped


def steps_saved(path: Path) -> int:
    """Of the last checkpoint, in which all is finite."""
    state = checkpoint.load(path / checkpoint.LAST)
    finite.check(state)
    return state["step"]


@pytest.mark.parametrize("places", [PLACES[2::6], pytest.param(PLACES, marks=pytest.mark.slow)], ids=["few", "all"])
def test_a_number_that_is_not_finite_stops_a_run_in_its_step(lab, record, places):
    for spoil, says in places:
        path = lab.fresh()
        process = lab.train(path, prepare=spoil)
        assert process.wait() == 2, process.said()
        (error,) = process.error_lines()
        named = re.search(r"error: (.*) is not finite at step (\d+);", error)
        assert named and named[1].startswith(says) and STEP <= int(named[2]) <= STEP + 1, error
        assert steps_saved(path) == int(named[2]) - 1
        assert not (path / directory.METRICS).exists()
    record("a number that is not finite, --on-nan stop: named, stopped in its step, no checkpoint has it", len(places))


@pytest.mark.parametrize("places", [SKIPPED[2::6], pytest.param(SKIPPED, marks=pytest.mark.slow)], ids=["few", "all"])
def test_a_number_that_is_not_finite_is_skipped_in_its_step(lab, record, places):
    for spoil, says in places:
        path = lab.fresh()
        process = lab.finish(path, "--on-nan", "skip", prepare=spoil)
        assert len([line for line in process.said().splitlines() if "is skipped" in line and says in line]) >= 1
        assert steps_saved(path) == steps_saved(lab.reference)
        found = lab.lines(path)
        assert 1 <= sum(line.get("skipped", 0) for line in found) <= 2
        assert all(math.isfinite(line["train"]["loss"]) for line in found if line["event"] == "epoch")
    record("the same, --on-nan skip: named, left out, trained to the end", len(places))


def test_a_run_without_such_numbers_is_the_same_with_skip(lab):
    path = lab.fresh()
    lab.finish(path, "--on-nan", "skip")
    found = [difference for difference in lab.unlike(lab.reference, path) if "log.jsonl" not in difference]
    assert not found
