"""What the rows of a comparison say: means, and differences paired by seed with their confidence intervals."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from teachaugment.commands.compare.rows import CHOSEN, Row
from teachaugment.errors import UserError
from teachaugment.tasks import TASKS

CONFIDENCE = 0.95
FEWEST = 3  # seeds that an interval is made of
MOST_SEEDS = 200  # that anybody would train


@dataclass(frozen=True)
class Group:
    """The rows of one strategy by seed, and what the paper says of it."""

    label: str
    strategy: str
    rows: Mapping[int, Row]
    paper: Mapping[str, float | None] = field(default_factory=dict)  # data -> error in percent


def t_quantile(freedom: int, confidence: float = CONFIDENCE) -> float:
    """The t with P(|T| < t) = confidence for Student's T, from its closed form at whole degrees of freedom."""

    def inside(angle: float) -> float:
        """P(|T| < √freedom · tan(angle)), Abramowitz and Stegun 26.7.3 and 26.7.4."""
        sine, cosine = math.sin(angle), math.cos(angle)
        odd = freedom % 2
        total, term = 0.0, cosine if odd else 1.0
        for k in range(2 + odd, freedom + 1, 2):
            total += term
            term *= cosine**2 * (k - 1) / k
        return 2 / math.pi * (angle + sine * total) if odd else sine * total

    low, high = 0.0, math.pi / 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if inside(middle) < confidence else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def interval(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float] | None:
    """The confidence interval of the mean; None for fewer than three values, and where all of them are the same."""
    if len(values) < FEWEST or (deviation := statistics.stdev(values)) == 0:
        return None
    half = t_quantile(len(values) - 1, confidence) * deviation / math.sqrt(len(values))
    middle = statistics.mean(values)
    return middle - half, middle + half


def seeds_to_decide(values: Sequence[float], confidence: float = CONFIDENCE) -> int | None:
    """How many seeds would have an interval without zero, if mean and deviation stay as they are; None: too many."""
    if len(values) < 2:
        return None
    mean, deviation = abs(statistics.mean(values)), statistics.stdev(values)
    for count in range(max(FEWEST, len(values)), MOST_SEEDS + 1):
        if t_quantile(count - 1, confidence) * deviation < mean * math.sqrt(count):
            return count
    return None


def confidence_of_each(looks: int) -> float:
    """The confidence of every single look, so that all of them together are wrong as rarely as one look would be."""
    return 1 - (1 - CONFIDENCE) / max(1, looks)


def summarize(
    groups: Sequence[Group], split: str = "test", model: str = "target", confidence: float = CONFIDENCE
) -> dict[str, Any]:
    """Everything the table shows, as plain data in percent; differences are to the first group.

    Where every run has a validation split, what it chose is compared: that is the network a person would use.
    """
    groups = [group for group in groups if group.rows]
    if not groups:
        raise UserError("no finished run to show")
    metrics = {row.get("metric", "accuracy") for group in groups for row in group.rows.values()}
    if len(metrics) > 1:
        raise UserError(f"runs of different tasks cannot be compared: their metrics are {', '.join(sorted(metrics))}")
    (metric,) = metrics
    # Where a follow-up measures what is compared, the task's own metric stands beside it.
    owned = {entry.metric: entry.metric_column or entry.words for entry in TASKS.values() if entry.follow_up}
    all_keys = {name for group in groups for row in group.rows.values() for name in row}
    own_metric = next((name for name in owned if name in all_keys), None)
    clock = "train_seconds" if all("train_seconds" in r for g in groups for r in g.rows.values()) else "seconds"
    if split == "test" and all(CHOSEN in row["test"] for group in groups for row in group.rows.values()):
        model = CHOSEN
    return {
        "metric": metric,
        "split": split,
        "model": model,
        "unit": "%",
        "confidence": confidence,
        "one_image": _one_image(groups, metric),
        "baseline": groups[0].label,
        "own_metric": own_metric,
        "own_column": owned.get(own_metric or ""),
        "strategies": [
            _summarize_group(group, groups[0], metric, own_metric, split, model, clock, confidence) for group in groups
        ],
    }


def _one_image(groups: Sequence[Group], metric: str) -> float | None:
    """What one test image is worth in points, where the metric is a share of images and their number is known."""
    if metric not in {entry.share_right for entry in TASKS.values() if entry.share_right == entry.metric}:
        return None
    counts = {row.get("test_images") for group in groups for row in group.rows.values()}
    return 100 / count if len(counts) == 1 and (count := counts.pop()) else None


def _summarize_group(
    group: Group,
    baseline: Group,
    metric: str,
    own_metric: str | None,
    split: str,
    model: str,
    clock: str,
    confidence: float,
) -> dict[str, Any]:
    values = {seed: _value(row, split, model) for seed, row in sorted(group.rows.items())}
    pairs = {seed: values[seed] - _value(baseline.rows[seed], split, model) for seed in values if seed in baseline.rows}
    trained = [value for row in group.rows.values() if (value := row.get(f"train_{metric}")) is not None]
    found: dict[str, Any] = {
        "label": group.label,
        "strategy": group.strategy,
        "runs": len(values),
        "mean": statistics.mean(values.values()),
        "std": statistics.stdev(values.values()) if len(values) > 1 else None,
        "values": values,
        "difference": None,
        "own": _mean_of(own_metric, group, split, model) if own_metric else None,
        "train": 100 * statistics.mean(trained) if trained else None,
        "seconds": statistics.mean(row[clock] for row in group.rows.values()),
        "relative_time": _relative_time(group, baseline, pairs, clock) if pairs else None,
        "paper_error": dict(group.paper),
    }
    if group is not baseline and pairs:
        found["difference"] = {
            "mean": statistics.mean(pairs.values()),
            "interval": interval(list(pairs.values()), confidence),
            "seeds_to_decide": seeds_to_decide(list(pairs.values()), confidence),
            "values": pairs,
            "wins": sum(value > 0 for value in pairs.values()),
            "pairs": len(pairs),
        }
    return found


def _value(row: Row, split: str, model: str) -> float:
    try:
        return 100 * row[split][model]
    except KeyError:
        hint = "; --val-fraction holds out a validation split" if split == "val" else ""
        raise UserError(f"the run of {row['strategy']}, seed {row['seed']} has no {split} metric{hint}") from None


def _mean_of(metric: str, group: Group, split: str, model: str) -> float | None:
    """The mean of the task's own metric, where it is not what is compared."""
    found = [row[metric][split].get(model) for row in group.rows.values() if metric in row]
    return 100 * statistics.mean(found) if found and None not in found else None


def _relative_time(group: Group, baseline: Group, seeds: Collection[int], clock: str) -> float:
    """How many times the baseline's seconds the runs of these seeds took."""
    ours, theirs = (sum(each.rows[seed][clock] for seed in seeds) for each in (group, baseline))
    return max(1e-9, ours) / max(1e-9, theirs)
