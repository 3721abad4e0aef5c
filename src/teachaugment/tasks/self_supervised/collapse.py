"""Collapse: a network that learns to find all images alike. How to see it, and how to say it."""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor

from teachaugment.tasks.self_supervised import LEAST_SPREAD

LEAST_RANK = 2.0  # one direction would be 1


def spread(output: Tensor) -> Tensor:
    """Standard deviation of the outputs [B, D], normalised to length 1, times √D.

    It is 1 when they point in all directions alike and 0 when they all point the same way (SimSiam, Sec. 4.1).
    """
    return F.normalize(output.float(), dim=1).std(0, correction=0).mean() * math.sqrt(output.shape[1])


def effective_rank(output: Tensor) -> Tensor:
    """How many directions the outputs [B, D], normalised, make use of: (Σλ)² / Σλ² over the eigenvalues of their Gram
    matrix, the participation ratio.

    It is k where k orthogonal directions are used alike, and at most B. Both sums are known without the eigenvalues.
    """
    rows = F.normalize(output.float(), dim=1)
    gram = rows @ rows.T if len(rows) <= rows.shape[1] else rows.T @ rows
    return gram.trace().square() / gram.square().sum().clamp_min(1e-12)


def warning(spread: float, rank: float) -> str | None:
    """What to tell a person whose network has collapsed."""
    if spread >= LEAST_SPREAD and rank >= LEAST_RANK:
        return None
    return (
        f"collapse: the network gives nearly the same output for every image (spread {spread:.2f} of 1, effective rank "
        f"{rank:.1f}), so it learns nothing more; a lower --lr, a larger --batch-size or --views.fixed_lr may help"
    )
