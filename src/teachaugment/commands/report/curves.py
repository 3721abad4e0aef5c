"""The parts of a page that need a run's log alone: numbers in short, curves, time and cost, settings."""

from __future__ import annotations

from html import escape

from teachaugment.commands.report.charts import Line, lines, number
from teachaugment.commands.report.record import Record, chosen
from teachaugment.config.settings import as_text
from teachaugment.progress import duration

WORDS = {"miou": "mean IoU", "knn": "kNN accuracy"}  # for metrics that are no words themselves
TITLES = {"miou": "Mean IoU", "knn": "Accuracy by nearest neighbours"}


def tiles(record: Record) -> str:
    """The numbers people look for first."""
    shown: list[tuple[str, str]] = []
    name = record.metric
    for model in ("target", "teacher"):
        result = record.result(model)
        if name in result:
            shown.append((f"{model}, {WORDS.get(name, name)}", f"{100 * result[name]:.1f} %"))
    if not shown and (trained := record.final("train", name)) is not None:
        shown.append((f"training {WORDS.get(name, name)}", f"{100 * trained:.1f} %"))
    if "best" in record.metrics:
        best = record.metrics["best"]
        shown.append((f"best target, epoch {best['epoch']}", f"{100 * best['test']['target'][name]:.1f} %"))
    shown.append(("epochs", f"{record.done} of {record.setting('train.epochs')}"))
    if seconds := sum(value for _, value in record.series("time", "seconds")):
        shown.append(("training time", duration(seconds)))
    if rates := record.series("time", "images_per_second"):
        shown.append(("images per second", f"{sum(v for _, v in rates) / len(rates):,.0f}"))
    return '<dl class="tiles">' + "".join(
        f"<div><dt>{escape(title)}</dt><dd>{escape(value)}</dd></div>" for title, value in shown
    ) + "</dl>"  # fmt: skip


def summary(record: Record) -> str:
    """One line about what was trained."""
    images = record.start.get("train_images")
    parts = [
        f"{record.setting('model.name')} on {record.setting('data.path')}",
        *([f"{images:,} training images"] if isinstance(images, int) else []),
        str(record.strategy),
        f"seed {record.setting('seed')}",
    ]
    return escape(" · ".join(parts))


def curves(record: Record) -> str:
    """Loss and accuracy, the augmenter's terms, colours, probabilities, learning rate."""
    name = record.metric
    losses = [Line("training", record.series("train", "loss"), color=2)]
    shares = [Line("training", record.series("train", name), color=2)]
    for split in ("val", "test"):
        for model, color in (("target", 0), ("teacher", 1)):
            losses.append(Line(f"{model}, {split}", record.series(split, model, "loss"), color=color))
            shares.append(Line(f"{model}, {split}", record.series(split, model, name), color=color))
    terms = [
        Line("target's term", record.series("teach", "target_term"), color=0),
        Line("teacher's loss", record.series("teach", "teacher_term"), color=1),
        Line("objective", record.series("teach", "objective"), color=3, dashed=True),
    ]
    found = {key for epoch in record.epochs for key in epoch.get("teach", {}) if key.startswith("p_")}
    odds = [Line(key.replace("_", " "), record.series("teach", key)) for key in sorted(found)[:8]]
    made = [
        lines("Loss", losses),
        lines(TITLES.get(name, name.capitalize()), shares, percent=True),
        lines("The augmenter's two terms", terms),
        lines("Colour distance", [Line("squared distance", record.series("teach", "color_distance"), color=4)]),
        lines("How often each part acts", odds, percent=True),
        lines("Learning rate", [Line("target", record.series("lr"), color=0), *_augmenter_rate(record)]),
    ]
    return f'<div class="charts">{"".join(made)}</div>' if any(made) else "<p>The log has no finished epoch yet.</p>"


def _augmenter_rate(record: Record) -> list[Line]:
    """The augmenter's learning rate does not change."""
    if not record.learns or not record.epochs:
        return []
    rate = float(record.setting("teach.lr"))
    return [Line("augmenter", [(x, rate) for x, _ in record.series("lr")], color=1, dashed=True)]


def cost(record: Record) -> str:
    """Where the time went."""
    training = record.series("time", "seconds")
    if not training:
        return "<p>The log has no finished epoch yet.</p>"
    waited = record.series("time", "waited_seconds")
    evaluation = record.series("time", "evaluation_seconds")
    total, waiting, evaluating = (sum(v for _, v in part) for part in (training, waited, evaluation))
    images = sum(s * r for (_, s), (_, r) in zip(training, record.series("time", "images_per_second"), strict=False))
    rows = [
        ("training", duration(total), f"{total / len(training):.1f} s per epoch"),
        ("of it waiting for images", duration(waiting), f"{100 * waiting / max(total, 1e-9):.1f} % of the training"),
        ("evaluation", duration(evaluating), f"{len(evaluation)} times"),
        ("training images seen", f"{images:,.0f}", f"{images / max(total, 1e-9):,.0f} per second"),
    ]
    if isinstance(parameters := record.start.get("parameters"), int):
        rows.append(("parameters of the target", f"{parameters:,}", ""))
    if record.learns:
        updates = f"one update of the augmenter for every {record.setting('teach.n_inner')} of the target"
        rows.append(("augmenter", updates, ""))
    body = "".join(
        f'<tr><th scope="row">{escape(a)}</th><td>{escape(b)}</td><td>{escape(c)}</td></tr>' for a, b, c in rows
    )
    chart = lines("Seconds per epoch", [Line("training", training, color=2), Line("evaluation", evaluation, color=0)])
    return f'<div class="charts"><div class="scroll"><table class="plain">{body}</table></div>{chart}</div>'


def settings(record: Record) -> str:
    """What differs from the defaults, and everything folded below it."""

    def table(values: dict[str, object]) -> str:
        rows = "".join(
            f'<tr><th scope="row"><code>{escape(key)}</code></th><td>{escape(as_text(value))}</td></tr>'
            for key, value in values.items()
        )
        return f'<div class="scroll"><table class="plain">{rows}</table></div>'

    mine = chosen(record)
    text = table(mine) if mine else "<p>All settings are the defaults.</p>"
    return f"{text}<details><summary>all {len(record.settings)} settings</summary>{table(record.settings)}</details>"


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
