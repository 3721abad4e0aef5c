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
from teachaugment.batch import Batch
from teachaugment.config.resolve import Config, to_dict
from teachaugment.data.splits import DataSet, Split
from teachaugment.data.streamed import StreamedSplit
from teachaugment.engine import choosing, processes
from teachaugment.engine.display import TrainingDisplay
from teachaugment.engine.epoch_sums import EpochSums
from teachaugment.engine.evaluate import evaluate, scalars, sums
from teachaugment.engine.finite import Finite
from teachaugment.engine.freezing import Freezing
from teachaugment.engine.input import SOON, one_pass, slow_input, steps_per_epoch
from teachaugment.engine.interrupts import Interrupts
from teachaugment.engine.optim import default_milestones, learning_rate
from teachaugment.engine.precision import Precision
from teachaugment.errors import UserError
from teachaugment.seeds import derive
from teachaugment.strategies.strategy import Strategy
from teachaugment.tasks.task import Meter, Task

READ_EVERY = 0.5  # seconds between two looks at numbers on the device
REFERENCES = 50_000  # training images that an evaluation by nearest neighbours compares with, at most
STRATEGY_KEYS = ("teach", "consistency", "policy")  # what checkpoints have always had for strategies, used or not


@dataclass
class Trainer:
    """All the objects of one run, and how far it has come."""

    config: Config
    task: Task
    data: DataSet
    target: nn.Module
    optimizer: torch.optim.Optimizer
    strategy: Strategy
    device: torch.device
    precision: Precision
    finite: Finite
    freezing: Freezing
    epoch: int = 0  # epochs done
    step: int = 0  # steps done
    best: dict[str, Any] | None = None  # epoch, model and metric of best.pt, chosen on the validation split
    epoch_sums: EpochSums | None = None  # of the epoch under way
    generator: torch.Generator = field(init=False)
    network: Callable[[Tensor], Any] = field(init=False)  # the target as its own update calls it
    parallel: DistributedDataParallel | None = field(init=False)  # around the target, where there are several processes
    fresh: Iterator[Batch] | None = field(init=False, default=None)  # what a strategy learns from instead

    def __post_init__(self) -> None:
        self.generator = torch.Generator(device=self.device)
        self._call_target()

    def _call_target(self) -> None:
        """How the target's own update calls it: again whenever other parameters learn."""
        self.parallel = processes.parallel(self.target) if distributed.world() > 1 else None
        network = self.parallel or self.target
        self.network = self.precision.call(torch.compile(network) if self.config.train.compile else network)

    @property
    def steps_per_epoch(self) -> int:
        return steps_per_epoch(self.config, len(self.data.train))

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
        """One update of the target, and with it what the strategy does after each of them."""
        for group in self.optimizer.param_groups:
            rate = self.config.optim.lr if group.get("steady") else self.learning_rate()
            group["lr"] = rate * group.get("scale", 1.0)
        # A pass changes these before it is known whether its loss is finite.
        changed = [*self.target.buffers(), *sums(meter).values()] if self.finite.skips else []
        before, losses = [tensor.clone() for tensor in changed], []
        # 1. the target, on one or more augmented copies of the batch, part by part
        self.optimizer.zero_grad()
        parts, copies = batch.split(self.config.train.batch_size), self.config.augment.copies
        prepared: list[Batch] = []
        for k, part in enumerate(parts * copies):
            self._reseed(part.part, copy=k // len(parts))
            with self._gradients_meet(last=k + 1 == copies * len(parts)):
                prepared.append(self.task.before(part, self.generator))
                seen = self.task.after(self.strategy.augment(prepared[-1]), self.generator)
                output = self.task.forward(self.network, seen)
                self.strategy.observe(output, seen)
                loss = self.task.loss(output, seen)
                if (term := self.strategy.loss(output, seen)) is not None:
                    loss = loss + term
                self.precision.backward(loss * (len(part) / len(batch) / copies))
            meter.update(output, seen, loss)
            losses.append(loss.detach())
        self.step += 1
        self.finite.step = self.step
        checked = {"loss": torch.stack(losses)}
        if self.finite.update("target", self.target, checked, gradients=not self.precision.scales):
            self.precision.step(self.optimizer, list(self.target.parameters()), self.config.optim.clip)
            self.finite.weights("target", self.target)
        else:
            torch._foreach_copy_(changed, before)
        distributed.average_buffers(self.target)
        self.task.update(self.target)
        # 2. the strategy: of TeachAugment the teacher, and every n_inner steps the augmenter
        if self.fresh is not None and self.strategy.due:
            return self.strategy.step(self._prepare(next(self.fresh)))
        return self.strategy.step(batch.join(prepared[: len(parts)]))

    def _prepare(self, batch: Batch) -> Batch:
        """A batch that the target is not updated on, as a strategy gets it."""
        parts = []
        for part in batch.split(self.config.train.batch_size):
            self.generator.manual_seed(derive(self.config.seed, part.part, "fresh", self.step))
            parts.append(self.task.before(part, self.generator))
        return batch.join(parts)

    def _reseed(self, part: int, copy: int) -> None:
        """What is random about a part of a step's images, in whichever process: fixed augmentation, then dropout."""
        self.generator.manual_seed(derive(self.config.seed, part, "fixed", self.step, copy))
        # Dropout and its like inside the model.
        torch.manual_seed(derive(self.config.seed, part, "model", self.step, copy))

    def _gradients_meet(self, last: bool) -> AbstractContextManager[Any]:
        """The processes average their gradients once in a step, with the last part."""
        return nullcontext() if last or self.parallel is None else self.parallel.no_sync()

    def learning_rate(self, step: int | None = None) -> float:
        """The learning rate of a step, counted from 0; of the coming one unless given."""
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
        if self.freezing.train(self.epoch):
            self._call_target()
        self.strategy.at(self.epoch / self.config.train.epochs)
        if self.epoch_sums is None:
            self.epoch_sums = EpochSums(self.task.meter(self.device))
        self.fresh = self.fresh_batches() if self.config.teach.fresh_batch else None
        meter, images, waited, began = self.epoch_sums.meter, 0, interrupts.waited, time.monotonic()
        read, first = began, 0.0  # seconds that the first batch took, in which the workers begin
        for batch in interrupts.over(self.batches("train", training=True), training=True):
            first = first or interrupts.waited - waited
            self.epoch_sums.add(self.train_step(batch, meter))
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
                if advice := slow_input(interrupts.waited - waited - first, read - began - first, SOON, "the time"):
                    display.once("input", advice)
        seconds, waited = time.monotonic() - began, interrupts.waited - waited
        if advice := slow_input(waited, seconds):
            display.once("input", advice)
        return {"seconds": seconds, "images_per_second": images / max(seconds, 1e-9), "waited_seconds": waited}

    def end_epoch(self) -> dict[str, Any]:
        """Count the epoch as done, and return what it measured."""
        assert self.epoch_sums is not None
        self.finite.read()
        train, measured = self.epoch_sums.results()
        record: dict[str, Any] = {"train": scalars(train), "lr": self.learning_rate(self.step - 1)}
        if self.finite.skips:
            record["skipped"] = self.finite.skipped
            self.finite.skipped = 0
        self.strategy.end_epoch()
        if views := self.strategy.views:
            record["teach"] = {**measured, **self.strategy.learned(), "snapshots": len(views[0].replay)}
        self.epoch += 1
        self.epoch_sums = None
        return record

    # --- parts ---------------------------------------------------------------------------------------------------

    def batches(self, split: str, training: bool = False) -> Iterator[Batch]:
        """One pass over a split, on the device; in training the rest of it, in the order of (seed, epoch)."""
        start = self.step - self.epoch * self.steps_per_epoch if training else 0
        return self._pass(getattr(self.data, split), training, start=start)

    def fresh_batches(self) -> Iterator[Batch]:
        """The rest of another pass over the training split, of which each n_inner-th step takes a batch."""
        each, began = self.config.teach.n_inner, self.epoch * self.steps_per_epoch
        start = self.step // each - began // each
        return self._pass(self.data.train, training=True, start=start, seed=derive(self.config.seed, "fresh"))

    def _pass(self, data: Split | StreamedSplit, training: bool, **how: Any) -> Iterator[Batch]:
        size = self.images_here if training else self.config.train.batch_size
        drop_last = training and len(data) >= self.images_per_step
        return one_pass(
            self.config, data, size, epoch=self.epoch, shuffle=training, device=self.device, drop_last=drop_last, **how
        )

    def evaluate(self, *splits: str, interrupts: Interrupts | None = None) -> dict[str, dict[str, Any]]:
        """Metrics of the target and, where there is one, of the teacher, on these splits together."""
        images = chain.from_iterable(map(self.batches, splits))
        over = (interrupts or Interrupts()).over
        reference = over(self.reference()) if self.task.refers else ()
        return evaluate(self.models(), self.task, over(images), self.device, reference)

    def models(self) -> dict[str, nn.Module]:
        """The target and, where there is one, the teacher, as an evaluation calls them."""
        models = {"target": self.precision.wrap(self.target)}
        if self.strategy.teacher is not None:
            models["teacher"] = self.strategy.teacher.model
        return models

    def reference(self, most: int | None = REFERENCES) -> Iterator[Batch]:
        """In every process the training split as an evaluation sees it, at ``most`` so many images from all over it."""
        split = self.data.train
        if most is not None and len(split) > most:
            split = split.select(torch.linspace(0, len(split) - 1, most).long())
        return self._pass(split.whole(), training=False, rank=0, world=1)

    def state_dict(self) -> dict[str, Any]:
        """Everything a resumed run needs, as plain containers, numbers and tensors."""
        return {
            "config": to_dict(self.config),
            "data": self.data.about(),
            "epoch": self.epoch,
            "step": self.step,
            "steps_per_epoch": self.steps_per_epoch,
            "parts": self.config.train.accumulate * distributed.world(),  # of a step
            "best": self.best,
            "skipped": self.finite.skipped,
            "progress": self.epoch_sums.state_dict() if self.epoch_sums is not None else None,
            "target": self.target.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "task": self.task.state_dict(),
            **dict.fromkeys(STRATEGY_KEYS),
            **({self.strategy.key: self.strategy.state_dict()} if self.strategy.key else {}),
            "precision": self.precision.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any], where: Path) -> None:
        try:
            self.target.load_state_dict(state["target"])
            self.optimizer.load_state_dict(state["optimizer"])
            if self.strategy.key is not None:
                self.strategy.load_state_dict(state[self.strategy.key])
            self.task.load_state_dict(state.get("task", {}))
            self.precision.load_state_dict(state.get("precision", {}))
            self.epoch, self.step, self.best, self.epoch_sums = state["epoch"], state["step"], state["best"], None
            if self.best is not None:
                choosing.check(self.best, self.task.metric)
            self.finite.skipped = state["skipped"]
            if state["steps_per_epoch"] != self.steps_per_epoch:  # other data or batches, by force: the epoch anew
                self.step = self.epoch * self.steps_per_epoch
            elif state["progress"] is not None:
                self.epoch_sums = EpochSums(self.task.meter(self.device))
                self.epoch_sums.load_state_dict(state["progress"])
        except (RuntimeError, LookupError, ValueError, TypeError, AttributeError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise UserError(f"{where} does not fit the model {self.config.model.name}: {reason}") from None
