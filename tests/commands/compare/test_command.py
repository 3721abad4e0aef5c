from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from teachaugment.commands import cli
from teachaugment.commands.compare import display, rows, runner
from teachaugment.commands.compare.command import jobs_and_threads
from teachaugment.commands.compare.old_rows import read_words
from teachaugment.commands.compare.plan import BASE, Run, plan, shared_settings
from teachaugment.config.resolve import Layer, resolve
from teachaugment.engine import directory
from teachaugment.errors import UserError

ROOT = Path(__file__).resolve().parent.parent.parent.parent
FAST = ["--data.size", "8", "--data.per_class", "2", "--batch-size", "8", "--epochs", "2", "--eval-every", "2",
        "--device", "cpu"]  # fmt: skip


def shared(flags: list[str]) -> Layer:
    return shared_settings([BASE, *read_words(flags)])


def pairs(path: Path) -> list[tuple[str, int]]:
    return [(row["strategy"], row["seed"]) for row in rows.read(path)]


def test_a_comparison_that_is_stopped_goes_on_and_ends_with_its_tables(tmp_path, capsys):
    """The real thing, each run a process of its own; it takes as long as starting those."""
    output = tmp_path / "out"
    command = ["compare", "--strategies", "none,teachaugment:teach.n_inner=1", "--seeds", "1", *FAST]
    command += ["--jobs", "1", "--output", str(output)]
    first = subprocess.Popen([sys.executable, "-m", "teachaugment", *command], stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 600
    while not pairs(output / "results.jsonl"):
        assert first.poll() is None and time.monotonic() < until
        time.sleep(0.1)
    first.send_signal(signal.SIGTERM)
    assert first.wait(300) == 130 and "the same command goes on from here" in first.stderr.read()
    before = (output / "results.jsonl").read_text()
    with runner.locked_directory(output):
        pass  # no run is left behind
    (output / "results.jsonl").write_text(before + '{"strategy": "no')  # as if killed while writing
    assert cli.main(command) == 0
    out, err = capsys.readouterr()
    after = (output / "results.jsonl").read_text()
    assert after.startswith(before)
    assert pairs(output / "results.jsonl") == [("none", 0), ("teachaugment:teach.n_inner=1", 0)]
    assert "1 of them done before" in err and "run 2 of 2" in err
    assert "cnn-4 on shapes, 2 epochs" in out and "95 % interval" in out and "teachaugment:teach.n_inner=1 is" in out
    made = {path.name for path in output.iterdir()}
    assert {"table.txt", "table.json", "table.csv", "table.png", "runs", "results.jsonl"} <= made
    strategies = json.loads((output / "table.json").read_text())["strategies"]
    assert [s["runs"] for s in strategies] == [1, 1] and all(s["relative_time"] > 0 for s in strategies)
    # Once more: nothing is left to do, and the file on its own tells the same.
    assert cli.main(command) == 0 and (output / "results.jsonl").read_text() == after
    assert cli.main(["compare", "--from", str(output / "results.jsonl")]) == 0
    again = capsys.readouterr().out
    assert again.count(out.strip()) == 2


def test_features_without_labels_are_compared_by_a_linear_classifier(tmp_path, capsys):
    command = ["compare", "--task", "simsiam", "--strategies", "none", "--seeds", "1", *FAST, "--output", str(tmp_path)]
    assert cli.main(command) == 0
    table = capsys.readouterr().out
    assert "test linear accuracy, %" in table and "kNN" in table and "train" not in table
    (row,) = rows.read(tmp_path / "results.jsonl")
    (run,) = (tmp_path / "runs").glob("none-*/")
    found = json.loads((run / directory.LINEAR).read_text())["test"]
    metrics = json.loads((run / directory.METRICS).read_text())["test"]
    assert row["settings"] == shared([*FAST, "--task", "simsiam"]).values and "flags" not in row
    assert row["test"] == {model: values["accuracy"] for model, values in found.items()} and "untrained" in row["test"]
    assert row["knn"]["test"] == {"target": metrics["target"]["knn"]}
    # A run that was trained, but not tried, before the command was stopped is only tried.
    (tmp_path / "results.jsonl").unlink()
    (run / directory.LINEAR).unlink()
    before = (run / directory.LOG).read_bytes()
    assert cli.main(command) == 0 and rows.read(tmp_path / "results.jsonl")[0]["test"] == row["test"]
    assert (run / directory.LOG).read_bytes() == before


def test_a_run_in_the_middle_goes_on_from_its_checkpoint_and_ends_as_if_never_stopped(tmp_path, monkeypatch, capsys):
    from teachaugment.engine.run import run
    from teachaugment.engine.trainer import Trainer

    stopped, whole = (plan(shared(FAST), ["none"], [0], tmp_path / name)[0] for name in ("stopped", "whole"))
    epoch = Trainer.train_batches

    def one_epoch(self, *arguments):
        if self.epoch == 1:
            raise KeyboardInterrupt
        return epoch(self, *arguments)

    from teachaugment.engine.build import build

    assert build(whole.config) and run(build(whole.config), directory.create_run(whole.config))
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "train_batches", one_epoch)
        with pytest.raises(KeyboardInterrupt):
            run(build(stopped.config), directory.create_run(stopped.config))
    assert not rows.finished(stopped) and display.epochs_done(stopped)[0] == 1
    process = runner.start(stopped, 1, None)
    assert process.wait(600) == 0 and rows.finished(stopped)
    assert "after epoch 1 of 2" in runner.printed_file(stopped).read_text()
    one, other = (rows.collect(r, shared(FAST).values, 1) for r in (stopped, whole))
    assert one["test"] == other["test"] and one["train_accuracy"] == other["train_accuracy"]
    # Ended but not noted any more: the row is made from the directory, without a process.
    monkeypatch.setattr(runner, "start", None)
    assert (
        cli.main(["compare", "--strategies", "none", "--seeds", "1", *FAST, "--output", str(tmp_path / "whole")]) == 0
    )
    assert pairs(tmp_path / "whole" / "results.jsonl") == [("none", 0)]


def test_rows_of_the_former_script_are_read_and_gone_on_with(tmp_path, monkeypatch, capsys):
    source = ROOT / "experiments" / "results" / "shapes.jsonl"
    assert cli.main(["compare", "--from", str(source), "--markdown"]) == 0
    shown = capsys.readouterr().out
    assert "| none | 60.17 ± 2.42 | – | – | – | 100.0 | 1.00× | 5 |" in shown
    assert "| trivialaugment | 78.95 ± 1.69 | +18.78 |" in shown
    copy = tmp_path / "shapes.jsonl"
    copy.write_text(source.read_text())
    monkeypatch.setattr(runner, "start", None)  # every run is there: none may be started
    flags = ["--data.per_class=50", "--train.epochs", "80", "--eval-every", "80", "--device", "cpu"]
    where = ["--results", str(copy), "--output", str(tmp_path / "out")]
    before = ["--teach.color_space", "image", "--teach.context", "input", "--teach.n_buffer", "10"]  # the defaults then
    assert cli.main(["compare", "--strategies", "none,teachaugment", "--seeds", "5", *flags, *before, *where]) == 0
    out, err = capsys.readouterr()
    assert "10 runs of 80 epochs, 10 of them done before" in err and "teachaugment is better than none" in out
    assert copy.read_text() == source.read_text()
    assert cli.main(["compare", "--strategies", "none,teachaugment", "--seeds", "5", *flags, *where]) == 2
    assert "10 runs of 80 epochs, 5 of them done before" in capsys.readouterr().err  # TeachAugment is another by now


def test_until_sure_trains_no_more_seeds_than_the_answer_needs(tmp_path, monkeypatch, capsys):
    rows = [json.loads(line) for line in (ROOT / "experiments/results/shapes.jsonl").read_text().splitlines()]
    first = [row for row in rows if row["seed"] < 3 and row["strategy"] in ("none", "trivialaugment")]
    results = tmp_path / "shapes.jsonl"
    results.write_text("".join(json.dumps(row) + "\n" for row in first))
    monkeypatch.setattr(runner, "start", None)  # these seeds answer: none more may be started
    command = ["compare", "--strategies", "none,trivialaugment", "--until-sure", "--seeds", "12"]
    command += ["--data.per_class", "50", "--epochs", "80", "--eval-every", "80", "--device", "cpu"]
    command += ["--results", str(results)]
    assert cli.main([*command, "--output", str(tmp_path / "out")]) == 0
    assert "trivialaugment is better than none" in capsys.readouterr().out
    assert json.loads((tmp_path / "out" / "table.json").read_text())["strategies"][1]["runs"] == 3
    none, other = ([row for row in first if row["strategy"] == name] for name in ("none", "trivialaugment"))
    for row, that in zip(other, none[1:] + none[:1], strict=True):
        row["test"] = that["test"]  # now nothing is sure
    results.write_text("".join(json.dumps(row) + "\n" for row in first))
    assert cli.main([*command, "--output", str(tmp_path / "unsure")]) == 2
    assert "'NoneType' object is not callable" in capsys.readouterr().err


def test_rows_with_other_settings_get_a_table_of_their_own(tmp_path, capsys):
    some = {"test": {"target": 0.5}, "val": {}, "train_accuracy": 1.0, "seconds": 3}
    lines = [{"strategy": "none", "seed": 0, "settings": {"train.epochs": n}, **some} for n in (1, 2)]
    lines.append({"strategy": "none", "seed": 0, "flags": ["--no-such-flag", "1"], **some})
    lines.append({"strategy": "none", "seed": 0, "settings": {"no.such.setting": 1}, **some})
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert cli.main(["compare", "--from", str(tmp_path / "rows.jsonl")]) == 0
    out, err = capsys.readouterr()
    assert "cnn-4 on shapes, 1 epochs" in out and "cnn-4 on shapes, 2 epochs" in out and "2 rows" in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--strategies", "none,trivialagument"], "did you mean 'trivialaugment'?"),
        (["teacher"], "did you mean 'teachers'?"),
        (["epsilon", "--strategies", "none"], "leave out --strategies"),
        (["teachers"], "--stronger"),
        (["epsilon", "--stronger", "wrn-16-2"], "belongs to the comparison teachers"),
        (["--seeds", "0"], "not a whole number"),
        (["--strategy", "none"], "unknown flag --strategy; did you mean '--strategies'?"),
        (["--epochs", "0"], "--epochs must be"),
        (["--from", "nowhere.jsonl"], "does not exist"),
        (["--device", "gpu"], "--device gpu cannot be used"),
    ],
)
def test_a_mistake_gets_one_line_before_anything_is_trained(tmp_path, monkeypatch, capsys, words, says):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["compare", *words]) == 2
    text = capsys.readouterr().err
    assert text.startswith("teachaugment: error: ") and text.count("\n") == 1 and says in text
    assert os.listdir(tmp_path) == []


def test_what_a_run_fails_of_is_said_in_one_line(tmp_path, capsys):
    words = ["compare", "--strategies", "none", "--seeds", "1", "--model", "cnn-5", *FAST]
    assert cli.main([*words, "--output", str(tmp_path)]) == 2
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert "none, seed 0 failed: unknown model 'cnn-5'; did you mean 'cnn-4'?" in line and ".txt" in line


def test_a_core_is_for_one_run_and_a_variable_sets_the_threads(monkeypatch):
    config = resolve(*read_words(["--device", "cpu"]))
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert [jobs_and_threads(config, jobs, 20) for jobs in (None, 1, 3)] == [(8, 1), (1, 8), (3, 2)]
    assert jobs_and_threads(config, None, 4) == (4, 2)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert jobs_and_threads(config, 1, 20) == (1, 1)


def test_two_comparisons_do_not_share_a_directory(tmp_path):
    with (
        runner.locked_directory(tmp_path),
        pytest.raises(UserError, match="is in use"),
        runner.locked_directory(tmp_path),
    ):
        pass


@pytest.mark.parametrize(
    "line",
    [
        '{"strategy": "none"}',
        "[1]",
        "no JSON",
        '{"strategy": "none", "seed": 0, "test": {}, "seconds": 1}',
        '{"strategy": "none", "seed": 0, "test": {}, "seconds": 1, "settings": ["--epochs", "1"]}',
    ],
)
def test_a_damaged_results_file_gets_one_line(tmp_path, line):
    (tmp_path / "rows.jsonl").write_text(f"{line}\n")
    with pytest.raises(UserError, match="line 1 is not a row"):
        rows.read(tmp_path / "rows.jsonl")


# --- display -------------------------------------------------------------------------------------------------------


def test_the_time_left_follows_from_what_each_strategy_takes():
    known = {"none": [1.0, 3.0], "teachaugment": [4.0]}
    assert display.seconds_left([("none", 10), ("teachaugment", 5)], known, 1) == 40
    assert display.seconds_left([("none", 10), ("teachaugment", 5)], known, 2) == 20
    assert display.seconds_left([("other", 10)], known, 2) == 30  # the mean of the others; one run is not shared
    assert display.seconds_left([("none", 10)], {}, 1) is None


def logged(run: Run, epochs: int) -> None:
    run.path.mkdir(parents=True)
    lines = [{"event": "epoch", "epoch": i, "time": {"seconds": 2.0, "evaluation_seconds": 1.0}} for i in range(epochs)]
    (run.path / directory.LOG).write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"event": "ep')


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()], ids=["lines", "bar"])
def test_progress_counts_runs_and_epochs(tmp_path, monkeypatch, stream):
    monkeypatch.setattr(display, "SPOKEN_EVERY", -1)
    runs = plan(shared(["--epochs", "10"]), ["none", "teachaugment"], [0], tmp_path)
    logged(runs[0], 4)
    shown = display.ComparisonDisplay(runs, {}, 1, stream)
    shown.show([runs[1]], [runs[0]])
    assert "0 of 2 runs" in stream.getvalue() and "0:48 left" in stream.getvalue()  # 16 epochs of 3 seconds
    assert "none, seed 0 4/10" in stream.getvalue()
    shown.rows[runs[0].key] = {"metric": "miou", "test": {"target": 0.5}, "seconds": 30.0}
    shown.finished(runs[0])
    shown.close()
    assert "run 1 of 2: none, seed 0: miou 50.0 %, 0:30" in stream.getvalue()


def test_a_run_that_needs_another_waits_for_it_and_takes_its_target(tmp_path, monkeypatch):
    runs = plan(shared(FAST), ["teachaugment:teacher=@cnn-4"], [0], tmp_path)
    commands = []

    class Process:
        returncode = 0

        def __init__(self, command, **options):
            commands.append(command)

        def poll(self):
            return 0

    monkeypatch.setattr(runner.subprocess, "Popen", Process)
    monkeypatch.setattr(runner, "finished", lambda run: True)
    monkeypatch.setattr(runner, "trained", lambda run: any(f"--output={run.path}" in words for words in commands))
    monkeypatch.setattr(runner, "POLL", 0)
    ended: list[Run] = []
    quiet = display.ComparisonDisplay(runs, {}, 2, io.StringIO())
    monkeypatch.setattr(quiet, "finished", lambda run: None)
    runner.train_all(list(reversed(runs)), 2, 1, ended.append, quiet, None)
    assert ended == runs and f"--teach.teacher={runs[0].path}" in commands[1]
    assert replace(runs[1], needs=None).key == runs[1].key
