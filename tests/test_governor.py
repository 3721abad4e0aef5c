"""The governor: which strength it finds for networks that can do more and less."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from teachaugment import Batch, TeachAugment, UserError
from teachaugment.governor import FORESEEN, LATE, RATIO, RISE, Governor, against_plain, asked_at, mean_recall
from teachaugment.losses import cross_entropy
from teachaugment.mastery import default_mastery, recall

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
    teach = TeachAugment(network(), num_classes=3)
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


# --- in the class ---------------------------------------------------------------------------------------------------


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 3))


def data() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.rand(24, 3, 8, 8, generator=generator), torch.arange(24) % 3


def loop(model: nn.Module, teach: TeachAugment, steps: int, seed: int = 0) -> list[float]:
    x, y = data()
    optimizer, strengths = torch.optim.SGD(model.parameters(), 0.05), []
    torch.manual_seed(seed)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(teach(x, y)), y).backward()
        optimizer.step()
        teach.step(x, y)
        strengths.append(teach.strength)
    return strengths


def test_the_drop_in_opens_once_the_images_are_mastered():
    model = network()
    teach = TeachAugment(model, num_classes=3, total_steps=200)
    x, y = data()
    assert teach(x, y) is x  # at first nothing is changed, and nothing is drawn
    strengths = loop(model, teach, 200)
    assert strengths[0] == 0 and max(strengths) > 0.2
    assert model.training and all(module.training for module in model.modules())
    assert teach.policy().strength == teach.governor.strength > 0


def test_measuring_changes_nothing_in_the_target():
    model = network()
    teach, (x, y) = TeachAugment(model, num_classes=3, total_steps=100), data()
    before = copy.deepcopy(model.state_dict())
    for _ in range(5):
        teach.step(x, y)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_the_papers_networks_can_be_governed():
    model = network()
    teach = TeachAugment(model, num_classes=3, total_steps=120, augmenter="neural", governed=True, n_inner=1)
    x, y = data()
    assert not teach.due and teach(x, y) is x and teach.step(x, y) is None  # at zero, nothing is learned
    assert max(loop(model, teach, 100)) > 0.2
    assert teach.due and teach.step(x, y) is not None


def test_numbers_of_the_papers_algorithm_are_refused_where_they_would_do_nothing():
    with pytest.raises(UserError, match="n_inner is a number of the paper's algorithm"):
        TeachAugment(network(), num_classes=3, n_inner=2)


def test_plain_and_augmented_images_are_counted_apart():
    generator = torch.Generator().manual_seed(0)
    scores, label, part = torch.rand(40, 3, generator=generator), torch.arange(40) % 3, torch.arange(40) < 13
    arm = torch.where(part, 0, 2)
    nothing = torch.zeros(2, 3)
    apart = torch.stack([recall(scores[part], label[part]), nothing, recall(scores[~part], label[~part])])
    torch.testing.assert_close(recall.apart(scores, label, arm, 2), apart)
    pixels, mask = torch.rand(6, 3, 4, 4, generator=generator), torch.randint(0, 3, (6, 4, 4), generator=generator)
    mask[:, 0] = 255
    apart = torch.stack([recall(pixels[:3], mask[:3]), recall(pixels[3:], mask[3:])])
    torch.testing.assert_close(recall.apart(pixels, mask, (~part[10:16]).long(), 1), apart)


def test_outputs_that_are_shown_spare_the_target_the_questions():
    """The same outputs and labels, plain and augmented apart, as the target trained on them."""
    asked, shown = network(), network()
    x, y = data()
    teach = TeachAugment(shown, num_classes=3, total_steps=200)
    teach.governor.strength = 0.5
    calls = []
    shown.register_forward_hook(lambda *_: calls.append(1))
    output = shown(teach(x, y))
    plain = teach.given == 0
    assert 0 < int(plain.sum()) < len(x)
    teach.step(x, y, output=output)
    assert len(calls) == 1
    right = output.argmax(1) == y
    for kind, part in enumerate((plain, ~plain)):
        assert float(teach.governor.counts[kind, 0].sum()) == int(right[part].sum())
        assert float(teach.governor.counts[kind, 1].sum()) == int(part.sum())
    asking = TeachAugment(asked, num_classes=3, total_steps=200)
    asked.register_forward_hook(lambda *_: calls.append(1))
    asking.step(x, y)
    assert len(calls) == 2


def test_outputs_of_other_images_are_refused():
    model = network()
    teach, (x, y) = TeachAugment(model, num_classes=3, total_steps=200), data()
    teach.governor.strength = 0.5
    output = model(teach(x, y))
    with pytest.raises(UserError, match="gave 24 images; these are 8"):
        teach.step(x[:8], y[:8], output=output[:8])
    pixels = TeachAugment(nn.Conv2d(3, 4, 1), total_steps=200)
    with pytest.raises(UserError, match="with masks, teach"):
        pixels.step(Batch(x, mask=torch.zeros(24, 8, 8).long()), output=output)
    assert teach.steps == pixels.steps == 0


def test_masks_are_counted_pixel_by_pixel():
    torch.manual_seed(0)
    model, x = nn.Conv2d(3, 4, 1), data()[0]
    batch = Batch(x, mask=torch.randint(0, 4, (24, 8, 8)))
    teach = TeachAugment(model, total_steps=200)
    teach.governor.strength = 0.5
    made = teach.augment(batch)
    output = model(made.image)
    teach.observe(output, made)
    teach.step(batch)
    known, right = made.mask != 255, output.argmax(1) == made.mask
    for kind, part in enumerate((made.arm == 0, made.arm > 0)):
        assert float(teach.governor.counts[kind, 1].sum()) == int(known[part].sum())
        assert float(teach.governor.counts[kind, 0].sum()) == int((right & known)[part].sum())


def test_a_governed_learned_augmenter_is_counted_in_the_updates_too():
    model = network()
    teach = TeachAugment(model, num_classes=3, total_steps=200, augmenter="neural", governed=True)
    teach.governor.strength, (x, y) = 0.5, data()
    calls = []
    model.register_forward_hook(lambda *_: calls.append(1))
    output = model(teach(x, y))
    teach.step(x, y, output=output)
    assert len(calls) == 1 and int(teach.governor.counts[:, 1].sum()) == len(x)
    assert teach.governor.shares == []


def test_mixed_images_are_not_counted():
    teach, (x, y) = TeachAugment(network(), num_classes=3, total_steps=200), data()
    teach.observe(torch.rand(24, 3), Batch(x, nn.functional.one_hot(y, 3).float()))
    assert teach.governor.seen is None


def test_a_loop_that_shows_its_outputs_opens_and_resumes_exactly():
    def shown(teach: TeachAugment, model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> list[float]:
        x, y = data()
        strengths = []
        for _ in range(steps):
            output = model(teach(x, y))
            optimizer.zero_grad()
            nn.functional.cross_entropy(output, y).backward()
            optimizer.step()
            teach.step(x, y, output=output)
            strengths.append(teach.strength)
        return strengths

    def made() -> tuple[TeachAugment, nn.Module, torch.optim.Optimizer]:
        model = network()
        return TeachAugment(model, num_classes=3, total_steps=900), model, torch.optim.SGD(model.parameters(), 0.05)

    whole = made()
    strengths = shown(*whole, 401)
    assert max(strengths) > 0.2
    first, second = made(), made()
    shown(*first, 202)  # between two measurements
    assert first[0].governor.seen is not None
    second[0].load_state_dict(copy.deepcopy(first[0].state_dict()))
    for mine, its in zip(second[1:], first[1:], strict=True):
        mine.load_state_dict(copy.deepcopy(its.state_dict()))
    assert shown(*second, 199) == strengths[202:]


def test_every_cross_entropy_goes_by_the_recall_of_classes():
    weighted = nn.CrossEntropyLoss(weight=torch.ones(4), reduction="sum")
    smoothed = partial(F.cross_entropy, label_smoothing=0.1)
    for loss in (cross_entropy, F.cross_entropy, nn.CrossEntropyLoss(label_smoothing=0.1), smoothed, weighted):
        assert default_mastery(loss) is recall
    for loss in (nn.MSELoss(), nn.CrossEntropyLoss(ignore_index=0)):
        assert default_mastery(loss) is not recall


def test_a_loss_of_your_own_says_itself_how_much_is_mastered():
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 1))
    teach = TeachAugment(model, loss=lambda output, y: ((output[:, 0] - y) ** 2).mean(), total_steps=50)
    x = torch.zeros(8, 3, 8, 8)
    with torch.no_grad():
        far, near = (float(teach.examiner.mastered(Batch(x, y))[0]) for y in (torch.full((8,), 9.0), model(x)[:, 0]))
    assert far < 1e-6 and near == 1


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


def test_an_operation_that_changes_what_is_true_of_an_image_is_found_in_a_training():
    """The class of an image is whether it is brighter than grey, and 24 images can be learned by heart only if their
    brightness stays."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    optimizer = torch.optim.SGD(model.parameters(), 2.0)
    teach = TeachAugment(model, num_classes=2, total_steps=600)
    generator = torch.Generator().manual_seed(0)
    level = torch.linspace(0.35, 0.65, 64).view(-1, 1, 1, 1)
    x = (level + 0.05 * torch.randn(64, 3, 8, 8, generator=generator)).clamp(0, 1)
    y = (level.flatten() > 0.5).long()
    for _ in range(600):
        output = model(teach(x, y))
        optimizer.zero_grad()
        F.cross_entropy(output, y).backward()
        optimizer.step()
        teach.step(x, y, output=output)
    shares = teach.governor.shared(teach.augmenter.arms)
    assert teach.strength > 0.5
    assert max(shares[name] for name in ("brightness", "solarize")) < 0.5
    assert min(shares[name] for name in ("sharpness", "color", "rotate")) > 0.9
    assert teach.policy().shares == {name: share for name, share in shares.items() if share < 1}
