"""Precision and speed: each of them changes nothing but rounding."""

from __future__ import annotations

from typing import Any

import pytest
import small
import torch
from torch import nn

from teachaugment.config.resolve import Config
from teachaugment.engine import build
from teachaugment.engine.display import TrainingDisplay
from teachaugment.engine.precision import LowPrecision, Precision
from teachaugment.engine.trainer import Trainer
from teachaugment.networks import frozen

CPU = torch.device("cpu")
TINY = {
    "data.size": 8, "data.per_class": 8, "train.batch_size": 16, "train.epochs": 1, "train.tensorboard": False,
    "teach.n_inner": 2, "device": "cpu", "optim.warmup_epochs": 0, "optim.schedule": "constant", "optim.lr": 0.02,
}  # fmt: skip


def tiny(**changed: Any) -> Config:
    return small.settings(TINY, changed)


class WithoutNorm(nn.Module):
    """Without batch norm an image's gradient does not depend on its batch-mates."""

    def __init__(self, num_classes: int, channels: int = 3):
        super().__init__()
        self.conv, self.head = nn.Conv2d(channels, 8, 3, padding=1), nn.Linear(8, num_classes)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.head(self.conv(image).relu().mean(dim=(2, 3)))


def epoch(config: Config) -> tuple[Trainer, dict[str, Any]]:
    trainer = build.build(config)
    trainer.data.test = trainer.data.test.select(torch.arange(20))
    record = trainer.train_epoch(TrainingDisplay(trainer.total_steps))
    return trainer, record


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


@pytest.fixture(scope="module")
def full() -> tuple[Trainer, dict[str, Any]]:
    torch.set_num_threads(1)
    return epoch(tiny())


def test_everything_is_off_by_default():
    config = Config().train
    assert (config.amp, config.channels_last, config.compile, config.accumulate) == ("off", False, False, 1)
    trainer = build.build(tiny())
    assert trainer.network is trainer.target and trainer.strategy.teach.target is trainer.target
    assert not trainer.precision.scaler.is_enabled()


@pytest.mark.parametrize(("amp", "close", "alike"), [("bf16", 0.05, 0.85), ("fp16", 0.02, 0.95)])
def test_half_precision_trains_both_networks_almost_alike(full, amp, close, alike):
    trainer, record = epoch(tiny(train__amp=amp))
    whole, reference = full
    assert record["train"]["loss"] == pytest.approx(reference["train"]["loss"], rel=close)
    for name, value in reference["teach"].items():
        assert record["teach"][name] == pytest.approx(value, rel=4 * close, abs=4 * close), name
    start = weights(build.build(tiny()).target)
    moved, wanted = weights(trainer.target) - start, weights(whole.target) - start
    assert torch.cosine_similarity(moved, wanted, dim=0) > alike
    assert all(
        p.dtype == torch.float32 for p in [*trainer.target.parameters(), *trainer.strategy.teach.augmenter.parameters()]
    )
    result = trainer.evaluate("test")
    assert result["target"]["images"] == 20
    assert result.keys() == {"target", "teacher"}


def test_every_head_of_a_network_leaves_half_precision():
    class Heads(nn.Module):
        def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return image @ image, image @ image

    outputs = LowPrecision(Heads(), torch.float16)(torch.rand(2, 3, 4, 4))
    assert [output.dtype for output in outputs] == [torch.float32] * 2


def test_the_scale_of_fp16_is_resumed():
    trainer, _ = epoch(tiny(train__amp="fp16"))
    trainer.precision.scaler.update(512.0)
    other = build.build(tiny(train__amp="fp16"))
    other.load_state_dict(trainer.state_dict(), None)  # type: ignore[arg-type]
    assert other.precision.scaler.get_scale() == 512.0


def test_an_overflow_leaves_the_weights_alone_and_lowers_the_scale():
    model, precision = nn.Linear(2, 2), Precision("fp16", CPU)
    optimizer, before = torch.optim.SGD(model.parameters(), lr=0.1), weights(model)
    precision.backward(model(torch.ones(1, 2)).sum() * float("inf"))
    precision.step(optimizer, list(model.parameters()), clip=1.0)
    assert torch.equal(weights(model), before) and precision.scaler.get_scale() < 65536


def test_small_gradients_survive_fp16_in_the_frozen_passes():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3))
    found = {}
    for name, network in {"full": model, "half": LowPrecision(model, torch.float16)}.items():
        image = torch.rand(4, 3, 2, 2, generator=torch.Generator().manual_seed(0)).requires_grad_()
        (1e-6 * frozen(network, image).logsumexp(1).sum()).backward()
        assert image.grad is not None
        found[name] = image.grad
    torch.testing.assert_close(found["half"], found["full"], rtol=0.02, atol=2e-10)
    assert found["full"].abs().median() < 6e-8  # the smallest number of fp16


def test_a_gradient_that_overflows_in_the_frozen_passes_becomes_zero():
    network = LowPrecision(nn.Sequential(nn.Flatten(), nn.Linear(12, 3)), torch.float16)
    image = torch.rand(2, 3, 2, 2, requires_grad=True)
    (1e9 * network(image).sum()).backward()
    assert image.grad is not None and image.grad.isfinite().all()


def test_channels_last_changes_the_layout_only(full):
    trainer, record = epoch(tiny(train__channels_last=True))
    convolution = next(m for m in trainer.target.modules() if isinstance(m, nn.Conv2d) and m.in_channels > 3)
    assert convolution.weight.is_contiguous(memory_format=torch.channels_last)
    assert record["train"]["loss"] == pytest.approx(full[1]["train"]["loss"], rel=1e-4)
    torch.testing.assert_close(weights(trainer.target), weights(full[0].target), atol=2e-4, rtol=1e-3)


@pytest.mark.parametrize("strategy", ["none", "teachaugment"])
def test_accumulated_gradients_are_those_of_one_large_batch(monkeypatch, strategy):
    from teachaugment import models

    monkeypatch.setattr(models, "create", lambda name, classes, channels, *_: WithoutNorm(classes, channels))
    still = {
        "augment__flip": False, "augment__crop": 0, "augment__strategy": strategy, "teach__n_inner": 1000,
        "optim__clip": 0.5,
    }  # fmt: skip
    large, first = epoch(tiny(train__batch_size=24, **still))
    parts, second = epoch(tiny(train__batch_size=8, train__accumulate=3, **still))
    assert large.step == parts.step == large.total_steps == parts.total_steps == 3
    torch.testing.assert_close(weights(parts.target), weights(large.target), atol=1e-6, rtol=1e-5)
    assert first["train"]["accuracy"] == second["train"]["accuracy"]
    assert first["train"]["loss"] == pytest.approx(second["train"]["loss"], rel=1e-5)
    if strategy == "teachaugment":
        torch.testing.assert_close(
            weights(parts.strategy.teacher.model), weights(large.strategy.teacher.model), atol=1e-6, rtol=1e-5
        )


def test_the_augmenter_sees_an_accumulated_step_whole_and_in_parts(monkeypatch):
    trainer, seen = build.build(tiny(train__batch_size=8, train__accumulate=2, teach__n_inner=1)), []
    real = trainer.strategy.teach.backward
    monkeypatch.setattr(
        trainer.strategy.teach, "backward", lambda batch, weight: seen.append(len(batch)) or real(batch, weight)
    )
    trainer.train_epoch(TrainingDisplay(trainer.total_steps))
    assert seen == [8, 8] * 5


def test_both_updates_are_compiled(monkeypatch):
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda model: compiled.append(model) or model)
    trainer, _ = epoch(tiny(train__compile=True))
    assert compiled == [trainer.target, trainer.target]  # as the augmenter's update calls it, and as its own
    assert "_orig_mod" not in "".join(trainer.state_dict()["target"])


@pytest.mark.slow
def test_a_compiled_target_trains_alike(full):
    _, record = epoch(tiny(train__compile=True))
    assert record["train"]["loss"] == pytest.approx(full[1]["train"]["loss"], rel=1e-3)
