from __future__ import annotations

import pytest
import torch

from teachaugment.batch import Batch
from teachaugment.models.simsiam import Embedding
from teachaugment.tasks.self_supervised.neighbours import NeighbourMeter, vote

CPU = torch.device("cpu")


def output(features: torch.Tensor) -> Embedding:
    return Embedding(features, features, features)


def batch(label: list[int]) -> Batch:
    return Batch(torch.zeros(len(label), 1, 2, 2), torch.tensor(label))


def test_the_nearest_class_wins_and_length_does_not_matter():
    bank = torch.eye(3).repeat_interleave(30, 0)
    labels = torch.arange(3).repeat_interleave(30)
    found = vote(torch.tensor([[9.0, 1.0, 0.0], [0.0, 0.1, 0.9]]), bank, labels, 3)
    assert found.tolist() == [0, 2]


def test_nearer_neighbours_have_more_to_say():
    bank = torch.nn.functional.normalize(torch.tensor([[1.0, 0.0], [1.0, 0.9], [1.0, 1.0]]), dim=1)
    assert vote(torch.tensor([[1.0, 0.0]]), bank, torch.tensor([0, 1, 1]), 2).tolist() == [0]


def test_the_meter_counts_right_answers_by_class():
    meter = NeighbourMeter(2, CPU)
    for _ in range(3):  # the reference comes in batches
        meter.refer(output(torch.eye(2)), batch([0, 1]))
    meter.update(output(torch.eye(2)), batch([0, 1]))
    meter.update(output(torch.eye(2)), batch([0, 0]))
    found = meter.compute()
    assert found["knn"] == pytest.approx(3 / 4) and found["images"] == 4
    assert found["class_accuracy"] == [pytest.approx(2 / 3), 1.0]


def test_in_training_there_is_a_loss_and_no_accuracy():
    meter = NeighbourMeter(2, CPU)
    meter.update(output(torch.randn(4, 8)), batch([0, 1, 0, 1]), torch.tensor(-0.5))
    meter.update(output(torch.randn(2, 8)), batch([0, 1]), torch.tensor(-0.2))
    found = meter.compute()
    assert found["loss"] == pytest.approx(-0.4) and "knn" not in found and found["rank"] > 1
