"""The cost model: counts that are those of real tensors, and arithmetic that can be checked by hand."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import cluster
import counts
import pytest
import torch
from cluster import Machine, all_reduce, cost, efficiency, memory, sent
from counts import Counts, count
from scaling_model import GPUS, tables
from torch import nn

from teachaugment import TeachAugment
from teachaugment.models import create
from teachaugment.replay import Replay


@pytest.fixture(scope="module")
def counted() -> Counts:
    return count("wrn-16-1", classes=10, size=32, snapshots=3)


def test_counts_are_those_of_the_real_objects(counted):
    target, augmenter = (
        create("wrn-16-1", 10),
        TeachAugment(nn.Linear(1, 1), num_classes=10, augmenter="neural").augmenter,
    )
    replay = Replay(augmenter)
    for _ in range(3):
        replay.push()
    assert counted.parameters == sum(p.numel() for p in target.parameters())
    assert counted.buffer_bytes == 4 * sum(b.numel() for b in target.buffers() if b.is_floating_point())
    assert counted.augmenter_parameters == sum(p.numel() for p in augmenter.parameters())
    assert counted.replay_bytes == replay.nbytes()


def test_an_update_is_four_thirds_of_a_step_and_a_little(counted):
    assert 4 / 3 < counted.update_steps < 1.45


def test_operations_and_kept_bytes_of_a_known_network():
    with torch.device("meta"):
        network = nn.Sequential(nn.Linear(10, 20, bias=False), nn.Sigmoid(), nn.Linear(20, 30, bias=False))
        images = torch.rand(4, 10)
    flops, kept = counts._run(lambda: network(images), 4, network)
    assert flops == 2 * (10 * 20 + 20 * 30) * 2 + 2 * 20 * 30  # forward, weights, and the one input that needs it
    assert kept == 4 * (10 + 20)  # what goes into the layers; the sigmoid keeps what comes out of it


def test_an_all_reduce_takes_what_it_sends():
    machine = Machine(inside=1e9, outside=1e8, latency_inside=0, latency_outside=0)
    assert sent(4, 100.0) == 150
    assert all_reduce(machine, 1, 1e9) == 0
    assert all_reduce(machine, 8, 1e9) == pytest.approx(2 * 7 / 8)
    assert all_reduce(machine, 16, 1e9) == pytest.approx(2 * 7 / 8 + 2 * 1 / 2 / 8 * 10)
    assert all_reduce(Machine(), 1024, 4) == pytest.approx(2 * 3 * 5e-6 + 2 * 7 * 15e-6, rel=1e-3)


def test_efficiency_is_one_alone_and_falls_with_every_gpu(counted):
    shares = [efficiency(counted, Machine(), gpus, 64) for gpus in GPUS]
    assert shares[0] == 1 and all(a > b for a, b in pairwise(shares)) and shares[-1] > 0


def test_gradients_hide_behind_the_backward_pass_until_they_do_not(counted):
    quiet = Machine(jitter=0)
    large = dataclasses.replace(counted, parameters=10**9, buffer_bytes=0)
    slow = cost(large, quiet, 64, 1e6, None)
    assert slow.exposed == pytest.approx(all_reduce(quiet, 64, cluster.BUCKET)) and slow.gradients > slow.exposed
    fast = cost(large, quiet, 64, 1, None)
    assert fast.exposed == pytest.approx(fast.gradients - fast.compute * 2 / 3)


def test_teachaugment_costs_its_updates_and_its_few_bytes(counted):
    plain, more = (cost(counted, Machine(jitter=0), 1, 64, n) for n in (None, 5))
    assert more.compute / plain.compute == pytest.approx(1 + 0.01 + counted.update_steps / 5)
    alone, together = (cost(counted, Machine(jitter=0), 8, 64, n).exposed for n in (None, 5))
    added = all_reduce(Machine(), 8, 4 * counted.augmenter_parameters) + all_reduce(Machine(), 8, counted.buffer_bytes)
    assert together - alone == pytest.approx(added / 5)


def test_memory_adds_up_and_grows_with_the_batch(counted):
    small, large = (memory(counted, batch) for batch in (1, 2))
    assert large["activations"] == 2 * small["activations"] > 0
    assert all(small[name] == large[name] for name in small if name != "activations")


def test_tables_have_a_row_for_every_number_of_gpus(counted):
    found = tables([counted, counted], Machine(), decode_rate=100)
    assert [len(table.rows) for table in found] == [2, len(dataclasses.fields(Machine)), *[len(GPUS)] * 3, 6]
    assert all(len(row) == len(table.header) for table in found for row in table.rows)


def test_a_core_decodes_some_images():
    assert counts.decode_rate(0.05) > 1
