"""One setting: its default, its help and its short flag, the values it may take, and how to read them from text."""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from teachaugment.tables import Table


def setting(
    default: Any,
    help: str,
    *,
    flag: str | None = None,
    low: float | None = None,
    above: float | None = None,
    high: float | None = None,
    below: float | None = None,
    choices: tuple[str, ...] | Table[Any] | None = None,
) -> Any:
    """A field of a section: its default, one line of help, an optional short flag and the values it may take."""
    rules = {"low": low, "above": above, "high": high, "below": below, "choices": choices}
    return field(default=default, metadata={"help": help, "flag": flag, **rules})


@dataclass(frozen=True)
class Setting:
    """One leaf of the configuration, as the flags and the checks need it."""

    key: str  # "optim.lr"
    kind: Any  # its type
    default: Any
    metadata: Mapping[str, Any]

    @property
    def optional(self) -> bool:
        return type(None) in typing.get_args(self.kind)

    @property
    def base(self) -> type:
        """The type without ``| None``, and of the elements if it is a tuple."""
        if typing.get_origin(self.kind) in (types.UnionType, typing.Union, tuple):
            return next(a for a in typing.get_args(self.kind) if a not in (type(None), Ellipsis))
        return self.kind

    @property
    def many(self) -> bool:
        return typing.get_origin(self.kind) is tuple

    def expected(self) -> str:
        """What a right value looks like, for messages and help."""
        rule = self.metadata
        if self.many:
            return "a list of whole numbers, such as 90,180" if self.base is int else "a list of numbers"
        if rule["choices"]:
            text = "one of " + ", ".join(rule["choices"])
        else:
            text = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}[self.base]
        words = {"low": "of at least", "above": "above", "high": "at most", "below": "below"}
        bounds = [f"{word} {rule[name]:g}" for name, word in words.items() if rule[name] is not None]
        return " ".join([text, " and ".join(bounds)]).strip() + (" or none" if self.optional else "")

    def parse(self, value: Any) -> Any:
        """The value in its type, or ValueError. Text is accepted for numbers: YAML reads ``1e-3`` as text."""
        if self.optional and (value is None or (isinstance(value, str) and value.lower() in ("none", "null"))):
            return None
        if self.many:
            parts = [p for p in value.split(",") if p.strip()] if isinstance(value, str) else value
            if not isinstance(parts, (list, tuple)):
                raise ValueError
            return tuple(self._one(part) for part in parts)
        return self._one(value)

    def _one(self, value: Any) -> Any:
        base, rule = self.base, self.metadata
        if base is bool:
            words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
            if isinstance(value, str) and value.lower() in words:
                return words[value.lower()]
            if not isinstance(value, bool):
                raise ValueError
            return value
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise ValueError
        if base is str:
            text = str(value)
            if not text or (rule["choices"] and text not in rule["choices"]):
                raise ValueError
            return text
        if base is int and isinstance(value, float):
            raise ValueError
        try:
            number = base(value)
            finite = math.isfinite(number)
        except OverflowError:
            raise ValueError from None
        inside = (
            finite
            and (rule["low"] is None or number >= rule["low"])
            and (rule["above"] is None or number > rule["above"])
            and (rule["high"] is None or number <= rule["high"])
            and (rule["below"] is None or number < rule["below"])
        )
        if not inside:
            raise ValueError
        return number


def as_text(value: Any) -> str:
    """A value as ``Setting.parse`` reads it again."""
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)
