from __future__ import annotations

from pathlib import Path

from teachaugment.commands.report.curves import compared, curves
from teachaugment.commands.report.record import Record


def make(task: str, **numbers) -> Record:
    return Record(Path("run"), {"task": task}, {}, [{"event": "epoch", "epoch": 1, **numbers}], {})


def test_a_run_has_the_charts_that_its_log_has_numbers_for():
    record = make("classification", train={"loss": 1.0, "accuracy": 0.5}, lr=0.1)
    assert [chart.title for chart in curves(record)] == ["Loss", "Accuracy", "Learning rate"]


def test_a_run_has_the_same_colour_in_every_chart():
    first, second = make("classification", lr=0.1), make("classification", train={"loss": 1.0}, lr=0.2)
    looks = {chart.title: {key.name: key.look for key in chart.keys} for chart in compared([first, second], ["a", "b"])}
    assert looks == {"Training loss": {"b": "s1"}, "Learning rate": {"a": "s0", "b": "s1"}}


def test_metrics_are_compared_only_where_runs_have_the_same():
    numbers = {"train": {"accuracy": 0.5, "miou": 0.4, "loss": 1.0}}
    one, same, other = (make(task, **numbers) for task in ("classification", "classification", "segmentation"))
    assert [c.title for c in compared([one, same], ["a", "b"])] == ["Training accuracy", "Training loss"]
    assert [c.title for c in compared([one, other], ["a", "b"])] == ["Training loss"]


def test_operations_that_get_less_of_the_strength_have_a_chart():
    record = make("classification", teach={"strength": 1.0, "share_solarize": 0.25, "share_rotate": 1.0})
    (chart,) = (chart for chart in curves(record) if "operations" in chart.title)
    assert [key.name for key in chart.keys] == ["solarize"]
    whole = make("classification", teach={"strength": 1.0, "share_rotate": 1.0})
    assert not any("operations" in chart.title for chart in curves(whole))
