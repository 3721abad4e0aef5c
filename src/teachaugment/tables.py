"""Tables of names: for every kind of thing there is by name, one table, which can be read without importing torch.

A name in a configuration or on a command line is looked up here and nowhere else. An entry says in which module of
its own package a thing is defined; that module is imported when the thing is asked for, and never before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Generic, TypeVar

from teachaugment.errors import UserError, nearest


@dataclass(frozen=True)
class Entry:
    """One line of a table."""

    where: str  # "module:name" below the table's package; "module" alone for the module itself
    help: str  # one line for people who choose


AnyEntry = TypeVar("AnyEntry", bound=Entry)


class Table(Mapping[str, AnyEntry], Generic[AnyEntry]):
    """The entries of one kind, by name.

    kind:     what the entries are, for messages: "task", "augmenter", …
    package:  where their modules are.
    """

    def __init__(self, kind: str, package: str, entries: Mapping[str, AnyEntry]) -> None:
        self.kind, self.package, self.entries = kind, package, dict(entries)

    def __getitem__(self, name: str) -> AnyEntry:
        return self.entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.entries)

    def check(self, name: str) -> None:
        """Complain about a name that is not in the table."""
        if name not in self.entries:
            raise UserError(f"unknown {self.kind} {name!r}{nearest(name, self.entries)}")

    def load(self, name: str) -> Any:
        """What a name stands for."""
        self.check(name)
        module, _, attribute = self.entries[name].where.partition(":")
        found = import_module(f"{self.package}.{module}")
        return getattr(found, attribute) if attribute else found
