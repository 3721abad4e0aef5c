"""The state of TeachAugment. It is looked at before anything is loaded from it: all of it is loaded, or nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from teachaugment.errors import UserError
from teachaugment.governor import Governor
from teachaugment.teachers import EMATeacher, Teacher
from teachaugment.view import View, state_names

if TYPE_CHECKING:
    from teachaugment.algorithm import TeachAugment

MOST_SNAPSHOTS = 10**6


class DoesNotFit(UserError, ValueError):
    """A state of something else."""


def state_of(teach: TeachAugment) -> dict[str, Any]:
    return {
        **teach.views[0].describe(),
        **dict(chain.from_iterable(view.state(k).items() for k, view in enumerate(teach.views))),
        "optimizer": teach.optimizer.state_dict(),
        "teacher": teach.teacher.state_dict(),
        "seed": teach.seed,
        "steps": teach.steps,
        "epochs": teach.epochs,
        **({} if teach.governor is None else {"governor": teach.governor.state_dict()}),
    }


def load(teach: TeachAugment, state: dict[str, Any]) -> None:
    check(state, teach.views, teach.optimizer, teach.teacher, teach.governor)
    for k, view in enumerate(teach.views):
        view.load_state(k, state)
    teach.optimizer.load_state_dict(state["optimizer"])
    teach.teacher.load_state_dict(state["teacher"])
    if teach.governor is not None:
        teach.governor.load_state_dict(state["governor"], teach.device)
        teach.share()
    teach.seed, teach.steps, teach.epochs = state["seed"], state["steps"], state["epochs"]
    teach.draws.clear()


def check(
    state: Any, views: Sequence[View], optimizer: torch.optim.Optimizer, teacher: Teacher, governor: Governor | None
) -> None:
    """Complain about a state that is not one of such views with such an optimiser, teacher and governor."""
    state = _mapping(state, "the state")
    kind = state.get("kind", views[0].augmenter.name)
    if kind != views[0].augmenter.name:
        raise DoesNotFit(f"the state is of an augmenter {str(kind)[:40]!r}, not {views[0].augmenter.name!r}")
    if state_names(len(views))[0] in state:
        raise DoesNotFit(f"the state has more views than {len(views)}")
    for k, view in enumerate(views):
        augmenter, replay = state_names(k)
        _same(state.get(augmenter), view.augmenter.state_dict(), augmenter)
        _check_replay(_mapping(state.get(replay), replay), view, replay)
    _check_optimizer(_mapping(state.get("optimizer"), "optimizer"), optimizer)
    saved = _mapping(state.get("teacher"), "teacher")
    _same(saved.get("model"), teacher.model.state_dict(), "teacher")
    if isinstance(teacher, EMATeacher):
        _count(saved.get("updates"), "teacher.updates")
    for name in ("seed", "steps", "epochs"):
        _count(state.get(name), name)
    if governor is not None:
        _check_governor(_mapping(state.get("governor"), "governor"), governor)


def _check_governor(saved: Mapping[str, Any], governor: Governor) -> None:
    _count(saved.get("steps"), "governor.steps")
    if not (isinstance(strength := saved.get("strength"), (int, float)) and 0 <= strength <= 1):
        raise DoesNotFit("governor.strength is missing in the state, or is no number from 0 to 1")
    arms = len(governor.shares)
    if (coming := saved.get("coming")) is not None and not any(_are_numbers(coming, n) for n in (2, 2 + arms)):
        raise DoesNotFit(f"governor.coming is not 2 or {2 + arms} numbers from 0 on")
    for name, length, optional in (("mastery", 2, False), ("trend", 3, True), ("shares", arms, True)):
        value = saved.get(name)
        if not (optional and value is None) and not _are_numbers(value, length):
            raise DoesNotFit(f"governor.{name} is missing in the state, or is not {length} numbers from 0 on")
    if any(share > 1 for share in saved.get("shares") or ()):
        raise DoesNotFit("governor.shares are numbers from 0 to 1")
    for name, rows in (("counts", (2,)), ("seen", (2, 1 + arms)), ("arms", (1 + arms,))):
        if (counts := saved.get(name)) is not None:
            found, _, classes = counts.shape if isinstance(counts, Tensor) and counts.ndim == 3 else (0, 0, 0)
            _shape(counts, (found if found in rows else rows[0], 2, classes), f"governor.{name}")


def _mapping(found: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(found, Mapping):
        raise DoesNotFit(f"{name} is missing in the state, or is no dictionary")
    return found


def _count(found: Any, name: str) -> int:
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise DoesNotFit(f"{name} is missing in the state, or is no whole number from 0 on")
    return found


def _are_numbers(found: Any, length: int) -> bool:
    """From 0 on, and finite."""
    is_list = isinstance(found, (list, tuple)) and len(found) == length
    return is_list and all(isinstance(number, float) and 0 <= number < math.inf for number in found)


def _same(found: Any, own: Mapping[str, Tensor], name: str) -> None:
    """Tensors of the same names and shapes."""
    found = _mapping(found, name)
    for key in (*own, *found):
        if key not in found or key not in own:
            raise DoesNotFit(f"{name}: {key} is {'missing in the state' if key in own else 'unknown'}")
        if isinstance(own[key], Tensor):  # a module may add what it likes
            _shape(found[key], own[key].shape, f"{name}: {key}")


def _shape(found: Any, expected: Sequence[int], name: str) -> None:
    if not isinstance(found, Tensor):
        raise DoesNotFit(f"{name} is no tensor in the state")
    if tuple(found.shape) != tuple(expected):
        raise DoesNotFit(f"{name} has the shape {list(found.shape)} in the state, and {list(expected)} here")


def _check_replay(saved: Mapping[str, Any], view: View, name: str) -> None:
    count = _count(saved.get("count"), f"{name}.count")
    if not count:
        return
    if count > MOST_SNAPSHOTS:
        raise DoesNotFit(f"{name} has {count:,} snapshots in the state")
    for part, expected in zip(("values", "scales"), view.replay.shapes(count), strict=True):
        found = _mapping(saved.get(part), f"{name}.{part}")
        if found.keys() != expected.keys():
            raise DoesNotFit(f"{name}.{part} has other names in the state")
        for key, (shape, _) in expected.items():
            _shape(found[key], shape, f"{name}.{part}.{key}")


def _check_optimizer(saved: Mapping[str, Any], optimizer: torch.optim.Optimizer) -> None:
    groups, state = saved.get("param_groups"), _mapping(saved.get("state"), "optimizer.state")
    sizes = [len(group["params"]) for group in optimizer.param_groups]
    lists: list[Any] = []
    if isinstance(groups, list):
        lists = [group.get("params") for group in groups if isinstance(group, Mapping)]
    if [len(part) if isinstance(part, list) else -1 for part in lists] != sizes:
        raise DoesNotFit("the optimizer has other parameters in the state")
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for key, parameter in zip((key for part in lists for key in part), parameters, strict=True):
        for name, value in _mapping(state.get(key, {}), f"optimizer.state.{key}").items():
            if isinstance(value, Tensor) and value.ndim:  # the number of steps is a tensor without dimensions
                _shape(value, parameter.shape, f"optimizer: {name} of parameter {key}")
