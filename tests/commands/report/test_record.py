from __future__ import annotations

import json
from pathlib import Path

from teachaugment.commands.report.record import Record, chosen, differences, read


def make(**settings) -> Record:
    epochs = [
        {"event": "epoch", "epoch": 1, "train": {"loss": 2.0}},
        {"event": "epoch", "epoch": 2, "train": {"loss": 1.0}, "test": {"target": {"accuracy": 0.5}}},
    ]
    return Record(Path("run"), {"optim.lr": 0.1, **settings}, {}, epochs, {})


def test_a_series_holds_the_epochs_that_have_the_number():
    assert make().series("train", "loss") == [(1, 2.0), (2, 1.0)]
    assert make().series("test", "target", "accuracy") == [(2, 0.5)]
    assert make().series("nothing", "at", "all") == []


def test_without_final_metrics_the_last_evaluation_in_the_log_counts():
    assert make().result("target") == {"accuracy": 0.5}
    assert make().result("teacher") == {}


def test_settings_are_compared_with_defaults_and_with_each_other():
    assert chosen(make(**{"train.epochs": 7, "augment.strategy": "adaptive", "output": "x"})) == {"train.epochs": 7}
    runs = [make(seed=1, output="a"), make(seed=2, output="b")]
    assert differences(runs) == {"seed": [1, 2]}


def test_a_run_that_was_cut_off_can_be_read(tmp_path):
    (tmp_path / "config.yaml").write_text("train: {epochs: 9}\n")
    whole = json.dumps({"event": "epoch", "epoch": 1, "train": {"loss": 1.0}})
    (tmp_path / "log.jsonl").write_text(f'{whole}\n{{"event": "epoch", "ep')
    (tmp_path / "metrics.json").write_text('{"test": ')
    record = read(tmp_path)
    assert record.done == 1 and record.metrics == {} and record.setting("train.epochs") == 9


def test_a_run_that_has_not_begun_can_be_read(tmp_path):
    (tmp_path / "config.yaml").write_text("seed: 3\n")
    assert read(tmp_path).done == 0
