"""The gradient at the images, one network after the other: the same as both at once, in half the memory."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from teachaugment import Batch, TeachAugment
from teachaugment.commands.bench.memory import peak
from teachaugment.commands.bench.objects import labels, make_teach, noise_batch, training_step
from teachaugment.losses import color_distance, negative_cosine
from teachaugment.models import create
from teachaugment.objectives.adversarial import adversarial
from teachaugment.objectives.passes import Sum
from teachaugment.objectives.teachaugment import teach_augment

CPU = torch.device("cpu")


def network(outputs=4):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        nn.Linear(32, outputs),
    )  # fmt: skip


def both_at_once(objective):
    """The same objective as a function, of which nobody knows that it is a sum."""
    return lambda passes: objective(passes)


def scene():
    generator = torch.Generator().manual_seed(0)
    images, labels = torch.rand(8, 3, 12, 12, generator=generator), torch.arange(8) % 4
    corners = 4 * torch.rand(8, 2, 2, generator=generator)
    boxes = torch.cat([corners, corners + 6, torch.zeros(8, 2, 1)], -1)
    return images, labels, boxes


def classified(**options):
    return TeachAugment(network(), num_classes=4, augmenter="neural", **options), Batch(*scene()[:2])


def compared(**options):
    def alike(outputs, views):
        return negative_cosine(*outputs) + 0.1 * views[0].square().mean()  # the views are what a loss compares with

    teach = TeachAugment(network(), views=2, loss=alike, augmenter="neural", **options)
    image = scene()[0]
    return teach, Batch(image, others=(image.flip(3),))


def boxed(**options):
    def miss(output, boxes):
        return (output - boxes[:, 0, :4] / 12).square().mean()  # boxes have moved: they have a gradient too

    images, _, boxes = scene()
    return TeachAugment(network(), loss=miss, augmenter="neural", **options), Batch(images, boxes=boxes)


def gradients(teach, batch):
    measured = teach.backward(batch, weight=0.5)
    return [p.grad.clone() for group in teach.optimizer.param_groups for p in group["params"]], measured


@pytest.mark.parametrize("make", [classified, compared, boxed])
@pytest.mark.parametrize("objective", [teach_augment, adversarial, Sum(0.5, -2.0)], ids=["Eq. 1", "adversarial", "sum"])
def test_one_after_the_other_is_both_at_once(make, objective):
    found, measured = gradients(*make(objective=objective))
    wanted, expected = gradients(*make(objective=both_at_once(objective)))
    assert any(w.abs().max() > 1e-6 for w in wanted)
    for a, b in zip(found, wanted, strict=True):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-7)
    assert measured.keys() == expected.keys()
    assert all(torch.allclose(measured[name], expected[name], atol=1e-6) for name in measured)


def test_the_gradient_is_that_of_the_formula():
    """Against one backward pass written out: no cut, no turn."""
    teach, batch = classified(color_weight=3.0)
    found, measured = gradients(teach, batch)
    again, batch = classified(color_weight=3.0)
    again._reseed("update", batch.part)
    draw = again.augmenter.sample(len(batch), batch.label, again.generator)
    colored = again.augmenter.color(batch, draw)
    image = again.augmenter.warp(colored, draw).image
    distance = color_distance(batch.image, colored.image, generator=again.generator)
    target = again.target_loss(again.target(image), batch.label)
    teacher = F.cross_entropy(again.teacher.model(image), batch.label)
    (0.5 * (3.0 * distance - target + teacher)).backward()
    for a, parameter in zip(found, again.augmenter.parameters(), strict=True):
        assert torch.allclose(a, parameter.grad, rtol=1e-4, atol=1e-7)
    assert measured["objective"].item() == pytest.approx(0.5 * (target - teacher).item(), abs=1e-6)


def test_there_is_no_further_pass_and_a_network_without_a_say_has_no_backward_pass():
    calls = []

    def forward(model, batch):
        calls.append((torch.is_grad_enabled(), batch.image.requires_grad))
        return model(batch.image)

    for objective in (teach_augment, adversarial, both_at_once(teach_augment)):
        teach, batch = classified(objective=objective, forward=forward)
        teach.update_augmenter(batch)
    assert [grad for grad, _ in calls] == [True, True, True, False, True, True] and all(cut for _, cut in calls)


def test_an_update_needs_no_more_memory_than_a_step():
    torch.manual_seed(0)
    target = create("wrn-40-2", 10).train()
    optimizer = torch.optim.SGD(target.parameters(), lr=0.01, momentum=0.9)
    batch = noise_batch(8, 32, 10, CPU)
    teach = make_teach(target, 10, 0, CPU)
    step = peak(lambda: training_step(target, optimizer, teach.normalize(batch.image), labels(batch)), CPU)
    in_turn = peak(lambda: teach.update_augmenter(batch), CPU)
    teach.objective = both_at_once(teach_augment)
    at_once = peak(lambda: teach.update_augmenter(batch), CPU)
    assert in_turn <= 1.1 * step < 1.5 * step < at_once
