"""Timing: everything that is compared is measured in turn (A B C A B C …), so that a busy minute hits all alike."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from teachaugment.progress import progress

Case = tuple[str, Callable[[], object]]
Round = dict[str, list[float]]  # seconds, by the name of the case
WARM_UP = 2  # rounds before the first that counts
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
    cases: Sequence[Case], device: torch.device, repeats: int, budget: float = 0.0, title: str = "measuring"
) -> list[Round]:
    """All cases in turn, ``repeats`` rounds and more while they take less than ``budget`` seconds in all.

    A name may come more than once in a round. Each distinct case runs twice before the first round, unmeasured.
    """

    def one_round(of: Iterable[Case]) -> Round:
        measured: Round = {}
        for name, function in of:
            measured.setdefault(name, []).append(seconds(function, device))
        return measured

    rounds: list[Round] = []
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()  # as timeit does
    try:
        for number in progress(range(WARM_UP + repeats), WARM_UP + repeats, title, "rounds"):
            if number < WARM_UP:
                one_round(dict(cases).items())
            else:
                rounds.append(one_round(cases))
        while sum(sum(times) for one in rounds for times in one.values()) < budget and len(rounds) < MOST * repeats:
            rounds.append(one_round(cases))
    finally:
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
