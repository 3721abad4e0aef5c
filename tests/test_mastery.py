"""What the target masters, counted in its own updates or asked, and what the class TeachAugment makes of it."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from teachaugment import Batch, TeachAugment, UserError
from teachaugment.losses import cross_entropy
from teachaugment.mastery import default_mastery, recall


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


def test_an_operation_that_changes_what_is_true_of_an_image_is_found_in_a_training():
    """The class of an image is whether it is brighter than grey, and 64 images can be learned by heart only if their
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
