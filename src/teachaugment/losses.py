"""Cross-entropy, and the augmenter's losses: non-saturating, smoothed, cosine, sliced Wasserstein distance (Sec. 3.3).

Both classification losses take class indices [B], weights [B, K] or masks [B, H, W]. The pixels of a mask that are
IGNORE have no say; for class indices, 255 is a class like any other.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from teachaugment.batch import IGNORE

Loss = Callable[[Any, Any], Tensor]  # of an output and what is true


def main_head(output: Any) -> Tensor:
    """The logits of a network's main head. In training, some networks for segmentation return an auxiliary one too;
    those of Hugging Face return an object that has them as ``logits``."""
    if isinstance(logits := getattr(output, "logits", None), Tensor):
        return logits
    if isinstance(output, Mapping):  # torchvision's
        return output["out"]
    return output[0] if isinstance(output, tuple) else output


def cross_entropy(output: Any, label: Tensor, smoothing: float = 0.0) -> Tensor:
    """Mean over the batch, or over the known pixels of masks; zero where no pixel is known."""
    logits = in_full_precision(main_head(output))
    if label.ndim < 3:
        return F.cross_entropy(logits, label, label_smoothing=smoothing)
    total = F.cross_entropy(logits, label, label_smoothing=smoothing, ignore_index=IGNORE, reduction="sum")
    return total / (label != IGNORE).sum().clamp_min(1)


def smoothing_of(loss: Loss) -> float | None:
    """The label smoothing of a cross-entropy, as torch or this package has it; None: it is another loss."""
    if loss in (cross_entropy, F.cross_entropy):
        return 0.0
    if isinstance(loss, nn.CrossEntropyLoss):
        known = loss.weight is None and loss.reduction == "mean" and loss.ignore_index < 0
        return loss.label_smoothing if known else None
    if isinstance(loss, partial) and loss.func is F.cross_entropy and not loss.args:
        return loss.keywords.get("label_smoothing", 0.0) if set(loss.keywords) <= {"label_smoothing"} else None
    return None


def known_loss(loss: Loss) -> Loss:
    """This package's cross-entropy for any of torch's, and every other loss as it is."""
    smoothing = smoothing_of(loss)
    if smoothing is None:
        return loss
    return partial(cross_entropy, smoothing=smoothing) if smoothing else cross_entropy


def default_target_loss(loss: Loss, use_non_saturating: bool, smoothing: float) -> Loss:
    """The target's term of Eq. 1 for cross-entropy; any other loss is maximised as it is."""
    if smoothing_of(loss) is None:
        if isinstance(loss, nn.CrossEntropyLoss):
            warnings.warn(
                "a cross-entropy with weights, another reduction or ignore_index is maximised as it is, not in its "
                "non-saturating form; pass target_loss= for another one",
                stacklevel=3,
            )
        return loss
    return partial(non_saturating if use_non_saturating else cross_entropy, smoothing=smoothing)


def in_full_precision(logits: Tensor) -> Tensor:
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def highest(scores: Tensor, dim: int = 1, keepdim: bool = False) -> Tensor:
    """The class with the highest score. ``argmax`` says the same, but takes four times as long for pixels on a CPU."""
    return scores.max(dim, keepdim).indices


def log_one_minus_softmax(logits: Tensor, dim: int = 1) -> Tensor:
    """log(1 - softmax(logits)), finite however confident the prediction.

    Only the largest probability can come near 1; for it, 1 - p is summed from the other classes instead of subtracted.
    """
    top = highest(logits, dim, keepdim=True)
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


def non_saturating(output: Any, label: Tensor, smoothing: float = 0.0) -> Tensor:
    """Σ_k ŷ_k log(1 - f_k), averaged like the cross-entropy: what the augmenter maximises in its place.

    Its gradient does not vanish when the target is confident.
    """
    logits = in_full_precision(main_head(output))
    logs = log_one_minus_softmax(logits)
    if label.is_floating_point():
        return (smooth(label, logits.shape[1], smoothing, logits.dtype) * logs).sum(1).mean()
    known = label != IGNORE if label.ndim == 3 else torch.ones_like(label, dtype=torch.bool)
    # ŷ written out: one-hot vectors of all pixels would be the largest tensor of the whole step.
    own = logs.gather(1, label.masked_fill(~known, 0)[:, None])[:, 0]
    value = (1 - smoothing) * own + smoothing * logs.mean(1)
    return torch.where(known, value, 0).sum() / known.sum().clamp_min(1)


def negative_cosine(a: Tensor, b: Tensor) -> Tensor:
    """Minus the cosine between the rows of two matrices, averaged: -1 where they point the same way."""
    return -F.cosine_similarity(a.float(), b.float(), dim=1).mean()


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
