"""How strong the augmentation may be: found while the target trains, from how well it masters its training images.

Mastery is the share of the training images that the target recognises, the mean of the classes. It is counted in the
target's own updates, in which some images are augmented and some are not; where that cannot be, the target is asked
about a few images now and then. The strength rises while both hold, and falls otherwise:

    1.  of the augmented images the target masters most of the share that it masters of the plain ones (``RATIO``);
    2.  of the plain ones it masters as many as may be asked of it at this point of the training (``ASKED``), or is
        learning them so fast that it will master as many as are asked at the end.

So a network that has room left gets all that it can bear, one that learns its images by heart, however late, is kept
from it, and one that does not master them yet, and never will, trains on them as they are.

Where it is known which operation (arm) each image got, each gets its share of the strength, from 0 to 1: it falls while
the target masters fewer of the images with that operation (``ARM_RATIO``), and rises again otherwise. An operation that
changes what is true of an image cannot be mastered honestly, and goes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from teachaugment import distributed

RATIO = 0.8  # of the plain images' mastery that the augmented ones must reach
ARM_RATIO = 0.8  # the same for the images of one operation
ASKED = 0.8  # of the plain images at the end of the training; before it, this times the root of its progress
MARGIN = 0.1  # by which a condition must hold for the strength to rise at its full pace; nearer to it, slower
RISE = 0.3  # of the training, in which the strength rises from 0 to 1, or falls, at full pace
EARLY = 0.1  # of the training: before it, as much is asked as then, since a few images may be guessed
FORESEEN = 0.3  # of the training: before it nothing is foreseen, since at first every network learns fast
SPAN = 0.2  # of the training, in which is seen how fast the plain images are being learned
LATE = 0.6  # of the training, after which a strength of zero stays zero: too late to begin
EVERY, MEASUREMENTS = 4, 200  # steps between two measurements: fewer, where a training would not have so many of them
LONG_EVERY, LONG_MEASUREMENTS = 16, 400  # and as many as this where it has far more
MEMORY = 0.8  # of earlier measurements in the running mean, from one to the next
ARM_MEMORY = 0.97  # the same for single operations, of which each measurement has few images
SHARE, LEAST_SHARE = "share_", 0.5  # how a log names a share, and below which it is worth a word to people
UNKNOWN = 2000  # steps that a training is taken to have where nobody says it


class Governor:
    """The strength, from 0 to 1, of one training.

    total: the steps of the whole training. None: it is not known; then the strength moves as in one of ``UNKNOWN``
           steps, and at no time is it late.
    arms:  how many operations get a share each.
    """

    def __init__(self, total: int | None = None, arms: int = 0) -> None:
        self.total, self.ends = total or UNKNOWN, total is not None
        self.every = steps_between(self.total)
        self.strength, self.steps = 0.0, 0
        self.shares = [1.0] * arms  # of the strength, for each operation
        self.counts: Tensor | None = None  # [plain or augmented, right or seen, classes], running
        self.arms: Tensor | None = None  # [plain and each operation, right or seen, classes], running
        self.seen: Tensor | None = None  # what was counted since the last measurement: as in counts, or as in arms
        self.coming: Later | None = None  # the mastery of the last measurement, on its way to the host
        self.mastery = (0.0, 0.0)  # plain and augmented, as they were last read
        self.trend = (0.0, 0.0, 0.0)  # running sums of 1, the progress and the plain mastery, of about ``SPAN``

    @property
    def progress(self) -> float:
        return min(1.0, self.steps / self.total)

    def count(self, counts: Tensor) -> None:
        """What was mastered in an update of the target: [plain and augmented, right or seen, classes] or, where it is
        known which operation each image got, [plain and each operation, right or seen, classes]."""
        if self.seen is not None and len(self.seen) != len(counts):
            self.seen, counts = plain_or_not(self.seen), plain_or_not(counts)
        self.seen = counts if self.seen is None else self.seen + counts

    def step(self, ask: Callable[[], Tensor]) -> bool:
        """After each update of the target: now and then, take what has been counted since the last time. If that is
        nothing, ``ask`` the target, which gives the same as ``count`` takes. Whether there may be a new decision."""
        due = self.steps % self.every == 0
        if due:
            if self.seen is None:
                self.count(ask())
            self.measure()
        self.steps += 1
        return due

    def measure(self) -> None:
        """Add what was counted to the running means, and decide by how they were before: no device is waited for."""
        fresh, self.seen = self.seen, None
        assert fresh is not None
        distributed.sum_([fresh])
        both, found = plain_or_not(fresh), []
        self.counts = both if self.counts is None else MEMORY * self.counts + both
        if self.shares and len(fresh) == 1 + len(self.shares):
            self.arms = fresh if self.arms is None else ARM_MEMORY * self.arms + fresh
            found = [against_plain(self.arms)]
        if self.coming is not None:
            self.decide(*self.coming.values())
        self.coming = Later(torch.cat([mean_recall(self.counts), *found]))

    def decide(self, plain: float, augmented: float, *arms: float) -> None:
        """Move the strength by what has been mastered, and the shares by what each operation's images are mastered of
        what plain ones are."""
        self.mastery = (plain, augmented)
        if arms:
            way = self.every / (RISE * self.total)
            pairs = zip(self.shares, arms, strict=True)
            self.shares = [moved(share, (ratio - ARM_RATIO) / MARGIN, way) for share, ratio in pairs]
        fading = max(0.0, 1 - self.every / (SPAN * self.total))
        fresh = (1.0, self.progress, plain)
        weight, progress, mastered = (fading * old + new for old, new in zip(self.trend, fresh, strict=True))
        self.trend = (weight, progress, mastered)
        if self.ends and self.strength == 0 and self.progress > LATE:
            return
        self.strength = moved(self.strength, min(self.margins()) / MARGIN, self.every / (RISE * self.total))

    def margins(self) -> tuple[float, float]:
        """By how much each of the two conditions holds: augmented against plain images, and plain ones alone."""
        plain, augmented = self.mastery
        mastered = plain - asked_at(self.progress)
        if self.progress >= FORESEEN:
            mastered = max(mastered, self.foreseen() - ASKED)
        return augmented / max(plain, 1e-6) - RATIO, mastered

    def foreseen(self) -> float:
        """The mastery of plain images at the end of the training, if it goes on growing as it has of late."""
        weight, progress, mastered = self.trend
        grown, since = self.mastery[0] - mastered / weight, self.progress - progress / weight
        return self.mastery[0] + (1 - self.progress) * grown / max(since, 1e-6)

    def shared(self, arms: Sequence[str]) -> dict[str, float]:
        """The share of each operation by its name."""
        return dict(zip(arms, self.shares, strict=True))

    def numbers(self) -> dict[str, float]:
        """What a log has of it."""
        return {"strength": self.strength, "plain_mastery": self.mastery[0], "augmented_mastery": self.mastery[1]}

    def state_dict(self) -> dict[str, Any]:
        coming = None if self.coming is None else self.coming.values()
        return {
            "strength": self.strength,
            "shares": self.shares,
            "steps": self.steps,
            "counts": self.counts,
            "arms": self.arms,
            "seen": self.seen,
            "coming": coming,
            "mastery": list(self.mastery),
            "trend": list(self.trend),
        }

    def load_state_dict(self, state: dict[str, Any], device: torch.device) -> None:
        self.strength, self.steps = state["strength"], state["steps"]
        self.counts, self.arms, self.seen = (
            None if (found := state.get(name)) is None else found.to(device) for name in ("counts", "arms", "seen")
        )
        self.shares = list(state.get("shares") or self.shares)
        self.coming = None if state["coming"] is None else Later(torch.tensor(state["coming"]))
        plain, augmented = state["mastery"]
        self.mastery = (plain, augmented)
        weight, progress, mastered = state.get("trend") or (0.0, 0.0, 0.0)
        self.trend = (weight, progress, mastered)


def steps_between(total: int) -> int:
    """Steps from one measurement to the next in a training of so many."""
    return max(1, min(EVERY, total // MEASUREMENTS), min(LONG_EVERY, total // LONG_MEASUREMENTS))


def asked_at(progress: float) -> float:
    """The share of the plain training images that must be mastered when this share of the training is done."""
    return ASKED * max(progress, EARLY) ** 0.5


def plain_or_not(counts: Tensor) -> Tensor:
    """Counts of plain images and of each operation's: the same of plain and of all augmented ones."""
    return torch.stack([counts[0], counts[1:].sum(0)])


def alike(plain: Tensor, arms: int) -> Tensor:
    """Counts [right or seen, classes] of plain images as those of plain images and of each operation's, which have left
    them as they are."""
    return torch.cat([plain[None], (plain / max(1, arms)).expand(max(1, arms), -1, -1)])


def against_plain(counts: Tensor) -> Tensor:
    """Of counts of plain images and of each operation's: the mastery of those, as a share of that of plain ones."""
    each, unseen = mean_recall(counts), counts[:, 1].sum(1) < 1e-6
    return torch.where(unseen, 1.0, each / each[0].clamp_min(1e-6))[1:]


def moved(place: float, pace: float, way: float) -> float:
    """A number from 0 to 1 after one decision: at a pace from -1 to 1, ``way`` further at full pace."""
    return min(1.0, max(0.0, place + max(-1.0, min(1.0, pace)) * way))


def mean_recall(counts: Tensor) -> Tensor:
    """Of counts [..., right or seen, classes]: the mean over the classes that have been seen."""
    right, seen = counts.unbind(-2)
    there = seen > 1e-6
    return (right / seen.clamp_min(1e-6) * there).sum(-1) / there.sum(-1).clamp_min(1)


class Later:
    """Numbers on their way from a device to the host: whoever asks for them a few steps later does not wait."""

    def __init__(self, numbers: Tensor) -> None:
        self.host = numbers.detach().to("cpu", non_blocking=True)
        self.ready = torch.cuda.Event() if numbers.is_cuda else None
        if self.ready is not None:
            self.ready.record()

    def values(self) -> list[float]:
        if self.ready is not None:
            self.ready.synchronize()
        return self.host.tolist()
