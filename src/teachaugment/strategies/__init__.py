"""Ways to augment by name, one object each (``strategy.py`` says what such an object does)."""

from __future__ import annotations

from dataclasses import dataclass

from teachaugment.tables import Entry, Table


@dataclass(frozen=True)
class StrategyEntry(Entry):
    learns: bool = False  # the augmentation itself is learned
    has_teacher: bool = False  # a run of it has a second network, worth evaluating
    settings: tuple[str, ...] = ()  # how the settings begin that it uses, and that are not for every strategy


def _learned(function: str, help: str, *settings: str) -> StrategyEntry:
    return StrategyEntry(f"learned:{function}", help, learns=True, has_teacher=True, settings=settings)


def _torchvision(help: str) -> StrategyEntry:
    return StrategyEntry("published:from_torchvision", help)


def _consistency(help: str) -> StrategyEntry:
    own = ("teach.teacher", "teach.ema_")
    return StrategyEntry("consistency:consistency", help, has_teacher=True, settings=own)


_FIXED = "fixed:Fixed"
_AVERAGE = ("teach.ema_", "teach.teacher_statistics")  # the moving average as a teacher
STRATEGIES: Table[StrategyEntry] = Table(
    "strategy",
    __name__,
    {
        "adaptive": _learned("adaptive", "an operation per image, as strong as the model can bear", *_AVERAGE),
        "teachaugment": _learned("learned", "the paper's: learned while the model trains", "teach."),
        "policy": StrategyEntry(
            "policy:policy", "a policy that an earlier run has learned", settings=("augment.policy",)
        ),
        "none": StrategyEntry(_FIXED, "flip, crop and Cutout as they are set, and nothing besides"),
        "unaugmented": StrategyEntry(_FIXED, "no augmentation at all"),
        "crop-flip": StrategyEntry(_FIXED, "random crop and flip"),
        "cutout": StrategyEntry(_FIXED, "random crop, flip and Cutout"),
        "trivialaugment": _torchvision("one random operation of random strength"),
        "randaugment": StrategyEntry(
            "published:from_torchvision",
            "N random operations of strength M",
            settings=("augment.num_ops", "augment.magnitude"),
        ),
        "autoaugment": StrategyEntry("published:autoaugment", "AutoAugment's policy for images of this size"),
        "autoaugment-cifar10": _torchvision("AutoAugment's policy for CIFAR-10"),
        "autoaugment-imagenet": _torchvision("AutoAugment's policy for ImageNet"),
        "augmix": _torchvision("AugMix, without its consistency loss"),
        "ssd": StrategyEntry("ssd:ssd", "SSD's, for boxes: colours, a larger canvas, a crop that keeps some box"),
        "policy-file": StrategyEntry(
            "searched:policy_file", "a policy that another search has published", settings=("augment.policy_file",)
        ),
        "consistency-kld": _consistency("the target is held to the teacher's predictions by divergence"),
        "consistency-mse": _consistency("the same by squared error"),
    },
)
DEFAULT = "adaptive"
