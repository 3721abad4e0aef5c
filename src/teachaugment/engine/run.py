"""A whole run: epoch after epoch with its log, its checkpoints and its pictures, and the files it leaves at the end."""

from __future__ import annotations

import copy
import json
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from teachaugment import distributed
from teachaugment.config.resolve import to_dict
from teachaugment.engine import checkpoint, directory, finite, lock, pictures, policies, processes
from teachaugment.engine.choosing import note_best, out_of_patience
from teachaugment.engine.display import TrainingDisplay
from teachaugment.engine.evaluate import scalars
from teachaugment.engine.interrupts import Interrupts, Stopped
from teachaugment.engine.log import Board, Log, Silent
from teachaugment.engine.trainer import Trainer
from teachaugment.errors import UserError
from teachaugment.files import write_atomically
from teachaugment.show.pictures import to_tensor


@dataclass
class Saver:
    """Saves a run as it stands, each state once: when it is time, and when it is asked to."""

    trainer: Trainer
    path: Path
    saved: tuple[int, int]  # epoch and step of the last checkpoint
    time: float = field(default_factory=time.monotonic)  # of the last checkpoint

    def save(self, best: dict[str, Any] | None = None) -> None:
        """All processes call it, and the main one writes. The others go on, and wait for it with their gradients.

        With what was measured, if it is the best so far, it is saved as the best one too, and so is its policy.
        """
        here = self.trainer.epoch, self.trainer.step
        if here != self.saved:
            self.trainer.finite.read()
            state = self.trainer.state_dict()
            finite.check(state)
            if distributed.is_main():
                if best is not None:  # before the last one: killed in between, this epoch is repeated
                    checkpoint.save(self.path / checkpoint.BEST, state)
                    write_policies(self.trainer, self.path, "validation", best)
                checkpoint.save(self.path / checkpoint.LAST, state, keep=self.path / checkpoint.PREVIOUS)
            self.saved, self.time = here, time.monotonic()

    def due(self) -> bool:
        minutes = self.trainer.config.train.save_minutes
        return minutes > 0 and time.monotonic() - self.time >= 60 * minutes


def run(
    trainer: Trainer,
    path: Path,
    interrupts: Interrupts | None = None,
    report: Callable[[Trainer, Path], Any] | None = None,
) -> dict[str, Any]:
    """Train to the last epoch, leaving everything in ``path``; returns the final metrics.

    Of several processes all train and evaluate, and the main one writes. Asked to stop by a signal, they save and raise
    ``Stopped``. ``report`` writes a page about the run at its end.
    """
    with lock.held(path) if distributed.is_main() else nullcontext():
        return _run(trainer, path, interrupts or Interrupts(), report)


def _run(
    trainer: Trainer, path: Path, interrupts: Interrupts, report: Callable[[Trainer, Path], Any] | None
) -> dict[str, Any]:
    config, nowhere = trainer.config.train, Silent()
    done = trainer.epoch if trainer.step else None
    log: Any = Log(path / directory.LOG, done) if distributed.is_main() else nowhere
    display: Any = (
        TrainingDisplay(trainer.total_steps, trainer.step, config.epochs) if distributed.is_main() else nowhere
    )
    board = Board(path / "tensorboard", trainer.step) if config.tensorboard and distributed.is_main() else None
    saver = Saver(trainer, path, (trainer.epoch, trainer.step))
    interrupts.due, interrupts.save = saver.due, saver.save
    try:
        if trainer.step == 0:
            parameters = sum(p.numel() for p in trainer.target.parameters())
            log.write({"event": "start", "step": 0, "parameters": parameters, **trainer.data.counts()})
        results: dict[str, Any] = {}
        why: str | None = None
        try:
            while trainer.epoch < config.epochs and (why := out_of_patience(trainer)) is None:
                results = _one_epoch(trainer, saver, log, board, display, interrupts)
            if why is not None:
                display.say(why)
                saver.save()
        except Stopped:  # between two batches: nothing is half done
            saver.save()
            processes.wait()  # the first one to leave ends the others
            raise
        metrics = finish(trainer, path, results.get("test"), interrupts)
        log.write({"event": "end", "epoch": trainer.epoch, "step": trainer.step, **_short(metrics)})
        if report is not None and distributed.is_main():
            _write_report(report, trainer, path)
    finally:
        display.close()
        log.close()
        if board is not None:
            board.close()
    return metrics


def _one_epoch(
    trainer: Trainer,
    saver: Saver,
    log: Log,
    board: Board | None,
    display: TrainingDisplay,
    interrupts: Interrupts,
) -> dict[str, Any]:
    """Train, evaluate if it is time, and only then count the epoch, log and save; returns the evaluation by split.

    Stopped in the evaluation, a run goes on with the evaluation.
    """
    config, results, evaluation = trainer.config.train, {}, {}
    times = trainer.train_batches(display, interrupts)
    epoch = trainer.epoch + 1
    last = epoch == config.epochs
    if last or epoch % config.eval_every == 0:
        split = "val" if trainer.data.val is not None else "test"
        began = time.monotonic()
        results = {split: trainer.evaluate(split, interrupts=interrupts)}
        evaluation[split] = {name: scalars(result) for name, result in results[split].items()}
        times["evaluation_seconds"] = time.monotonic() - began
        if board is not None and trainer.strategy.views:
            board.picture("augmented", to_tensor(pictures.augmented(trainer)), trainer.step)
    record = {"event": "epoch", "epoch": epoch, "step": trainer.step, **trainer.end_epoch(), "time": times}
    record.update(evaluation)
    is_best = note_best(trainer, record)
    log.write(record)
    if board is not None:
        board.scalars({k: v for k, v in record.items() if k not in ("epoch", "step")}, trainer.step)
    display.epoch(record, trainer.task.metric, trainer.task.shown)
    if warning := trainer.task.warning(record["train"]):
        display.once("task", f"epoch {epoch}: {warning}")
    if last or is_best or epoch % config.save_every == 0:
        saver.save(results["val"] if is_best else None)
    return results


def finish(
    trainer: Trainer, path: Path, test: dict[str, Any] | None = None, interrupts: Interrupts | None = None
) -> dict[str, Any]:
    """Evaluate on the test split, unless that is done, and write ``metrics.json``, the policy and the picture."""
    metrics: dict[str, Any] = {"epoch": trainer.epoch, "step": trainer.step, "metric": trainer.task.metric}
    metrics["classes"] = trainer.data.classes
    metrics["test"] = test or trainer.evaluate("test", interrupts=interrupts)
    if trainer.strategy.views:
        metrics["probabilities"] = trainer.strategy.learned()
    if distributed.is_main():
        write_policies(trainer, path, "test", metrics["test"])
        pictures.augmented(trainer).save(path / directory.PICTURE)
        if trainer.task.shows_predictions:
            pictures.predictions(trainer).save(path / directory.PREDICTIONS)
    if trainer.best is not None:
        same = trainer.best["epoch"] == trainer.epoch
        best = metrics["test"] if same else _evaluate_best(trainer, path, interrupts)
        if best is not None:
            metrics["best"] = {**trainer.best, "test": best}
    if distributed.is_main():
        text = json.dumps(metrics, indent=2) + "\n"
        write_atomically(path / directory.METRICS, lambda file: file.write(text.encode()))
    return metrics


def write_policies(trainer: Trainer, path: Path, split: str, results: dict[str, Any]) -> None:
    """What the strategy has to be used again, with what was measured on a split."""
    about = policies.about(
        {"config": to_dict(trainer.config), "data": trainer.data.about(), "epoch": trainer.epoch},
        policies.measured_as(split, trainer.task.metric, results),
    )
    policies.write(trainer.strategy.policies(**about), path / directory.POLICY)


def _evaluate_best(trainer: Trainer, path: Path, interrupts: Interrupts | None) -> dict[str, Any] | None:
    """What the best epoch does on the test split; None, with a word about it, if its checkpoint is damaged."""

    def load() -> dict[str, Any] | None:
        try:
            return checkpoint.load(path / checkpoint.BEST)
        except UserError as error:
            warnings.warn(f"{error}; the best epoch is not evaluated", stacklevel=2)
            return None

    best = processes.share(load)
    if best is None:
        return None
    last = copy.deepcopy(trainer.state_dict())
    trainer.load_state_dict(best, path / checkpoint.BEST)
    result = trainer.evaluate("test", interrupts=interrupts)
    trainer.load_state_dict(last, path / checkpoint.LAST)
    return result


def _write_report(report: Callable[[Trainer, Path], Any], trainer: Trainer, path: Path) -> None:
    """Whatever goes wrong with a page is no reason to lose a training."""
    try:
        report(trainer, path)
    except Exception as error:
        reason = (str(error).strip().splitlines() or [""])[0]
        warnings.warn(f"no {directory.REPORT}: {type(error).__name__}: {reason}", stacklevel=2)


def _short(metrics: dict[str, Any]) -> dict[str, Any]:
    """The final metrics without their tables, for the log."""
    return {"test": {name: scalars(result) for name, result in metrics["test"].items()}}
