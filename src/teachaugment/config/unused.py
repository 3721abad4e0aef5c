"""Flags that would do nothing: the chosen strategy, optimiser, teacher or network has no use for them.

Only what somebody has just written is looked at. Presets, files and runs have settings for several strategies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter

from teachaugment.config.resolve import default
from teachaugment.config.sections import Config
from teachaugment.errors import UserError
from teachaugment.strategies import STRATEGIES

Rule = tuple[tuple[str, ...], Callable[[Config], bool], str]  # settings, whether they are used, for what they are
OTHERS: tuple[Rule, ...] = (
    (("optim.betas",), lambda c: c.optim.name == "adamw", "--optim.name adamw"),
    (("optim.momentum", "optim.nesterov"), lambda c: c.optim.name == "sgd", "--optim.name sgd"),
    (("optim.milestones",), lambda c: c.optim.schedule == "step", "--optim.schedule step"),
    (("augment.mix_alpha",), lambda c: c.augment.mix != "none", "--augment.mix mixup or cutmix"),
    (("teach.n_buffer", "teach.replay_decay"), lambda c: c.teach.replay, "--teach.replay true"),
    (
        ("teach.ema_decay", "teach.ema_warmup", "teach.teacher_statistics"),
        lambda c: c.teach.teacher is None,
        "the moving average, not for a --teacher that was trained before",
    ),
)


def check_used(config: Config, names: Mapping[str, str]) -> None:
    """Refuse what nothing would come of; ``names`` has what was given and how to call it."""
    for key, why in unused(config, names):
        raise UserError(f"{names[key]} {why}; leave it out")
    _check_tag(config, names)


def unused(config: Config, keys: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Those of the settings that are not at their defaults and do nothing all the same, each with the reason."""
    strategy = config.augment.strategy
    given = [key for key in keys if attrgetter(key)(config) != default(key)]
    for key in given:
        if (others := users(key)) and strategy not in others:
            yield key, f"is not used by the strategy {strategy}, but by {_some(others)}"
    for some, used, what in OTHERS:
        for key in some:
            if key in given and not used(config):
                yield key, f"does nothing here: it is for {what}"


def users(key: str) -> list[str]:
    """The strategies that a setting is for; empty: it is for all of them, or for none."""
    return [name for name, entry in STRATEGIES.items() if any(key.startswith(own) for own in entry.settings)]


def _some(names: Iterable[str]) -> str:
    first, *others = names
    return (
        first
        if not others
        else f"{first} and {len(others)} more"
        if len(others) > 2
        else f"{first}, {', '.join(others)}"
    )


def _check_tag(config: Config, names: Mapping[str, str]) -> None:
    """``timm/NAME.TAG`` names weights, which nobody has asked for."""
    model = config.model
    package, _, name = model.name.partition("/")
    tag = name.partition(".")[2]
    if "model.name" in names and package == "timm" and tag and not (model.pretrained or model.weights):
        raise UserError(
            f"{names['model.name']} {model.name} names the pretrained weights {tag}, and the network would begin with "
            f"random ones; add --pretrained, or leave out .{tag}"
        )
