"""The table file: everything in it resolves, and runs are shared."""

from __future__ import annotations

from pathlib import Path

import pytest

from teachaugment.commands.paper import plan
from teachaugment.commands.paper.items import SCALES, items, places, table_file
from teachaugment.config.resolve import resolve


@pytest.mark.parametrize("scale", SCALES)
def test_settings_strategies_and_claims_are_those_there_are(scale):
    for name in places(scale):
        resolve(plan.place_settings(name, scale))
    for item in items(scale).values():
        labels = [row.label for row in item.rows]
        assert len(set(labels)) == len(labels)
        for claim in item.claims:
            named = [label for pair in (*claim.get("better", ()), *claim.get("not_better", ())) for label in pair]
            assert set(named) <= set(labels), (item.name, claim["says"])
            assert set(claim.get("smaller", {}).get("order", ())) <= set(labels)
        for place in item.places:
            assert all(row.missing or plan.row_key(row, place, scale, 0) for row in item.rows)
            assert place.column in item.columns or not item.columns


def test_every_table_that_is_trained_has_a_claim():
    assert {name for name, item in items("laptop").items() if item.claims} >= {
        f"tab{k}" for k in (1, 2, 3, 4, 5, 6, 7, 9)
    }


def test_one_baseline_serves_all_tables_and_comes_first(tmp_path):
    for name in table_file()["data"]:
        (tmp_path / name).touch()
    tasks = plan.tasks(items("laptop"), tmp_path, Path("runs"))
    assert len({task.key for task in tasks}) == len(tasks)
    assert {"tab1", "tab3", "tab4", "tab5", "tab9"} <= set(next(t for t in tasks if t.strategy == "none").serves)
    served = [len(task.serves) for task in tasks]
    assert served == sorted(served, reverse=True)
    assert all(str(tmp_path) in task.run.config.data.path and str(tmp_path) not in task.key for task in tasks)
    taught = [task for task in tasks if task.run.needs is not None]
    assert taught and all(task.run.needs in {other.run for other in tasks} for task in taught)
    assert all(plan.estimated(task, {}) > 0 for task in tasks)


def test_the_whole_takes_less_than_eight_hours_on_two_cores(tmp_path):
    for name in ("cifar10.npz", "sign-digits", "camvid"):
        (tmp_path / name).touch()
    tasks = plan.tasks(items("laptop"), tmp_path, Path("runs"))
    assert sum(plan.estimated(task, {}) for task in tasks) / 2 < 8 * 3600
