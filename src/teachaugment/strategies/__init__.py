"""Ways to augment by name, one object each (``strategy.py`` says what such an object does)."""

from __future__ import annotations

from dataclasses import dataclass

from teachaugment.tables import Entry, Table


@dataclass(frozen=True)
class StrategyEntry(Entry):
    learns: bool = False  # the augmentation itself is learned
    has_teacher: bool = False  # a run of it has a second network, worth evaluating


def _learned(function: str, help: str) -> StrategyEntry:
    return StrategyEntry(f"learned:{function}", help, learns=True, has_teacher=True)


def _torchvision(help: str) -> StrategyEntry:
    return StrategyEntry("published:from_torchvision", help)


def _consistency(help: str) -> StrategyEntry:
    return StrategyEntry("consistency:consistency", help, has_teacher=True)


_FIXED = "fixed:Fixed"
STRATEGIES: Table[StrategyEntry] = Table(
    "strategy",
    __name__,
    {
        "adaptive": StrategyEntry(
            "learned:adaptive",
            "an operation per image, as strong as the model can bear",
            learns=True,
            has_teacher=True,
        ),
        "teachaugment": _learned("learned", "the paper's: learned while the model trains"),
        "policy": StrategyEntry("policy:policy", "a policy that an earlier run has learned"),
        "none": StrategyEntry(_FIXED, "flip, crop and Cutout as they are set, and nothing besides"),
        "unaugmented": StrategyEntry(_FIXED, "no augmentation at all"),
        "crop-flip": StrategyEntry(_FIXED, "random crop and flip"),
        "cutout": StrategyEntry(_FIXED, "random crop, flip and Cutout"),
        "trivialaugment": _torchvision("one random operation of random strength"),
        "randaugment": _torchvision("N random operations of strength M"),
        "autoaugment": StrategyEntry("published:autoaugment", "AutoAugment's policy for images of this size"),
        "autoaugment-cifar10": _torchvision("AutoAugment's policy for CIFAR-10"),
        "autoaugment-imagenet": _torchvision("AutoAugment's policy for ImageNet"),
        "augmix": _torchvision("AugMix, without its consistency loss"),
        "ssd": StrategyEntry("ssd:ssd", "SSD's, for boxes: colours, a larger canvas, a crop that keeps some box"),
        "policy-file": StrategyEntry("searched:policy_file", "a policy that another search has published"),
        "consistency-kld": _consistency("the target is held to the teacher's predictions by divergence"),
        "consistency-mse": _consistency("the same by squared error"),
    },
)
DEFAULT = "adaptive"
