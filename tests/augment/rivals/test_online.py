"""OnlineAugment's three networks: they start as the identity, learn, stay smooth, and follow the replay."""

import pytest
import torch
import torch.nn.functional as F

from teachaugment.augment.rivals.online import CELLS, OnlineAugmenter, Weights, convolve, in_groups
from teachaugment.batch import IGNORE, Batch
from teachaugment.replay import Replay


def awake(strength=0.1, **settings):
    """With output layers that are no longer zero."""
    augmenter = OnlineAugmenter(3, **settings)
    with torch.no_grad():
        for last in (augmenter.perturb.layers["last"], augmenter.deform.layers["last"], augmenter.affine.last):
            last.weight.normal_(0, strength)
    return augmenter


def batch(n=10, size=20):
    return Batch(torch.rand(n, 3, size, size))


def test_it_starts_as_the_identity():
    given = Batch(torch.rand(5, 3, 20, 24), mask=torch.randint(4, (5, 20, 24)))
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            out = OnlineAugmenter(3)(given)
        assert torch.allclose(out.image, given.image, atol=1e-5)
        assert torch.equal(out.mask, given.mask)


def test_all_three_get_finite_gradients_that_are_not_zero():
    augmenter, given = awake(), batch()
    (augmenter(given).image * torch.randn_like(given.image)).sum().backward()
    for name, parameter in augmenter.named_parameters():
        assert parameter.grad.isfinite().all() and (parameter.grad != 0).any(), name


def test_the_field_is_smooth_and_the_same_at_every_size():
    augmenter = awake(0.2)
    given = batch(6, 96)
    with torch.no_grad():
        draw = augmenter.sample(6)
        field = augmenter.field(given.image, draw)
        coarse = F.avg_pool2d(field, 96 // CELLS)
    steps = field.diff(dim=-1).abs().amax()
    assert field.abs().amax() > 0.05
    # Between two of the few points lie 12 pixels: the field must take its time.
    assert steps < 3 * coarse.diff(dim=-1).abs().amax() / (96 // CELLS)
    curve = field.diff(n=2, dim=-1).abs().amax()
    assert curve < steps / 2


def test_the_perturbation_depends_on_the_image_and_on_noise():
    augmenter, given = awake(), batch(2)
    with torch.no_grad():
        draw = augmenter.sample(2)
        first = augmenter.perturbed(given.image, draw) - given.image
        same_noise = draw._replace(perturb_noise=draw.perturb_noise[:1].expand(2, -1))
        other_image = augmenter.perturbed(given.image, same_noise) - given.image
        again = augmenter.perturbed(given.image, augmenter.sample(2)) - given.image
    assert not torch.allclose(other_image[0], other_image[1], atol=1e-3)
    assert not torch.allclose(first, again, atol=1e-3)


def test_an_image_does_not_depend_on_its_batch_mates():
    augmenter, given = awake(), batch(6)
    other = Batch(torch.cat([given.image[:3], torch.rand(3, 3, 20, 20)]))
    with torch.no_grad():
        a, b = (augmenter(x, torch.Generator().manual_seed(2)).image[:3] for x in (given, other))
    assert torch.allclose(a, b, atol=1e-5)


def test_grouped_convolution_is_one_convolution_per_group():
    x, weight, bias = torch.rand(3, 2, 4, 8, 8), torch.randn(3, 5, 36), torch.randn(3, 5)
    out = convolve(x, Weights(weight, bias), 2)
    for g in range(3):
        alone = F.conv2d(x[g], weight[g].reshape(5, 4, 3, 3), bias[g], 2, padding=1)
        assert torch.allclose(out[g], alone, atol=1e-5)


def test_groups_are_filled_up():
    grouped = in_groups(torch.arange(1, 11).float(), 4)
    assert grouped.tolist() == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 0, 0]]


def test_each_group_is_augmented_by_its_snapshot():
    augmenter, given = awake(group=4), batch(11)
    replay = Replay(augmenter)
    for _ in range(3):
        replay.push()
        with torch.no_grad():
            for parameter in augmenter.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
    drawn = replay.draw(11)
    drawn.groups.slots.copy_(torch.tensor([2, 0, 1]))

    def augmented(snapshots):
        draw = augmenter.sample(11, None, torch.Generator().manual_seed(4), snapshots)
        return augmenter.warp(augmenter.color(given, draw), draw).image

    with torch.no_grad():
        mixed = augmented(drawn)
        for part, slot in ((slice(0, 4), 2), (slice(4, 8), 0), (slice(8, 11), 1)):
            for name, parameter in augmenter.named_parameters():  # the snapshot as it is kept, in eight bits
                parameter.copy_(replay.values[name][slot] * (replay.scales[name][slot] if name in replay.scales else 1))
            assert torch.allclose(mixed[part], augmented(None)[part], atol=1e-4)


@pytest.mark.parametrize("grad", [False, True])
def test_masks_get_the_warp_of_their_images(grad):
    augmenter = awake(0.05)
    mask = torch.zeros(4, 40, 40, dtype=torch.long)
    mask[:, 10:30, 5:24] = 1
    given = Batch((0.4 + 0.4 * mask[:, None]).expand(-1, 3, -1, -1), mask=mask)
    with torch.set_grad_enabled(grad):
        out = augmenter.warp(given, augmenter.sample(4))
    seen = torch.where(out.image[:, 0] < 0.2, IGNORE, (out.image[:, 0] > 0.6).long())
    assert (out.mask == seen).float().mean() > 0.97
    assert not torch.equal(out.mask, mask) and (out.mask == IGNORE).any()


def test_half_precision_images_are_augmented_in_full():
    with torch.autocast("cpu", torch.bfloat16):
        out = awake()(Batch(torch.rand(4, 3, 16, 16).bfloat16())).image
    assert out.dtype == torch.bfloat16 and out.isfinite().all()
