"""Image classification as in the paper: CIFAR-10, CIFAR-100 and ImageNet, and small versions for a CPU."""

from __future__ import annotations

from typing import Any

# Common to all networks on CIFAR: Nesterov's momentum, five epochs of warm-up, no weight decay on normalisation layers
# (the default), crop, flip and Cutout. Gradients are clipped at 5, as in the code of Fast AutoAugment that the appendix
# cites.
CIFAR: dict[str, Any] = {
    "optim.momentum": 0.9,
    "optim.nesterov": True,
    "optim.schedule": "cosine",
    "optim.warmup_epochs": 5.0,
    "optim.clip": 5.0,
    "augment.flip": True,
    "augment.crop": 4,
    "augment.cutout": 16,
    "teach.n_buffer": 10,
}


def _column(lr: float, weight_decay: float, epochs: int, batch_size: int) -> dict[str, Any]:
    """A column of the appendix's Tab. 8: learning rate and batch size are those of one GPU."""
    own = {"optim.lr": lr, "optim.weight_decay": weight_decay}
    return {**own, "train.epochs": epochs, "train.batch_size": batch_size}


NETWORKS: dict[str, dict[str, Any]] = {
    "wrn-40-2": _column(0.1, 2e-4, 200, 128),
    "wrn-28-10": _column(0.1, 5e-4, 200, 128),
    "shake-26-2x96d": _column(0.01, 1e-3, 1800, 128),
    "pyramidnet-272-200": _column(0.05, 5e-5, 1800, 64),
}
GPUS = {"wrn-40-2": 1, "wrn-28-10": 1, "shake-26-2x96d": 4, "pyramidnet-272-200": 4}
TITLES = {
    "wrn-40-2": "WideResNet-40-2",
    "wrn-28-10": "WideResNet-28-10",
    "shake-26-2x96d": "Shake-Shake 26 2×96d",
    "pyramidnet-272-200": "PyramidNet-272 α=200 with ShakeDrop",
}

# The best of the paper's sweep, a figure without numbers; these are the values of the authors' released settings. They
# have none for WRN-40-2, which takes that of WRN-28-10.
SMOOTHING = {
    ("cifar10", "wrn-40-2"): 0.2,
    ("cifar10", "wrn-28-10"): 0.2,
    ("cifar10", "shake-26-2x96d"): 0.5,
    ("cifar10", "pyramidnet-272-200"): 0.5,
    ("cifar100", "wrn-40-2"): 0.1,
    ("cifar100", "wrn-28-10"): 0.1,
    ("cifar100", "shake-26-2x96d"): 0.2,
    ("cifar100", "pyramidnet-272-200"): 0.1,
}
# Error of TeachAugment: Tab. 1 for WRN-40-2, Tab. 5 for the others.
PAPER = {
    ("cifar10", "wrn-40-2"): "3.7 % error (Tab. 1, EMA)",
    ("cifar10", "wrn-28-10"): "2.5 % error (Tab. 5)",
    ("cifar10", "shake-26-2x96d"): "2.0 % error (Tab. 5)",
    ("cifar10", "pyramidnet-272-200"): "1.5 % error (Tab. 5)",
    ("cifar100", "wrn-40-2"): "20.3 % error (Tab. 1, EMA)",
    ("cifar100", "wrn-28-10"): "16.8 % error (Tab. 5)",
    ("cifar100", "shake-26-2x96d"): "14.5 % error (Tab. 5)",
    ("cifar100", "pyramidnet-272-200"): "11.8 % error (Tab. 5)",
}
DATA = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}


def _cifar(data: str, network: str) -> dict[str, Any]:
    smoothing = SMOOTHING[data, network]
    own = "" if network != "wrn-40-2" else ", of WRN-28-10"
    return {
        "title": f"{DATA[data]}, {TITLES[network]}",
        "paper": PAPER[data, network],
        "images": 50_000,
        "gpus": GPUS[network],
        "note": f"ε = {smoothing}: the value of the authors' released settings{own}; in the paper it is in a figure",
        "settings": {
            **CIFAR,
            "data.path": data,
            "model.name": network,
            **NETWORKS[network],
            "teach.smoothing": smoothing,
        },
    }


def _small(data: str, network: str, per_class: int, epochs: int, **settings: Any) -> dict[str, Any]:
    """For a CPU: few images, so that the baseline overfits, and a small network."""
    classes = {"shapes": 10, "cifar10": 10, "cifar100": 100}[data]
    return {
        "title": f"{DATA.get(data, data)}, {per_class} images per class, {network}, for a CPU",
        "images": classes * per_class,
        "settings": {
            **CIFAR,
            "data.path": data,
            "data.per_class": per_class,
            "model.name": network,
            "optim.lr": 0.1,
            "optim.weight_decay": 5e-4,
            "train.batch_size": 64,
            "train.epochs": epochs,
            "train.eval_every": 10,
            **settings,
        },
    }


PRESETS: dict[str, dict[str, Any]] = {
    **{f"{data}-{network}": _cifar(data, network) for data in DATA for network in NETWORKS},
    "imagenet-resnet-50": {
        "title": "ImageNet, ResNet-50",
        "paper": "22.2 % top-1 and 6.3 % top-5 error (Tab. 5)",
        "images": 1_281_167,
        "gpus": 4,
        "note": "Gradients are not clipped, as in the code of Fast AutoAugment; name the data with --data.root",
        "settings": {
            "data.path": "imagenet",
            "data.size": 224,
            "data.workers": 8,
            "model.name": "resnet-50",
            "optim.lr": 0.05,
            "optim.momentum": 0.9,
            "optim.nesterov": True,
            "optim.weight_decay": 1e-4,
            "optim.schedule": "step",
            "optim.milestones": (90, 180, 240),
            "optim.warmup_epochs": 5.0,
            "optim.clip": 0.0,
            "train.epochs": 270,
            "train.batch_size": 128,
            "augment.flip": True,
            "augment.area": 0.08,
            "augment.crop": 0,
            "augment.cutout": 0,
            "augment.jitter": 0.4,
            "augment.lighting": 0.1,
            "teach.smoothing": 0.1,
            "teach.n_buffer": 1,
        },
    },
    "shapes-small": _small("shapes", "cnn-4", 100, 40, **{"augment.cutout": 0, "optim.clip": 0.0}),
    "cifar10-small": _small("cifar10", "wrn-16-1", 200, 300, **{"teach.smoothing": 0.2}),
    "cifar100-small": _small("cifar100", "wrn-16-2", 50, 200, **{"teach.smoothing": 0.1}),
}
