from __future__ import annotations

import csv
import io
import json
import math
import statistics

import numpy as np
import pytest

from teachaugment.commands.compare import report
from teachaugment.commands.compare.picture import GAP, PANEL, draw, drawing, panel
from teachaugment.commands.compare.report import sure, verdicts
from teachaugment.commands.compare.statistics import (
    Group,
    confidence_of_each,
    interval,
    seeds_to_decide,
    summarize,
    t_quantile,
)
from teachaugment.errors import UserError
from teachaugment.show.table import markdown


@pytest.mark.parametrize(
    ("freedom", "t"),
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (5, 2.5706), (9, 2.2622), (10, 2.2281), (30, 2.0423),
     (99, 1.9842), (1000, 1.9623)],
)  # fmt: skip
def test_students_t_is_that_of_the_tables(freedom, t):
    assert t_quantile(freedom) == pytest.approx(t, abs=5e-5)


def test_another_confidence():
    assert t_quantile(4, 0.99) == pytest.approx(4.6041, abs=5e-5)


def test_an_interval_computed_by_hand():
    # mean 3, standard deviation √2.5, n = 5: 3 ± 2.7764 · √2.5 / √5
    low, high = interval([1, 2, 3, 4, 5])
    assert (low, high) == pytest.approx((3 - 1.96324, 3 + 1.96324), abs=1e-4)
    assert interval([1]) is None


def row(strategy: str, seed: int, test: float, seconds: float, train: float = 1.0, **more) -> dict:
    result = {"test": {"target": test, "teacher": test + 0.01}, "val": {}, "train_accuracy": train, "seconds": seconds}
    return {"strategy": strategy, "seed": seed, "settings": {}, **result, **more}


@pytest.fixture
def groups() -> list[Group]:
    base = {seed: row("none", seed, value, 100) for seed, value in enumerate((0.50, 0.52, 0.54, 0.60))}
    ours = {seed: row("ours", seed, value, 150, 0.9) for seed, value in enumerate((0.53, 0.56, 0.55))}
    return [Group("none", "none", base, {"CIFAR-10": 3.1}), Group("ours", "ours:a=1", ours, {"CIFAR-10": 2.5})]


@pytest.fixture
def summary(groups) -> dict:
    return {"title": "a title", "settings": {}, **summarize(groups), "note": "a note"}


def test_differences_are_paired_by_seed(summary):
    base, ours = summary["strategies"]
    assert base["mean"] == pytest.approx(54) and base["std"] == pytest.approx(math.sqrt((16 + 4 + 0 + 36) / 3))
    assert base["difference"] is None and base["runs"] == 4
    found = ours["difference"]  # of seeds 0 to 2: +3, +4, +1
    assert found["values"] == pytest.approx({0: 3, 1: 4, 2: 1})
    assert found["mean"] == pytest.approx(8 / 3) and (found["wins"], found["pairs"]) == (3, 3)
    half = 4.3027 * math.sqrt(7 / 3) / math.sqrt(3)  # s² = (1/9 + 16/9 + 25/9) / 2
    assert found["interval"] == pytest.approx((8 / 3 - half, 8 / 3 + half), abs=1e-3)
    assert ours["relative_time"] == pytest.approx(1.5) and ours["train"] == pytest.approx(90)


def test_a_tie_is_no_win(groups):
    same = Group("same", "same", groups[0].rows)
    assert summarize([groups[0], same])["strategies"][1]["difference"]["wins"] == 0


def test_one_seed_has_no_spread_and_no_interval(groups):
    alone = summarize([Group(g.label, g.strategy, {0: g.rows[0]}) for g in groups])
    assert alone["strategies"][0]["std"] is None and alone["strategies"][1]["difference"]["interval"] is None
    alone = {"title": "t", "settings": {}, **alone, "note": ""}
    assert "on one seed, which says little" in report.as_text(alone)
    assert draw(alone).width > 600


def test_time_is_that_of_training_where_every_row_has_it(groups):
    timed = [
        Group(g.label, g.strategy, {0: {**g.rows[0], "train_seconds": seconds}})
        for g, seconds in zip(groups, (50, 200), strict=True)
    ]
    assert summarize(timed)["strategies"][1]["relative_time"] == 4
    assert summarize([timed[0], groups[1]])["strategies"][1]["relative_time"] == 1.5


def test_the_metric_is_the_tasks_own(groups):
    mask = {s: {**r, "metric": "miou", "train_miou": 0.3} for s, r in groups[0].rows.items()}
    made = summarize([Group("none", "none", mask)])
    assert made["metric"] == "miou" and made["strategies"][0]["train"] == pytest.approx(30)
    with pytest.raises(UserError, match="accuracy, miou"):
        summarize([Group("none", "none", mask), groups[1]])


def test_a_validation_metric_that_is_not_there_gets_one_line(groups):
    with pytest.raises(UserError, match="--val-fraction"):
        summarize(groups, "val")
    with pytest.raises(UserError, match="no finished run"):
        summarize([])


def test_the_table_in_text_markdown_json_and_csv(summary, tmp_path):
    shown = report.as_text(summary)
    for part in ("a title", "a note", "54.00 ± 4.32", "+2.67", "-1.13 to +6.46", "3/3", "90.0", "1.50×", "96.9", "97.5",
                 "ours is not clearly different from none: +2.67 points, by chance or not, on 3 seeds."):  # fmt: skip
        assert part in shown, part
    assert "| none | 54.00 ± 4.32 |" in markdown([report.as_table(summary)])
    report.write(summary, tmp_path, "table")
    assert {path.name for path in tmp_path.iterdir()} == {f"table{ending}" for ending in report.FILES}
    kept = json.loads((tmp_path / "table.json").read_text())
    assert kept["strategies"][1]["difference"]["values"]["2"] == pytest.approx(1)
    first, second = csv.DictReader(io.StringIO((tmp_path / "table.csv").read_text()))
    assert (first["label"], first["difference"], float(first["test_accuracy_mean"])) == ("none", "", 54.0)
    assert (second["strategy"], second["wins"], second["paper_error_CIFAR-10"]) == ("ours:a=1", "3", "2.5000")
    assert float(second["interval_low"]) == pytest.approx(-1.128, abs=1e-3)


@pytest.mark.parametrize(
    ("shift", "says"), [(0.2, "ours is better than none by"), (-0.2, "ours is worse than none by")]
)
def test_the_answer_in_words(groups, shift, says):
    moved = {s: {**r, "test": {"target": r["test"]["target"] + shift}} for s, r in groups[1].rows.items()}
    assert report.verdicts(summarize([groups[0], Group("ours", "ours", moved)]))[0].startswith(says)


def test_the_picture_has_a_dot_for_each_value(summary):
    """Each value has a blue dot at its place on the axis of its panel."""
    pixels = np.asarray(draw(summary)).astype(int)
    seen = (pixels[..., 2] > pixels[..., 0] + 60).any(0)
    columns = np.flatnonzero(seen)
    strategies = summary["strategies"]
    left = min(columns)
    values = [v for s in strategies for v in s["values"].values()]
    places = panel(values, 0)
    shift = left + 3 - places.at(min(values))  # the leftmost dot tells where the panel begins
    assert all(
        seen[round(places.at(value) + shift) - 3 : round(places.at(value) + shift) + 4].any() for value in values
    )
    assert not seen[round(places.at(58) + shift)]  # no seed has 58 %
    differences = panel(
        [0.0, *strategies[1]["difference"]["values"].values(), *strategies[1]["difference"]["interval"]], 0
    )
    for value in strategies[1]["difference"]["values"].values():
        place = round(differences.at(value) + shift + PANEL + GAP)
        assert seen[place - 3 : place + 4].any()


def test_the_colour_of_an_interval_says_which_side_of_zero_it_is_on(groups):
    for shift, look in ((0.2, "better"), (-0.2, "worse"), (0.0, "open")):
        moved = {s: {**r, "test": {"target": r["test"]["target"] + shift}} for s, r in groups[1].rows.items()}
        made = summarize([groups[0], Group("ours", "ours", moved)])
        looks = {shape.look for shape in drawing({"title": "t", "flags": [], **made, "note": ""}).shapes}
        assert looks & {"better", "worse", "open"} == {look}


def test_few_seeds_and_equal_differences_have_no_interval():
    assert interval([1, 2]) is None and interval([1, 1, 1]) is None and interval([1, 2, 3]) is not None
    narrow, wide = interval([1, 2, 3, 4]), interval([1, 2, 3, 4], confidence_of_each(8))
    assert narrow is not None and wide is not None and wide[0] < narrow[0] and narrow[1] < wide[1]
    assert confidence_of_each(1) == 0.95 and confidence_of_each(8) == pytest.approx(1 - 0.05 / 8)


def test_the_number_of_seeds_that_would_decide():
    values = [1.0, -0.5, 2.0]
    count = seeds_to_decide(values)
    assert count is not None and count > 3
    half = [t_quantile(n - 1) * statistics.stdev(values) / n**0.5 for n in (count, count - 1)]
    assert half[0] < statistics.mean(values) < half[1]
    assert seeds_to_decide([1.0, -1.0, 0.001]) is None and seeds_to_decide([1.0]) is None


def of(differences, images=None):
    rows = [{seed: {"strategy": "x", "seed": seed, "test": {"target": 0.5}, "seconds": 1.0} for seed in range(3)}]
    rows.append({s: {**rows[0][s], "test": {"target": 0.5 + d / 100}} for s, d in enumerate(differences)})
    if images:
        rows = [{seed: {**row, "test_images": images} for seed, row in some.items()} for some in rows]
    groups = [Group(name, name, some) for name, some in zip(("none", "other"), rows, strict=True)]
    return {**summarize(groups), "title": "", "note": ""}


def test_what_an_image_is_worth_and_how_many_seeds_would_decide_is_said():
    said = "\n".join(verdicts(of([5.0, 0.0, 5.0], images=20)))
    assert "One test image is worth 5.00 points" in said and "seeds would decide it" in said
    assert "One test image" not in "\n".join(verdicts(of([5.0, 0.0, 5.0], images=10_000)))
    assert "on 3 seeds, which says little" in "\n".join(verdicts(of([5.0, 5.0, 5.0])))
    assert sure(of([5.0, 5.1, 4.9])) and sure(of([-5.0, -5.1, -4.9])) and not sure(of([5.0, 0.0, 5.0]))
