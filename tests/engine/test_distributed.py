"""Several processes: real ones, connected by gloo on this machine, forked because importing torch again takes long."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo  # which DistributedDataParallel imports: once here, and not in every forked process
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from teachaugment import TeachAugment, distributed
from teachaugment.config.resolve import Config, Layer, resolve
from teachaugment.data.splits import DataSet, Split
from teachaugment.engine import build, processes
from teachaugment.engine.log import Silent

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

SMALL = {
    "train.epochs": 2, "train.tensorboard": False, "teach.n_inner": 2, "teach.n_buffer": 1, "device": "cpu",
    "augment.strategy": "teachaugment", "augment.cutout": 2, "optim.warmup_epochs": 0.0,
}  # fmt: skip


class Processes:
    """Some processes that do ``work``, started and connected as torchrun would."""

    def __init__(self, work: Callable[[], Any], folder: Path, count: int = 2):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.folder, self.began = folder, time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)
        self.ids = [self._start(work, rank, count, port) for rank in range(count)]

    def _start(self, work: Callable[[], Any], rank: int, count: int, port: int) -> int:
        child = os.fork()
        if child:
            return child
        code = 1
        try:
            for name, value in (("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", count), ("MASTER_PORT", port)):
                os.environ[name] = str(value)
            os.environ.update(MASTER_ADDR="127.0.0.1", GLOO_SOCKET_IFNAME="lo")
            for name, descriptor in (("out", 1), ("err", 2)):
                os.dup2(os.open(self.folder / f"{name}{rank}", os.O_CREAT | os.O_WRONLY | os.O_APPEND), descriptor)
            sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
            torch.save(work(), self.folder / f"result{rank}")
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def end(self, within: float = 60) -> list[int]:
        """The exit codes; whoever takes longer is killed, which is no code that a test expects."""
        codes: dict[int, int] = {}
        while len(codes) < len(self.ids):
            for child in set(self.ids) - codes.keys():
                done, status = os.waitpid(child, os.WNOHANG)
                if done:
                    codes[child] = os.waitstatus_to_exitcode(status)
                elif time.monotonic() - self.began > within:
                    os.kill(child, signal.SIGKILL)
            time.sleep(0.02)
        return [codes[child] for child in self.ids]

    def said(self) -> list[str]:
        return [line for k in range(len(self.ids)) for line in (self.folder / f"err{k}").read_text().splitlines()]

    def results(self) -> list[Any]:
        codes = self.end()
        assert codes == [0] * len(codes), self.said()
        return [torch.load(self.folder / f"result{k}", weights_only=True) for k in range(len(codes))]


def joined(work: Callable[[], Any]) -> Callable[[], Any]:
    def inside() -> Any:
        with processes.session(torch.device("cpu")):
            return work()

    return inside


def config(**changed: Any) -> Config:
    values = {**SMALL, **{key.replace("__", "."): value for key, value in changed.items()}}
    return resolve(Layer(values, {key: key for key in values}))


def tiny_data(train: int = 32, test: int = 21) -> DataSet:
    random = torch.Generator().manual_seed(0)
    splits = [
        Split(torch.randint(256, (n, 3, 8, 8), generator=random, dtype=torch.uint8), torch.arange(n) % 4)
        for n in (train, test)
    ]
    return DataSet("tiny", *splits, list("abcd"), 3, (8, 8), (0.5,) * 3, (0.25,) * 3)


def without_batch_norm(*_: Any, **__: Any) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 4)
    )


def trained(settings: Config) -> dict[str, Any]:
    """All that a training leaves, and its losses."""
    trainer = build.build(settings, tiny_data())
    records = [trainer.train_epoch(Silent()) for _ in range(settings.train.epochs)]
    state = trainer.state_dict()
    return {
        "records": [{key: record.get(key) for key in ("train", "teach")} for record in records],
        "test": trainer.evaluate("test"),
        **{key: state[key] for key in ("target", "optimizer", "teach", "step", "parts")},
    }


def assert_close(a: Any, b: Any, where: str = "", tolerance: float = 5e-5) -> None:
    """Equal to rounding, which AdamW makes larger where a gradient is nearly zero: a twentieth of its learning rate."""
    if isinstance(a, dict):
        assert a.keys() == b.keys(), where
        for key in a:
            assert_close(a[key], b[key], f"{where}.{key}", tolerance)
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_close(x, y, f"{where}[{i}]", tolerance)
    elif isinstance(a, torch.Tensor) and a.dtype == torch.int8 and tolerance:  # the replay's weights, rounded
        assert (a.int() - b.int()).abs().max() <= 1, where
    elif isinstance(a, torch.Tensor):
        torch.testing.assert_close(a, b, atol=tolerance, rtol=tolerance, msg=lambda text: f"{where}: {text}")
    elif isinstance(a, str) or a is None or b is None:
        assert a == b, where
    else:
        assert a == pytest.approx(b, abs=tolerance, rel=tolerance), where


FIXED = {"augment__flip": False, "augment__crop": 0, "augment__cutout": 0}
PARTS = {"train__batch_size": 4, "train__accumulate": 2}
MORE = {"train__batch_size": 2, "train__accumulate": 4}
FROZEN = {"model__pretrained": True, "optim__freeze": 1, "optim__name": "sgd"}
MIXED = {"augment__copies": 2, "augment__mix": "cutmix"}


@pytest.mark.parametrize(
    ("strategy", "one", "two"),
    [
        # One part of 2b is the step of two parts of b only as long as nothing is random.
        pytest.param("none", {"train__batch_size": 8, **FIXED}, {"train__batch_size": 4}, id="none, batch 2b"),
        pytest.param("none", PARTS, {}, id="none, two parts of b"),
        pytest.param("none", MORE, {"train__accumulate": 2}, id="none, accumulation"),
        pytest.param("teachaugment", PARTS, {}, id="teachaugment, two parts of b"),
        pytest.param("teachaugment", MORE, {"train__accumulate": 2}, id="teachaugment, accumulation"),
        pytest.param("teachaugment", {**PARTS, **MIXED}, {}, id="teachaugment, mixed copies"),
        pytest.param("trivialaugment", PARTS, {}, id="trivialaugment, two parts of b"),
        pytest.param("consistency-kld", PARTS, {}, id="consistency, two parts of b"),
        pytest.param("none", {**PARTS, **FROZEN}, {}, id="none, frozen at first"),
    ],
)
def test_two_processes_do_what_one_does_with_their_images(monkeypatch, tmp_path, strategy, one, two):
    """Losses and all updates, with everything random that the settings have, as long as there is no batch norm."""
    monkeypatch.setattr(build.models, "create", without_batch_norm)
    one = {"augment__strategy": strategy, **one}
    both = {**one, "train__accumulate": 1, **two}
    first, second = Processes(joined(lambda: trained(config(**both))), tmp_path).results()
    alone = trained(config(**one))
    assert alone["step"] == first["step"] == 8
    assert (first.pop("parts"), alone.pop("parts")) == (2 * both["train__accumulate"], one.get("train__accumulate", 1))
    assert_close(first, alone)
    assert first["test"] == second["test"]


def test_gradients_meet_once_in_a_step_however_many_parts_it_has(monkeypatch, tmp_path):
    monkeypatch.setattr(build.models, "create", without_batch_norm)

    def work() -> int:
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

        parts = {"train__batch_size": 4, "train__accumulate": 2, "augment__copies": 2}
        trainer = build.build(config(augment__strategy="none", **parts), tiny_data())
        calls = []
        assert trainer.parallel is not None
        trainer.parallel.register_comm_hook(
            None, lambda state, bucket: calls.append(1) or allreduce_hook(state, bucket)
        )
        trainer.train_epoch(Silent())
        return len(calls) - trainer.step

    assert Processes(joined(work), tmp_path).results() == [0, 0]


@pytest.mark.parametrize("augmenter", ["neural", "dda", "online", "operations"])
def test_processes_hold_the_same_after_training_batch_norms_statistics_included(tmp_path, augmenter):
    own = {"train__epochs": 2, "train__channels_last": True} if augmenter == "neural" else {"train__epochs": 1}
    governed = augmenter == "operations"
    settings = config(train__batch_size=4, teach__augmenter=augmenter, teach__governed=governed, **own)
    first, second = Processes(joined(lambda: trained(settings)), tmp_path).results()
    assert_close(first, second, tolerance=0)
    assert first["teach"]["replay"]["count"] == (0 if governed else settings.train.epochs)
    assert not governed or float(first["teach"]["governor"]["counts"][0, 1].sum()) > 4  # the images of both
    assert len([name for name in first["target"] if name.endswith("running_var")]) > 0


def test_every_test_image_is_counted_once(tmp_path):
    """21 images in batches of 2 × 4: the last one is not full, and no image pads it."""
    first, second = Processes(joined(lambda: trained(config(train__batch_size=4))), tmp_path).results()
    assert first["test"] == second["test"]
    for result in first["test"].values():
        assert result["images"] == 21 and [sum(row) for row in result["confusion"]] == [6, 5, 5, 5]


def test_the_class_for_your_own_loop_needs_nothing_more(tmp_path):
    def work() -> dict[str, Any]:
        torch.manual_seed(distributed.rank())  # weights differ until the network is wrapped
        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        teach = TeachAugment(model, num_classes=4, n_inner=1, n_buffer=1, augmenter="neural")
        network, optimizer = DistributedDataParallel(model), torch.optim.SGD(model.parameters(), 0.1)
        images, noise = torch.full((8, 3, 8, 8), 0.5), []
        for _ in range(3):
            labels = torch.randint(4, (8,))
            noise.append(teach.augmenter.sample(8, torch.zeros_like(labels), teach.generator).affine.detach())
            loss = F.cross_entropy(network(teach(images, labels)), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            teach.step(images + 0.1 * torch.rand(8, 3, 8, 8), labels)
        teach.end_epoch()
        return {"teach": teach.state_dict(), "noise": noise[-1]}

    first, second = Processes(joined(work), tmp_path).results()
    assert_close(first["teach"], second["teach"], tolerance=0)
    assert not torch.equal(first["noise"], second["noise"])
