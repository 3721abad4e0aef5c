"""Two augmenters: both move, both know only what the frozen networks tell them, and both resume."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from teachaugment.algorithm import TeachAugment
from teachaugment.batch import Batch
from teachaugment.models.simsiam import SimSiam
from teachaugment.networks import frozen
from teachaugment.objectives.adversarial import adversarial
from teachaugment.tasks.self_supervised.simsiam import distance


def views(target: nn.Module, loss=distance, **settings) -> TeachAugment:
    """Two views, whose outputs are compared with each other."""
    return TeachAugment(target, views=2, loss=lambda outputs, _: loss(outputs, outputs), **settings, augmenter="neural")


def against(network: nn.Module, loss=distance):
    """A loss that compares the target's outputs with those of another network."""
    return lambda outputs, seen: loss(outputs, tuple(frozen(network, view) for view in seen))


def network() -> SimSiam:
    backbone = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
    return SimSiam(backbone, 32, dim=16, hidden=8, layers=2)


def pair(n: int = 16) -> Batch:
    return Batch(torch.rand(n, 3, 12, 12), others=(torch.rand(n, 3, 12, 12),))


def state_of(*modules: nn.Module) -> list[torch.Tensor]:
    return [value.clone() for module in modules for value in module.state_dict().values()]


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def test_both_augmenters_get_finite_gradients_and_move():
    teach = views(network(), lr=1e-2)
    teach.update_augmenter(pair())  # new augmenters change nothing, so that this one moves their last layers alone
    before = [state_of(view.augmenter) for view in teach.views]
    measured = teach.update_augmenter(pair())
    for view, old in zip(teach.views, before, strict=True):
        for name, parameter in view.augmenter.named_parameters():
            assert parameter.grad is not None and parameter.grad.isfinite().all(), name
            assert parameter.grad.abs().sum() > 0, name
        assert not any(torch.equal(a, b) for a, b in zip(old, state_of(view.augmenter), strict=True))
    assert all(value.isfinite() for value in measured.values())
    assert torch.isclose(measured["objective"], measured["target_term"] - measured["teacher_term"])


def test_each_view_has_an_augmenter_of_its_own():
    teach = views(network(), lr=1e-2)
    assert not same(*(state_of(view.augmenter) for view in teach.views))
    image = torch.rand(16, 3, 12, 12)
    teach.update_augmenter(Batch(image, others=(image,)))
    made = teach.current(Batch(image, others=(image,)), torch.Generator().manual_seed(0))
    assert not torch.equal(made.image, made.others[0])


def test_target_teacher_and_the_network_compared_with_are_left_bit_identical():
    target, other = network().train(), network().eval()
    teach = views(target, target_loss=against(other))
    before = state_of(target, other, teach.teacher.model)
    teach.update_augmenter(pair())
    assert same(before, state_of(target, other, teach.teacher.model))
    assert all(p.grad is None for p in [*target.parameters(), *other.parameters()])


def test_the_target_is_compared_with_the_other_network_and_the_teacher_with_itself():
    seen = []

    def spy(mine, others):
        seen.append((mine, others))
        return distance(mine, others)

    teach = views(network(), spy, target_loss=against(network().eval(), spy))
    teach.update_augmenter(pair())
    (mine, others), (own, itself) = seen
    assert others[0] is not mine[0] and not torch.equal(others[0].projection, mine[0].projection)
    assert itself is own or itself[0] is own[0]


def test_gradients_pass_through_both_sides_of_the_distance():
    """The stop-gradient of SimSiam is for weights; here they stand still, and half of the gradient would be lost."""
    kept = []

    def spy(mine, others):
        kept.extend(others)
        return distance(mine, others)

    views(network(), spy).update_augmenter(pair())
    assert len(kept) == 4 and all(output.projection.requires_grad for output in kept)


def test_without_teacher_and_colour_terms_the_views_move_apart():
    """Pure ascent on the target's distance makes it larger: the sign is right."""
    torch.manual_seed(0)
    teach = views(network().eval(), objective=adversarial, color_weight=0, lr=2e-2)
    image = torch.rand(64, 3, 12, 12)
    batch = Batch(image, others=(image,))

    def apart() -> float:
        return float(torch.stack([teach.backward(batch)["target_term"] for _ in range(8)]).mean())

    first = apart()
    for _ in range(30):
        teach.update_augmenter(batch)
    assert apart() > first + 0.01


def test_snapshots_enter_both_replays_and_are_drawn():
    teach = views(network(), n_buffer=2, n_inner=1)
    for _ in range(4):
        teach.step(pair())
        teach.end_epoch()
    assert [len(view.replay) for view in teach.views] == [2, 2]
    made = teach.augment(pair())
    assert made.image.shape == made.others[0].shape == (16, 3, 12, 12)
    assert made.image.min() >= 0 and made.others[0].max() <= 1


def test_the_drop_in_gives_two_views_and_policies():
    teach = views(network())
    first, second = teach(*pair().image.split(8))
    assert first.shape == second.shape == (8, 3, 12, 12)
    one, two = teach.policies(provenance={"data": "x"})
    assert same(state_of(one.augmenter), state_of(teach.augmenter))
    assert same(state_of(two.augmenter), state_of(teach.views[1].augmenter)) and two.provenance["data"] == "x"
    assert teach.probabilities().keys() == {"p_color_1", "p_geometric_1", "p_color_2", "p_geometric_2"}


def run(teach: TeachAugment, target: SimSiam, steps: range) -> None:
    optimizer = torch.optim.SGD(target.parameters(), 0.05)
    for step in steps:
        torch.manual_seed(step)
        batch = pair(8)
        seen = teach.augment(batch)
        one, two = target(seen.image), target(seen.others[0])
        optimizer.zero_grad()
        distance((one, two), (one.detach(), two.detach())).backward()
        optimizer.step()
        teach.step(batch)
        teach.end_epoch()


def test_a_restored_state_goes_on_exactly():
    def fresh() -> tuple[TeachAugment, SimSiam]:
        torch.manual_seed(0)
        target = network()
        return views(target, n_inner=2, n_buffer=1), target

    whole, target = fresh()
    run(whole, target, range(6))
    part, other = fresh()
    run(part, other, range(3))
    again, third = fresh()
    third.load_state_dict(other.state_dict())
    again.load_state_dict(part.state_dict())
    run(again, third, range(3, 6))
    learned = [[view.augmenter for view in teach.views] for teach in (whole, again)]
    assert same(state_of(target, *learned[0]), state_of(third, *learned[1]))
    assert [len(view.replay) for view in (*whole.views, *again.views)] == [6] * 4


def test_a_missing_view_is_said():
    with pytest.raises(ValueError, match=r"2 view\(s\) is needed; this one has 1"):
        views(network()).augment(Batch(torch.rand(2, 3, 8, 8)))


def test_there_may_be_three_views():
    """Each has an augmenter of its own, and a state names all of them."""

    def apart(outputs, _):
        first, second, third = outputs
        return distance((first, second), (first, second)) + distance((second, third), (second, third))

    image = torch.rand(8, 3, 12, 12)
    teach, again = (
        TeachAugment(network(), views=3, loss=apart, n_inner=1, n_buffer=1, seed=k, augmenter="neural") for k in (0, 1)
    )
    batch = Batch(image, others=(image, image))
    assert teach.step(batch)["objective"].isfinite() and teach.step(image, image, image)["objective"].isfinite()
    teach.end_epoch()
    assert len(teach(image, image, image)) == 3 and len(teach.policies()) == 3
    again.load_state_dict(teach.state_dict())
    for one, two in zip(teach.views, again.views, strict=True):
        assert same(state_of(one.augmenter), state_of(two.augmenter)) and len(two.replay) == 1
