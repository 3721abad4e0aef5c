"""Representations without labels as in the paper, SimSiam on ImageNet, and smaller versions.

``--task byol`` or ``--task moco`` on top of a preset takes another method with the same settings.
"""

from __future__ import annotations

from typing import Any

# SimSiam's own settings: SGD without Nesterov's momentum or warm-up, and cosine. Weight decay on norms and biases
# (optim.decay_norms) is the task's default.
SIMSIAM: dict[str, Any] = {
    "task": "simsiam",
    "optim.momentum": 0.9,
    "optim.nesterov": False,
    "optim.schedule": "cosine",
    "optim.warmup_epochs": 0.0,
    "optim.clip": 0.0,
    "augment.flip": True,
    "augment.crop": 0,
    "views.area": 0.2,
    "views.jitter": 0.4,
    "views.grey": 0.2,
}
FOUR_GPUS = "torchrun --nproc-per-node 4 -m teachaugment train"
PAPER = {100: "68.2", 200: "70.2", 400: "71.0"}  # Tab. 7, linear evaluation


def _imagenet(epochs: int) -> dict[str, Any]:
    return {
        "title": f"ImageNet, ResNet-50, SimSiam, {epochs} epochs",
        "paper": f"{PAPER[epochs]} % accuracy of a linear classifier (Tab. 7)",
        "images": 1_281_167,
        "note": "Then: teachaugment linear RUN. Batch norm sees all 256 images, as with SimSiam's synchronised one; on "
        f"four GPUs: {FOUR_GPUS} imagenet-simsiam-{epochs} --batch-size 64 --sync-bn. Name the data with --data.root",
        "settings": {
            **SIMSIAM,
            "data.path": "imagenet",
            "data.size": 224,
            "data.workers": 8,
            "model.name": "resnet-50",
            "optim.lr": 0.05,
            "optim.weight_decay": 1e-4,
            "train.epochs": epochs,
            "train.batch_size": 256,
            "train.eval_every": 10,
            "views.blur": 0.5,
            "views.layers": 3,
            "views.dim": 2048,
            "views.hidden": 512,
            "views.fixed_lr": True,
            "teach.n_buffer": 1,
        },
    }


PRESETS: dict[str, dict[str, Any]] = {
    **{f"imagenet-simsiam-{epochs}": _imagenet(epochs) for epochs in PAPER},
    "cifar10-simsiam": {
        "title": "CIFAR-10, ResNet-18, SimSiam",
        "images": 50_000,
        "note": "The settings of SimSiam's appendix for CIFAR-10. Then: teachaugment linear RUN",
        "settings": {
            **SIMSIAM,
            "data.path": "cifar10",
            "model.name": "resnet-18-cifar",
            "optim.lr": 0.06,  # 0.03 for each 256 images
            "optim.weight_decay": 5e-4,
            "train.epochs": 800,
            "train.batch_size": 512,
            "train.eval_every": 20,
            "views.blur": 0.0,
            "views.layers": 2,
            "views.dim": 2048,
            "views.hidden": 512,
            "teach.n_buffer": 10,
        },
    },
}
