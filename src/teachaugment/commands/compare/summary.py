"""From the rows of finished runs to the summary of a comparison, which is printed and written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from teachaugment.commands.compare.comparisons import Comparison, Entry
from teachaugment.commands.compare.plan import configure, identity
from teachaugment.commands.compare.rows import Row
from teachaugment.commands.compare.statistics import CONFIDENCE, Group, summarize
from teachaugment.config.resolve import Layer, resolve


def summary_of(
    entries: Sequence[Entry],
    shared: Layer,
    seeds: Sequence[int],
    rows: Mapping[str, Row],
    named: Comparison | None,
    split: str,
    confidence: float = CONFIDENCE,
) -> dict[str, Any]:
    """The statistics of the entries' finished runs, with a title and what there is to say about the paper.

    ``shared`` are the settings that all runs have, ``rows`` what is kept of the finished ones, by their identity.
    """
    config = resolve(shared)
    groups = [group_of(entry, shared, seeds, rows) for entry in entries]
    title = f"{config.model.name} on {Path(config.data.path).name}, {config.train.epochs} epochs"
    return {
        "title": f"{named.title}: {title}" if named else title,
        "settings": dict(shared.values),
        **summarize(groups, split, confidence=confidence),
        "note": paper_note(named, groups) if named else "",
    }


def group_of(entry: Entry, shared: Layer, seeds: Sequence[int], rows: Mapping[str, Row]) -> Group:
    """The finished runs of one strategy, by seed."""
    keys = {seed: identity(configure(shared, entry.strategy, seed)) for seed in seeds}
    finished = {seed: rows[key] for seed, key in keys.items() if key in rows}
    return Group(entry.label, entry.strategy, finished, entry.paper)


def paper_note(named: Comparison, groups: Sequence[Group]) -> str:
    """Where the paper's numbers stand, and what else is to be known about them."""
    source = f"Paper: {named.source}" + ("; shown as 100 − error." if any(group.paper for group in groups) else ".")
    return f"{source} {named.note[0].upper()}{named.note[1:]}." if named.note else source
