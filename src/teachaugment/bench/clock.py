"""Timing: everything that is compared is measured in turn (A B C A B C …), so that a busy minute hits all alike."""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from tqdm import tqdm

Case = tuple[str, Callable[[], object]]
Round = dict[str, list[float]]  # seconds, by the name of the case
MOST = 20  # times as many rounds as asked for, where they are quick


def synchronize(device: torch.device) -> None:
    """Wait until an accelerator has done what it was told."""
    if device.type != "cpu":
        torch.accelerator.synchronize()


def seconds(function: Callable[[], object], device: torch.device) -> float:
    synchronize(device)
    began = time.perf_counter()
    function()
    synchronize(device)
    return time.perf_counter() - began


def interleave(
    cases: Sequence[Case], device: torch.device, repeats: int, budget: float = 0.0, title: str = ""
) -> list[Round]:
    """All cases in turn, ``repeats`` rounds and more while they take less than ``budget`` seconds in all.

    A name may come more than once in a round. Each distinct case runs twice before the first round, unmeasured.
    """
    for _ in range(2):
        for function in dict(cases).values():
            function()
    synchronize(device)
    rounds: list[Round] = []
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()  # as timeit does
    began = time.perf_counter()
    bar = tqdm(total=repeats, desc=title, unit="round", leave=False, file=sys.stderr, disable=None)
    try:
        while len(rounds) < repeats or (time.perf_counter() - began < budget and len(rounds) < MOST * repeats):
            measured: Round = {}
            for name, function in cases:
                measured.setdefault(name, []).append(seconds(function, device))
            rounds.append(measured)
            bar.update()
    finally:
        bar.close()
        if collecting:
            gc.enable()
    return rounds


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Median and quartiles of measurements, as plain data."""
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3
    return {"median": middle, "q1": low, "q3": high, "n": len(values)}


def summary(rounds: Sequence[Round]) -> dict[str, dict[str, Any]]:
    """For each case the spread of all its measurements."""
    return {name: spread([value for one in rounds for value in one[name]]) for name in rounds[0]}


def ratio(rounds: Sequence[Round], name: str, reference: str) -> dict[str, Any]:
    """How many times the reference a case takes, round by round: what disturbs a whole round cancels."""
    return spread([statistics.fmean(one[name]) / statistics.fmean(one[reference]) for one in rounds])
