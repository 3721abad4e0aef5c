"""Object detection, which the paper does not have: the built-in set, and torchvision's recipe for COCO."""

from __future__ import annotations

from typing import Any

NOTE = (
    "Schedule, learning rate and weight decay are those of torchvision's reference for this detector, whose images are "
    "larger (800 pixels on the shorter side). The backbone starts with torchvision's IMAGENET1K_V1, which is "
    "downloaded. Name the folder, which has annotations/, train2017/ and val2017/, with --data"
)

PRESETS: dict[str, dict[str, Any]] = {
    "shapes-detection": {
        "title": "Built-in images with boxes, the small detector",
        "images": 500,
        "note": "Minutes on a CPU",
        "settings": {"task": "detection", "data.path": "shapes", "model.name": "fcos-small", "teach.n_inner": 1},
    },
    "coco-fasterrcnn": {
        "title": "COCO, Faster R-CNN on ResNet-50",
        "images": 118_287,
        "note": NOTE,
        "settings": {
            "task": "detection",
            "data.path": "coco",
            "data.size": 640,
            "data.workers": 8,
            "data.bad_images": "skip",
            "model.name": "fasterrcnn-resnet-50",
            "model.pretrained": True,
            "optim.name": "sgd",
            "optim.lr": 0.02,
            "optim.momentum": 0.9,
            "optim.nesterov": False,
            "optim.weight_decay": 1e-4,
            "optim.schedule": "step",
            "optim.milestones": (16, 22),
            "train.epochs": 26,
            "train.batch_size": 16,
        },
    },
}
