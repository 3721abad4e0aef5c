"""BYOL and MoCo v2: compared with a moving average that gets no gradient and is kept."""

from __future__ import annotations

import pytest
import small
import torch
import torch.nn.functional as F
from torch import nn

from teachaugment.batch import Batch
from teachaugment.models.simsiam import SimSiam
from teachaugment.tasks.self_supervised.momentum import BYOL, MoCo
from teachaugment.tasks.self_supervised.simsiam import distance

DATA = small.dataset(["a", "b"], (0.5, 0.5, 0.5), (0.2, 0.2, 0.2))


def network(hidden: int = 8) -> SimSiam:
    return SimSiam(nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten()), 12, dim=16, hidden=hidden, layers=2)


def forward(task, model, n: int = 8):
    return small.one_step(task, model, Batch(torch.rand(n, 3, 8, 8)))


def test_byol_compares_with_the_average_and_moves_it():
    target = network()
    task = BYOL(DATA, momentum=0.9)
    task.begin(target)
    before = [p.clone() for p in task.average.model.parameters()]
    loss, _, seen = forward(task, target)
    loss.backward()
    assert all(p.grad is None for p in task.average.model.parameters())
    assert all(p.grad is not None for p in target.parameters())
    with torch.no_grad():
        views = target(seen.image), target(seen.others[0])
        others = task.average.model(seen.image), task.average.model(seen.others[0])
    assert loss.item() == pytest.approx(distance(views, others).item(), abs=1e-5)
    with torch.no_grad():
        for p in target.parameters():
            p.add_(1)
    task.update(target)
    for p, old, new in zip(task.average.model.parameters(), before, target.parameters(), strict=True):
        assert torch.allclose(p, 0.9 * old + 0.1 * new, atol=1e-6)


def moco(**options) -> MoCo:
    return MoCo(DATA, dim=16, queue=20, **options)


def test_mocos_loss_is_that_of_telling_the_other_view_from_the_queue():
    target, task = network(0), moco(temperature=0.5)
    task.begin(target)
    loss, output, seen = forward(task, target)
    query = F.normalize(output[0].prediction, dim=1)
    with torch.no_grad():
        key = F.normalize(task.average.model(seen.others[0]).projection, dim=1)
    likeness = torch.cat([(query * key).sum(1, keepdim=True), query @ task.queue.T], 1) / 0.5
    assert loss.item() == pytest.approx(-likeness.log_softmax(1)[:, 0].mean().item(), abs=1e-5)
    loss.backward()
    assert all(p.grad is not None for p in target.parameters())


def test_the_queue_holds_the_newest_projections_in_turn():
    target, task = network(0), moco()
    task.begin(target)
    first = task.queue.clone()
    keys = []
    for _ in range(3):
        forward(task, target)
        keys.append(task.newest[0])
        task.update(target)
    assert task.oldest == 4 and task.newest == []
    assert torch.equal(task.queue[8:16], keys[1]) and torch.equal(task.queue[16:], keys[2][:4])
    assert torch.equal(task.queue[:4], keys[2][4:]) and torch.equal(task.queue[4:8], keys[0][4:])
    assert not torch.equal(first, task.queue)


def test_a_batch_larger_than_the_queue_fills_it():
    target, task = network(0), moco()
    task.begin(target)
    forward(task, target, 30)
    newest = task.newest[0]
    task.update(target)
    assert torch.equal(task.queue, newest[-20:])


def test_what_the_task_keeps_is_restored():
    target, task = network(0), moco()
    task.begin(target)
    forward(task, target)
    task.update(target)
    other = moco(seed=1)
    other.begin(network(0))
    other.load_state_dict(task.state_dict())
    assert torch.equal(other.queue, task.queue) and other.oldest == 8 and other.average.updates == 1
    for a, b in zip(other.average.model.parameters(), task.average.model.parameters(), strict=True):
        assert torch.equal(a, b)
