"""A run that is there already: to go on with, to evaluate, to take parts from."""

from __future__ import annotations

import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from teachaugment import distributed
from teachaugment.config.resolve import MAY_CHANGE, MAY_DIFFER, Config, changes, flatten, from_dict, to_dict, to_yaml
from teachaugment.data.splits import STATISTICS, DataSet
from teachaugment.engine import build, checkpoint, directory, lock, processes
from teachaugment.engine.trainer import Trainer
from teachaugment.errors import UserError
from teachaugment.files import UNFINISHED, remove_unfinished, write_atomically
from teachaugment.strategies import STRATEGIES
from teachaugment.tasks import TASKS


def resume(config: Config, path: Path, into: Path | None = None, force: bool = False) -> tuple[Trainer, Path]:
    """The run in ``path`` as its last checkpoint left it, to go on there, or in a copy of it, ``into``.

    Other settings or other data than the run began with are refused; with ``force`` they are only told. A run that was
    stopped before its first checkpoint starts again from the beginning.
    """
    state, file = processes.share(lambda: checkpoint.newest(path) if checkpoint.exists(path) else (None, path))
    if state is not None:
        checkpoint.of_run(state, file)
        different = changes(from_dict(state["config"], str(file)), config)
        if different:
            _refuse(
                f"{path} was trained with other settings ({'; '.join(different)})",
                f"a resumed run may change only {', '.join(MAY_CHANGE)}",
                force,
            )
        _same_parts(state, config, path)
        if state["epoch"] > config.train.epochs:
            raise UserError(f"{path} has {state['epoch']} epochs done already; --epochs {config.train.epochs} is fewer")
    where = path if into is None or into.resolve() == path.resolve() else into
    if where != path:
        processes.share(lambda: directory.check_output(config))
    dataset = None if state is None else _data_of(state["data"], config, path, force)
    trainer = build.build(config, dataset, from_checkpoint=state is not None)
    if state is not None:
        trainer.load_state_dict(state, file)

    def prepare() -> None:
        if where != path:
            ignored = shutil.ignore_patterns(lock.NAME, f"{UNFINISHED}*")
            shutil.copytree(path, where, dirs_exist_ok=True, ignore=ignored)
        remove_unfinished(where)
        if file.name == checkpoint.PREVIOUS:
            checkpoint.set_aside(where)
        write_atomically(where / directory.CONFIG, lambda file: file.write(to_yaml(config).encode()))

    processes.share(prepare)
    return trainer, where


def _same_parts(state: dict[str, Any], config: Config, path: Path) -> None:
    """A run may go on with another number of processes if its steps stay the same, part by part."""
    before = state.get("parts", state["config"]["train"]["accumulate"])
    now = config.train.accumulate * distributed.world()
    if before != now:
        size, world = config.train.batch_size, distributed.world()
        fits = f" with --accumulate {before // world}" if before % world == 0 else f" in 1 or {before} processes"
        raise UserError(
            f"{path} was trained in steps of {before} × {size} images, and {world} process(es) × accumulate "
            f"{config.train.accumulate} make {now} × {size}; continue it{fits}"
        )


def _refuse(wrong: str, right: str, force: bool) -> None:
    if not force:
        raise UserError(f"{wrong}; {right}, or add --force to go on all the same")
    warnings.warn(f"{wrong}; going on all the same", stacklevel=2)


def _data_of(saved: dict[str, Any], config: Config, path: Path, force: bool) -> DataSet:
    """The data of a run to go on with, normalised as it has been."""
    build.device(config.device)  # complains before the data are read
    dataset = processes.in_turn(lambda: build.load_data(config))
    if other := _other_data(saved, dataset):
        _refuse(f"{path} was trained on {other}", "name the data it began with", force)
    return replace(dataset, mean=tuple(saved["mean"]), std=tuple(saved["std"]))


def _other_data(saved: dict[str, Any], dataset: DataSet) -> str | None:
    """The images a run goes on with must be those it began with: how they differ, or None."""
    if saved["classes"] != list(dataset.classes):
        return f"the classes {_few(saved['classes'])}, not {_few(dataset.classes)}"
    if saved["train_images"] != len(dataset.train):
        return f"{saved['train_images']} images; now there are {len(dataset.train)}"
    for name in ("mean", "std") if dataset.name not in STATISTICS else ():  # constants say nothing about images
        before, now = saved[name], list(getattr(dataset, name))
        if max(abs(a - b) for a, b in zip(before, now, strict=True)) > 1e-3:  # decoders differ by less
            return f"images whose {name} was {_numbers(before)}; now it is {_numbers(now)}"
    return None


def _numbers(values: list[float]) -> str:
    return ", ".join(f"{value:.4f}" for value in values)


def evaluate_run(config: Config, path: Path, which: str, other: str | None) -> dict[str, Any]:
    """Metrics of a run's target and teacher on its test split, or on ``other`` images of the same classes."""
    own, state, file = checkpoint_of(config, path, which)
    trainer, name = from_checkpoint(own, state, file, path, other)
    splits = ["test"] if other is None or trainer.data.own_test else ["train", "test"]  # without splits: all the images
    about: dict[str, Any] = {"run": str(path), "checkpoint": name, "epoch": trainer.epoch}
    about |= {"data": trainer.config.data.path, "task": trainer.config.task, "splits": splits}
    if other is not None and len(splits) > 1:
        about["trained_on"] = Path(other).resolve() == Path(own.data.path).resolve()
    if name == checkpoint.BEST and trainer.best is not None:
        about["chosen"] = trainer.best.get("model", "target")
    results = {"metric": trainer.task.metric, "classes": trainer.data.classes, "test": trainer.evaluate(*splits)}
    return {**about, **results}


def load_run(
    config: Config, path: Path, which: str = "last", other: str | None = None, keep_strategy: bool = False
) -> tuple[Trainer, str]:
    """A run as its checkpoint left it, on its own images or ``other`` ones of the same classes; and which checkpoint.

    ``other`` images may be of some of the classes only, which is told. ``keep_strategy``: the strategy itself will be
    looked at; otherwise one without a teacher is left out, because its file may be gone.
    """
    return from_checkpoint(*checkpoint_of(config, path, which), path, other, keep_strategy)


def checkpoint_of(
    config: Config, path: Path, which: str = "last", replay: bool = True
) -> tuple[Config, dict[str, Any], Path]:
    """The last or the best checkpoint of a run: the settings that it was trained with, its state, and its file."""
    state, file = processes.share(lambda: checkpoint.chosen(path, which, replay=replay))
    return as_trained(config, checkpoint.of_run(state, file), file), state, file


def as_trained(config: Config, state: dict[str, Any], file: Path) -> Config:
    """The settings in a checkpoint, which count; only what never made another run of it is taken from ``config``."""
    free = {*MAY_CHANGE, *MAY_DIFFER}
    trained, now = from_dict(state["config"], str(file)), flatten(to_dict(config), "")
    different = [change for change in changes(trained, config) if change.partition(":")[0] not in free]
    if different and distributed.is_main():
        wrong = f"{file.parent / directory.CONFIG} has other settings than {file.name} ({'; '.join(different)})"
        warnings.warn(f"{wrong}; those of {file.name} count", stacklevel=2)
    return from_dict(flatten(to_dict(trained), "") | {key: now[key] for key in free}, str(file))


def from_checkpoint(
    config: Config, state: dict[str, Any], file: Path, path: Path, other: str | None = None, keep_strategy: bool = False
) -> tuple[Trainer, str]:
    """The same as ``load_run``, of a checkpoint that has been read."""
    if not (keep_strategy or STRATEGIES[config.augment.strategy].has_teacher):
        config = replace(config, augment=replace(config.augment, strategy="none"))
    saved, task = state["data"], TASKS.load(config.task)
    if other is not None:
        size = task.other_size(*saved["size"])
        config = replace(config, data=replace(config.data, path=other, size=size, per_class=None, val_fraction=0.0))
    dataset = processes.in_turn(lambda: build.load_data(config, training=False))
    if other is not None:
        dataset = _some_of_the_classes(dataset, saved["classes"], task.fixed_size)
    for what, mine, theirs in (
        ("classes", _few(dataset.classes), _few(saved["classes"])),
        *([("size", _by(dataset.size), _by(saved["size"]))] if task.fixed_size else []),
        ("number of channels", dataset.channels, saved["channels"]),
    ):
        if mine != theirs:
            raise UserError(f"the {what} of {config.data.path} must be that of {path}, {theirs}, not {mine}")
    dataset = replace(dataset, train=dataset.train.whole(), mean=tuple(saved["mean"]), std=tuple(saved["std"]))
    trainer = build.build(config, dataset, from_checkpoint=True)
    trainer.load_state_dict(state, file)
    return trainer, file.name


def _some_of_the_classes(dataset: DataSet, classes: list[str], by_image: bool) -> DataSet:
    """The data set with a run's classes, where it has some of them: images of a class, or values of masks up to one."""
    missing = [name for name in classes if name not in dataset.classes]
    if not missing or not set(dataset.classes) <= set(classes):
        return dataset
    if not by_image and dataset.classes != classes[: len(dataset.classes)]:
        return dataset  # the values of its masks mean something else
    warnings.warn(f"{dataset.name} has nothing of {_few(missing)}", stacklevel=2)
    return dataset.of_classes(classes) if by_image else replace(dataset, classes=list(classes))


def _few(names: list[str]) -> str:
    """Names for a message: all that fit."""
    return ", ".join(names) if len(names) <= 12 else f"{', '.join(names[:12])}, … ({len(names)})"


def _by(size: Any) -> str:
    return "×".join(map(str, size))
