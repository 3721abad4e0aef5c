"""Which epoch, and whether target or teacher, is kept as ``best.pt``: by a validation split, never by the test split.

A small validation split cannot tell good epochs apart: of 200 photographs, two more or fewer are chance. So it is the
last epoch that is within one standard error of the highest; by then the learning rate is low, and most of what
remains to be learned has been. With many validation images that is the best one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from teachaugment.engine.trainer import Trainer


def note_best(trainer: Trainer, record: dict[str, Any]) -> bool:
    """Whether this epoch is the one to keep so far; ``trainer.best`` then says so.

    The target is a candidate, and the teacher unless it was trained before; of equals the target is taken.
    """
    if "val" not in record or trainer.data.val is None:
        return False
    metric, frozen = trainer.task.metric, trainer.config.teach.teacher is not None
    found = {name: result[metric] for name, result in record["val"].items() if name == "target" or not frozen}
    model = max(found, key=lambda name: found[name])
    highest, since = highest_so_far(trainer)
    if found[model] > highest:
        highest, since = found[model], trainer.epoch
    chance = standard_error(highest, len(trainer.data.val)) if trainer.task.counts_images else 0.0
    if found[model] < highest - chance:
        return False
    trainer.best = {"epoch": trainer.epoch, "model": model, metric: found[model]}
    trainer.best |= {"highest": highest, "highest_epoch": since}
    return True


def highest_so_far(trainer: Trainer) -> tuple[float, int]:
    """The highest value and its epoch, which need not be the chosen one."""
    best = trainer.best
    if best is None:
        return -math.inf, 0
    return best.get("highest", best[trainer.task.metric]), best.get("highest_epoch", best["epoch"])  # 0.1 had one only


def standard_error(share: float, images: int) -> float:
    """Of a share of so many images; of metrics that are none it is not known, and the highest is taken."""
    return math.sqrt(share * (1 - share) / images)


def check(best: dict[str, Any], metric: str) -> None:
    """Complain about what a damaged checkpoint says of the best epoch."""
    numbers = best["epoch"], best[metric], best.get("highest", 0.0), best.get("highest_epoch", 0)
    if not all(isinstance(value, (int, float)) for value in numbers):
        raise TypeError(f"the best epoch is {best}")


def out_of_patience(trainer: Trainer) -> str | None:
    """Why a run ends early: there have been enough evaluations since the highest one."""
    patience, every = trainer.config.train.patience, trainer.config.train.eval_every
    if patience is None or trainer.best is None:
        return None
    _, highest = highest_so_far(trainer)
    since = trainer.epoch // every - highest // every
    if since < patience:
        return None
    return f"ends after epoch {trainer.epoch}: {since} evaluations without a better one than that of epoch {highest}"
