from __future__ import annotations

import torch
import torch.nn.functional as F

from teachaugment.algorithm import TeachAugment
from teachaugment.batch import Batch
from teachaugment.commands.report.frames import MOST, moments, snapshot
from teachaugment.engine.finite import Finite
from teachaugment.models import create
from teachaugment.replay import Replay
from teachaugment.strategies.learned import Learned


def test_a_snapshot_augments_as_the_augmenter_did_when_it_was_taken():
    teach = TeachAugment(create("cnn-4", 3), num_classes=3, group=4, augmenter="neural")
    smooth = F.interpolate(torch.rand(6, 3, 4, 4), 16, mode="bilinear")  # a warp of noise would magnify eight bits
    batch = Batch(smooth, torch.tensor([0, 1, 2, 0, 1, 2]))
    replay = Replay(teach.augmenter)

    def now() -> torch.Tensor:
        with torch.no_grad():
            return teach.augmenter(batch, torch.Generator().manual_seed(1)).image

    def then(slot: int) -> torch.Tensor:
        with torch.no_grad():
            draw = teach.augmenter.sample(6, batch.label, torch.Generator().manual_seed(1), snapshot(replay, slot, 6))
            return teach.augmenter.warp(teach.augmenter.color(batch, draw), draw).image

    pictures = []
    for _ in range(3):
        with torch.no_grad():
            for parameter in teach.augmenter.parameters():
                parameter += 0.3 * torch.randn_like(parameter)
        pictures.append(now())
        replay.push()
    for slot in range(3):
        distances = [float((then(slot) - other).abs().mean()) for other in pictures]
        assert min(distances) == distances[slot] < 0.02  # eight bits
    assert float((then(0) - then(2)).abs().mean()) > 0.05


def test_frames_come_from_all_over_the_training_and_end_now():
    strategy = Learned(
        TeachAugment(create("cnn-4", 3), num_classes=3, n_buffer=2, augmenter="neural"),
        Finite("stop", torch.device("cpu")),
    )
    assert moments(strategy, 1) == [(1, None)]
    for _ in range(4):
        strategy.end_epoch()
    assert moments(strategy, 4) == [(2, 0), (4, None)]  # the snapshot of this epoch is the augmenter itself
    assert moments(strategy, 5) == [(2, 0), (4, 1), (5, None)]
    for _ in range(100):
        strategy.end_epoch()
    many = moments(strategy, 104)
    assert len(many) == MOST and many[0] == (2, 0) and many[-2:] == [(102, 50), (104, None)]
