"""What to measure, at which sizes, how often. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass

PARTS = ("training", "augmentation", "color", "scaling", "input", "photographs", "options", "startup")


@dataclass(frozen=True)
class Plan:
    """The defaults are the sizes of the targets; tests take smaller ones."""

    parts: tuple[str, ...] = PARTS
    models: tuple[str, ...] = ("wrn-40-2", "wrn-16-1", "cnn-4")
    batch_size: int = 128
    size: int = 32
    classes: int = 10
    snapshots: int = 20  # in the replay
    repeats: int = 10  # rounds, after the warm-up
    budget: float = 3.0  # seconds: a group of quick measurements gets more rounds, until it has taken this long
    device: str | None = None  # None: the accelerator if there is one

    augmentation: tuple[tuple[int, int], ...] = ((32, 128), (224, 32), (512, 8), (1024, 4))  # (size, batch)
    samples: int = 64  # images of a call where they are augmented one by one: so many that the draws average out
    color: tuple[tuple[int, int], ...] = ((32, 128), (224, 8), (512, 2), (1024, 1))
    color_backward_up_to: int = 512  # larger images are measured forward only: the per-pixel forms need gigabytes
    pixels: tuple[int, ...] = (32, 64, 128, 256, 512)  # image sizes of the scaling table, at scaling_batch
    scaling_batch: int = 8
    batches: tuple[int, ...] = (8, 32, 128, 512)
    many_classes: tuple[int, ...] = (10, 100, 1000)
    replays: tuple[int, ...] = (1, 20, 100, 500)
    stored: tuple[int, int] = (270, 1000)  # snapshots and classes of an ImageNet training
    input_model: str = "wrn-16-1"
    input_images: int = 10_000
    photographs: tuple[int, ...] = (500, 1000, 2000, 4000)  # pixels of the longer side of JPEG files
    photographs_each: int = 8
    photograph_size: int = 224  # of what they become
    photograph_model: str = "timm/tf_efficientnet_lite0"
    photograph_batch: int = 16
    photograph_workers: int = 2
    forms: tuple[str, ...] = ("plain", "channels-last", "compile")  # of the same model, in the part "options"
    start_ups: int = 5
