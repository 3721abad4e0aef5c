from __future__ import annotations

import pytest
import torch

from teachaugment.augment import one_operation
from teachaugment.augment.one_operation import COLORS, COUNT, FIRST_MOVE, MOVES, PLAIN, Draw, OneOperation, where
from teachaugment.batch import IGNORE, Batch

NAMES = ["nothing", *(operation.name for operation in (*COLORS, *MOVES))]


def batch(n: int = COUNT, channels: int = 3) -> Batch:
    """Smooth images, and masks that show where each pixel comes from."""
    generator = torch.Generator().manual_seed(0)
    image = torch.nn.functional.interpolate(torch.rand(n, channels, 4, 4, generator=generator), 24, mode="bicubic")
    return Batch(image.clamp(0, 1), mask=(image[:, 0] > 0.5).long())


def applied(number: int, strength: float, given: Batch) -> Batch:
    augmenter, n = OneOperation(given.image.shape[1]), len(given)
    draw = augmenter.weakened(Draw(torch.full((n,), number), torch.ones(n)), strength)
    return augmenter.warp(augmenter.color(given, draw), draw)


@pytest.mark.parametrize("number", range(COUNT), ids=NAMES)
def test_an_operation_does_nothing_at_strength_zero_and_more_the_stronger_it_is(number):
    given = batch(4)
    change = [float((applied(number, s, given).image - given.image).abs().mean()) for s in (0.0, 0.3, 1.0)]
    assert change[0] < 1 / 500  # posterize rounds to the levels of an 8-bit image
    assert change == [0, 0, 0] if number == 0 else change[0] < change[1] < change[2]


@pytest.mark.parametrize("number", range(COUNT), ids=NAMES)
def test_masks_follow_moves_and_nothing_else(number):
    given = batch(4)
    made = applied(number, 1.0, given)
    if number < FIRST_MOVE:
        assert torch.equal(made.mask, given.mask)
    else:
        known = made.mask != IGNORE
        assert 0 < int((~known).sum()) < known.numel() // 2
        again = (made.image[:, 0] > 0.5).long()
        assert float((again == made.mask)[known].float().mean()) > 0.95


def test_all_operations_come_equally_often_with_either_sign_and_an_eighth_of_the_images_is_left_alone():
    draw = OneOperation().sample(28_000, None, torch.Generator().manual_seed(0))
    share = torch.bincount(draw.operation, minlength=COUNT) / 28_000
    assert share[0] == pytest.approx(PLAIN, abs=0.01)
    assert (share[1:] - (1 - PLAIN) / (COUNT - 1)).abs().max() < 0.01
    assert abs(float(draw.strength.mean())) < 0.03 and set(draw.strength.unique().tolist()) == {-1.0, 1.0}


def test_a_draw_tells_which_images_it_leaves_as_they_are():
    augmenter, given = OneOperation(), batch(200)
    draw = augmenter.weakened(augmenter.sample(200, None, torch.Generator().manual_seed(0)), 0.8)
    made, plain = augmenter.warp(augmenter.color(given, draw), draw), augmenter.arm(draw) == 0
    same = (made.image == given.image).flatten(1).all(1) & (made.mask == given.mask).flatten(1).all(1)
    assert 10 < int(plain.sum()) < 50 and same[plain].all()
    assert float(same[~plain].float().mean()) < 0.05  # solarizing a dark image changes nothing


def test_each_image_gets_its_own_operation_as_if_it_were_alone():
    given, augmenter = batch(), OneOperation()
    draw = Draw(torch.arange(COUNT), torch.full((COUNT,), 0.7))
    together = augmenter.warp(augmenter.color(given, draw), draw)
    for i in range(COUNT):
        alone = applied(i, 0.7, given[i : i + 1])
        torch.testing.assert_close(together.image[i : i + 1], alone.image, atol=1e-6, rtol=0)
        assert torch.equal(together.mask[i : i + 1], alone.mask)


@pytest.mark.parametrize("channels", [1, 4])
def test_other_numbers_of_channels(channels):
    given = batch(8, channels)
    made = OneOperation(channels)(given, torch.Generator().manual_seed(0))
    assert made.image.shape == given.image.shape and made.image.isfinite().all()


def test_the_form_of_other_devices_gives_the_same_result(monkeypatch):
    """There all images pass through every operation, because to count the chosen ones would mean to wait."""
    given, augmenter = batch(), OneOperation()
    draw = augmenter.sample(COUNT, None, torch.Generator().manual_seed(3))
    chosen = augmenter.warp(augmenter.color(given, draw), draw)

    def everywhere(chosen, images, change):
        every = torch.arange(len(images))
        return torch.where(chosen.view(-1, *[1] * (images.ndim - 1)), change(images, every), images)

    assert where(torch.zeros(2, dtype=torch.bool), given.image[:2], lambda *_: 1 / 0) is not None
    monkeypatch.setattr(one_operation, "where", everywhere)
    whole = augmenter.warp(augmenter.color(given, draw), draw)
    torch.testing.assert_close(chosen.image, whole.image, atol=1e-6, rtol=0)
    assert torch.equal(chosen.mask, whole.mask)
