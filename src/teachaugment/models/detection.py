"""Detectors: a small one that trains in minutes on a CPU, and torchvision's by name.

All have one form. Called with images and their boxes [B, N, 5] a detector gives its ``Losses``, in whichever mode it
is; called with images alone, what it finds: [B, FOUND, 6], left, upper, right, lower in pixels, the score and the
class, the highest score first; rows of the class NO_BOX are none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.models.detection import FCOS, FasterRCNN, RetinaNet, ssdlite320_mobilenet_v3_large
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.backbone_utils import mobilenet_backbone, resnet_fpn_backbone
from torchvision.models.detection.roi_heads import RoIHeads
from torchvision.models.detection.rpn import RegionProposalNetwork
from torchvision.models.detection.ssd import SSD
from torchvision.models.detection.transform import GeneralizedRCNNTransform
from torchvision.ops import FrozenBatchNorm2d
from torchvision.ops.feature_pyramid_network import LastLevelP6P7

from teachaugment.batch import NO_BOX
from teachaugment.errors import UserError
from teachaugment.models.boxes import CLOSE, FOUND, SURE, best_of_overlapping, generalized_iou, no_boxes, overlaps

CANDIDATES = 300  # from which those are chosen that do not overlap
STRIDE = 8  # pixels between two cells of the small detector
REACH = 1.5  # cells around the middle of a box that answer for it
GAMMA, POSITIVE = 2.0, 0.25  # focal loss: exponent, and weight of the cells that answer for a box
RARE = 0.01  # a cell's probability to answer for a box, before anything is learned
BOX_WEIGHT = 2.0  # of the boxes' loss beside that of the classes


class Losses(NamedTuple):
    """What a detector says about images whose boxes it is shown."""

    minimised: Tensor  # the sum of its losses: what the target learns by, and what the teacher judges by
    maximised: Tensor  # the same with a class part that does not saturate, where there is one: for the augmenter
    found: Tensor | None = None  # [B, N] bool: which of the true boxes it finds; None: it does not say so here


# --- a small detector -----------------------------------------------------------------------------------------------


class SmallDetector(nn.Module):
    """Every cell of a grid says which class it belongs to and how far away the sides of its box are.

    FCOS (Tian et al., 2019) with one level: an eighth of the resolution, with the features of coarser levels added to
    it. Any size of image will do.
    """

    head_modules = ("classes.1",)

    def __init__(self, num_classes: int, channels: int = 3, width: int = 16):
        super().__init__()
        half, whole = 2 * width, 4 * width
        self.stem = nn.Sequential(_stage(channels, width, 2), _stage(width, half, 2), _stage(half, half))
        self.fine = nn.Sequential(_stage(half, whole, 2), _stage(whole, whole))
        self.middle = nn.Sequential(_stage(whole, whole, 2), _stage(whole, whole))
        self.coarse = _stage(whole, whole, 2)
        self.across = nn.ModuleList(nn.Conv2d(whole, whole, 1) for _ in range(2))
        self.joined = _stage(whole, whole)
        last = nn.Conv2d(whole, num_classes, 1)
        nn.init.constant_(cast(Tensor, last.bias), math.log(RARE / (1 - RARE)))
        self.classes = nn.Sequential(_stage(whole, whole), last)
        self.sides = nn.Sequential(_stage(whole, whole), nn.Conv2d(whole, 4, 1))

    def forward(self, image: Tensor, boxes: Tensor | None = None) -> Any:
        logits, sides = self.cells(image)
        with torch.autocast(image.device.type, enabled=False):
            logits, sides = logits.float(), sides.float()
            if boxes is None:
                return found_in(logits, sides, image.shape[-2:])
            return cell_losses(logits, sides, boxes.float())

    def cells(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the classes [B, K, h, w], and the distances to the sides in cells, as logarithms, [B, 4, h, w]."""
        fine = self.fine(self.stem(image))
        middle = self.middle(fine)
        coarse = self.coarse(middle)
        x = fine
        for level, across in zip((middle, coarse), self.across, strict=True):
            x = x + F.interpolate(across(level), size=fine.shape[-2:], mode="nearest")
        x = self.joined(x)
        return self.classes(x), self.sides(x)


def _stage(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    # Batch norm subtracts the mean, so a bias of the convolution would have no effect.
    conv = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


def centres(like: Tensor) -> Tensor:
    """The middles of the cells of [..., h, w], in pixels: [h * w, 2]."""
    rows, columns = (torch.arange(n, device=like.device, dtype=torch.float32) for n in like.shape[-2:])
    grid = torch.stack(torch.meshgrid(columns, rows, indexing="xy"), -1)
    return (grid.flatten(0, 1) + 0.5) * STRIDE


def boxes_of(sides: Tensor) -> Tensor:
    """From the distances [B, 4, h, w] to boxes [B, h * w, 4] in pixels."""
    reach = sides.clamp(-6, 6).exp().flatten(2).mT * STRIDE
    middle = centres(sides)
    return torch.cat([middle - reach[..., :2], middle + reach[..., 2:]], -1)


def found_in(logits: Tensor, sides: Tensor, size: Any) -> Tensor:
    """What the cells have found in images of this height and width."""
    height, width = size
    classes = logits.shape[1]
    score, place = logits.sigmoid().flatten(2).mT.flatten(1).topk(min(CANDIDATES, logits[0].numel()), dim=1)
    cell, kind = place // classes, place % classes
    box = boxes_of(sides).gather(1, cell[..., None].expand(-1, -1, 4))
    x, y = box[..., 0::2].clamp(0, width), box[..., 1::2].clamp(0, height)
    inside = torch.stack([x[..., 0], y[..., 0], x[..., 1], y[..., 1]], -1)
    made = best_of_overlapping(torch.cat([inside, score[..., None], kind[..., None].to(box.dtype)], -1))
    return torch.cat([made, no_boxes(made[:, :1]).expand(-1, FOUND - made.shape[1], -1)], 1)


@torch.no_grad()
def answering(boxes: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
    """Which cells [B, h * w] answer for a box, and for which.

    Those near the middle of a box; of several boxes the smallest. The cell in which its middle lies always does, so
    that there is no box without one unless a smaller box has the same middle.
    """
    middle, cells = (boxes[..., :2] + boxes[..., 2:4]) / 2, centres(like)
    away = (cells - middle[:, :, None]).abs().amax(-1)  # [B, N, cells]
    within = (cells > boxes[:, :, None, :2]) & (cells < boxes[:, :, None, 2:4])
    near = (away < REACH * STRIDE) & within.all(-1) | (away <= STRIDE / 2)
    near = near & (boxes[..., 4] != NO_BOX)[..., None]
    area = (boxes[..., 2:4] - boxes[..., :2]).prod(-1)[..., None]
    smallest, which = torch.where(near, area, torch.inf).min(1)
    return smallest.isfinite(), which


def cell_losses(logits: Tensor, sides: Tensor, boxes: Tensor) -> Losses:
    """Focal loss of the classes and generalised IoU of the boxes, per cell that answers for one.

    The gradient of the focal loss at a cell that is sure of the right class vanishes; to be maximised, its part of
    those cells is therefore log(1 - p) instead. The background keeps its loss: what could be gained there is to see
    objects everywhere.
    """
    answers, which = answering(boxes, logits)
    own = boxes.gather(1, which[..., None].expand(-1, -1, 5))  # [B, cells, 5]
    cells = logits.flatten(2).mT  # [B, cells, K]
    kind = own[..., 4].long().clamp_min(0)
    right = F.one_hot(kind, cells.shape[-1]).to(cells.dtype) * answers[..., None]
    p = cells.sigmoid()
    background = (1 - POSITIVE) * p**GAMMA * F.softplus(cells) * (1 - right)
    positive = POSITIVE * (1 - p) ** GAMMA * F.softplus(-cells) * right
    unsaturated = -POSITIVE * F.softplus(cells) * right  # log(1 - p)
    apart = torch.where(answers, 1 - generalized_iou(boxes_of(sides), own[..., :4]), 0)
    count = answers.sum().clamp_min(1)
    rest = (background.sum() + BOX_WEIGHT * apart.sum()) / count
    found = found_by_cells((p * right).sum(-1), boxes_of(sides), own, which, boxes)
    return Losses(rest + positive.sum() / count, rest + unsaturated.sum() / count, found)


@torch.no_grad()
def found_by_cells(score: Tensor, said: Tensor, own: Tensor, which: Tensor, boxes: Tensor) -> Tensor:
    """Which of the true boxes [B, N, 5] a cell that answers for it finds: sure enough of its class and close enough.

    score: [B, cells], of the right class, 0 where a cell answers for no box; said: [B, cells, 4]; own: [B, cells, 5],
    the box that a cell answers for, number ``which``.
    """
    over = overlaps(said[:, :, None], own[:, :, None, :4])[..., 0, 0]
    found = ((score >= SURE) & (over >= CLOSE)).float()
    return torch.zeros(boxes.shape[:2], device=boxes.device).scatter_add(1, which, found) > 0


# --- torchvision's --------------------------------------------------------------------------------------------------

WEIGHTS = "IMAGENET1K_V1"  # of backbones, as in models/segmentation.py
BACKBONES = {"resnet-50": "resnet50", "mobilenet-v3": "mobilenet_v3_large"}
ASK_FOR_THE_MODE = (FasterRCNN, RegionProposalNetwork, RoIHeads, RetinaNet, FCOS, SSD, GeneralizedRCNNTransform)


class AsTheyAre(GeneralizedRCNNTransform):
    """Images come normalised and of the size they are to have."""

    def __init__(self) -> None:
        super().__init__(1, 1, [0.0] * 3, [1.0] * 3)

    def resize(self, image: Tensor, target: Any = None) -> tuple[Tensor, Any]:
        return image, target

    def normalize(self, image: Tensor) -> Tensor:
        return image


class OfTorchvision(nn.Module):
    """A detector of torchvision.

    It gives its losses in training mode only, for which its own modules ask. To get them, these are told so for the
    time of a call; what they are made of (batch norm, dropout) stays in the mode it is in.
    """

    not_traced = "what torchvision does with its boxes depends on how many there are"

    def __init__(self, network: Any, *head_modules: str):
        super().__init__()
        self.network = network
        self.head_modules = tuple(f"network.{name}" for name in head_modules)
        self.first = 1 if isinstance(network, (FasterRCNN, SSD)) else 0  # their class 0 is the background

    def forward(self, image: Tensor, boxes: Tensor | None = None) -> Any:
        with asked_for_losses(self.network, boxes is not None):
            if boxes is None:
                return self._found(self.network(list(image)), image)
            losses = self.network(list(image), self._targets(boxes))
        total = torch.stack(list(losses.values())).sum()
        return Losses(total, total)

    def _targets(self, boxes: Tensor) -> list[dict[str, Tensor]]:
        rows = [own[own[:, 4] != NO_BOX] for own in boxes.float()]
        return [{"boxes": own[:, :4], "labels": own[:, 4].detach().long() + self.first} for own in rows]

    def _found(self, results: list[dict[str, Tensor]], image: Tensor) -> Tensor:
        made = no_boxes(image.new_empty(len(results), FOUND, 6)).clone()
        for rows, result in zip(made, results, strict=True):
            best = result["scores"].argsort(descending=True, stable=True)[:FOUND]
            kind = (result["labels"] - self.first).to(rows.dtype)
            whole = torch.cat([result["boxes"], result["scores"][:, None], kind[:, None]], 1)
            rows[: len(best)] = whole[best].to(rows.dtype)
        return made


@contextmanager
def asked_for_losses(network: nn.Module, wanted: bool) -> Iterator[None]:
    """The detector's own modules in training mode or not, and afterwards as they were; none of their parts changes."""
    asking = [module for module in network.modules() if isinstance(module, ASK_FOR_THE_MODE)]
    before = [module.training for module in asking]
    for module in asking:
        module.training = wanted
    try:
        yield
    finally:
        for module, training in zip(asking, before, strict=True):
            module.training = training


def detector(num_classes: int, channels: int, head: str, backbone: str, pretrained: bool = False) -> nn.Module:
    """The detector ``head`` of torchvision on a backbone, which may begin with weights of ImageNet."""
    if channels != 3:
        raise UserError(f"the detectors of torchvision take 3 channels, not {channels}; fcos-small takes any number")
    weights = WEIGHTS if pretrained else None
    try:
        if head == "ssdlite":
            own = {"num_classes": num_classes + 1, "trainable_backbone_layers": 6 if pretrained else None}
            network = ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=weights, **own)
            return _as_it_is(network, "head")
        pyramid = _pyramid(backbone, weights, dense=head != "fasterrcnn")
    except (OSError, RuntimeError) as error:  # no network, a full disk, a file cut short
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(
            f"the ImageNet weights of {backbone} cannot be downloaded ({reason}); start without: --pretrained false"
        ) from None
    if head == "fasterrcnn":
        sizes, shapes = ((32, 64, 128, 256, 512),) * 3, ((0.5, 1.0, 2.0),) * 3  # torchvision's for three levels
        anchors = AnchorGenerator(sizes, shapes) if backbone == "mobilenet-v3" else None
        network = FasterRCNN(pyramid, num_classes + 1, rpn_anchor_generator=anchors)
        return _as_it_is(network, "roi_heads.box_predictor")
    made = {"retinanet": RetinaNet, "fcos": FCOS}[head](pyramid, num_classes)
    return _as_it_is(made, "head.classification_head.cls_logits")


def _as_it_is(network: Any, *head_modules: str) -> OfTorchvision:
    network.transform = AsTheyAre()
    return OfTorchvision(network, *head_modules)


def _pyramid(backbone: str, weights: str | None, dense: bool) -> nn.Module:
    """A backbone with levels of features: from a fourth of the resolution on or, ``dense``, from an eighth on."""
    norm = FrozenBatchNorm2d if weights else nn.BatchNorm2d
    own = {"returned_layers": [2, 3, 4], "extra_blocks": LastLevelP6P7(256, 256)} if dense else {}
    common = {"backbone_name": BACKBONES[backbone], "weights": weights, "norm_layer": norm, **own}
    if backbone == "mobilenet-v3":
        return mobilenet_backbone(fpn=True, trainable_layers=6, **common)
    return resnet_fpn_backbone(trainable_layers=5, **common)
