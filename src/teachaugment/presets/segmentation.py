"""Semantic segmentation as in the paper: three networks on Cityscapes."""

from __future__ import annotations

from typing import Any

TITLES = {"fcn32s": "FCN-32s", "pspnet": "PSPNet", "deeplabv3": "DeepLabv3"}
PAPER = {"fcn32s": 72.1, "pspnet": 78.8, "deeplabv3": 79.4}
BASELINE = {"fcn32s": 71.7, "pspnet": 77.7, "deeplabv3": 78.4}
# The appendix leaves open the batch size and the weight decay, which are PSPNet's, and the backbone's weights. Its list
# of the baseline's augmentation has flip and crop, and no random scale.
PROTOCOL: dict[str, Any] = {
    "task": "segmentation",
    "data.path": "cityscapes",
    "data.crop": 1024,
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
    "train.batch_size": 16,
    "train.eval_every": 10,
    "augment.flip": True,
    "augment.crop": 0,
    "teach.smoothing": 0.1,
    "teach.n_buffer": 10,
}
NOTE = (
    "The backbone starts with torchvision's IMAGENET1K_V1, which is downloaded; batch size and weight decay, of which "
    "the paper says nothing, are PSPNet's. Batch norm sees all 16 images; on four GPUs: torchrun --nproc-per-node 4 -m "
    "teachaugment train {name} --batch-size 4 --sync-bn. Name the data with --data.root"
)

PRESETS: dict[str, dict[str, Any]] = {
    f"cityscapes-{network}": {
        "title": f"Cityscapes, {title} on ResNet-101",
        "paper": f"{PAPER[network]} % mIoU on the validation set, {BASELINE[network]} without TeachAugment (Tab. 6)",
        "images": 2_975,
        "note": NOTE.format(name=f"cityscapes-{network}"),
        "settings": {**PROTOCOL, "model.name": f"{network}-resnet-101"},
    }
    for network, title in TITLES.items()
}
