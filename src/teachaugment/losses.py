"""The augmenter's losses: non-saturating, label smoothing, sliced Wasserstein colour distance (Sec. 3.3)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def log_one_minus_softmax(logits: Tensor, dim: int = 1) -> Tensor:
    """log(1 - softmax(logits)), finite however confident the prediction.

    Only the largest probability can come near 1; for it, 1 - p is summed from the other classes instead of subtracted.
    """
    top = logits.argmax(dim, keepdim=True)
    is_top = torch.zeros_like(logits, dtype=torch.bool).scatter(dim, top, True)
    log_total = logits.logsumexp(dim, keepdim=True)
    log_others = logits.masked_fill(is_top, -torch.inf).logsumexp(dim, keepdim=True)
    small = (logits - log_total).exp().masked_fill(is_top, 0)
    return torch.where(is_top, log_others - log_total, torch.log1p(-small))


def smooth(label: Tensor, classes: int, smoothing: float, dtype: torch.dtype) -> Tensor:
    """ŷ = (1-ε) y + ε/K with the classes along dimension 1: [B] to [B, K], [B, H, W] to [B, K, H, W]."""
    if not label.is_floating_point():
        label = F.one_hot(label, classes).movedim(-1, 1)
    return label.to(dtype) * (1 - smoothing) + smoothing / classes


def non_saturating(logits: Tensor, label: Tensor, smoothing: float = 0.0) -> Tensor:
    """Σ_k ŷ_k log(1 - f_k), averaged over the batch: what the augmenter maximises in place of the cross-entropy.

    Its gradient does not vanish when the target is confident. ``label`` is [B] indices or [B, K] weights.
    """
    logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    weights = smooth(label, logits.shape[1], smoothing, logits.dtype)
    return (weights * log_one_minus_softmax(logits)).sum(1).mean()


def color_distance(
    before: Tensor,
    after: Tensor,
    projections: int = 8,
    positions: int | None = 128,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Squared sliced Wasserstein distance between the batch's colours before and after, per pixel position (Eq. 2).

    At each position the B colours are two clouds of points; on a random line, the distance between sorted projections
    is the one-dimensional optimal transport. The mean over ``positions`` random pixels (None: all), each with its own
    ``projections`` random lines, estimates the mean over all pixels and lines without bias. The paper sums over pixels;
    the mean makes λ independent of the image size. The square keeps the gradient finite at distance 0.
    """
    x, y = before.flatten(2), after.flatten(2)
    if positions is not None and positions < x.shape[2]:
        chosen = torch.randint(x.shape[2], (positions,), device=x.device, generator=generator)
        x, y = x[:, :, chosen], y[:, :, chosen]
    lines = torch.randn(x.shape[2], projections, x.shape[1], device=x.device, dtype=x.dtype, generator=generator)
    lines = F.normalize(lines, dim=2)

    def sorted_projections(colors: Tensor) -> Tensor:
        return (lines @ colors.permute(2, 1, 0)).sort(-1).values  # [positions, projections, B]

    return (sorted_projections(y) - sorted_projections(x)).square().mean()
