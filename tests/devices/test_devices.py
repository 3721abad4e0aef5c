"""What can be known of GPUs without one: where tensors are made, and that nothing in a step waits for the device."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from teachaugment import Batch, TeachAugment
from teachaugment.augment.neural import NeuralAugmenter
from teachaugment.data.loader import _should_pin_memory
from teachaugment.engine.precision import Precision
from teachaugment.losses import negative_cosine
from teachaugment.networks import frozen
from teachaugment.policy.policy import Policy
from teachaugment.tasks.classification.task import ClassificationMeter

from .pretended import DEVICE, HostGenerator, Refused, Watched, pretended_device


def network(outputs=4):
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        nn.Dropout(0.1), nn.Linear(32, outputs),
    )  # fmt: skip


def on_device(*shape, **how):
    return torch.rand(*shape, device=DEVICE, **how)


def batch(**more):
    return Batch(on_device(8, 3, 12, 12), torch.zeros(8, dtype=torch.long, device=DEVICE), **more)


def steps(teach, target, data, n=5, loss=F.cross_entropy):
    """Whole steps as a loop makes them, watched: both updates, and the end of an epoch."""
    teach.steps = 1  # in each hundredth step the values of a batch are looked at, which is meant to wait
    optimizer = torch.optim.SGD(target.parameters(), 0.1, momentum=0.9)
    with Watched() as watched:
        for _ in range(n):
            seen = teach._normalized(teach.augment(data))
            value = loss(teach.forward(target, seen), seen.truth)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            teach.step(data, permit=lambda measured: True)  # a run's own guard, which reads half a second later
        teach.end_epoch()
        teach.augment(data)
    return watched


def neural(**options):
    target = network().to(DEVICE)
    options = {"num_classes": 4, "n_inner": 2, "n_buffer": 1, "augmenter": "neural", **options}
    return TeachAugment(target, **options), target


def governed(**options):
    target = network().to(DEVICE)
    teach = TeachAugment(target, total_steps=1000, **options)
    teach.governor.strength = 0.5
    return teach, target


@pytest.mark.parametrize("make", [neural, governed])
def test_a_step_stays_on_its_device_and_waits_for_nothing(make):
    with pretended_device() as autocast:
        teach, target = make()
        watched = steps(teach, target, batch())
    assert watched.operations > 1000
    assert set(HostGenerator.asked) == {DEVICE} and set(autocast) == {DEVICE.type}
    assert (watched.non_blocking > 0) == (make is governed)  # the mastery, which is read steps later


def test_masks_boxes_and_views():
    with pretended_device():
        mask = torch.zeros(8, 12, 12, dtype=torch.long, device=DEVICE)
        pixels = nn.Conv2d(3, 4, 1).to(DEVICE)
        teach = TeachAugment(pixels, n_inner=1, augmenter="neural")
        steps(teach, pixels, Batch(on_device(8, 3, 12, 12), mask=mask), 2)
        teach, target = neural(num_classes=None, loss=lambda output, boxes: (output - boxes[:, 0, :4]).square().mean())
        steps(teach, target, Batch(on_device(8, 3, 12, 12), boxes=on_device(8, 2, 5)), 2, teach.loss)
        teach, target = neural(num_classes=None, views=2, loss=lambda outputs, _: negative_cosine(*outputs))
        steps(teach, target, Batch(on_device(8, 3, 12, 12), others=(on_device(8, 3, 12, 12),)), 2, teach.loss)


def test_a_policy_of_batches_and_an_evaluation():
    with pretended_device():
        teach, _ = neural()
        teach.replay.push()
        policy = Policy(teach.augmenter, replay=teach.replay)
        policy.checked = True  # the first batch is looked at, which is meant to wait
        data = batch()
        governed = TeachAugment(teach.target, num_classes=4)
        with Watched():
            policy(data.image, data.label)
            governed.observe(teach.target(data.image), data)
            governed.examiner.mastered(data)
            governed.share()
            governed.governor.strength, governed.steps = 0.5, 1  # values are looked at in step 0, which waits
            made = governed.augment(data)
            governed.observe(teach.target(made.image), made)
            meter = ClassificationMeter(4, DEVICE)  # what an evaluation does with each batch
            meter.update(teach.target(data.image), data, on_device(()))


def fault(what):
    """A normalisation with a mistake in it, which runs on a CPU as if there were none."""

    def normalize(image):
        if what == "item":
            return image / max(1.0, image.mean().item())
        if what == "zeros":
            return image + torch.zeros(3, 1, 1)
        if what == "mask":
            return image + image[image > 2].sum()
        if what == "nonzero":
            return image + (image > 2).nonzero().sum()
        if what == "equal":
            return -image if torch.equal(image, -image) else image
        if what == "bool":
            return image if (image > -1).all() else -image
        if what == "host":
            return image + image.mean().cpu()
        if what == "numpy":
            return image + torch.as_tensor(image.detach().mean().cpu().numpy())
        return image

    return normalize


@pytest.mark.parametrize("what", ["none", "item", "zeros", "mask", "nonzero", "equal", "bool", "host", "numpy"])
def test_a_mistake_is_found(what):
    on_cpu = TeachAugment(network(), num_classes=4, n_inner=1, augmenter="neural", normalize=fault(what))
    on_cpu.step(torch.rand(8, 3, 12, 12), torch.arange(8) % 4)  # nobody would notice
    with pretended_device():
        teach, target = neural(normalize=fault(what))
        if what == "none":
            steps(teach, target, batch(), 1)
        else:
            with pytest.raises(Refused):
                steps(teach, target, batch(), 1)


# --- generators, precision and copies, as CUDA and MPS ask ------------------------------------------------------------


@pytest.mark.parametrize("device", ["cuda", "mps", "cpu"])
def test_gradients_are_scaled_for_the_device_they_are_on(device, monkeypatch):
    asked = []
    monkeypatch.setattr(torch.amp, "GradScaler", lambda device, enabled: asked.append((device, enabled)))
    monkeypatch.setattr("teachaugment.engine.precision.DTYPES", {"fp16": None, "off": None})  # not to compute there
    Precision("fp16", torch.device(device))
    Precision("off", torch.device(device))
    assert asked == [(device, True), (device, False)]


@pytest.mark.parametrize(("there", "device", "pinned"), [("cuda", "cuda:1", True), ("mps", "mps", True),
                                                         ("cuda", "cpu", False), (None, "cpu", False)])  # fmt: skip
def test_memory_is_pinned_for_the_accelerator_that_is_there(there, device, pinned, monkeypatch):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: there is not None)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: there and torch.device(there))
    assert _should_pin_memory(torch.device(device)) is pinned


def test_a_batch_is_copied_without_waiting(monkeypatch):
    said, to = [], torch.Tensor.to
    monkeypatch.setattr(torch.Tensor, "to", lambda self, *a, **k: said.append(k) or to(self, *a, **k))
    Batch(torch.rand(2, 3, 4, 4), torch.zeros(2), others=(torch.rand(2, 3, 4, 4),)).to("cpu")
    assert said == [{"non_blocking": True}] * 3


# --- torch.compile ----------------------------------------------------------------------------------------------------


def breaks(function, *inputs):
    torch._dynamo.reset()
    found = torch._dynamo.explain(function)(*inputs)
    assert found.graph_count >= 1
    return found.graph_break_count


def test_target_teacher_and_augmenter_are_one_graph_each():
    torch.manual_seed(0)
    target, image = network(), torch.rand(4, 3, 12, 12, requires_grad=True)
    assert breaks(target, image) == 0
    assert breaks(lambda x: frozen(target, x), image) == 0
    assert breaks(lambda x: frozen(target.eval(), x), image) == 0
    augmenter = NeuralAugmenter(3, 4)
    draw = augmenter.sample(4, torch.arange(4))
    data = Batch(image, part=0)
    assert breaks(lambda x: augmenter.warp(augmenter.color(data.replace(image=x), draw), draw).image, image) == 0


def test_a_graph_break_is_counted():
    assert breaks(lambda x: x * x.mean().item(), torch.rand(3)) > 0
