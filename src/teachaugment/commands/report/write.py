"""The report of one run and the comparison of several, as HTML and as a file."""

from __future__ import annotations

from html import escape
from pathlib import Path

from teachaugment import __version__
from teachaugment.commands.report import curves, findings, learned
from teachaugment.commands.report.charts import Line, lines
from teachaugment.commands.report.observe import Observation, observe
from teachaugment.commands.report.page import Section, page
from teachaugment.commands.report.record import Record, differences, read
from teachaugment.config.settings import as_text
from teachaugment.engine import directory
from teachaugment.engine.checkpoint import write_atomically
from teachaugment.engine.trainer import Trainer


def write_report(trainer: Trainer, path: Path) -> Path:
    """The report of a run whose trainer is at hand, in the run's directory."""
    record = read(path)
    return save(report(record, observe(trainer), trainer.data.classes), path / directory.REPORT)


def save(text: str, path: Path) -> Path:
    write_atomically(path, lambda file: file.write(text.encode("utf-8", "replace")))
    return path


def report(record: Record, seen: Observation | None, classes: list[str], missing: str = "") -> str:
    """The page of one run. ``missing`` says why nothing could be looked at, where that is so."""
    lead = f'<p class="lead">{curves.summary(record)}</p>{curves.tiles(record)}'
    if not record.metrics:
        lead += (
            f'<p class="note">This run has not finished: {record.done} of {record.setting("train.epochs")} epochs.</p>'
        )
    if missing:
        lead += f'<p class="warn">Without pictures and what was learned: {escape(missing)}</p>'
    looked = f"Measured on {seen.looked_at} training images." if seen is not None else ""
    sections = [
        Section("diagnosis", "Diagnosis", findings.shown(findings.findings(record, seen)), escape(looked)),
        Section(
            "curves", "Curves", curves.curves(record), "Point at a chart, or use the arrow keys, to read its values."
        ),
    ]
    if seen is not None:
        sections += seen_sections(record, seen, classes)
    mistakes = [part for part in (learned.hardest(record), learned.confusion(record)) if part]
    sections += [
        Section(
            "mistakes", "Mistakes on test images", f'<div class="side">{"".join(mistakes)}</div>' if mistakes else ""
        ),
        Section("cost", "Time and cost", curves.cost(record)),
        Section("settings", "Settings", curves.settings(record), "What differs from the defaults."),
    ]
    return page(record.name, lead, sections, f"Written by teachaugment {__version__} from {record.path}")


def seen_sections(record: Record, seen: Observation, classes: list[str]) -> list[Section]:
    """What needs images and networks."""
    if record.learns:
        intro = (
            "The same images with the same random numbers, augmented by each snapshot: only what was learned differs."
        )
    else:
        intro = f"Training images and what the strategy {escape(record.strategy)} makes of them."
    about = (
        "What the augmenter does at the end of the run. Rotation is clockwise; shifts are shares of the image's sides."
    )
    cubes = (
        "Each point is a pixel. Colours that the data do not have would show as points where there were none before."
    )
    title = "The same images through the epochs" if record.learns else "Images"
    argue = (
        "Augmented training images with the largest difference between the probabilities of target and teacher. Where "
        "the teacher is right and the target is not, augmentation teaches something; where neither is, it went too far."
    )
    return [
        Section("images", title, learned.film(seen.film), intro),
        Section("learned", "What was learned", learned.distributions(seen, classes) if record.learns else "", about),
        Section("colors", "Colours of pixels", learned.colors(seen), cubes),
        Section("argue", "Where target and teacher disagree", learned.disagreements(seen.disagreements), argue),
    ]  # fmt: skip


def comparison(records: list[Record]) -> str:
    """The page of several runs: their numbers, their curves on one chart, the settings that differ."""
    names = unique([record.name for record in records])
    numbers = [curves.final_numbers(record) for record in records]
    keys = list(dict.fromkeys(key for found in numbers for key in found))
    table = grid(keys, [[found.get(key, "–") for found in numbers] for key in keys], names)
    metrics = {record.metric for record in records}
    metric = metrics.pop() if len(metrics) == 1 else ""
    charts = []
    for title, percent, path in (
        *(
            [(f"Target, {metric}, {split}", True, (split, "target", metric)) for split in ("test", "val")]
            if metric
            else []
        ),
        *([(f"Training {metric}", True, ("train", metric))] if metric else []),
        ("Training loss", False, ("train", "loss")),
        *[(f"Target, loss, {split}", False, (split, "target", "loss")) for split in ("test", "val")],
        ("Colour distance", False, ("teach", "color_distance")),
        ("Learning rate", False, ("lr",)),
        ("Seconds per epoch", False, ("time", "seconds")),
    ):
        series = [Line(name, r.series(*path), color=k) for k, (name, r) in enumerate(zip(names, records, strict=True))]
        charts.append(lines(title, series, percent=percent))
    different = differences(records)
    rows = [[as_text(value) for value in values] for values in different.values()]
    settings = grid(list(different), rows, names) if different else "<p>The runs have the same settings.</p>"
    sections = [
        Section("numbers", "Numbers at the end", table),
        Section("curves", "Curves", f'<div class="charts">{"".join(charts)}</div>'),
        Section("settings", "Settings that differ", settings),
    ]
    lead = f'<p class="lead">{escape(" · ".join(names))}</p>'
    return page(f"{len(records)} runs compared", lead, sections, f"Written by teachaugment {__version__}")


def grid(keys: list[str], rows: list[list[str]], names: list[str]) -> str:
    """A table with a column for each run."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    body = "".join(
        f'<tr><th scope="row">{escape(key)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in row)}</tr>'
        for key, row in zip(keys, rows, strict=True)
    )
    return f'<div class="scroll"><table class="plain"><thead><tr><td></td>{head}</tr></thead>{body}</table></div>'


def unique(names: list[str]) -> list[str]:
    """Names that tell runs apart: a number is added to those that are the same."""
    return [
        name if names.count(name) == 1 else f"{name} ({names[: k + 1].count(name)})" for k, name in enumerate(names)
    ]
