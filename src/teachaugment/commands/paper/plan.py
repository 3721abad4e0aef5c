"""From tables and figures to runs: those that several share are one run. What is kept of it names no folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from statistics import mean

from teachaugment.commands.compare import rows as kept
from teachaugment.commands.compare.plan import BASE, Run, configure, identity, plan, shared_settings
from teachaugment.commands.compare.rows import Row
from teachaugment.commands.paper.items import Item, PaperRow, Place, places, table_file
from teachaugment.config.resolve import Layer
from teachaugment.presets import layer as preset_layer


@dataclass
class Task:
    """One run, whom it serves, and the settings of its place, in which data have no folder."""

    run: Run  # with its data in the folder of --data
    key: str  # what its row is kept by, wherever the data are
    place: Place
    shared: Layer
    strategy: str
    serves: list[str] = field(default_factory=list)  # names of items


@cache
def place_settings(name: str, scale: str) -> Layer:
    """What all runs of a place share; data and policy files are named without their folder."""
    place = places(scale)[name]
    values = {**place.settings, **({"data.path": place.data} if place.data else {})}
    own = Layer(values, {key: f"{name}: {key}" for key in values})
    return shared_settings([BASE, *([preset_layer(place.preset)] if place.preset else []), own])


def located(run: Run, folder: Path, root: str | None, place: Place) -> Run:
    """The run with its data and its policy file in a folder; the data of a preset are in a root."""
    data, policy = run.config.data, run.config.augment.policy_file
    config = replace(
        run.config,
        data=replace(data, path=str(folder / data.path)) if place.data else replace(data, root=root),
        augment=replace(run.config.augment, policy_file=str(folder / policy) if policy else policy),
    )
    return replace(run, config=config, needs=located(run.needs, folder, root, place) if run.needs else None)


def reason(row: PaperRow, place: Place, folder: Path) -> str:
    """Why a row cannot be run here; empty where it can."""
    if row.missing:
        return row.missing
    for name in (place.data, row.file):
        if name and not (folder / name).exists():
            return f"{folder / name} is not there: {table_file()['data'][name]}"
    return ""


def tasks(items: Mapping[str, Item], folder: Path, output: Path, root: str | None = None) -> list[Task]:
    """All runs that can be made here, the most informative first: those that serve most tables, then by table."""
    found: dict[str, Task] = {}
    for item in items.values():
        for place in item.places:
            shared = place_settings(place.name, item.scale)
            strategies = [row.entry.strategy for row in item.rows if not reason(row, place, folder)]
            for run in (run for strategy in strategies for run in plan(shared, [strategy], item.seeds, output)):
                if run.key not in found:
                    there = located(run, folder, root, place)
                    found[run.key] = Task(there, run.key, place, shared, run.strategy)
                if item.name not in found[run.key].serves:
                    found[run.key].serves.append(item.name)
    order = {key: number for number, key in enumerate(found)}
    return sorted(found.values(), key=lambda task: (-len(task.serves), order[task.key]))


def row_key(row: PaperRow, place: Place, scale: str, seed: int) -> str:
    """What the row of a run is kept by."""
    return identity(configure(place_settings(place.name, scale), row.entry.strategy, seed))


def read_rows(path: Path) -> dict[str, Row]:
    """What is kept, by the identity of its run. What a validation split would have chosen is left out: the paper shows
    the network of the last epoch."""
    rows = {}
    for row in kept.read(path):
        key = kept.key(row)
        if key is not None:
            rows[key] = {**row, "test": {name: value for name, value in row["test"].items() if name != kept.CHOSEN}}
    return rows


def estimated(task: Task, done: Mapping[str, Row]) -> float:
    """Seconds of a run: what others of its place and strategy took, else the estimate."""
    took = [row["seconds"] for row in done.values() if _alike(row, task)]
    return mean(took) if took else task.place.estimate(task.strategy) or 0.0


def _alike(row: Row, task: Task) -> bool:
    return row["strategy"] == task.strategy and row["settings"] == dict(task.shared.values)
