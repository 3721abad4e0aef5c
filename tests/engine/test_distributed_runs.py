"""Runs of the command in several processes: who writes and speaks, how they stop, end, and go on."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._dynamo  # which DistributedDataParallel imports: once here, and not in every forked process

from teachaugment import distributed
from teachaugment.batch import Batch
from teachaugment.commands import cli
from teachaugment.config.resolve import Config
from teachaugment.data.splits import DataSet
from teachaugment.engine import build, checkpoint, directory, evaluate, interrupts, processes
from teachaugment.errors import UserError
from teachaugment.tasks.detection.meter import DetectionMeter

from .test_distributed import Processes, assert_close, joined, tiny_data

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

FAST = ["--batch-size", "4", "--device", "cpu", "--eval-every", "2", "--optim.schedule", "constant",
        "--optim.warmup_epochs", "0", "--strategy", "teachaugment", "--teach.n_inner", "2", "--teach.n_buffer", "1",
        "--train.tensorboard", "false"]  # fmt: skip


@pytest.fixture
def little(monkeypatch):
    monkeypatch.setattr(build, "load_data", lambda settings, training=True: tiny_data())


def command(*arguments: str) -> Callable[[], None]:
    def work() -> None:
        if code := cli.main(list(arguments)):
            raise SystemExit(code)

    return work


def stop_at(monkeypatch: pytest.MonkeyPatch, step: int, rank: int, act: Callable[[], None]) -> None:
    real = build.Trainer.train_step

    def train_step(self: Any, *arguments: Any) -> Any:
        if self.step == step and distributed.rank() == rank:
            act()
        return real(self, *arguments)

    monkeypatch.setattr(build.Trainer, "train_step", train_step)


def test_one_process_writes_and_speaks_and_a_resumed_run_is_the_same(little, tmp_path):
    whole = Processes(command("train", *FAST, "--epochs", "3", "--output", str(tmp_path / "a")), tmp_path / "whole")
    whole.results()
    assert "2 processes × 4 = 8 images per step, lr 0.1" in (tmp_path / "whole" / "err0").read_text()
    assert (tmp_path / "whole" / "err1").read_text() == (tmp_path / "whole" / "out1").read_text() == ""
    names = {
        directory.CONFIG,
        directory.LOG,
        directory.METRICS,
        directory.POLICY,
        directory.CARD,
        directory.PICTURE,
    }
    names |= {checkpoint.LAST, checkpoint.PREVIOUS}
    assert {path.name for path in (tmp_path / "a").iterdir()} >= names
    lines = [json.loads(line) for line in (tmp_path / "a" / directory.LOG).read_text().splitlines()]
    assert [line["event"] for line in lines] == ["start", "epoch", "epoch", "epoch", "end"]

    Processes(command("train", *FAST, "--epochs", "1", "--output", str(tmp_path / "b")), tmp_path / "1").results()
    Processes(command("train", "--resume", str(tmp_path / "b"), "--epochs", "3"), tmp_path / "2").results()
    a, b = (checkpoint.load(tmp_path / name / checkpoint.LAST) for name in "ab")
    del a["config"], b["config"]
    assert_close(a, b, tolerance=0)

    shown = Processes(command("evaluate", str(tmp_path / "b"), "--json"), tmp_path / "3")
    shown.results()
    assert (
        json.loads((tmp_path / "3" / "out0").read_text())["test"]["target"]
        == json.loads((tmp_path / "b" / directory.METRICS).read_text())["test"]["target"]
    )
    assert (tmp_path / "3" / "out1").read_text() == ""


def test_a_run_goes_on_with_another_number_of_processes_if_its_steps_stay_the_same(little, tmp_path, capsys):
    path = tmp_path / "run"
    Processes(command("train", *FAST, "--epochs", "1", "--output", str(path)), tmp_path / "1").results()
    assert cli.main(["train", "--resume", str(path), "--epochs", "2"]) == 2
    assert "steps of 2 × 4 images" in (said := capsys.readouterr().err) and "continue it with --accumulate 2" in said
    assert cli.main(["train", "--resume", str(path), "--epochs", "2", "--accumulate", "2"]) == 0
    assert checkpoint.load(path / checkpoint.LAST)["epoch"] == 2


@pytest.mark.parametrize(
    ("number", "rank", "codes"),
    [(signal.SIGTERM, 1, [143, 143]), (signal.SIGKILL, 0, [-9, 2]), (signal.SIGKILL, 1, [2, -9])],
)
def test_a_run_stopped_in_one_process_in_mid_epoch_goes_on_to_the_same_result(little, tmp_path, number, rank, codes):
    """Asked, all stop at the same step and save; killed, the others end, and the last checkpoint is there."""
    fast = [*FAST, "--epochs", "3", "--train.save_minutes", "1e-9"]
    Processes(command("train", *fast, "--output", str(tmp_path / "a")), tmp_path / "whole").results()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "GIVE_WAY", 0.2)
        patch.setattr(interrupts, "ASK_EVERY", 0)  # at every step
        stop_at(patch, 6, rank, lambda: os.kill(os.getpid(), number))
        stopped = Processes(command("train", *fast, "--output", str(tmp_path / "b")), tmp_path / "1")
        assert stopped.end() == codes, stopped.said()
    state = checkpoint.load(tmp_path / "b" / checkpoint.LAST)
    assert state["epoch"] == 1 and state["step"] > 4 and state["progress"]["summed"]["total_loss"].shape == (2,)
    Processes(command("train", "--resume", str(tmp_path / "b")), tmp_path / "2").results()
    a, b = (checkpoint.load(tmp_path / name / checkpoint.LAST) for name in "ab")
    del a["config"], b["config"]
    assert_close(a, b, tolerance=0)
    a, b = ([json.loads(line) for line in (tmp_path / name / directory.LOG).read_text().splitlines()] for name in "ab")
    assert [{**line, "time": 0} for line in a] == [{**line, "time": 0} for line in b]


def test_an_error_in_one_process_ends_all_and_is_said_once(little, monkeypatch, tmp_path):
    def fail() -> None:
        raise UserError("no more images")

    monkeypatch.setattr(processes, "GIVE_WAY", 0.2)
    stop_at(monkeypatch, 3, 1, fail)
    started = Processes(command("train", *FAST, "--output", str(tmp_path / "run")), tmp_path / "1")
    assert started.end() == [2, 2] and time.monotonic() - started.began < 30
    errors = [line for line in started.said() if line.startswith("teachaugment:")]
    assert [line.partition("(")[0] for line in errors] == [
        "teachaugment: error: process 0 has lost another one ",  # torchrun would have ended it before
        "teachaugment: error: process 1: no more images",
    ]


def test_a_killed_process_ends_the_others(little, monkeypatch, tmp_path):
    monkeypatch.setattr(processes, "GIVE_WAY", 0.2)
    stop_at(monkeypatch, 7, 1, lambda: os.kill(os.getpid(), signal.SIGKILL))
    started = Processes(command("train", *FAST, "--output", str(tmp_path / "run")), tmp_path / "1")
    assert started.end() == [2, -signal.SIGKILL] and time.monotonic() - started.began < 30
    assert "continue with --resume" in started.said()[-1]
    assert checkpoint.load(tmp_path / "run" / checkpoint.LAST)["step"] == 4


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ("data", "teachaugment: error: process 1: no such folder"),
        ("settings", "teachaugment: error: process 1: optim.lr is 0.5, in process 0 0.1; they must agree"),
        ("output", "teachaugment: error: --output"),
    ],
)
def test_what_one_process_finds_wrong_before_the_training_the_main_one_says_alone(monkeypatch, tmp_path, broken, says):
    check = directory.check_output

    def load_data(settings: Config, training: bool = True) -> DataSet:
        if broken == "data" and distributed.rank() == 1:
            raise UserError("no such folder")
        return tiny_data()

    def check_output(settings: Config) -> None:
        if broken == "output" and distributed.world() > 1:
            raise UserError(f"--output {settings.output} is not empty")
        check(settings)

    monkeypatch.setattr(build, "load_data", load_data)
    monkeypatch.setattr(directory, "check_output", check_output)

    def work() -> None:
        own = ["--lr", "0.5"] if broken == "settings" and os.environ["RANK"] == "1" else []
        command("train", *FAST, *own, "--output", str(tmp_path / "run"))()

    started = Processes(work, tmp_path / "1")
    assert started.end() == [2, 2]
    assert len(started.said()) == 1 and started.said()[0].startswith(says)
    assert not (tmp_path / "run").exists()


def test_batch_norm_over_all_processes_needs_gpus(little, tmp_path):
    started = Processes(command("train", *FAST, "--sync-bn", "--output", str(tmp_path / "run")), tmp_path / "1")
    assert started.end() == [2, 2]
    assert started.said()[0].startswith("teachaugment: error: --sync-bn needs a GPU for each process")


def test_each_process_has_a_device_of_its_own(monkeypatch):
    for name, value in (("RANK", 1), ("LOCAL_RANK", 1), ("WORLD_SIZE", 2), ("MASTER_ADDR", "x"), ("MASTER_PORT", 1)):
        monkeypatch.setenv(name, str(value))
    with pytest.raises(UserError, match="--device cuda:0 is one device for several processes; --device cuda gives"):
        build.device("cuda:0")
    assert build.device("cpu") == torch.device("cpu")
    if not torch.cuda.is_available():
        with pytest.raises(UserError, match="--device cuda:1 cannot be used"):
            build.device("cuda")


def test_average_precision_of_two_processes_is_that_of_one(tmp_path):
    """Also with equal scores, of which the order of the images decides."""
    pytest.importorskip("torchmetrics.detection")  # once here, and not in every forked process
    generator = torch.Generator().manual_seed(0)
    corner = 50 * torch.rand(10, 6, 2, generator=generator)
    true = torch.cat([corner, corner + 20, torch.randint(2, (10, 6, 1), generator=generator).float()], 2)
    score = torch.randint(1, 4, (10, 6, 1), generator=generator) / 4
    found = torch.cat([true[..., :4] + 4 * torch.randn(10, 6, 4, generator=generator), score, true[..., 4:]], 2)

    def measure() -> dict[str, Any]:
        rank, world = distributed.rank(), distributed.world()
        meter = DetectionMeter(2, torch.device("cpu"))
        for rows in torch.arange(10).split(4):
            mine = rows[rank::world]
            meter.update(found[mine], Batch(torch.zeros(len(mine), 1, 1, 1), index=mine, boxes=true[mine]))
        return evaluate.total(meter)

    alone = measure()
    assert Processes(joined(measure), tmp_path).results() == [alone, alone]
    assert 0.1 < alone["map"] < 0.9
