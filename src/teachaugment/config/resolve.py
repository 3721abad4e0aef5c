"""The settings of a run: defaults < preset < YAML file < flags, and nothing unknown gets through.

Some defaults depend on other settings, such as the task (config/defaults.py).

Nothing here imports torch: a mistake in a setting is reported before anything slow starts.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import yaml

from teachaugment.config.defaults import other_defaults
from teachaugment.config.sections import Config
from teachaugment.config.settings import Setting
from teachaugment.errors import UserError, nearest
from teachaugment.hyperparameters import OF_NEURAL, VERSION_0_1
from teachaugment.tasks import TASKS

# The settings a resumed run may change; accumulate only with the number of processes, so that steps stay the same.
MAY_CHANGE = (
    *("train.epochs", "train.patience", "output", "data.workers", "device"),
    *("train.accumulate", "train.save_every", "train.save_minutes", "train.on_nan"),
)
# What runs did before these settings were there, where the default is something else now.
EARLIER = {
    "optim.decay_norms": False,
    "data.split_seed": None,
    **{f"teach.{name}": value for name, value in VERSION_0_1.items()},
}
MAY_DIFFER = ("output", "data.workers", "device", "data.root")  # between the processes of one run


def settings(section: type = Config, prefix: str = "") -> Iterator[Setting]:
    """All settings, depth first."""
    kinds = typing.get_type_hints(section)
    for f in fields(section):
        if is_dataclass(kinds[f.name]):
            yield from settings(kinds[f.name], f"{prefix}{f.name}.")
        else:
            yield Setting(prefix + f.name, kinds[f.name], f.default, f.metadata)


SETTINGS: dict[str, Setting] = {s.key: s for s in settings()}
SECTIONS = tuple(f.name for f in fields(Config) if f.default is dataclasses.MISSING)


def default(key: str, others: Mapping[str, Any] | None = None) -> Any:
    """What a setting is when nobody says anything about it, and these things about other settings."""
    return other_defaults(others or {}).get(key, SETTINGS[key].default)


@dataclass(frozen=True)
class Layer:
    """Settings from one place. ``names`` says how that place calls each of them, for messages."""

    values: Mapping[str, Any]  # "optim.lr" -> raw value
    names: Mapping[str, str]  # "optim.lr" -> "--lr", or "file.yaml: optim.lr"


def resolve(*layers: Layer) -> Config:
    """One configuration from the defaults and the layers, the later ones stronger."""
    chosen: dict[str, Any] = {}
    names: dict[str, str] = {}
    for layer in layers:
        for key, raw in layer.values.items():
            where = layer.names[key]
            if key not in SETTINGS:
                raise UserError(f"{where} is not a setting{nearest(key, SETTINGS)}")
            try:
                chosen[key] = SETTINGS[key].parse(raw)
            except ValueError:
                wrong = f"{where} must be {SETTINGS[key].expected()}, not {_shown(raw)}"
                choices = SETTINGS[key].metadata["choices"] or ()
                close = nearest(str(raw), choices) if choices else ""
                raise UserError(wrong + (close if "did you mean" in close else "")) from None
            names[key] = where
        if "augment.policy" in layer.values and chosen["augment.policy"]:  # to name a policy is to choose it
            if (also := layer.values.get("augment.strategy", "policy")) != "policy":
                raise UserError(f"{layer.names['augment.policy']} is not used with the strategy {also}; leave one out")
            chosen["augment.strategy"] = "policy"
        elif chosen.get("augment.strategy") != "policy":
            chosen.pop("augment.policy", None)  # another strategy has been chosen since
    config = unflatten({**other_defaults(chosen), **chosen})
    _check_together(config, names)
    return config


def _shown(raw: Any) -> str:
    """A value that was given, for a message: a hundred characters of it."""
    try:
        text = repr(raw)
    except ValueError:  # a number of thousands of digits
        return "a number of that length"
    return text if len(text) <= 100 else f"{text[:100]}…"


def _check_together(config: Config, names: Mapping[str, str]) -> None:
    """What no single setting can tell."""
    _check_task(config, names)
    steps = config.optim.milestones
    where = names.get("optim.milestones", "optim.milestones")
    if list(steps) != sorted(set(steps)):
        raise UserError(f"{where} must rise, such as 90,180,240, not {','.join(map(str, steps))}")
    if steps and steps[-1] >= config.train.epochs:
        raise UserError(f"{where} must end before the last epoch ({config.train.epochs}), not at {steps[-1]}")
    if config.augment.strategy == "policy" and config.augment.policy is None:
        where = names.get("augment.strategy", "augment.strategy")
        raise UserError(f"{where} policy needs a policy: --policy FILE, such as policy.safetensors of an earlier run")
    _check_beginning(config, names)
    if config.optim.name == "sgd" and config.optim.nesterov and config.optim.momentum == 0:
        where = names.get("optim.momentum", "optim.momentum")
        raise UserError(f"{where} must be above 0 with Nesterov's momentum; or set optim.nesterov to false")
    if config.teach.augmenter != "neural":
        for key in (f"teach.{name}" for name in OF_NEURAL):
            if key in names and _changed(config, key):
                raise UserError(f"{names[key]} is for the neural augmenter, not for {config.teach.augmenter}")
    augment = config.augment
    if augment.strategy == "policy-file" and augment.policy_file is None:
        raise UserError(
            "--strategy policy-file needs --augment.policy_file FILE; docs/strategies.md says what it may be"
        )


def _check_beginning(config: Config, names: Mapping[str, str]) -> None:
    """Pretrained weights, and what is for them alone."""
    model, optim = config.model, config.optim
    if model.pretrained and model.weights is not None:
        raise UserError(f"{names.get('model.weights', 'model.weights')} and --pretrained are two beginnings; name one")
    for key, is_set in (("optim.freeze", optim.freeze != 0), ("optim.freeze_norm", optim.freeze_norm)):
        if is_set and not (model.pretrained or model.weights):
            where = names.get(key, key)
            raise UserError(f"{where} is for pretrained weights; add --pretrained or --weights FILE, or leave it out")
    if len(optim.betas) != 2:
        raise UserError(f"{names.get('optim.betas', 'optim.betas')} must be two numbers, such as 0.9,0.999")
    if len(config.data.mean) != len(config.data.std):
        raise UserError("data.mean and data.std must have a number for each channel, both of them")


def _check_task(config: Config, names: Mapping[str, str]) -> None:
    """Refuse what the task has no use for."""
    entry = TASKS[config.task]
    for name, other in TASKS.items():
        for key in other.own_settings:
            if key in names and key not in entry.own_settings and _changed(config, key):
                raise UserError(f"{names[key]} is for {name}; leave it out, or add --task {name}")
    for key, why in entry.refused_settings.items():
        if _changed(config, key):
            raise UserError(f"{names.get(key, key)} {why.format(task=config.task)}")
    if why := entry.refused_strategies.get(config.augment.strategy, ""):
        raise UserError(f"--strategy {config.augment.strategy} {why.format(task=config.task)}")


def _changed(config: Config, key: str) -> bool:
    return bool(attrgetter(key)(config) != default(key))


def read_yaml(path: str | Path) -> Layer:
    """The settings in a YAML file, nested in sections or written as ``optim.lr``."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):
            # A few lines of them can stand for gigabytes.
            raise UserError(f"{path} refers to parts of itself (*name); write the values out")
        tree = yaml.safe_load(text)
    except OSError as error:
        raise UserError(f"cannot read the configuration {path}: {error.strerror}") from None
    except RecursionError:
        raise UserError(
            f"{path} is nested too deeply; a configuration is YAML such as 'train: {{epochs: 10}}'"
        ) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # also an impossible date, a number of 5,000 digits
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not a YAML text"
        raise UserError(f"{path}{line}: {problem}; a configuration is YAML such as 'train: {{epochs: 10}}'") from None
    if tree is None:
        tree = {}
    if not isinstance(tree, dict):
        raise UserError(f"{path} must hold settings such as 'train: {{epochs: 10}}', not a {type(tree).__name__}")
    values = flatten(tree, str(path))
    return Layer(values, {key: f"{path}: {key}" for key in values})


def read_run(path: Path) -> Layer:
    """The settings of a run, from its file, which has all that there were when it began."""
    saved = read_yaml(path)
    return Layer({**EARLIER, **saved.values}, {**{key: f"{path}: {key}" for key in EARLIER}, **saved.names})


def flatten(tree: Mapping[Any, Any], where: str, prefix: str = "") -> dict[str, Any]:
    """Nested sections as ``section.field`` keys."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if key in SECTIONS and not isinstance(value, dict):
            raise UserError(f"{where}: {key} is a section; write '{key}:' and its settings indented below it")
        if isinstance(value, dict) and key not in SETTINGS:
            if key not in SECTIONS:
                raise UserError(f"{where}: {key} is not a section{nearest(key, SECTIONS)}")
            flat.update(flatten(value, where, f"{key}."))
        else:
            flat[key] = value
    return flat


def unflatten(values: Mapping[str, Any]) -> Config:
    """The configuration with these values, everything else at its default."""
    sections: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    top: dict[str, Any] = {}
    for key, value in values.items():
        section, dot, name = key.partition(".")
        (sections[section] if dot else top)[name if dot else section] = value
    kinds = typing.get_type_hints(Config)
    return Config(**top, **{name: kinds[name](**inner) for name, inner in sections.items()})


def to_dict(config: Config) -> dict[str, Any]:
    """Plain nested dictionaries, lists and numbers, for YAML and checkpoints."""

    def plain(values: list[tuple[str, Any]]) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values}

    return dataclasses.asdict(config, dict_factory=plain)


def to_yaml(config: Config) -> str:
    return yaml.safe_dump(to_dict(config), sort_keys=False, allow_unicode=True)


def from_dict(tree: Mapping[str, Any], where: str) -> Config:
    """The configuration in a checkpoint."""
    values = {**EARLIER, **flatten(tree, where)}
    return resolve(Layer(values, {key: f"{where}: {key}" for key in values}))


def changes(before: Config, after: Config) -> list[str]:
    """The settings that differ and may not differ in a resumed run, as ``optim.lr: 0.1 -> 0.2``."""
    old, new = flatten(to_dict(before), ""), flatten(to_dict(after), "")
    return [f"{key}: {old[key]} -> {new[key]}" for key in old if old[key] != new[key] and key not in MAY_CHANGE]
