"""Mean average precision of a detector, by torchmetrics, from what all processes have found."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Final

import torch
from torch import Tensor

from teachaugment import distributed
from teachaugment.batch import NO_BOX, Batch
from teachaugment.errors import UserError
from teachaugment.tasks.detection.recall import recall_of_boxes

BACKEND: Final = "faster_coco_eval"
NEEDED = ("torchmetrics", BACKEND)


class DetectionMeter:
    """In training the loss, in an evaluation what was found in every image.

    Average precision is no sum over images: what was found is kept, and ``gather`` brings it together.
    """

    def __init__(self, num_classes: int, device: torch.device):
        for package in NEEDED:
            if find_spec(package) is None:
                raise UserError(f"{package} is not installed; install it with: pip install 'teachaugment[detection]'")
        self.num_classes = num_classes
        self.total_loss = torch.zeros((), device=device)
        self.images = torch.zeros((), dtype=torch.int64, device=device)
        self.right, self.seen = (torch.zeros(num_classes, dtype=torch.int64, device=device) for _ in range(2))
        # Rows of an evaluation. An image has a number of its own among all processes, and its place in the split.
        self.numbers: list[Tensor] = []  # [B, 2]: number, place
        self.found: list[Tensor] = []  # [R, 7]: number, four corners, score, class
        self.true: list[Tensor] = []  # [R, 6]: number, four corners, class

    @torch.no_grad()
    def update(self, output: Any, batch: Batch, loss: Tensor | None = None) -> None:
        """``output`` is what was found or, with the ``loss`` of a training step, nothing that matters here."""
        if loss is not None:
            self.total_loss += loss.detach() * len(batch)
            self.images += len(batch)
            return
        boxes = boxes_of(batch)
        here = sum(map(len, self.numbers))
        number = (here + torch.arange(len(batch), device=boxes.device)) * distributed.world() + distributed.rank()
        place = number if batch.index is None else batch.index
        self.numbers.append(torch.stack([number, place], 1))
        for rows, kind, kept in ((output.float(), output[..., 5], self.found), (boxes, boxes[..., 4], self.true)):
            numbered = torch.cat([number[:, None, None].expand(-1, rows.shape[1], 1).to(rows.dtype), rows], 2)
            kept.append(numbered[kind != NO_BOX])
        right, seen = recall_of_boxes(output, boxes, self.num_classes)
        self.right += right
        self.seen += seen
        self.images += len(batch)

    def gather(self) -> None:
        """What all processes have found, in each of them."""
        for name in ("numbers", "found", "true"):
            rows = getattr(self, name)
            if rows:
                setattr(self, name, [distributed.gather_rows(torch.cat(rows))])

    def compute(self) -> dict[str, Any]:
        """Shares in [0, 1]; a class without a true box has no average precision."""
        images = int(self.images)
        if not self.numbers:
            return {"loss": float(self.total_loss) / max(images, 1), "images": images}
        numbers, found, true = (torch.cat(rows).cpu() for rows in (self.numbers, self.found, self.true))
        precision = average_precision(numbers, found, true, self.num_classes)
        return {
            **precision,
            "recall": int(self.right.sum()) / max(int(self.seen.sum()), 1),
            "images": images,
            "boxes": int(self.seen.sum()),
        }


def boxes_of(batch: Batch) -> Tensor:
    if batch.boxes is None:
        raise ValueError("detection needs boxes")
    return batch.boxes


def average_precision(numbers: Tensor, found: Tensor, true: Tensor, classes: int) -> dict[str, Any]:
    """COCO's mean average precision, over overlaps of 0.5 to 0.95 and at 0.5, and that of each class.

    The images come in the order of the split: which of two equal scores is first must not depend on the processes.
    """
    from torchmetrics.detection import MeanAveragePrecision

    order = numbers[numbers[:, 1].argsort(stable=True), 0]
    metric = MeanAveragePrecision(class_metrics=True, backend=BACKEND, sync_on_compute=False)
    metric.warn_on_many_detections = False
    answers = [
        {"boxes": rows[:, 1:5], "scores": rows[:, 5], "labels": rows[:, 6].long()} for rows in _of_each(found, order)
    ]
    truth = [{"boxes": rows[:, 1:5], "labels": rows[:, 5].long()} for rows in _of_each(true, order)]
    metric.update(answers, truth)
    result = metric.compute()
    known = dict(zip(result["classes"].view(-1).tolist(), result["map_per_class"].view(-1).tolist(), strict=True))
    each = [known.get(k, -1.0) for k in range(classes)]
    return {
        "map": max(float(result["map"]), 0.0),
        "map_50": max(float(result["map_50"]), 0.0),
        "class_map": [None if value < 0 else value for value in each],
    }


def _of_each(rows: Tensor, order: Tensor) -> list[Tensor]:
    """The rows of each image, whose numbers are in the first column."""
    place = torch.empty(int(order.max()) + 1, dtype=torch.int64)
    place[order] = torch.arange(len(order))
    image = place[rows[:, 0].long()]
    counts = torch.bincount(image, minlength=len(order)).tolist()
    return list(rows[image.argsort(stable=True)].split(counts))
