"""What flows through one step: a batch of images and what is known about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from torch import Tensor

from teachaugment.distributed import rank
from teachaugment.errors import UserError

LOOK_EVERY = 100  # steps after which the values of a batch on an accelerator are looked at, which waits for it
CLOSE = 1e-3  # by which images may leave [0, 1]: what resizing leaves behind
IGNORE = 255  # mask value of a pixel about which nothing is known
NO_BOX = -1  # class of a row of boxes that is empty


@dataclass(frozen=True)
class Batch:
    """Images in [0, 1], on one device, with whatever goes with them."""

    image: Tensor  # [B, C, H, W], float
    label: Tensor | None = None  # [B] int64, or [B, K] float for soft and multi-label targets
    mask: Tensor | None = None  # [B, H, W] int64, IGNORE where nothing is known
    index: Tensor | None = None  # [B] int64, position in the split
    others: tuple[Tensor, ...] = ()  # [B, C, H, W] each: further views of the same images, where several are compared
    boxes: Tensor | None = (
        None  # [B, N, 5] float: left, upper, right, lower in pixels, and the class, NO_BOX where none
    )
    arm: Tensor | None = None  # [B] int64: which operation an augmentation has done, 0 where none; None: it cannot tell
    # Which part of a step's images this is, over all processes: what its random numbers depend on. So a step that two
    # processes make with one part each is the step that one process makes with two parts.
    part: int = field(default_factory=rank)

    def __len__(self) -> int:
        return len(self.image)

    def replace(self, **changes: Any) -> Batch:
        return replace(self, **changes)

    def to(self, device: torch.device | str) -> Batch:
        return self.map(lambda t: t.to(device, non_blocking=True))

    def __getitem__(self, rows: slice | Tensor) -> Batch:
        """The same fields for some of the images."""
        return self.map(lambda t: t[rows])

    def split(self, size: int) -> list[Batch]:
        """Parts of at most ``size`` images."""
        if len(self) <= size:
            return [self]
        starts = range(0, len(self), size)
        return [self[i : i + size].replace(part=self.part * len(starts) + k) for k, i in enumerate(starts)]

    def join(self, parts: list[Batch]) -> Batch:
        """This batch with what has become of its parts."""
        if len(parts) == 1:
            return parts[0]
        values = {name: torch.cat([getattr(part, name) for part in parts]) for name in parts[0]._tensors()}
        others = tuple(torch.cat(views) for views in zip(*(part.others for part in parts), strict=True))
        return parts[0].replace(part=self.part, others=others, **values)

    @property
    def truth(self) -> Any:
        """What a loss compares an output with: boxes or mask where there are any, else the label; of views, these."""
        if self.others:
            return (self.image, *self.others)
        return next((known for known in (self.boxes, self.mask) if known is not None), self.label)

    def each_view(self) -> list[Batch]:
        """A batch for each view: this one itself or, where there are several, each of them without what is known."""
        if not self.others:
            return [self]
        return [Batch(image, part=self.part) for image in (self.image, *self.others)]

    def with_views(self, made: Sequence[Batch]) -> Batch:
        """This batch with what has become of each of its views."""
        if not self.others:
            return made[0]
        return self.replace(image=made[0].image, others=tuple(view.image for view in made[1:]))

    def map(self, function: Callable[[Tensor], Tensor]) -> Batch:
        """All its tensors after a function."""
        changed: dict[str, Any] = {name: function(value) for name, value in self._tensors().items()}
        return self.replace(**changed, others=tuple(map(function, self.others)))

    def _tensors(self) -> dict[str, Tensor]:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}


def as_batch(image: Tensor, label: Tensor | None, *more: Tensor, views: int = 1) -> Batch:
    """Images and labels as a loop has them, or where there are several views, all of them; labels that are whole
    numbers become int64, as losses want them."""
    if views > 1:
        return Batch(image, others=() if label is None else (label, *more))
    whole = label is not None and not label.is_floating_point() and label.dtype != torch.bool
    return Batch(image, label.long() if whole and label is not None else label)


def check(
    batch: Batch,
    channels: int,
    classes: int | None,
    step: int = 0,
    *,
    teaching: bool = False,
    one_class: bool = False,
    values: bool = True,
) -> None:
    """Refuse what would go wrong silently later, or with a message that nobody understands.

    Values are read back from the device, which an accelerator is asked for in every ``LOOK_EVERY``-th step only.
    ``teaching``: an augmenter learns, which needs 32 bits and labels; a policy may do without. ``one_class``: the loss
    is for images of one class each, or of a mixture whose shares sum up to 1. Without ``values`` none is looked at.
    """
    image, label = batch.image, batch.label
    if image.ndim != 4 or image.shape[1] != channels:
        raise UserError(f"images must be [batch, {channels}, height, width], not {list(image.shape)}; see channels=")
    if not image.is_floating_point():
        raise UserError(f"images must be float in [0, 1], not {image.dtype}; divide by 255 first")
    if teaching and image.dtype != torch.float32:
        raise UserError(f"images must be float32, not {image.dtype}; pass images.float()")
    look = values and (step % LOOK_EVERY == 0 or image.device.type == "cpu")
    if look and len(image):
        low, high = (float(value) for value in image.detach().aminmax())
        if not (low >= -CLOSE and high <= 1 + CLOSE):
            raise UserError(
                f"images must lie in [0, 1], these reach from {low:.3g} to {high:.3g}; "
                "augment before normalising, and pass the normalisation as normalize="
            )
    if label is not None and len(label) != len(image):
        raise UserError(f"there are {len(image)} images and {len(label)} labels; each image needs one")
    if label is not None and label.ndim == 3 and not label.is_floating_point():
        raise UserError(
            f"labels of shape {list(label.shape)} are masks, which must move with their images: pass teach.augment and "
            "teach.step a Batch(images, mask=masks), and leave num_classes out"
        )
    if classes is not None and batch.mask is None and (teaching or label is not None):
        _check_labels(label, classes, look, one_class)


def _check_labels(label: Tensor | None, classes: int, look: bool, one_class: bool) -> None:
    """Labels that are the augmenter's context: classes, or for each image the shares of the classes."""
    shape = [] if label is None else list(label.shape)
    if label is None:
        raise UserError("labels are missing, and num_classes= says that there are some; pass them, or leave it out")
    if label.is_floating_point():
        if shape[1:] != [classes]:
            raise UserError(
                f"class labels must be int64 of shape [{len(label)}], or shares of shape [{len(label)}, {classes}], "
                f"not {label.dtype} of shape {shape}; leave num_classes out where labels are not classes"
            )
        if one_class and look and not bool(((label.sum(1) - 1).abs() < 1e-2).all()):
            raise UserError(
                "the shares of the classes must sum up to 1 for each image; where an image has several classes, pass "
                "loss=binary_cross_entropy_with_logits"
            )
    elif label.ndim != 1 or label.dtype == torch.bool:
        raise UserError(
            f"class labels must be int64 of shape [{len(label)}], not {label.dtype} of shape {shape}; several classes "
            "for an image are labels.float(), with loss=binary_cross_entropy_with_logits"
        )
    elif look and len(label):
        low, high = (float(value) for value in label.aminmax())
        if not (low >= 0 and high < classes):
            raise UserError(
                f"labels must lie in 0 … {classes - 1}, these reach from {low:g} to {high:g}; see num_classes="
            )
