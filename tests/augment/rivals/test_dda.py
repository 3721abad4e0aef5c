"""DDA: what is drawn, what is learned, and that images and masks get the same."""

import pytest
import torch

from teachaugment.augment.operations import AFFINE, COLOR, OPERATIONS
from teachaugment.augment.rivals import dda
from teachaugment.augment.rivals.dda import MAGNITUDE, PLACE, DDAAugmenter
from teachaugment.batch import IGNORE, Batch
from teachaugment.replay import CHUNK, Replay


def batch(n=12, channels=3, height=14, width=18):
    return Batch(torch.rand(n, channels, height, width), torch.randint(4, (n,)))


def always(name, magnitude=0.0):
    """An augmenter that applies one operation, in its first stage, to every image; the second stage does nothing."""
    augmenter = DDAAugmenter(3)
    with torch.no_grad():
        augmenter.choice.fill_(0)
        augmenter.choice[..., PLACE[name]] = 100
        augmenter.log_odds[:, 0] = 1000
        augmenter.log_odds[:, 1] = -1000
        augmenter.magnitude.fill_(magnitude)  # 0: half of the reach
    return augmenter


def even(**shape):
    """Every operation equally likely."""
    augmenter = DDAAugmenter(3, **shape)
    with torch.no_grad():
        augmenter.choice.fill_(0)
        augmenter.log_odds.fill_(0)
    return augmenter


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_shape_range_and_dtype_stay(grad, channels):
    given = Batch(torch.rand(40, channels, 9, 7))
    with torch.set_grad_enabled(grad):
        out = even()(given).image
    assert out.shape == given.image.shape and out.dtype == torch.float32
    assert out.min() >= 0 and out.max() <= 1 + 1e-6
    assert not torch.equal(out, given.image)


def test_a_draw_takes_at_most_one_operation_per_stage():
    augmenter = even(stages=3)
    with torch.no_grad():
        weight = augmenter.sample(300).weight
    assert weight.shape == (300, 3, len(OPERATIONS))
    assert set(weight.unique().tolist()) == {0.0, 1.0}
    assert set(weight.sum(-1).unique().tolist()) == {0.0, 1.0}
    relaxed = augmenter.sample(300).weight
    assert ((relaxed > 1e-6).sum(-1) <= 1).all()  # the value is a draw, only the gradient is that of the mix


def test_operations_are_drawn_as_often_as_the_softmax_says_and_reported():
    augmenter = DDAAugmenter(3, policies=2)
    with torch.no_grad():
        augmenter.choice.mul_(0.1)
        weight = augmenter.sample(40000, generator=torch.Generator().manual_seed(0)).weight
    seen = (weight.sum(1) > 0).float().mean(0)
    said = augmenter.probabilities()
    assert list(said) == [o.name for o in OPERATIONS]
    assert torch.allclose(seen, torch.stack([p.mean() for p in said.values()]), atol=0.01)


def test_strengths_stay_within_reach_and_signed_ones_go_either_way():
    with torch.no_grad():
        strength = even().sample(500).strength
    for o in OPERATIONS:
        if o.reach:
            values = strength[..., MAGNITUDE[o.name]]
            assert values.abs().max() <= o.reach
            assert (values < 0).float().mean().item() == pytest.approx(0.5 if o.signed else 0, abs=0.06)


def test_every_learned_number_gets_a_finite_gradient_that_is_not_zero():
    augmenter, given = even(policies=1), batch(400, height=8, width=9)
    (augmenter(given, torch.Generator().manual_seed(1)).image * torch.randn_like(given.image)).sum().backward()
    for name, parameter in augmenter.named_parameters():
        assert parameter.grad.isfinite().all(), name
        assert (parameter.grad != 0).all(), (name, parameter.grad)


def test_the_gradient_of_the_choice_is_that_of_the_weighted_sum():
    """With one policy, one stage and every operation certain, the gradient is that of Σ softmax(w / T)_o o(x)."""
    augmenter, given = even(policies=1, stages=1), batch(4)
    with torch.no_grad():
        augmenter.log_odds.fill_(1000)
    draw = augmenter.sample(4, generator=torch.Generator().manual_seed(0))
    direction = torch.randn_like(given.image)
    (augmenter.color(given, draw).image * direction).sum().backward()
    found = augmenter.choice.grad.clone()

    score = torch.zeros_like(augmenter.choice).requires_grad_()
    weights = (score / augmenter.settings.temperature).softmax(-1)[0, 0]
    image = given.image
    mix = sum(weights[PLACE[o.name]] * (dda.changed(o, image, draw, 0) - image).detach() for o in COLOR)
    (mix * direction).sum().backward()
    assert torch.allclose(found, score.grad, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("operations", [COLOR, dda.GEOMETRIC], ids=["colour", "geometric"])
def test_all_ways_to_apply_a_draw_agree(operations):
    augmenter, given = even(), batch(60)
    with torch.no_grad():
        draw = augmenter.sample(60, generator=torch.Generator().manual_seed(3))
        ways = (dda.picked, dda.selected, dda.mixed, dda.mixed_where_drawn)
        results = [way(operations, given.image, draw, 0) for way in ways]
    for result in results[1:]:
        assert torch.allclose(results[0], result, atol=1e-5)


@pytest.mark.parametrize("operations", [COLOR, dda.GEOMETRIC], ids=["colour", "geometric"])
def test_both_ways_to_a_gradient_agree(operations):
    augmenter, image, direction = even(policies=1), torch.rand(30, 3, 9, 10), torch.randn(30, 3, 9, 10)
    found = []
    for way in (dda.mixed, dda.mixed_where_drawn):
        augmenter.zero_grad()
        given = image.clone().requires_grad_()
        draw = augmenter.sample(30, generator=torch.Generator().manual_seed(3))
        (way(operations, given, draw, 0) * direction).sum().backward()
        found.append([given.grad, *(p.grad.clone() for p in augmenter.parameters())])
    for a, b in zip(*found, strict=True):
        assert torch.allclose(a, b, rtol=1e-3, atol=1e-4)


def test_images_no_operation_was_drawn_for_stay_bit_for_bit():
    augmenter, given = DDAAugmenter(3), batch(20)
    with torch.no_grad():
        augmenter.log_odds.fill_(-1000)
        assert torch.equal(augmenter(given).image, given.image)


def test_each_image_has_its_own_draw():
    given = Batch(torch.rand(1, 3, 12, 12).expand(50, -1, -1, -1))
    with torch.no_grad():
        out = even()(given).image
    assert len({image.numpy().tobytes() for image in out}) > 20


def test_colour_operations_do_not_move_and_geometric_ones_do_not_colour():
    given = batch(20)
    for o in OPERATIONS:
        augmenter = always(o.name)
        with torch.no_grad():
            draw = augmenter.sample(20)
            colored = augmenter.color(given, draw).image
            moved = augmenter.warp(given, draw).image
        assert torch.equal(colored, given.image) != (o in COLOR), o.name
        assert torch.equal(moved, given.image) == (o in COLOR), o.name


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", [*(o.name for o in AFFINE), "cutout"])
def test_masks_get_the_geometry_of_their_images(name, grad):
    mask = torch.zeros(6, 30, 40, dtype=torch.long)
    mask[:, 8:22, 5:24] = 1
    mask[:, 12:18, 24:35] = 2
    given = Batch((mask[:, None] / 2 * 0.8 + 0.2).expand(-1, 3, -1, -1), mask=mask)  # 0.2, 0.6, 1: no black
    with torch.set_grad_enabled(grad):
        out = always(name, 1.0)(given)
    seen = (out.image[:, 0] * 5 - 1).div(2).round().long()  # black is -1
    seen = torch.where(out.image[:, 0] < 0.1, IGNORE, seen)
    if name == "cutout":
        seen = torch.where((out.image[:, 0] - 0.5).abs() < 0.05, IGNORE, seen)
    assert out.mask.dtype == torch.long
    assert (out.mask == seen).float().mean() > 0.95
    assert name == "flip" or (out.mask == IGNORE).any()
    assert not torch.equal(out.mask, mask)


def test_a_snapshot_is_exactly_the_augmenter_of_its_time():
    augmenter = DDAAugmenter(3, 4, group=4)
    replay, seen = Replay(augmenter), []
    for _ in range(CHUNK + 2):
        with torch.no_grad():
            seen.append(augmenter.sample(6, generator=torch.Generator().manual_seed(7)))
        replay.push()
        with torch.no_grad():
            for parameter in augmenter.parameters():
                parameter.normal_()
        replay.refresh()
    drawn = replay.draw(6)
    for i in (0, 5, CHUNK + 1):
        drawn.images.slots.fill_(i)
        with torch.no_grad():
            again = augmenter.sample(6, None, torch.Generator().manual_seed(7), drawn)
        assert all(torch.equal(a, b) for a, b in zip(again, seen[i], strict=True))


def test_the_same_generator_draws_the_same_and_labels_change_nothing():
    augmenter, given = even(), batch()
    with torch.no_grad():
        a, b = (
            augmenter(Batch(given.image, label), torch.Generator().manual_seed(5)).image
            for label in (None, given.label)
        )
    assert torch.equal(a, b)


def test_half_precision_images_are_augmented_in_full():
    given = Batch(torch.rand(8, 3, 10, 10).bfloat16())
    with torch.autocast("cpu", torch.bfloat16):
        out = even()(given).image
    assert out.dtype == torch.bfloat16 and out.isfinite().all()
