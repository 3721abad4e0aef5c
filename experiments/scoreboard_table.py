"""The scoreboard as a table: means, paired differences, and in how many settings the default is where it should be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from teachaugment.commands.compare import rows as kept
from teachaugment.commands.compare.statistics import Group, summarize
from teachaugment.show.table import Table, markdown

OURS, NOTHING, RIVAL = "adaptive", "none", "TrivialAugment"
TUNED = "RandAugment"  # one of its magnitudes is chosen with hindsight
COLUMNS = {"Cutout": "Cutout", TUNED: "RandAugment, best of three", RIVAL: RIVAL, "TeachAugment": "TeachAugment"}
Groups = Mapping[str, Group]
Difference = tuple[float, tuple[float, float] | None]  # mean in points, and its interval


def section(plan: Mapping[str, Any], found: Mapping[str, Sequence[kept.Row]], picture: str) -> str:
    """What the finished runs say, as Markdown."""
    board = {name: complete(by_strategy(plan, rows)) for name, rows in found.items()}
    shown = {name: groups for name, groups in board.items() if {NOTHING, OURS} <= {*groups}}
    header = ["setting", NOTHING, *COLUMNS.values(), f"**{OURS}**", f"{OURS} − {NOTHING}", f"{OURS} − {RIVAL}"]
    header += [f"{OURS} − best other", "seeds"]
    table = [row(plan["settings"][name]["title"], groups) for name, groups in shown.items()]
    written = markdown([Table("", header, table, "")]).removeprefix("### \n\n").strip()
    rows = [row for of_setting in found.values() for row in of_setting]
    machines, dates = sorted({row["machine"] for row in rows}), sorted({row["date"] for row in rows})
    about = ["Test metric in percent; paired differences with 95 % intervals."]
    if rows:
        about.append(f"{', '.join(machines)}; {dates[0]} to {dates[-1]}.")
    missing = sum(
        not {NOTHING, *COLUMNS, OURS} - {*plan["settings"][name].get("without", [])} <= {*groups}
        for name, groups in board.items()
    )
    if missing:
        about.append(f"In {missing} of the {len(board)} settings not all strategies are done yet.")
    drawn = f"![The means and intervals of this table]({picture})"
    return "\n\n".join([written, drawn, " ".join(about), counted(shown)])


def by_strategy(plan: Mapping[str, Any], found: Sequence[kept.Row]) -> dict[str, Group]:
    return {
        label: Group(label, strategy, {row["seed"]: row for row in found if row["strategy"] == strategy})
        for label, strategy in plan["strategies"].items()
    }


def complete(groups: Groups) -> dict[str, Group]:
    """The strategies that have the seeds of no augmentation; the best magnitude of RandAugment under its name."""
    there = {label: group for label, group in groups.items() if {*groups[NOTHING].rows} <= {*group.rows}}
    there = {label: group for label, group in there.items() if group.rows}
    magnitudes = [there.pop(label) for label in [*there] if label.startswith(TUNED)]
    if magnitudes:
        there[TUNED] = max(magnitudes, key=mean_of)
    return there


def mean_of(group: Group) -> float:
    return summarize([group])["strategies"][0]["mean"]


def row(title: str, groups: Groups) -> list[str]:
    def mean(label: str) -> str:
        return f"{mean_of(groups[label]):.1f}" if label in groups else "–"

    cells = [title, mean(NOTHING), *map(mean, COLUMNS), f"**{mean(OURS)}**"]
    cells += [against(groups, other) for other in (NOTHING, RIVAL)]
    return [*cells, f"{best_other(groups)}: {against(groups, best_other(groups))}", str(len(groups[OURS].rows))]


def best_other(groups: Groups) -> str:
    """The strategy besides the default that has the highest mean."""
    return max((label for label in groups if label != OURS), key=lambda label: mean_of(groups[label]))


def difference(groups: Groups, other: str) -> Difference:
    """How far the default is ahead of another strategy."""
    found = summarize([groups[other], groups[OURS]])["strategies"][1]["difference"]
    return found["mean"], found["interval"]


def against(groups: Groups, other: str) -> str:
    """``difference`` in words; a dash where the other has not been trained."""
    if other not in groups or not groups[other].rows:
        return "–"
    mean, between = difference(groups, other)
    return f"{mean:+.1f}" + (f" ({between[0]:+.1f} to {between[1]:+.1f})" if between else "")


def counted(board: Mapping[str, Groups]) -> str:
    """In how many settings the default is not below none, level with the best, and ahead of the free rival."""
    if not board:
        return ""
    to_none = [difference(groups, NOTHING) for groups in board.values()]
    to_rival = [difference(groups, RIVAL) for groups in board.values() if RIVAL in groups]
    to_best = [difference(groups, best_other(groups)) for groups in board.values()]
    table = [
        ["below none by an interval without zero", share(map(behind, to_none)), "0"],
        ["lowest mean difference to none, points", f"{min(mean for mean, _ in to_none):+.1f}", "≥ −0.5"],
        ["the best, or level with the best by the interval", share(not behind(d) for d in to_best), "8 of 10"],
        [f"ahead of {RIVAL} by an interval without zero", share(map(ahead, to_rival)), "4 of 10"],
        [f"ahead of {RIVAL} on the mean", share(mean > 0 for mean, _ in to_rival), "–"],
    ]
    return markdown([Table("", [f"`{OURS}` is", "settings", "wanted"], table, "")]).removeprefix("### \n\n").strip()


def share(found: Iterable[bool]) -> str:
    each = [*found]
    return f"{sum(each)} of {len(each)}"


def ahead(found: Difference) -> bool:
    return found[1] is not None and found[1][0] > 0


def behind(found: Difference) -> bool:
    return found[1] is not None and found[1][1] < 0
