"""Semantic segmentation as in the paper: three networks on Cityscapes."""

from __future__ import annotations

from typing import Any

TITLES = {"fcn32s": "FCN-32s", "pspnet": "PSPNet", "deeplabv3": "DeepLabv3"}
PAPER = {"fcn32s": 72.1, "pspnet": 78.8, "deeplabv3": 79.4}
BASELINE = {"fcn32s": 71.7, "pspnet": 77.7, "deeplabv3": 78.4}
# The appendix leaves open the batch size, the weight decay and the backbone's weights, and names PSPNet's protocol.
PROTOCOL: dict[str, Any] = {
    "task": "segmentation",
    "data.path": "cityscapes",
    "data.crop": 1024,
    "data.scale": 2.0,
    "data.workers": 8,
    "model.pretrained": True,
    "optim.lr": 5e-3,
    "optim.momentum": 0.9,
    "optim.nesterov": False,
    "optim.weight_decay": 1e-4,
    "optim.schedule": "poly",
    "optim.warmup_epochs": 0.0,
    "optim.clip": 0.0,
    "train.epochs": 300,
    "train.batch_size": 4,
    "train.accumulate": 4,
    "train.eval_every": 10,
    "augment.flip": True,
    "augment.crop": 0,
    "teach.smoothing": 0.1,
    "teach.n_buffer": 10,
}
NOTE = (
    "Batch of 16 (four passes of 4), weight decay, random scale of 0.5 to 2 and a backbone with ImageNet weights, "
    "which are downloaded, are those of PSPNet's protocol, which the paper names; its own list of the baseline's "
    "augmentation has flip and crop only (--data.scale 1). Name the data with --data.root"
)

PRESETS: dict[str, dict[str, Any]] = {
    f"cityscapes-{network}": {
        "title": f"Cityscapes, {title} on ResNet-101",
        "paper": f"{PAPER[network]} % mIoU on the validation set, {BASELINE[network]} without TeachAugment (Tab. 6)",
        "images": 2_975,
        "note": NOTE,
        "settings": {**PROTOCOL, "model.name": f"{network}-resnet-101"},
    }
    for network, title in TITLES.items()
}
