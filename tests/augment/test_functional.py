import math

import pytest
import torch
from torch.autograd import gradcheck

from teachaugment.augment import functional as fn


def test_triangle_wave_equals_the_paper_formula():
    x = torch.linspace(-5, 5, 2001, dtype=torch.float64)
    assert torch.allclose(fn.triangle_wave(x), torch.acos(torch.cos(math.pi * x)) / math.pi, atol=1e-7)


def test_triangle_wave_is_the_identity_on_colours():
    x = torch.linspace(0, 1, 256)
    assert torch.equal(fn.triangle_wave(x), x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_triangle_wave_has_a_finite_gradient_at_its_folds(dtype):
    x = torch.tensor([-1.0, 0.0, 1.0, 2.0, 3.0], dtype=dtype, requires_grad=True)
    fn.triangle_wave(x).sum().backward()
    assert x.grad.isfinite().all()


def test_gradcheck_triangle_wave():
    x = torch.tensor([-1.3, -0.4, 0.2, 0.7, 1.6, 2.2], dtype=torch.float64, requires_grad=True)
    assert gradcheck(fn.triangle_wave, x)


def test_bounded_stays_in_its_range_and_maps_zero_to_zero():
    raw = torch.tensor([-100.0, 0.0, 100.0])
    assert torch.allclose(fn.bounded(raw, 0.8), torch.tensor([-0.4, 0.0, 0.4]))


def test_relaxed_bernoulli_has_mean_p_and_is_nearly_binary():
    uniform = torch.rand(20000, dtype=torch.float64)
    for p in (0.1, 0.5, 0.8):
        w = fn.relaxed_bernoulli(torch.tensor(math.log(p / (1 - p))), uniform, 0.05)
        assert w.mean().item() == pytest.approx(p, abs=0.015)
        assert ((w < 0.05) | (w > 0.95)).double().mean() > 0.9


def test_hard_bernoulli_is_the_rounded_relaxed_one():
    uniform, logit = torch.rand(1000), torch.tensor(0.3)
    hard = fn.hard_bernoulli(logit, uniform)
    assert set(hard.unique().tolist()) == {0.0, 1.0}
    assert torch.equal(hard, fn.relaxed_bernoulli(logit, uniform, 0.05).round())


def test_relaxed_bernoulli_survives_the_ends_of_the_uniform():
    w = fn.relaxed_bernoulli(torch.zeros(2, requires_grad=True), torch.tensor([0.0, 1.0]), 0.05)
    w.sum().backward()
    assert w.isfinite().all()


def test_gradcheck_relaxed_bernoulli():
    logit = torch.tensor([0.1, -0.2, 0.3], dtype=torch.float64, requires_grad=True)
    uniform = torch.tensor([0.45, 0.55, 0.4], dtype=torch.float64)
    assert gradcheck(lambda v: fn.relaxed_bernoulli(v, uniform, 0.05), logit)


def identity(n, dtype=torch.float32):
    return torch.eye(2, 3, dtype=dtype).expand(n, 2, 3).clone()


@pytest.mark.parametrize(("channels", "size"), [(1, (8, 8)), (3, (7, 12)), (5, (1, 9))])
def test_identity_matrix_returns_the_input(channels, size):
    image = torch.rand(2, channels, *size)
    before = image.clone()
    assert torch.allclose(fn.affine_warp(image, identity(2)), image, atol=1e-5)
    assert torch.equal(image, before)


def test_affine_warp_shifts_by_the_matrix():
    image = torch.arange(16.0).reshape(1, 1, 4, 4)
    matrix = identity(1)
    matrix[0, 0, 2] = 0.5  # a quarter of the width: one pixel
    warped = fn.affine_warp(image, matrix, fill=-1)
    assert torch.allclose(warped[..., :3], image[..., 1:], atol=1e-5)
    assert torch.allclose(warped[..., 3], torch.full((1, 1, 4), -1.0))


def test_gradcheck_affine_warp():
    image = torch.rand(2, 2, 5, 6, dtype=torch.float64, requires_grad=True)
    matrix = (identity(2, torch.float64) + 0.1 * torch.randn(2, 2, 3, dtype=torch.float64)).requires_grad_()
    assert gradcheck(fn.affine_warp, (image, matrix), atol=1e-4)


def test_image_and_mask_receive_the_same_warp():
    mask = torch.zeros(1, 16, 16, dtype=torch.long)
    mask[:, 4:10, 5:12] = 3
    matrix = identity(1) + 0.2 * torch.randn(1, 2, 3)
    warped = fn.warp_mask(mask, matrix, fill=255)
    as_image = fn.affine_warp((mask[:, None] == 3).float(), matrix, mode="nearest")[:, 0] > 0.5
    assert torch.equal(warped == 3, as_image)
    outside = fn.affine_warp(torch.ones(1, 1, 16, 16), matrix, mode="nearest")[:, 0] < 0.5
    assert torch.equal(warped == 255, outside)
    assert warped.dtype == mask.dtype


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_lattice_reproduces_a_linear_map_exactly(channels):
    mix = torch.randn(2, channels, channels)
    image = torch.rand(2, channels, 13, 11)
    values = mix @ fn.lattice(channels, 5, image.device, image.dtype)
    found = fn.lattice_lookup(values, image, 5)
    assert torch.allclose(found, torch.einsum("bij,bjhw->bihw", mix, image), atol=1e-5)


def test_gradcheck_lattice_lookup():
    values = torch.rand(2, 3, 27, dtype=torch.float64, requires_grad=True)
    image = torch.rand(2, 3, 4, 4, dtype=torch.float64)
    assert gradcheck(lambda v: fn.lattice_lookup(v, image, 3), values)
