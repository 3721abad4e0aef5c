"""From strategies and seeds to runs. For one seed all runs share everything but what their strategy sets."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from teachaugment.config.resolve import SETTINGS, Config, Layer, default, flatten, resolve, to_dict
from teachaugment.config.settings import as_text
from teachaugment.config.unused import check_used, unused
from teachaugment.errors import UserError
from teachaugment.presets.classification import NETWORKS
from teachaugment.strategies import STRATEGIES

BASE = Layer({"train.tensorboard": False}, {"train.tensorboard": "train.tensorboard"})  # weaker than anything given
OWN = ("output", "seed", "augment.strategy")  # settings that each run of a comparison has for itself
FREE = ("output", "device", "data.workers")  # settings that do not make two runs different
LONG = {setting.metadata["flag"]: key for key, setting in SETTINGS.items() if setting.metadata["flag"]}
TRAINED = "@"  # as a teacher, "@wrn-16-2" is that network, trained first without augmentation, on the same seed


@dataclass(frozen=True)
class Run:
    """One training, in a directory of its own."""

    strategy: str  # as the user wrote it: a name, and settings of its own
    seed: int
    config: Config = field(hash=False)  # the path is named after it
    path: Path
    needs: Run | None = None  # the run whose target is the teacher here

    @cached_property
    def key(self) -> str:
        return identity(self.config)

    @property
    def epochs(self) -> int:
        return self.config.train.epochs

    def __str__(self) -> str:
        return f"{self.strategy}, seed {self.seed}"


def split_strategies(text: str) -> list[str]:
    """The strategies of ``--strategies``, by commas."""
    found = [part.strip() for part in text.split(",") if part.strip()]
    if twice := [name for name in found if found.count(name) > 1]:
        raise UserError(f"--strategies has {twice[0]} twice")
    if not found:
        raise UserError("--strategies must name strategies by commas, such as none,trivialaugment,teachaugment")
    return found


def strategy_layer(strategy: str) -> Layer:
    """``teachaugment:teach.n_inner=1:teach.n_buffer=2`` as settings."""
    name, *own = strategy.split(":")
    values, names = {"augment.strategy": name}, {"augment.strategy": "--strategies"}
    for setting in own:
        key, equals, value = setting.partition("=")
        if not equals:
            raise UserError(f"--strategies {strategy}: {setting!r} must be a setting such as teach.n_inner=1")
        key = LONG.get(key, key)
        values[key], names[key] = value, f"--strategies {strategy}: {key}"
    return Layer(values, names)


def shared_settings(layers: Sequence[Layer]) -> Layer:
    """What all runs of a comparison have in common, as one layer: all that was said, and what is not at its default.

    What was said is kept even where it is the default, which another version may have changed.
    """
    config = resolve(*layers)
    names = {key: name for layer in layers for key, name in layer.names.items()}
    flat, kept = flatten(to_dict(config), ""), {*names, *changed_settings(config)}
    values = {key: value for key, value in flat.items() if key in kept and key not in OWN}
    return Layer(values, {key: names.get(key, key) for key in values})


def configure(shared: Layer, strategy: str, seed: int) -> Config:
    """The settings of one run, but for its directory."""
    return resolve(shared, strategy_layer(strategy), Layer({"seed": seed}, {"seed": "--seed"}))


def changed_settings(config: Config) -> dict[str, Any]:
    """The settings that are not what they would be if nobody had said anything, as plain values."""
    flat = flatten(to_dict(config), "")
    return {key: value for key, value in flat.items() if SETTINGS[key].parse(value) != default(key, flat)}


def identity(config: Config) -> str:
    """What sets a run apart from others: its settings beside the defaults. A new setting leaves it as it was.

    The defaults are those of classification, whatever the task: directories of runs are named after the identity.
    """
    flat = flatten(to_dict(config), "")
    changed = {key: value for key, value in flat.items() if SETTINGS[key].parse(value) != SETTINGS[key].default}
    teaches = STRATEGIES[config.augment.strategy].has_teacher  # otherwise nothing about teaching matters
    counts = {key: changed[key] for key in sorted(changed) if key not in FREE and (teaches or "teach." not in key)}
    return json.dumps(counts)


def words(config: Config) -> list[str]:
    """The flags that make this configuration, without those that its strategy has no use for."""
    changed = changed_settings(config)
    idle = {key for key, _ in unused(config, changed)}
    return [f"--{key}={as_text(value)}" for key, value in changed.items() if key not in idle]


def own_settings(model: str, config: Config) -> dict[str, Any]:
    """What the run of a teacher has for itself, beside the run it will teach: its network, and of the paper's networks
    the numbers of the appendix, wherever the run has those of its own network."""
    mine, flat = NETWORKS.get(config.model.name, {}), flatten(to_dict(config), "")
    theirs = {"model.name": model, **NETWORKS.get(model, {})}
    same = {"model.name": config.model.name, **mine}
    return {key: value for key, value in theirs.items() if flat[key] == same.get(key) != value}


def plan(shared: Layer, strategies: Sequence[str], seeds: Iterable[int], output: Path) -> list[Run]:
    """All runs, seed by seed, and each after the one it needs."""
    runs: dict[str, Run] = {}

    for strategy in strategies:
        check_used(configure(shared, strategy, 0), strategy_layer(strategy).names)

    def add(strategy: str, seed: int) -> Run:
        config = configure(shared, strategy, seed)
        key = identity(config)
        if key in runs:
            return runs[key]
        teacher, needs = config.teach.teacher or "", None
        if teacher.startswith(TRAINED) and config.augment.strategy != "none":
            model = teacher.removeprefix(TRAINED)
            own = own_settings(model, config)
            needs = add(":".join(["none", *(f"{key}={as_text(value)}" for key, value in own.items())]), seed)
        slug = re.sub(r"[^A-Za-z0-9_.=]+", "-", strategy)[:80]
        path = output / "runs" / f"{slug}-seed{seed}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"
        runs[key] = Run(strategy, seed, replace(config, output=str(path)), path, needs)
        return runs[key]

    for seed in seeds:
        made: dict[str, str] = {}
        for strategy in strategies:
            key = add(strategy, seed).key
            if key in made:
                raise UserError(f"{made[key]} and {strategy} have the same settings; name one of them")
            made[key] = strategy
    return list(runs.values())
