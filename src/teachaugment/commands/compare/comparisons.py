"""The paper's comparisons by name: their strategies, and its error rates to put beside what is measured.

Nothing here imports torch. The numbers are those of the paper's tables; where it shows a figure there are none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from teachaugment.errors import UserError, nearest

Errors = Mapping[str, float | None]


def cifar(cifar10: float | None, cifar100: float | None) -> Errors:
    """Error rates in percent."""
    return {"CIFAR-10": cifar10, "CIFAR-100": cifar100}


def errors(columns: Sequence[str], *percent: float) -> Errors:
    """What is missing from accuracies or mIoUs of 100 %."""
    return {column: round(100 - value, 1) for column, value in zip(columns, percent, strict=True)}


cityscapes = partial(errors, ("FCN-32s", "PSPNet", "DeepLabv3"))
simsiam = partial(errors, ("100 epochs", "200 epochs", "400 epochs"))


@dataclass(frozen=True)
class Entry:
    label: str
    strategy: str  # {model} is the network being trained, {stronger} that of --stronger
    paper: Errors = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """One table of the paper; differences are to the first entry."""

    title: str
    source: str  # where the paper's numbers stand, and of which network
    entries: tuple[Entry, ...]
    note: str = ""

    @property
    def stronger(self) -> bool:
        return any("{stronger}" in entry.strategy for entry in self.entries)


BASELINE = Entry("baseline", "none", cifar(3.1, 18.4))
OURS = Entry("TeachAugment", "teachaugment", cifar(2.5, 16.8))

COMPARISONS: dict[str, Comparison] = {
    "teachers": Comparison(
        "which teacher",
        "Tab. 1, WideResNet-40-2; its stronger network is WideResNet-28-10",
        (
            Entry("baseline", "none"),
            Entry("same network, pretrained", "teachaugment:teach.teacher=@{model}", cifar(4.4, 21.3)),
            Entry("stronger network, pretrained", "teachaugment:teach.teacher=@{stronger}", cifar(3.7, 21.6)),
            Entry("moving average (EMA)", "teachaugment", cifar(3.7, 20.3)),
        ),
        "the pretrained teachers are trained first, without learned augmentation and on the same seed",
    ),
    "techniques": Comparison(
        "which techniques",
        "Tab. 2, and Sec. 3.3 for the last row, WideResNet-28-10",
        (
            Entry("all techniques", "teachaugment", cifar(2.5, 16.8)),
            Entry("without colour regularisation", "teachaugment:teach.color_weight=0", cifar(3.0, 16.5)),
            Entry("without experience replay", "teachaugment:teach.replay=false", cifar(2.7, 17.3)),
            Entry("without label smoothing", "teachaugment:teach.smoothing=0", cifar(3.0, 17.3)),
            Entry("without non-saturating loss", "teachaugment:teach.non_saturating=false"),
            Entry(
                "without the first three",
                "teachaugment:teach.color_weight=0:teach.replay=false:teach.smoothing=0",
                cifar(3.0, 17.4),
            ),
            Entry(
                "without all four",
                "teachaugment:teach.color_weight=0:teach.replay=false:teach.smoothing=0:teach.non_saturating=false",
                cifar(None, 18.7),
            ),
        ),
        "the paper's row 'w/o all techniques' keeps the non-saturating loss, as its Sec. 3.3 shows",
    ),
    "objectives": Comparison(
        "which objective of the augmenter",
        "Tab. 3, WideResNet-28-10",
        (
            BASELINE,
            Entry("Adversarial AutoAugment's", "teachaugment:teach.objective=adversarial", cifar(3.6, 19.4)),
            Entry("PointAugment's", "teachaugment:teach.objective=pointaugment", cifar(2.9, 17.5)),
            OURS,
        ),
    ),
    "augmenters": Comparison(
        "which augmentation is learned",
        "Tab. 4, WideResNet-28-10",
        (
            BASELINE,
            Entry("DDA", "teachaugment:teach.augmenter=dda", cifar(2.8, 18.0)),
            Entry("OnlineAugment's", "teachaugment:teach.augmenter=online", cifar(16.7, 26.2)),
            OURS,
        ),
    ),
    "consistency": Comparison(
        "consistency with the teacher instead of learned augmentation",
        "Tab. 9, WideResNet-28-10",
        (
            BASELINE,
            Entry("KLD consistency", "consistency-kld", cifar(3.1, 18.2)),
            Entry("MSE consistency", "consistency-mse", cifar(3.2, 18.5)),
            OURS,
        ),
    ),
    "segmentation": Comparison(
        "semantic segmentation",
        "Tab. 6, mIoU on Cityscapes, ResNet-101",
        (
            Entry("baseline", "none", cityscapes(71.7, 77.7, 78.4)),
            Entry("RandAugment", "randaugment", cityscapes(71.0, 78.8, 79.3)),
            Entry("TrivialAugment", "trivialaugment", cityscapes(71.3, 77.5, 78.9)),
            Entry("TeachAugment", "teachaugment", cityscapes(72.1, 78.8, 79.4)),
        ),
        "to be trained with --task segmentation or a preset such as cityscapes-pspnet",
    ),
    "detection": Comparison(
        "object detection",
        "not in the paper",
        (
            Entry("flip", "none"),
            Entry("SSD's", "ssd"),
            Entry("TrivialAugment", "trivialaugment"),
            Entry("TeachAugment", "teachaugment"),
            Entry("adaptive", "adaptive"),
        ),
        "to be trained with --task detection",
    ),
    "simsiam": Comparison(
        "features without labels",
        "Tab. 7, linear accuracy on ImageNet, ResNet-50",
        (
            Entry("baseline", "none", simsiam(68.1, 70.0, 70.8)),
            Entry("RandAugment", "randaugment", simsiam(68.0, 70.0, 70.7)),
            Entry("TrivialAugment", "trivialaugment", simsiam(62.7, 68.7, 71.3)),
            Entry("TeachAugment", "teachaugment", simsiam(68.2, 70.2, 71.0)),
        ),
        "to be trained with --task simsiam or a preset such as imagenet-simsiam-100",
    ),
    "epsilon": Comparison(
        "how much label smoothing",
        "Fig. 5, which has no numbers",
        tuple(Entry(f"ε = {value}", f"teachaugment:teach.smoothing={value}") for value in (0, 0.1, 0.2, 0.3, 0.5)),
        "in the paper a large ε is best on CIFAR-10 and a small one on CIFAR-100",
    ),
}


def find(name: str) -> Comparison:
    if name not in COMPARISONS:
        raise UserError(f"unknown comparison {name!r}{nearest(name, COMPARISONS)}")
    return COMPARISONS[name]


def entries(comparison: Comparison, model: str, stronger: str | None) -> list[Entry]:
    """The comparison's rows for the network ``model``."""
    if comparison.stronger and stronger is None:
        raise UserError(f"name a stronger network than {model} for the second teacher, such as --stronger wrn-28-10")
    if stronger == model:
        raise UserError(f"--stronger must be another network than the one that is trained, {model}")
    return [Entry(e.label, e.strategy.format(model=model, stronger=stronger), e.paper) for e in comparison.entries]
