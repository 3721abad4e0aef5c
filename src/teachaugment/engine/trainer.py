"""Training: one step of target and augmenter, one epoch of steps, evaluation, and the state a run resumes from.

Every random number is a function of the seed and the step: the data order of (seed, epoch), the fixed augmentation and
the model's dropout of (seed, step), the learned augmentation of its own counters. A resumed run therefore equals the
uninterrupted one without any stored generator state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from teachaugment import distributed
from teachaugment.algorithm import TeachAugment
from teachaugment.batch import Batch
from teachaugment.config.resolve import Config, to_dict
from teachaugment.data.loader import batches
from teachaugment.data.splits import DataSet, Split
from teachaugment.data.streamed import StreamedSplit
from teachaugment.engine import processes
from teachaugment.engine.display import TrainingDisplay
from teachaugment.engine.epoch_sums import Progress
from teachaugment.engine.evaluate import evaluate, scalars, sums
from teachaugment.engine.finite import Finite
from teachaugment.engine.interrupts import Interrupts
from teachaugment.engine.optim import default_milestones, learning_rate
from teachaugment.engine.precision import Precision
from teachaugment.errors import UserError
from teachaugment.policy.policy import Policy
from teachaugment.seeds import mix
from teachaugment.strategies.consistency import Consistency
from teachaugment.tasks import Augment, Meter, Scheduled, Task
from teachaugment.teachers import Teacher

READ_EVERY = 0.5  # seconds between two looks at numbers on the device
REFERENCES = 50_000  # training images that an evaluation by nearest neighbours compares with, at most
SLOW_INPUT = 0.1  # of an epoch: from here on a run says that it waits for its images


@dataclass
class Trainer:
    """All the objects of one run, and how far it has come."""

    config: Config
    task: Task
    data: DataSet
    target: nn.Module
    optimizer: torch.optim.Optimizer
    augment: Augment  # the strategy
    teach: TeachAugment | None  # where the strategy is TeachAugment
    device: torch.device
    precision: Precision
    consistency: Consistency | None = None  # where the strategy is consistency regularisation
    epoch: int = 0  # epochs done
    step: int = 0  # steps done
    best: dict[str, Any] | None = None  # epoch and metric of best.pt, chosen on the validation split
    progress: Progress | None = None  # of the epoch under way
    policy_fingerprint: str | None = field(init=False)
    generator: torch.Generator = field(init=False)
    finite: Finite = field(init=False)
    network: Callable[[Tensor], Any] = field(init=False)  # the target as its own update calls it
    parallel: DistributedDataParallel | None = field(init=False)  # around the target, where there are several processes

    @property
    def policy(self) -> Policy | None:
        """Where the strategy is a policy that was learned before."""
        strategy = getattr(self.augment, "strategy", self.augment)  # of two views, that of each
        return strategy if isinstance(strategy, Policy) else None

    def __post_init__(self) -> None:
        self.policy_fingerprint = None if self.policy is None else self.policy.fingerprint()
        self.generator = torch.Generator(device=self.device)
        self.finite = Finite(self.config.train.on_nan, self.device)
        if self.teach is not None:
            self.teach.permit = self._may_update_augmenter
        self.parallel = processes.parallel(self.target) if distributed.world() > 1 else None
        network = self.parallel or self.target
        self.network = self.precision.call(torch.compile(network) if self.config.train.compile else network)

    @property
    def steps_per_epoch(self) -> int:
        return max(1, len(self.data.train) // self.images_per_step)

    @property
    def images_per_step(self) -> int:
        """In all processes together."""
        return self.images_here * distributed.world()

    @property
    def images_here(self) -> int:
        """Images of one step in this process."""
        return self.config.train.batch_size * self.config.train.accumulate

    @property
    def total_steps(self) -> int:
        return self.steps_per_epoch * self.config.train.epochs

    # --- one step, one epoch -------------------------------------------------------------------------------------

    def train_step(self, batch: Batch, meter: Meter) -> dict[str, Tensor] | None:
        """One update of the target, and with it what TeachAugment does after each of them."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.config.optim.lr if group.get("steady") else self.learning_rate()
        # A pass changes these before it is known whether its loss is finite.
        passive = [*self.target.buffers(), *sums(meter).values()] if self.finite.skips else []
        before, losses = [tensor.clone() for tensor in passive], []
        # 1. the target, on one or more augmented copies of the batch
        self.optimizer.zero_grad()
        raws, copies = batch.split(self.config.train.batch_size), self.config.augment.copies
        parts: list[Batch] = []
        for k, raw in enumerate(raws * copies):
            self._reseed(raw.part, copy=k // len(raws))
            parts.append(self.task.before(raw, self.generator))
            with self._gradients_meet(last=k + 1 == copies * len(raws)):
                loss, output, seen = self.task.forward(self.network, parts[-1], self.augment, self.generator)
                if self.consistency is not None:
                    loss = loss + self.consistency.loss(output, seen.image)
                self.precision.backward(loss * (len(raw) / len(batch) / copies))
            meter.update(output, seen, loss)
            losses.append(loss.detach())
        self.step += 1
        checked = {"loss": torch.stack(losses)}
        if self.finite.update("target", self.target, checked, self.step, gradients=not self.precision.scales):
            self.precision.step(self.optimizer, list(self.target.parameters()), self.config.optim.clip)
            self.finite.weights("target", self.target, self.step)
        else:
            torch._foreach_copy_(passive, before)
        distributed.average_buffers(self.target)
        self.task.update(self.target)
        # 2. the teacher, and every n_inner steps the augmenter
        if self.consistency is not None:
            self.consistency.step()
        if self.teach is None:
            return None
        measured = self.teach.step(batch.join(parts[: len(raws)]))
        if measured is not None:
            self.finite.weights("augmenter", self.teach.learners, self.step)
        return measured

    def _may_update_augmenter(self, measured: dict[str, Tensor]) -> bool:
        assert self.teach is not None
        return self.finite.update("augmenter", self.teach.learners, measured, self.step)

    def _reseed(self, part: int, copy: int) -> None:
        """What is random about a part of a step's images, in whichever process: fixed augmentation, then dropout."""
        self.generator.manual_seed(mix(self.config.seed, part, "fixed", self.step, copy))
        torch.manual_seed(
            mix(self.config.seed, part, "model", self.step, copy)
        )  # dropout and its like inside the model

    def _gradients_meet(self, last: bool) -> AbstractContextManager[Any]:
        """The processes average their gradients once in a step, with the last part."""
        return nullcontext() if last or self.parallel is None else self.parallel.no_sync()

    def learning_rate(self, step: int | None = None) -> float:
        """Of a step, counted from 0; the coming one unless given."""
        optim, per_epoch = self.config.optim, self.steps_per_epoch
        epochs = optim.milestones or default_milestones(self.config.train.epochs)
        return learning_rate(
            self.step if step is None else step,
            self.total_steps,
            peak=optim.lr,
            warmup=round(optim.warmup_epochs * per_epoch),
            schedule=optim.schedule,
            milestones=[round(epoch * per_epoch) for epoch in epochs],
        )

    def train_epoch(self, display: TrainingDisplay) -> dict[str, Any]:
        """One pass over the training split, or the rest of it, and what it measured."""
        times = self.train_batches(display, Interrupts())
        return {**self.end_epoch(), "time": times}

    def train_batches(self, display: TrainingDisplay, interrupts: Interrupts) -> dict[str, float]:
        """The rest of a pass over the training split, and the time it took.

        Nothing waits for the device more often than ``READ_EVERY``.
        """
        self.target.train()
        if isinstance(self.augment, Scheduled):
            self.augment.at(self.epoch / self.config.train.epochs)
        if self.progress is None:
            self.progress = Progress(self.task.meter(self.device))
        meter, images, waited, began = self.progress.meter, 0, interrupts.waited, time.monotonic()
        read = began
        for batch in interrupts.over(self.batches("train", training=True), training=True):
            self.progress.add(self.train_step(batch, meter))
            images += len(batch) * distributed.world()
            display.step(self.epoch + 1)
            while self.finite.news:
                display.say(self.finite.news.pop(0))
            if time.monotonic() - read > READ_EVERY:
                self.finite.read()
                result = scalars(meter.compute())
                read = time.monotonic()
                shown = {name: result[name] for name in self.task.shown}
                display.reading(self.epoch + 1, shown, images / (read - began))
        seconds, waited = time.monotonic() - began, interrupts.waited - waited
        if advice := slow_input(waited, seconds):
            display.once("input", advice)
        return {"seconds": seconds, "images_per_second": images / max(seconds, 1e-9), "waited_seconds": waited}

    def end_epoch(self) -> dict[str, Any]:
        """Count the epoch as done, and return what it measured."""
        assert self.progress is not None
        self.finite.read()
        train, measured = self.progress.results()
        record: dict[str, Any] = {"train": scalars(train), "lr": self.learning_rate(self.step - 1)}
        if self.finite.skips:
            record["skipped"] = self.finite.skipped
            self.finite.skipped = 0
        if self.teach is not None:
            self.teach.end_epoch()
            record["teach"] = {**measured, **self.teach.probabilities(), "snapshots": self.teach.snapshots}
        self.epoch += 1
        self.progress = None
        return record

    # --- parts ---------------------------------------------------------------------------------------------------

    def batches(self, split: str, training: bool = False) -> Iterator[Batch]:
        """One pass over a split, on the device; in training the rest of it, in the order of (seed, epoch)."""
        return self._pass(getattr(self.data, split), training, distributed.rank(), distributed.world())

    def _pass(self, data: Split | StreamedSplit, training: bool, rank: int, world: int) -> Iterator[Batch]:
        config = self.config
        size = self.images_here if training else config.train.batch_size
        return batches(
            data,
            size,
            seed=config.seed,
            epoch=self.epoch,
            shuffle=training,
            device=self.device,
            workers=config.data.workers,
            drop_last=training and len(data) >= self.images_per_step,
            rank=rank,
            world=world,
            start=self.step - self.epoch * self.steps_per_epoch if training else 0,
            balance=training and config.data.balance,
        )

    def evaluate(self, *splits: str, interrupts: Interrupts | None = None) -> dict[str, dict[str, Any]]:
        """Metrics of the target and, where there is one, of the teacher, on these splits together."""
        models = {"target": self.precision.wrap(self.target)}
        if self.teacher is not None:
            models["teacher"] = self.teacher.model
        images = chain.from_iterable(map(self.batches, splits))
        over = (interrupts or Interrupts()).over
        reference = over(self.reference()) if self.task.reference else ()
        return evaluate(models, self.task, over(images), self.device, reference)

    @property
    def teacher(self) -> Teacher | None:
        owner = self.teach or self.consistency
        return owner.teacher if owner is not None else None

    def reference(self, most: int | None = REFERENCES) -> Iterator[Batch]:
        """In every process the training split as an evaluation sees it, at ``most`` so many images from all over it."""
        split = self.data.train
        if most is not None and len(split) > most:
            split = split.select(torch.linspace(0, len(split) - 1, most).long())
        return self._pass(split.whole(), training=False, rank=0, world=1)

    def state_dict(self) -> dict[str, Any]:
        """Everything a resumed run needs, as plain containers, numbers and tensors."""
        data = self.data
        return {
            "config": to_dict(self.config),
            "data": {
                "name": data.name,
                "fingerprint": data.fingerprint,
                "classes": list(data.classes),
                "channels": data.channels,
                "size": list(data.size),
                "mean": list(data.mean),
                "std": list(data.std),
                **self.counts(),
            },
            "epoch": self.epoch,
            "step": self.step,
            "steps_per_epoch": self.steps_per_epoch,
            "parts": self.config.train.accumulate * distributed.world(),  # of a step
            "best": self.best,
            "skipped": self.finite.skipped,
            "progress": self.progress.state_dict() if self.progress is not None else None,
            "target": self.target.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "teach": self.teach.state_dict() if self.teach is not None else None,
            "task": self.task.state_dict(),
            "consistency": self.consistency.state_dict() if self.consistency is not None else None,
            "policy": self.policy_fingerprint,
            "precision": self.precision.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any], where: Path) -> None:
        try:
            self.target.load_state_dict(state["target"])
            self.optimizer.load_state_dict(state["optimizer"])
            if self.teach is not None:
                self.teach.load_state_dict(state["teach"])
            if self.consistency is not None:
                self.consistency.load_state_dict(state["consistency"])
            self.task.load_state_dict(state.get("task", {}))
            self.precision.load_state_dict(state.get("precision", {}))
            self.epoch, self.step, self.best, self.progress = state["epoch"], state["step"], state["best"], None
            self.finite.skipped = state["skipped"]
            if state["steps_per_epoch"] != self.steps_per_epoch:  # other data or batches, by force: the epoch anew
                self.step = self.epoch * self.steps_per_epoch
            elif state["progress"] is not None:
                self.progress = Progress(self.task.meter(self.device))
                self.progress.load_state_dict(state["progress"])
        except (RuntimeError, KeyError, ValueError, TypeError, AttributeError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise UserError(f"{where} does not fit the model {self.config.model.name}: {reason}") from None

    def counts(self) -> dict[str, int]:
        splits = {"train": self.data.train, "val": self.data.val, "test": self.data.test}
        return {f"{name}_images": len(split) for name, split in splits.items() if split is not None}


def slow_input(waited: float, seconds: float) -> str | None:
    """What to tell a person whose training waits for its images; epochs of a moment say nothing."""
    if seconds < 2 or waited < SLOW_INPUT * seconds:
        return None
    return (
        f"{waited / seconds:.0%} of the epoch went into waiting for images; more --workers or, if they fit, "
        "--data.in_memory always would help"
    )
