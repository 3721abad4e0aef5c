"""A whole run: epoch after epoch with its log, its checkpoints and its pictures, and the files it leaves at the end."""

from __future__ import annotations

import copy
import json
import time
from pathlib import Path
from typing import Any

import torch

from teachaugment import checkpoint, distributed, export, logs, pictures
from teachaugment.errors import UserError
from teachaugment.evaluate import scalars
from teachaugment.train import Trainer


def run(trainer: Trainer, path: Path) -> dict[str, Any]:
    """Train to the last epoch, leaving everything in ``path``; returns the final metrics.

    Of several processes all train and evaluate, and the main one writes.
    """
    config, nowhere = trainer.config.train, logs.Nowhere()
    log: Any = logs.Log(path / logs.LOG, trainer.step) if distributed.is_main() else nowhere
    display: Any = logs.Display(trainer.total_steps, trainer.step, config.epochs) if distributed.is_main() else nowhere
    board = logs.Board(path / "tensorboard", trainer.step) if config.tensorboard and distributed.is_main() else None
    try:
        if trainer.step == 0:
            parameters = sum(p.numel() for p in trainer.target.parameters())
            log.write({"event": "start", "step": 0, "parameters": parameters, **trainer.counts()})
        results: dict[str, Any] = {}
        while trainer.epoch < config.epochs:
            results = _one_epoch(trainer, path, log, board, display)
        metrics = finish(trainer, path, results.get("test"))
        log.write({"event": "end", "epoch": trainer.epoch, "step": trainer.step, **_short(metrics)})
    finally:
        display.close()
        log.close()
        if board is not None:
            board.close()
    return metrics


def _one_epoch(
    trainer: Trainer, path: Path, log: logs.Log, board: logs.Board | None, display: logs.Display
) -> dict[str, Any]:
    """Train, evaluate if it is time, and only then log and save; returns the evaluation by split."""
    config, results = trainer.config.train, {}
    record = trainer.train_epoch(display)
    last = trainer.epoch == config.epochs
    if last or trainer.epoch % config.eval_every == 0:
        split = "val" if trainer.data.val is not None else "test"
        began = time.monotonic()
        results = {split: trainer.evaluate(split)}
        record[split] = {name: scalars(result) for name, result in results[split].items()}
        record["time"]["evaluation_seconds"] = time.monotonic() - began
        if board is not None and trainer.teach is not None:
            board.picture("augmented", pictures.to_tensor(trainer.picture()), trainer.step)
    record = {"event": "epoch", "epoch": trainer.epoch, "step": trainer.step, **record}
    is_best = _note_best(trainer, record)
    log.write(record)
    if board is not None:
        board.scalars({k: v for k, v in record.items() if k not in ("epoch", "step")}, trainer.step)
    display.epoch(record, trainer.task.metric)
    if last or is_best or trainer.epoch % config.save_every == 0:
        _check_weights(trainer)
        if distributed.is_main():  # the others go on, and wait for it with their next gradients
            _save(trainer, path, results["val"] if is_best else None)
    return results


def _save(trainer: Trainer, path: Path, best: dict[str, Any] | None) -> None:
    """The last checkpoint, and with what was measured, if it is the best so far, the best one and its policy."""
    state = trainer.state_dict()
    if best is not None:  # before the last one: killed in between, this epoch is repeated and written again
        checkpoint.save(path / checkpoint.BEST, state)
        if trainer.teach is not None:
            measured = export.measured_as("validation", trainer.task.metric, best)
            export.write(export.policy_of(state, measured), path / logs.POLICY)
    checkpoint.save(path / checkpoint.LAST, state)


def _note_best(trainer: Trainer, record: dict[str, Any]) -> bool:
    """Whether this epoch is the best so far. Only a validation split may choose, never the test split."""
    if "val" not in record:
        return False
    value = record["val"]["target"][trainer.task.metric]
    if trainer.best is not None and value <= trainer.best[trainer.task.metric]:
        return False
    trainer.best = {"epoch": trainer.epoch, trainer.task.metric: value}
    return True


def _check_weights(trainer: Trainer) -> None:
    """No checkpoint ever holds a number that is not finite."""
    tensors = [p.detach() for p in trainer.target.parameters()]
    if not bool(torch.stack(torch._foreach_norm(tensors)).isfinite().all()):
        raise UserError(f"a weight is no longer finite after step {trainer.step}; a lower --lr may help")


def finish(trainer: Trainer, path: Path, test: dict[str, Any] | None = None) -> dict[str, Any]:
    """Evaluate on the test split, unless that is done, and write ``metrics.json``, the policy and the picture."""
    metrics: dict[str, Any] = {"epoch": trainer.epoch, "step": trainer.step, "metric": trainer.task.metric}
    metrics["classes"] = trainer.data.classes
    metrics["test"] = test or trainer.evaluate("test")
    if trainer.teach is not None:
        metrics["probabilities"] = trainer.probabilities()
    if distributed.is_main():
        if trainer.teach is not None:
            measured = export.measured_as("test", trainer.task.metric, metrics["test"])
            export.write(export.policy_of(trainer.state_dict(), measured), path / logs.POLICY)
        elif trainer.policy is not None:
            export.write(trainer.policy, path / logs.POLICY)
        trainer.picture().save(path / logs.PICTURE)
        if (predictions := trainer.predictions()) is not None:
            predictions.save(path / logs.PREDICTIONS)
    if trainer.best is not None:
        last = copy.deepcopy(trainer.state_dict())
        best = distributed.share(lambda: checkpoint.load(path / checkpoint.BEST))
        trainer.load_state_dict(best, path / checkpoint.BEST)
        metrics["best"] = {**(trainer.best or {}), "test": trainer.evaluate("test")}
        trainer.load_state_dict(last, path / checkpoint.LAST)
    if distributed.is_main():
        text = json.dumps(metrics, indent=2) + "\n"
        checkpoint.write_atomically(path / logs.METRICS, lambda file: file.write(text.encode()))
    return metrics


def _short(metrics: dict[str, Any]) -> dict[str, Any]:
    """The final metrics without their tables, for the log."""
    return {"test": {name: scalars(result) for name, result in metrics["test"].items()}}
