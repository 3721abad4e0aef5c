"""A run in numbers: what people look for first, where the time went, the settings."""

from __future__ import annotations

from dataclasses import dataclass

from teachaugment.commands.report.record import Record, chosen
from teachaugment.config.settings import as_text
from teachaugment.progress import duration
from teachaugment.show.charts import LineChart, Series, line_chart, number

Rows = list[list[str]]  # of a table; the first cell of each is its heading


def title(record: Record) -> str:
    """What was trained on what, as people call it."""
    path = str(record.setting("data.path"))
    data = path if path.startswith(("hf:", "wds:")) else path.rstrip("/").rpartition("/")[2]
    return f"{record.setting('model.name')} on {data or path}, {record.strategy}"


def summary(record: Record) -> str:
    """One line about what was trained."""
    images = record.start.get("train_images")
    parts = [
        record.name,
        f"{record.setting('model.name')} on {record.setting('data.path')}",
        *([f"{images:,} training images"] if isinstance(images, int) else []),
        record.strategy,
        f"seed {record.setting('seed')}",
    ]
    return " · ".join(parts)


def first_numbers(record: Record) -> list[tuple[str, str]]:
    """The numbers people look for first, with their names."""
    shown: list[tuple[str, str]] = []
    name = record.metric
    for model in ("target", "teacher"):
        result = record.result(model)
        if name in result:
            shown.append((f"{model}, {record.task.words}", f"{100 * result[name]:.1f} %"))
    if not shown and (trained := record.final("train", name)) is not None:
        shown.append((f"training {record.task.words}", f"{100 * trained:.1f} %"))
    if "best" in record.metrics:
        best = record.metrics["best"]
        model = best.get("model", "target")  # which version 0.1 did not say
        shown.append((f"chosen: {model}, epoch {best['epoch']}", f"{100 * best['test'][model][name]:.1f} %"))
    shown.append(("epochs", f"{record.done} of {record.setting('train.epochs')}"))
    if seconds := sum(value for _, value in record.series("time", "seconds")):
        shown.append(("training time", duration(seconds)))
    if rates := record.series("time", "images_per_second"):
        shown.append(("images per second", f"{sum(v for _, v in rates) / len(rates):,.0f}"))
    return shown


def final_numbers(record: Record) -> dict[str, str]:
    """For a table of several runs."""
    name, found = record.metric, {}
    for model in ("target", "teacher"):
        result = record.result(model)
        if name in result:
            found[f"{model} {name}"] = f"{100 * result[name]:.2f} %"
        if "loss" in result:
            found[f"{model} loss"] = number(result["loss"])
    if (trained := record.final("train", name)) is not None:
        found[f"training {name}"] = f"{100 * trained:.2f} %"
    found["epochs"] = f"{record.done} of {record.setting('train.epochs')}"
    seconds = sum(value for _, value in record.series("time", "seconds"))
    found["training time"] = duration(seconds)
    found["seconds per epoch"] = f"{seconds / max(record.done, 1):.1f}"
    return found


@dataclass(frozen=True)
class Cost:
    """Where the time went; without rows before the first epoch has finished."""

    rows: Rows
    chart: LineChart | None


def cost(record: Record) -> Cost:
    training = record.series("time", "seconds")
    if not training:
        return Cost([], None)
    waited = record.series("time", "waited_seconds")
    evaluation = record.series("time", "evaluation_seconds")
    total, waiting, evaluating = (sum(v for _, v in part) for part in (training, waited, evaluation))
    images = sum(s * r for (_, s), (_, r) in zip(training, record.series("time", "images_per_second"), strict=False))
    rows = [
        ["training", duration(total), f"{total / len(training):.1f} s per epoch"],
        ["of it waiting for images", duration(waiting), f"{100 * waiting / max(total, 1e-9):.1f} % of the training"],
        ["evaluation", duration(evaluating), f"{len(evaluation)} times"],
        ["training images seen", f"{images:,.0f}", f"{images / max(total, 1e-9):,.0f} per second"],
    ]
    if isinstance(parameters := record.start.get("parameters"), int):
        rows.append(["parameters of the target", f"{parameters:,}", ""])
    if record.updates:
        updates = f"one update of the augmenter for every {record.setting('teach.n_inner')} of the target"
        rows.append(["augmenter", updates, ""])
    series = [Series("training", training, color=2), Series("evaluation", evaluation, color=0)]
    return Cost(rows, line_chart("Seconds per epoch", series))


@dataclass(frozen=True)
class Settings:
    """What differs from the defaults, and everything."""

    chosen: Rows
    all: Rows


def settings(record: Record) -> Settings:
    mine, every = ([[key, as_text(value)] for key, value in part.items()] for part in (chosen(record), record.settings))
    return Settings(mine, every)
