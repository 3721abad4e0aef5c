from __future__ import annotations

import pytest
import torch

from teachaugment.errors import UserError
from teachaugment.finite_updates import clear_unless, require_finite


def optimizer(*gradients: torch.Tensor) -> torch.optim.Optimizer:
    parameters = [torch.nn.Parameter(torch.zeros_like(gradient)) for gradient in gradients]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    return torch.optim.AdamW(parameters)


def test_on_a_cpu_a_gradient_that_is_not_finite_is_an_error():
    assert require_finite(optimizer(torch.ones(3), torch.ones(2, 2)), {})
    with pytest.raises(UserError, match=r"a gradient of the augmenter is not finite \(objective nan\)"):
        require_finite(optimizer(torch.ones(3), torch.full((2,), torch.inf)), {"objective": torch.tensor(torch.nan)})


def test_an_accelerator_is_not_asked():
    """On ``meta`` there is nothing to read: a number that is asked for is an error."""
    assert require_finite(optimizer(torch.ones(3, device="meta")), {})


@pytest.mark.parametrize("value", [1.0, torch.nan, -torch.inf])
def test_all_gradients_are_kept_or_none(value):
    gradients = [torch.ones(3), torch.tensor([[2.0, value]])]
    finite = torch.stack([gradient.sum() for gradient in gradients]).isfinite().all()
    clear_unless(finite, gradients)
    kept = value == 1.0
    assert torch.equal(gradients[0], torch.full((3,), float(kept)))
    assert torch.equal(gradients[1], torch.tensor([[2.0, 1.0]]) * float(kept))
