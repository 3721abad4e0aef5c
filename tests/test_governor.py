"""The governor: which strength it finds for networks that can do more and less."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import nn

from teachaugment import TeachAugment, UserError
from teachaugment.governor import FORESEEN, LATE, RATIO, RISE, Governor, against_plain, asked_at, mean_recall

Mastered = Callable[[float, float], float]  # what is mastered at a progress of the training and a strength


def counts(share: float) -> torch.Tensor:
    """A measurement in which this share of the images of two classes is mastered."""
    return torch.tensor([[share, share], [1.0, 1.0]])


def trained(total: int | None, plain: Mastered, augmented: Mastered, steps: int = 400) -> tuple[Governor, list[float]]:
    """A governor after a training, and the strength of each step."""
    governor, strengths = Governor(total), []

    def ask() -> torch.Tensor:
        with_it = augmented if governor.strength > 0 else plain
        return torch.stack([counts(share(governor.progress, governor.strength)) for share in (plain, with_it)])

    for _ in range(total or steps):
        governor.step(ask)
        strengths.append(governor.strength)
    return governor, strengths


def test_a_network_that_masters_everything_gets_full_strength_to_the_end():
    _, strengths = trained(400, lambda p, s: min(1.0, 3 * p), lambda p, s: min(1.0, 3 * p))
    assert strengths[0] == 0 and strengths[-1] == 1
    assert all(a <= b for a, b in pairwise(strengths))


def test_from_nothing_to_full_strength_takes_the_same_share_of_any_training():
    for total in (100, 400, 2000):
        governor, strengths = trained(total, lambda p, s: 1.0, lambda p, s: 1.0)
        assert strengths.index(1) == pytest.approx(RISE * total, abs=3 * governor.every)


def test_states_of_earlier_governors_are_resumed():
    """They also kept whether the strength was still on its first way up, and did not keep the trend."""
    before, _ = trained(400, lambda p, s: 1.0, lambda p, s: 1.0)
    state = before.state_dict()
    del state["trend"]
    after = Governor(400)
    after.load_state_dict({**state, "climbing": True}, torch.device("cpu"))
    assert after.strength == before.strength == 1 and after.steps == before.steps
    after.decide(1.0, 1.0)
    assert after.foreseen() == 1


@pytest.mark.parametrize("trend", [[1.0], "abc", [-1.0, 0.5, 0.5], [1.0, float("nan"), 0.5], [1.0, 0.5, float("inf")]])
def test_states_with_a_trend_that_there_cannot_be_are_refused(trend):
    teach = TeachAugment(nn.Linear(2, 3), num_classes=3)
    state = teach.state_dict()
    state["governor"]["trend"] = trend
    with pytest.raises(UserError, match=r"governor\.trend .* is not 3 numbers from 0 on"):
        teach.load_state_dict(state)


@pytest.mark.parametrize("bears", [0.2, 0.5, 0.7])
def test_the_strength_settles_where_the_network_still_masters_augmented_images(bears):
    """Augmented images are mastered as well as plain ones up to some strength, and then worse and worse."""
    governor, strengths = trained(2000, lambda p, s: min(1.0, 4 * p), lambda p, s: min(1.0, 4 * p) - max(0, s - bears))
    middle = strengths[1000:1700]
    assert max(middle) - min(middle) < 0.1
    assert sum(middle) / len(middle) == pytest.approx(bears + 1 - RATIO, abs=0.05)
    assert governor.strength == pytest.approx(middle[-1], abs=0.05)


def test_a_network_that_never_masters_its_images_is_left_alone():
    _, strengths = trained(400, lambda p, s: 0.5 * p, lambda p, s: 0.5 * p)
    assert set(strengths) == {0.0}


def test_a_network_that_learns_its_images_late_is_kept_from_it():
    """At no time before the end does it master as many as are asked, but it is on its way to all of them."""

    def late(progress: float, strength: float) -> float:
        return progress * (1 - 0.4 * strength)

    assert all(late(p, 0) < asked_at(p) for p in (0.1, 0.3, 0.6))
    _, strengths = trained(400, late, late)
    opened = next(step for step, strength in enumerate(strengths) if strength > 0)
    assert FORESEEN * 400 <= opened <= FORESEEN * 400 + 10
    assert strengths[-1] == pytest.approx(0.5, abs=0.15)  # at which 0.8 of them will be mastered


def test_a_network_that_soon_learns_no_more_is_left_alone():
    """As many images as above when a third of the training is over, and hardly more at the end."""

    def soon(progress: float, strength: float) -> float:
        return 0.45 * min(1.0, 4 * progress) ** 0.5

    _, strengths = trained(400, soon, soon)
    assert max(strengths) < 0.45 and set(strengths[250:]) == {0.0}


def test_what_is_foreseen_is_a_straight_line_of_late():
    governor = Governor(100)
    for step in range(50):
        governor.steps = step
        governor.decide(0.1 + 0.006 * step, 0.0)
    assert governor.foreseen() == pytest.approx(0.7, abs=0.01)


def test_nothing_begins_when_it_is_late():
    _, strengths = trained(400, lambda p, s: float(p > LATE + 0.05), lambda p, s: float(p > LATE + 0.05))
    assert set(strengths) == {0.0}


def test_a_network_that_loses_its_images_gets_them_back():
    _, strengths = trained(400, lambda p, s: 1.0 if p < 0.3 else 0.3, lambda p, s: 1.0 if p < 0.3 else 0.3)
    assert max(strengths) > 0.9 and strengths[280] == 0


def test_a_training_of_unknown_length_is_never_late():
    _, strengths = trained(None, lambda p, s: 1.0, lambda p, s: 1.0, steps=5000)
    assert strengths[-1] == 1
    late = trained(None, lambda p, s: float(p == 1), lambda p, s: float(p == 1), steps=5000)[1]
    assert late[1900] == 0 and late[-1] == 1


def test_short_trainings_are_measured_more_often_and_long_ones_less():
    totals = (1, 199, 400, 800, 1876, 3750, 10_000, 78_000)
    assert [Governor(total).every for total in totals] == [1, 1, 2, 4, 4, 9, 16, 16]


def test_classes_count_equally_however_rare():
    seen = torch.tensor([[90.0, 0.0, 0.0], [100.0, 10.0, 0.0]])
    assert float(mean_recall(seen)) == pytest.approx(0.45)


def arms_of(plain: float, *each: float) -> torch.Tensor:
    """Counts of ten plain images and of ten of each operation, of two classes, of which these shares are mastered."""
    return 10 * torch.stack([counts(share) for share in (plain, *each)])


def test_an_operation_that_is_not_mastered_loses_its_share_and_gets_it_back():
    governor = Governor(1000, arms=3)

    def train(steps: int, second: float) -> None:
        for _ in range(steps):
            governor.count(arms_of(1.0, 0.95, second, 0.95))
            governor.step(lambda: pytest.fail("all was counted"))

    train(500, 0.7)
    assert governor.shares == [1.0, 0.0, 1.0] and governor.strength == 1
    train(500, 0.95)
    assert governor.shares[1] > 0.8


def test_shares_stay_whole_where_nobody_knows_which_operation_an_image_got():
    governor = Governor(400, arms=3)
    for _ in range(400):
        governor.step(lambda: torch.stack([counts(1.0), counts(0.5)]))
    assert governor.strength == 0 and governor.shares == [1.0, 1.0, 1.0]


def test_counts_of_a_checkpoint_that_told_no_operations_apart_are_added_to():
    governor = Governor(400, arms=3)
    governor.count(10 * torch.stack([counts(1.0), counts(0.5)]))
    governor.count(arms_of(1.0, 0.5, 0.0, 1.0))
    assert governor.seen[:, 0, 0].tolist() == [20.0, 20.0] and governor.seen[:, 1, 0].tolist() == [20.0, 40.0]
    governor.step(lambda: pytest.fail("all was counted"))
    assert governor.arms is None and governor.shares == [1.0, 1.0, 1.0]


def test_an_operation_of_which_no_image_has_been_seen_keeps_its_share():
    seen = arms_of(1.0, 0.5, 1.0)
    seen[2] = 0
    assert against_plain(seen).tolist() == [0.5, 1.0]
