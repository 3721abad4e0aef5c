"""What the measured rows say about the paper: the order of each table, and each of its claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

from teachaugment.commands.compare.rows import Row
from teachaugment.commands.compare.statistics import Group, summarize
from teachaugment.commands.paper.items import Item, Place
from teachaugment.commands.paper.plan import row_key

HOLDS, LIKE, OPEN, NOT = "holds", "as claimed, may be chance", "not decided", "does not hold"
UNTESTED = "not tested"
SHOWN = 3  # pairs that stand in another order
Numbers = Mapping[tuple[str, str, str], Mapping[str, float]]  # of a figure, a place and a row: what was measured on it


@dataclass(frozen=True)
class Verdict:
    """One of the paper's sentences, and what was found of it here."""

    item: str
    says: str
    found: str
    detail: str


def groups_of(item: Item, place: Place, done: Mapping[str, Row]) -> dict[str, Group]:
    """The finished runs of each row, by its label."""
    groups = {}
    for row in item.rows:
        keys = {} if row.missing else {seed: row_key(row, place, item.scale, seed) for seed in item.seeds}
        there = {seed: done[key] for seed, key in keys.items() if key in done}
        groups[row.label] = Group(row.label, row.entry.strategy, there, row.entry.paper)
    return groups


def difference(groups: Mapping[str, Group], better: str, worse: str) -> dict[str, Any] | None:
    """How far one row is ahead of another, paired by seed; None where they have no seed in common."""
    pair = groups.get(worse), groups.get(better)
    if pair[0] is None or pair[1] is None or not pair[0].rows.keys() & pair[1].rows.keys():
        return None
    return summarize([pair[0], pair[1]])["strategies"][1]["difference"]


def clear(found: Mapping[str, Any]) -> bool:
    """Whether an interval has no zero in it."""
    return found["interval"] is not None and not found["interval"][0] <= 0 <= found["interval"][1]


def order(item: Item, place: Place, done: Mapping[str, Row]) -> str:
    """One sentence: the rows in the paper's order or not, and where they differ."""
    groups = groups_of(item, place, done)
    errors = {label: g.paper.get(place.column) for label, g in groups.items()}
    ranked = [label for label, group in groups.items() if group.rows and errors[label] is not None]
    if len(ranked) < 2:
        return f"{place.short}: not measured yet."
    other = []
    for pair in combinations(ranked, 2):
        ahead, behind = sorted(pair, key=lambda label: errors[label] or 0.0)
        found = difference(groups, ahead, behind)
        if errors[ahead] != errors[behind] and found is not None and found["mean"] < 0:
            other.append((found["mean"], clear(found), ahead, behind))
    count = len(ranked) * (len(ranked) - 1) // 2
    if not other:
        return f"{place.short}: same order as in the paper ({len(ranked)} rows)."
    worst = sorted(other)[:SHOWN]
    told = "; ".join(
        f"{ahead} is behind {behind} here by {-mean:.1f} points{'' if sure else ', which may be chance'}"
        for mean, sure, ahead, behind in worst
    )
    more = f"; and {len(other) - len(worst)} more" if len(other) > len(worst) else ""
    return f"{place.short}: another order than in the paper in {len(other)} of {count} pairs: {told}{more}."


def verdicts(items: Mapping[str, Item], done: Mapping[str, Row], numbers: Numbers) -> list[Verdict]:
    """All claims of these tables and figures."""
    return [judged(item, claim, done, numbers) for item in items.values() for claim in item.claims]


def judged(item: Item, claim: Mapping[str, Any], done: Mapping[str, Row], numbers: Numbers) -> Verdict:
    if "better" in claim:
        found, detail = all_better(item, claim["better"], done)
    elif "not_better" in claim:
        found, detail = none_better(item, claim["not_better"], done)
    elif "smaller" in claim:
        found, detail = rising(item, claim["smaller"], numbers)
    elif "times" in claim:
        found, detail = takes(item, claim["times"], done)
    else:
        found, detail = best_by_ease(item, done)
    return Verdict(item.name, claim["says"], found, detail)


def pairs(item: Item, asked: list[list[str]], done: Mapping[str, Row]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The differences of the pairs that have been measured with all seeds, each with a name."""
    for place in item.places:
        groups = groups_of(item, place, done)
        for better, worse in asked:
            found = difference(groups, better, worse)
            if found is not None and found["pairs"] == len(item.seeds):
                side = "ahead of" if found["mean"] >= 0 else "behind"
                told = f"{better} {side} {worse} by {abs(found['mean']):.1f}"
                yield f"{place.short}: {told}{'' if clear(found) else ' (may be chance)'}", found


def verdict(right: list[bool], sure: list[bool]) -> str:
    """Of differences as claimed or not, and clear or not: it holds where all are as claimed and one is clear."""
    if not right:
        return UNTESTED
    if any(s and not r for r, s in zip(right, sure, strict=True)):
        return NOT
    if not all(right):
        return OPEN
    return HOLDS if any(sure) else LIKE


def all_better(item: Item, asked: list[list[str]], done: Mapping[str, Row]) -> tuple[str, str]:
    found = list(pairs(item, asked, done))
    right, sure = [d["mean"] > 0 for _, d in found], [clear(d) for _, d in found]
    return verdict(right, sure), "; ".join(name for name, _ in found)


def none_better(item: Item, asked: list[list[str]], done: Mapping[str, Row]) -> tuple[str, str]:
    found = list(pairs(item, asked, done))
    right, sure = [d["mean"] <= 0 for _, d in found], [clear(d) for _, d in found]
    return verdict(right, sure), "; ".join(name for name, _ in found)


def rising(item: Item, asked: Mapping[str, Any], numbers: Numbers) -> tuple[str, str]:
    """Whether a number that was measured on the runs of a figure rises in the order that is claimed."""
    told, right = [], []
    for place in item.places:
        values = [numbers.get((item.name, place.name, label), {}).get(asked["what"]) for label in asked["order"]]
        known = [value for value in values if value is not None]
        if len(known) == len(values):
            right.append(all(low < high for low, high in pairwise(known)))
            shown = ", ".join(f"{label} {value:.3g}" for label, value in zip(asked["order"], known, strict=True))
            told.append(f"{place.short}: {asked['what'].replace('_', ' ')} {shown}")
    return _all_or_some(right), "; ".join(told)


def takes(item: Item, asked: Mapping[str, Any], done: Mapping[str, Row]) -> tuple[str, str]:
    """Whether a row takes as many times as long as is claimed."""
    (low, high), told, right = asked["between"], [], []
    for place in item.places:
        groups = groups_of(item, place, done)
        baseline, row = groups[item.rows[0].label], groups[asked["row"]]
        if baseline.rows.keys() & row.rows.keys():
            factor = summarize([baseline, row])["strategies"][1]["relative_time"]
            right.append(low <= factor <= high)
            told.append(f"{place.short}: {asked['row']} takes {factor:.2f} times as long")
    return _all_or_some(right), "; ".join(told)


def best_by_ease(item: Item, done: Mapping[str, Row]) -> tuple[str, str]:
    """Whether the best row comes later (its ε is larger) where the error is smaller. It is clear where, on one of the
    data sets, its best row is clearly ahead of the one that is best on the other."""
    best = []
    for place in item.places:
        groups = {label: group for label, group in groups_of(item, place, done).items() if group.rows}
        if len(groups) == len(item.rows):
            means = [s["mean"] for s in summarize(list(groups.values()))["strategies"]]
            best.append((100 - max(means), means.index(max(means)), place.short, groups))
    best.sort(key=lambda one: one[:2])
    told = "; ".join(f"{short}: best {item.rows[k].label}, error {error:.1f} %" for error, k, short, _ in best)
    if len(best) < 2:
        return UNTESTED, told
    (_, easy, _, on_easy), (_, hard, _, on_hard) = best[0], best[-1]
    labels = item.rows[easy].label, item.rows[hard].label
    apart = [] if easy == hard else [difference(on_easy, *labels), difference(on_hard, *reversed(labels))]
    sure = any(found is not None and clear(found) for found in apart)
    return verdict([easy > hard], [sure]), told


def _all_or_some(right: list[bool]) -> str:
    if not right:
        return UNTESTED
    return HOLDS if all(right) else OPEN if any(right) else NOT
