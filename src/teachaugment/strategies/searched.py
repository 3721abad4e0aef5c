"""Apply a published policy, image by image, by torchvision's operations: the search baselines of the paper's tables."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from teachaugment.strategies import policy_files
from teachaugment.strategies.fixed import EachView
from teachaugment.strategies.policy_files import Operation, Schedule, SubPolicies
from teachaugment.strategies.published import GEOMETRIC, PerImage, check_channels, with_mask
from teachaugment.strategies.strategy import Setup, Strategy

COLOR = (125, 123, 114)  # mean of natural images: Cutout's square, and with PBA what comes in at the border
COUNTS = torch.tensor([0.2, 0.3, 0.5])  # PBA: the chances of none, one and two operations


def policy_file(setup: Setup) -> Strategy:
    """A policy file of another search, as --augment.policy_file names it."""
    check_channels(setup.name, setup.data)
    policy = policy_files.read(setup.config.augment.policy_file or "")
    if isinstance(policy, Schedule):
        return OnSchedule(policy, setup.data.channels)
    return EachView(PerImage(searched(policy, setup.data.channels)))


def searched(policy: SubPolicies | Schedule, channels: int = 3) -> Any:
    """A transform of single uint8 images. A schedule begins with its first phase; see :class:`OnSchedule`."""
    from torchvision.transforms import v2

    color = list(COLOR) if channels == 3 else [sum(COLOR) // 3]
    outside = color if isinstance(policy, Schedule) else None

    class Searched(with_mask(v2.AutoAugment)):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(fill=outside)
            self.operations = policy.at(0) if isinstance(policy, Schedule) else []

        def forward(self, image: Tensor) -> Tensor:
            drawn = choose(policy) if isinstance(policy, SubPolicies) else draw(self.operations)
            for name, _, value in drawn:
                image = self.apply_one(image, name, value)
            return image

        def apply_one(self, image: Tensor, name: str, value: float) -> Tensor:
            height, width = image.shape[-2:]
            if name == "Cutout":
                return cut(image, round(value * width), color)
            if name == "Solarize":
                return v2.functional.solarize(image, value) if value <= 255 else image
            magnitude = {  # torchvision's units
                "TranslateX": value * width,
                "TranslateY": value * height,
                **dict.fromkeys(("Contrast", "Color", "Brightness", "Sharpness"), value - 1),
            }.get(name, value)
            if name in GEOMETRIC and torch.rand(()) < 0.5:
                magnitude = -magnitude
            return self._apply_image_or_video_transform(image, name, magnitude, self.interpolation, self._fill)

    return Searched()


def choose(policy: SubPolicies) -> list[Operation]:
    """One sub-policy, and of it what its probabilities let through."""
    steps = policy.choices[int(torch.randint(len(policy.choices), ()))]
    return [step for step in steps if torch.rand(()) < step.probability]


def draw(operations: list[Operation]) -> list[Operation]:
    """PBA: up to two operations; all are asked in random order, each with its probability, until there are enough."""
    count = int(torch.multinomial(COUNTS, 1))
    drawn: list[Operation] = []
    for i in torch.randperm(len(operations)).tolist():
        if len(drawn) == count:
            break
        if torch.rand(()) < operations[i].probability:
            drawn.append(operations[i])
    return drawn


def cut(image: Tensor, side: int, color: list[int]) -> Tensor:
    """A square of one colour; its centre is any pixel, so the border may clip it."""
    height, width = image.shape[-2:]
    top, left = (int(torch.randint(length, ())) - side // 2 for length in (height, width))
    image = image.clone()
    image[:, max(top, 0) : top + side, max(left, 0) : left + side] = image.new_tensor(color).view(-1, 1, 1)
    return image


class OnSchedule(EachView):
    """A strategy that follows a schedule over the training."""

    def __init__(self, schedule: Schedule, channels: int = 3) -> None:
        self.transform, self.schedule = searched(schedule, channels), schedule
        super().__init__(PerImage(self.transform))

    def at(self, progress: float) -> None:
        self.transform.operations = self.schedule.at(progress)
