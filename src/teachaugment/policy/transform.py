"""A policy as a torchvision v2 transform of single samples: image, masks, boxes and key points by one draw.

It takes what v2 takes (PIL images, tensors, tv_tensors, in any nesting), draws from torch's own generator, which
DataLoader seeds in each worker, and leaves what it does not know as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import torch
from PIL import Image
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

from teachaugment.augment.boxes import around_ellipse
from teachaugment.augment.functional import affine_warp, warp_points
from teachaugment.batch import IGNORE, Batch, check
from teachaugment.errors import UserError
from teachaugment.policy import pillow

if TYPE_CHECKING:
    from teachaugment.policy.policy import Policy

KEY_POINTS: Any = getattr(tv_tensors, "KeyPoints", None)  # torchvision 0.23 and newer
ROTATED = ("XYWHR", "CXCYWHR", "XYXYXYXY")  # formats of boxes whose sides are not the image's


class PolicyTransform(v2.Transform):
    """What ``policy`` does to a sample.

    labels_getter:  finds the label in the sample, which decides the class it is augmented as. "default": the second
                    item of a pair, or what a dictionary (alone, or as that item) has under "labels" or a key with
                    "label" in it. A function of the sample can find it elsewhere; None: labels are not looked at.
    mask_fill:      what masks hold where nothing is known; masks of bool hold False there.
    """

    def __init__(
        self, policy: Policy, labels_getter: Callable[[Any], Any] | str | None = "default", mask_fill: int = IGNORE
    ) -> None:
        super().__init__()
        if labels_getter not in ("default", None) and not callable(labels_getter):
            raise UserError(f"labels_getter must be 'default', None or a function of the sample, not {labels_getter!r}")
        self.policy, self.labels_getter, self.mask_fill = policy, labels_getter, mask_fill

    @torch.no_grad()
    def forward(self, *inputs: Any) -> Any:
        sample = inputs if len(inputs) > 1 else inputs[0]
        flat, spec = tree_flatten(sample)
        needed = self._needs_transform_list(flat)
        if self.policy.strength == 0 or not any(needed):
            return sample
        context = self._context(sample, flat)
        in_bytes = all(map(is_in_bytes, (item for item, need in zip(flat, needed, strict=True) if need)))
        by_pillow = in_bytes and pillow.takes(self.policy, context)
        drawn = pillow.draw(self.policy, context) if by_pillow else self.policy.draw(1, context)
        params = {"draw": drawn, "by_pillow": by_pillow}
        changed = [self.transform(item, params) if need else item for item, need in zip(flat, needed, strict=True)]
        return tree_unflatten(changed, spec)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        drawn = params["draw"]
        if isinstance(inpt, Image.Image):
            return self._picture(inpt, drawn, params["by_pillow"])
        followers = (tv_tensors.Mask, tv_tensors.BoundingBoxes, *([KEY_POINTS] if KEY_POINTS else []))
        if self.policy.augmenter.bends and isinstance(inpt, followers):
            raise UserError(
                f"a {type(inpt).__name__} cannot follow an {self.policy.augmenter.name} augmenter, which bends images"
            )
        if isinstance(inpt, tv_tensors.Mask):
            return tv_tensors.wrap(self._mask(inpt.as_subclass(Tensor), drawn), like=inpt)
        if isinstance(inpt, tv_tensors.BoundingBoxes):
            return warp_boxes(inpt, self._matrix(drawn, inpt.canvas_size))
        if KEY_POINTS is not None and isinstance(inpt, KEY_POINTS):
            points, size = inpt.as_subclass(Tensor), inpt.canvas_size
            return tv_tensors.wrap(
                in_kind(warp_points(as_float(points), self._matrix(drawn, size), size), points), like=inpt
            )
        if isinstance(inpt, tv_tensors.Video):
            raise UserError("a policy augments images, not videos; give it one frame at a time")
        plain = self._image(inpt.as_subclass(Tensor), drawn, params["by_pillow"])
        return tv_tensors.wrap(plain, like=inpt) if isinstance(inpt, tv_tensors.Image) else plain

    # --- the parts of a sample -----------------------------------------------------------------------------------

    def _context(self, sample: Any, flat: list[Any]) -> Tensor | None:
        """The sample's label as the policy takes it, [1] or [1, classes]; None if there is none."""
        classes = self.policy.labels
        if classes is None or self.labels_getter is None or self.policy.context is not None:
            return None
        found = find_label(sample) if self.labels_getter == "default" else self.labels_getter(sample)  # type: ignore[operator]
        if isinstance(found, bool) or not isinstance(found, (Integral, Tensor)):
            return None
        label = torch.as_tensor(found, device=self.policy.augmenter.device)
        if label.numel() == 1 and not label.is_floating_point():
            if not 0 <= int(label) < classes:
                raise UserError(
                    f"label {int(label)} is not one of the {classes} classes this policy expects; "
                    "say load_policy(…, classes=[names of your classes]), or labels_getter=None to ignore labels"
                )
            return label.reshape(1).long()
        of_boxes = any(isinstance(item, tv_tensors.BoundingBoxes) for item in flat)  # then it is one label per box
        if label.shape == (classes,) and not of_boxes and float(label.sum()) > 0:
            return label[None].float()
        return None

    def _matrix(self, drawn: Any, size: tuple[int, int]) -> Tensor:
        return self.policy.augmenter.matrix(drawn, size)[0]

    def _picture(self, picture: Image.Image, drawn: Any, by_pillow: bool) -> Image.Image:
        """Transparency moves with the image, and is no colour."""
        alpha = picture.mode in ("RGBA", "LA")
        if picture.mode not in (("L", "RGB") if self.policy.augmenter.bends else ("L", "RGB", "LA", "RGBA")):
            raise UserError(f"a policy takes images of mode RGB or L, not {picture.mode}; put v2.RGB() before it")
        if by_pillow:
            self._check_channels((len(picture.getbands()) - alpha, *picture.size[::-1]))
            return pillow.augmented(picture, drawn)
        image = F.pil_to_tensor(picture)
        changed = self._image(image[:-1] if alpha else image, drawn)
        if alpha:
            opaque = F.to_dtype(image[-1:], torch.float32, scale=True)
            moved = affine_warp(opaque[None], self._matrix(drawn, picture.size[::-1])[None])[0]
            changed = torch.cat([changed, F.to_dtype(moved.clamp(0, 1), torch.uint8, scale=True)])
        return F.to_pil_image(changed, mode=picture.mode)

    def _check_channels(self, shape: Sequence[int]) -> None:
        channels = self.policy.augmenter.settings.channels
        if len(shape) != 3 or shape[0] != channels:
            raise UserError(
                f"this policy takes images of {channels} channel(s), [{channels}, height, width], not "
                f"{list(shape)}; v2.RGB() or v2.Grayscale() before it may help; a batch goes to the policy itself"
            )

    def _image(self, image: Tensor, drawn: Any, by_pillow: bool = False) -> Tensor:
        """[C, H, W] in the range of its type: 0 … 255 for uint8, 0 … 1 for floats."""
        self._check_channels(image.shape)
        augmenter, channels = self.policy.augmenter, self.policy.augmenter.settings.channels
        if by_pillow:
            return pillow.to_tensor(pillow.augmented(pillow.to_picture(image), drawn))
        batch = Batch(image[None] if image.is_floating_point() else F.to_dtype(image, torch.float32, scale=True)[None])
        check(batch, channels, None)
        changed = augmenter.warp(augmenter.color(batch, drawn), drawn).image[0].clamp(0, 1)  # rounding may leave it
        return changed if image.is_floating_point() else F.to_dtype(changed, image.dtype, scale=True)

    def _mask(self, mask: Tensor, drawn: Any) -> Tensor:
        """[..., H, W]: each plane moves as the image does."""
        planes = mask.reshape(-1, *mask.shape[-2:])
        fill = 0 if mask.dtype == torch.bool else self.mask_fill
        return (
            torch.stack([self._plane(plane, drawn, fill) for plane in planes]).reshape(mask.shape)
            if len(planes)
            else mask
        )

    def _plane(self, plane: Tensor, drawn: Any, fill: int) -> Tensor:
        warp, channels = self.policy.augmenter.warp, self.policy.augmenter.settings.channels
        no_image = torch.zeros(1, channels, 1, 1, device=plane.device)

        def moved(values: Tensor) -> Tensor:
            mask = warp(Batch(no_image, mask=values[None]), drawn).mask
            assert mask is not None
            return mask[0]

        result = moved(plane.long() if plane.dtype == torch.bool else plane)
        if fill != IGNORE:
            result = torch.where(moved(torch.zeros_like(result)) == IGNORE, fill, result)
        return result.to(plane.dtype)


def is_in_bytes(item: Any) -> bool:
    """Whether it is a picture of bytes on a CPU, or something that follows one."""
    if isinstance(item, Image.Image) or not isinstance(item, Tensor) or isinstance(item, tv_tensors.Mask):
        return True
    coordinates = isinstance(item, tv_tensors.BoundingBoxes) or (KEY_POINTS and isinstance(item, KEY_POINTS))
    return item.is_cpu and (bool(coordinates) or item.dtype == torch.uint8)


def find_label(sample: Any) -> Any:
    """Where torchvision's own transforms look for it: the second of a pair, or a key with "label" in it."""
    if isinstance(sample, (tuple, list)) and len(sample) > 1:
        sample = sample[1]
        if not isinstance(sample, Mapping):
            return sample
    if not isinstance(sample, Mapping):
        return None
    names = [name for name in sample if isinstance(name, str) and "label" in name.lower()]
    return sample[min(names, key=lambda name: name.lower() != "labels")] if names else None


def warp_boxes(boxes: tv_tensors.BoundingBoxes, matrix: Tensor) -> tv_tensors.BoundingBoxes:
    """Upright boxes as in training; rotated ones, which can follow exactly, around where their corners go."""
    size, own = boxes.canvas_size, boxes.format
    rotated = own.value in ROTATED
    corners_format = tv_tensors.BoundingBoxFormat["XYXYXYXY" if rotated else "XYXY"]
    plain = as_float(boxes.as_subclass(Tensor))
    box = F.convert_bounding_box_format(plain, old_format=own, new_format=corners_format)
    if rotated:
        box = rectangles(warp_points(box.reshape(-1, 4, 2), matrix, size)).flatten(1)
    else:
        box = around_ellipse(box.reshape(-1, 4), matrix, size)
    inside = F.clamp_bounding_boxes(tv_tensors.wrap(box, like=boxes, format=corners_format)).as_subclass(Tensor)
    result = F.convert_bounding_box_format(inside, old_format=corners_format, new_format=own)
    return tv_tensors.wrap(in_kind(result, boxes), like=boxes)


def rectangles(corners: Tensor) -> Tensor:
    """Around parallelograms [N, 4, 2] the rectangles that keep the direction of the first side."""
    along = corners[:, 1] - corners[:, 0]
    along = along / along.norm(dim=1, keepdim=True).clamp_min(1e-12)
    axes = torch.stack([along, torch.stack([-along[:, 1], along[:, 0]], 1)], 1)  # [N, 2, 2], one direction per row
    low, high = (corners @ axes.mT).aminmax(dim=1)
    own = torch.stack([low, torch.stack([high[:, 0], low[:, 1]], 1), high, torch.stack([low[:, 0], high[:, 1]], 1)], 1)
    return own @ axes


def as_float(values: Tensor) -> Tensor:
    return values if values.is_floating_point() else values.float()


def in_kind(values: Tensor, like: Tensor) -> Tensor:
    """In the type of ``like``; whole numbers are rounded."""
    return values.to(like.dtype) if like.is_floating_point() else values.round().to(like.dtype)
