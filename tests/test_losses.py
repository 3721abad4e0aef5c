import math

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import gradcheck

from teachaugment.batch import IGNORE
from teachaugment.losses import color_distance, cross_entropy, log_one_minus_softmax, main_head, non_saturating, smooth


def test_log_one_minus_softmax_equals_its_definition():
    logits = torch.randn(20, 7, dtype=torch.float64)
    assert torch.allclose(log_one_minus_softmax(logits), torch.log(1 - logits.softmax(1)), atol=1e-12)


def test_log_one_minus_softmax_stays_finite_when_confident():
    logits = torch.tensor([[200.0, 0.0, -3.0]], requires_grad=True)
    value = log_one_minus_softmax(logits)
    value.sum().backward()
    assert value[0, 0].item() == pytest.approx(-200 + math.log(1 + math.exp(-3)), rel=1e-6)
    assert logits.grad.isfinite().all() and logits.grad[0, 0] < -0.9


def test_gradcheck_non_saturating():
    logits = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    label = torch.tensor([0, 1, 2, 4])
    assert gradcheck(lambda z: non_saturating(z, label, 0.1), logits)


def test_smoothing_follows_the_paper():
    assert smooth(torch.tensor([1]), 4, 0.2, torch.float32).tolist()[0] == pytest.approx([0.05, 0.85, 0.05, 0.05])


def test_non_saturating_against_a_value_by_hand():
    # f = (0.7, 0.2, 0.1), y = class 0, epsilon = 0.3: weights 0.8, 0.1, 0.1
    logits = torch.tensor([[0.7, 0.2, 0.1]]).log()
    by_hand = 0.8 * math.log(0.3) + 0.1 * math.log(0.8) + 0.1 * math.log(0.9)
    assert non_saturating(logits, torch.tensor([0]), 0.3).item() == pytest.approx(by_hand, abs=1e-6)


def test_non_saturating_keeps_its_gradient_where_cross_entropy_loses_it():
    logits = torch.tensor([[30.0, 0.0]], requires_grad=True)
    label = torch.tensor([0])
    (saturated,) = torch.autograd.grad(F.cross_entropy(logits, label), logits)
    (kept,) = torch.autograd.grad(non_saturating(logits, label), logits)
    assert saturated.abs().max() < 1e-9
    assert kept.abs().max() > 0.9


def test_non_saturating_of_indices_and_of_weights_agree():
    logits, label = torch.randn(6, 5, dtype=torch.float64), torch.tensor([0, 1, 2, 4, 4, 3])
    weights = F.one_hot(label, 5).double()
    assert torch.allclose(non_saturating(logits, label, 0.3), non_saturating(logits, weights, 0.3))


@pytest.mark.parametrize("loss", [cross_entropy, non_saturating])
def test_of_a_mask_only_known_pixels_count(loss):
    logits, mask = torch.randn(2, 5, 4, 3, dtype=torch.float64), torch.randint(5, (2, 4, 3))
    mask[0, 1:] = IGNORE
    known = mask != IGNORE
    pixels, labels = logits.permute(0, 2, 3, 1)[known], mask[known]
    assert torch.allclose(loss(logits, mask, 0.2), loss(pixels, labels, 0.2))


@pytest.mark.parametrize("loss", [cross_entropy, non_saturating])
def test_without_any_known_pixel_loss_and_gradient_are_zero(loss):
    logits = torch.randn(2, 5, 4, 3, requires_grad=True)
    value = loss(logits, torch.full((2, 4, 3), IGNORE), 0.1)
    value.backward()
    assert value == 0 and logits.grad.abs().max() == 0


@pytest.mark.parametrize("loss", [cross_entropy, non_saturating])
def test_class_255_of_many_is_a_class_like_any_other(loss):
    logits = torch.randn(4, 300)
    assert loss(logits, torch.full((4,), IGNORE)).abs() > 0


def test_gradcheck_non_saturating_per_pixel():
    logits = torch.randn(2, 4, 3, 2, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[[0, 1], [2, 3], [IGNORE, 1]], [[IGNORE, IGNORE], [0, 0], [3, 2]]])
    assert gradcheck(lambda z: non_saturating(z, mask, 0.1), logits)


@pytest.mark.parametrize("wrap", [lambda z: z, lambda z: (z, z + 1), lambda z: {"out": z, "aux": z + 1}])
def test_of_several_heads_the_main_one_counts(wrap):
    logits, label = torch.randn(3, 4), torch.tensor([0, 1, 3])
    assert main_head(wrap(logits)) is logits
    assert torch.equal(cross_entropy(wrap(logits), label), F.cross_entropy(logits, label))


def test_color_distance_is_zero_for_equal_and_for_permuted_batches():
    image = torch.rand(16, 3, 6, 6)
    assert color_distance(image, image) == 0
    assert color_distance(image, image[torch.randperm(16)]) < 1e-10


def test_color_distance_of_a_constant_shift_is_its_square_over_the_channels():
    image = torch.rand(8, 3, 6, 6, dtype=torch.float64)
    shift = torch.tensor([0.3, -0.1, 0.2], dtype=torch.float64).view(1, 3, 1, 1)
    found = color_distance(image, image + shift, projections=4096, positions=None)
    assert found.item() == pytest.approx(shift.square().sum().item() / 3, rel=0.02)


def test_sampled_positions_estimate_the_full_distance_without_bias():
    torch.manual_seed(0)
    before, after = torch.rand(16, 3, 20, 20), torch.rand(16, 3, 20, 20) ** 2
    exact = color_distance(before, after, projections=256, positions=None).item()
    sampled = torch.stack([color_distance(before, after, positions=32) for _ in range(60)])
    assert sampled.mean().item() == pytest.approx(exact, abs=3 * sampled.std().item() / math.sqrt(60))
    assert sampled.std() > 0


def test_color_distance_of_one_image_works():
    assert color_distance(torch.zeros(1, 1, 4, 4), torch.ones(1, 1, 4, 4)).item() == pytest.approx(1.0)


def test_gradcheck_color_distance():
    before = torch.rand(5, 3, 2, 2, dtype=torch.float64)
    after = torch.rand(5, 3, 2, 2, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda y: color_distance(before, y, generator=torch.Generator().manual_seed(0)), after)


def test_color_distance_has_a_finite_gradient_at_zero():
    image = torch.rand(4, 3, 4, 4)
    after = image.clone().requires_grad_()
    color_distance(image, after).backward()
    assert torch.equal(after.grad, torch.zeros_like(after))
