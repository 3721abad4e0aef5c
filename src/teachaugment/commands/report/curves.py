"""The charts over epochs: of one run, and of several on the same axes."""

from __future__ import annotations

from collections.abc import Sequence

from teachaugment.commands.report.record import Record
from teachaugment.governor import SHARE
from teachaugment.show.charts import LineChart, Series, line_chart

MOST_SHARES, WHOLE = 6, 0.95  # operations on one chart, those that get least, and only if it is less than this


def curves(record: Record) -> list[LineChart]:
    """Loss and accuracy, the augmenter's terms, colours, probabilities, learning rate, as far as the log has them."""
    name = record.metric
    losses = [Series("training", record.series("train", "loss"), color=2)]
    shares = [Series("training", record.series("train", name), color=2)]
    for split in ("val", "test"):
        for model, color in (("target", 0), ("teacher", 1)):
            losses.append(Series(f"{model}, {split}", record.series(split, model, "loss"), color=color))
            shares.append(Series(f"{model}, {split}", record.series(split, model, name), color=color))
    terms = [
        Series("target's term", record.series("teach", "target_term"), color=0),
        Series("teacher's loss", record.series("teach", "teacher_term"), color=1),
        Series("objective", record.series("teach", "objective"), color=3, dashed=True),
    ]
    strength = [
        Series("strength", record.series("teach", "strength"), color=3),
        Series("plain training images mastered", record.series("teach", "plain_mastery"), color=0),
        Series("augmented ones", record.series("teach", "augmented_mastery"), color=1, dashed=True),
    ]
    least = sorted(record.shares().items(), key=lambda item: item[1])[:MOST_SHARES]
    parts = [
        Series(name.replace("_", " "), record.series("teach", SHARE + name)) for name, share in least if share < WHOLE
    ]
    found = {key for epoch in record.epochs for key in epoch.get("teach", {}) if key.startswith("p_")}
    odds = [Series(key.replace("_", " "), record.series("teach", key)) for key in sorted(found)[:8]]
    return _drawn(
        line_chart("Loss", losses),
        line_chart(heading(record.task.words), shares, percent=True),
        line_chart("How strong the augmentation is, and why", strength, percent=True),
        line_chart("How much of that strength these operations get", parts, percent=True, least=(0.0, 1.0)),
        line_chart("The augmenter's two terms", terms),
        line_chart("Colour distance", [Series("squared distance", record.series("teach", "color_distance"), color=4)]),
        line_chart("How often each part acts", odds, percent=True, least=(0.0, 1.0)),
        line_chart("Learning rate", [Series("target", record.series("lr"), color=0), *_augmenter_rate(record)]),
    )


def _augmenter_rate(record: Record) -> list[Series]:
    """The augmenter's learning rate does not change."""
    if not record.updates:
        return []
    rate = float(record.setting("teach.lr"))
    return [Series("augmenter", [(x, rate) for x, _ in record.series("lr")], color=1, dashed=True)]


def compared(records: Sequence[Record], names: Sequence[str]) -> list[LineChart]:
    """The same number of several runs on each chart; their metrics only where they have the same."""
    shown: list[tuple[str, bool, tuple[str, ...]]] = []
    metrics = {record.metric for record in records}
    if len(metrics) == 1:
        (metric,) = metrics
        shown += [(f"Target, {metric}, {split}", True, (split, "target", metric)) for split in ("test", "val")]
        shown.append((f"Training {metric}", True, ("train", metric)))
    shown.append(("Training loss", False, ("train", "loss")))
    shown += [(f"Target, loss, {split}", False, (split, "target", "loss")) for split in ("test", "val")]
    shown += [
        ("Colour distance", False, ("teach", "color_distance")),
        ("Learning rate", False, ("lr",)),
        ("Seconds per epoch", False, ("time", "seconds")),
    ]
    charts = []
    for title, percent, path in shown:  # a run has the same colour in every chart
        series = [Series(names[k], record.series(*path), color=k) for k, record in enumerate(records)]
        charts.append(line_chart(title, series, percent))
    return _drawn(*charts)


def _drawn(*charts: LineChart | None) -> list[LineChart]:
    """Without those that have no points."""
    return [chart for chart in charts if chart is not None]


def heading(words: str) -> str:
    """With a capital, unless it is a name that has its own (mAP, mIoU)."""
    return words if words[1:2].isupper() else words[0].upper() + words[1:]
