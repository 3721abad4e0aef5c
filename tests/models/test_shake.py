"""Shake-Shake and ShakeDrop: one coefficient per sample, expectation in evaluation, backward independent of forward."""

from __future__ import annotations

import pytest
import torch

from teachaugment.models.shake import ShakeDrop, shake_shake

N = 4000


def mixed() -> tuple[torch.Tensor, torch.Tensor]:
    """Forward and backward coefficient of the first branch, of every element."""
    a, b = torch.ones(N, 2, 3, 3, requires_grad=True), torch.zeros(N, 2, 3, 3, requires_grad=True)
    out = shake_shake(a, b, training=True)
    out.sum().backward()
    assert a.grad is not None and b.grad is not None
    torch.testing.assert_close(a.grad + b.grad, torch.ones_like(a))
    return out.detach(), a.grad


def dropped(drop: float) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.ones(N, 2, 3, 3, requires_grad=True)
    out = ShakeDrop(drop)(x)
    out.sum().backward()
    assert x.grad is not None
    return out.detach(), x.grad


@pytest.mark.parametrize("draw", [mixed, lambda: dropped(0.5)], ids=["shake-shake", "shakedrop"])
def test_one_coefficient_per_sample(draw):
    for coefficient in draw():
        assert torch.equal(coefficient, coefficient[:, :1, :1, :1].expand_as(coefficient))
        assert len(coefficient[:, 0, 0, 0].unique()) > N / 4


def test_shake_shake_draws_uniformly_and_backward_apart_from_forward():
    forward, backward = (c[:, 0, 0, 0] for c in mixed())
    for c in (forward, backward):
        assert c.min() >= 0 and c.max() <= 1
        assert c.mean().item() == pytest.approx(0.5, abs=0.03) and c.var().item() == pytest.approx(1 / 12, abs=0.01)
    assert abs(torch.corrcoef(torch.stack([forward, backward]))[0, 1]) < 0.06


def test_shakedrop_keeps_or_scales_and_backward_is_apart_from_forward():
    forward, backward = (c[:, 0, 0, 0] for c in dropped(0.4))
    kept = forward == 1
    assert kept.float().mean().item() == pytest.approx(0.6, abs=0.03)
    assert (backward[kept] == 1).all()
    alpha, beta = forward[~kept], backward[~kept]
    assert alpha.min() < -0.9 and alpha.max() > 0.9 and alpha.mean().abs() < 0.06
    assert beta.min() >= 0 and beta.max() <= 1 and beta.mean().item() == pytest.approx(0.5, abs=0.03)
    assert abs(torch.corrcoef(torch.stack([alpha, beta]))[0, 1]) < 0.09


def test_evaluation_uses_the_expectation_with_its_true_gradient():
    a, b = torch.randn(2, 3, requires_grad=True), torch.randn(2, 3, requires_grad=True)
    out = shake_shake(a, b, training=False)
    torch.testing.assert_close(out, (a + b) / 2)
    out.sum().backward()
    assert a.grad is not None and (a.grad == 0.5).all()
    module = ShakeDrop(0.3).eval()
    assert torch.equal(module(a), 0.7 * a)
    assert dropped(0.3)[0].mean().item() == pytest.approx(0.7, abs=0.03)


def test_without_dropping_shakedrop_changes_nothing():
    forward, backward = dropped(0.0)
    assert (forward == 1).all() and (backward == 1).all()


def test_coefficients_follow_the_seed():
    results = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        results.append(torch.cat([part.flatten() for part in (*mixed(), *dropped(0.5))]))
    assert torch.equal(results[0], results[1]) and not torch.equal(results[0], results[2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_dtype_is_kept(dtype):
    x = torch.ones(2, 3, dtype=dtype)
    assert shake_shake(x, x, training=True).dtype == dtype and ShakeDrop(0.5)(x).dtype == dtype
