"""The report of one run and the comparison of several, as HTML and as a file."""

from __future__ import annotations

from pathlib import Path

from teachaugment import __version__
from teachaugment.commands.report import curves, learned, numbers
from teachaugment.commands.report.answers import answers
from teachaugment.commands.report.findings import findings
from teachaugment.commands.report.mistakes import mistakes
from teachaugment.commands.report.observe import Observation, observe
from teachaugment.commands.report.page import Page, Section, render
from teachaugment.commands.report.record import Record, differences, read
from teachaugment.config.settings import as_text
from teachaugment.engine import directory
from teachaugment.engine.trainer import Trainer
from teachaugment.files import write_atomically
from teachaugment.show.table import Table


def write_report(trainer: Trainer, path: Path) -> Path:
    """The report of a run whose trainer is at hand, in the run's directory."""
    record = read(path)
    return save(report(record, observe(trainer), trainer.data.classes), path / directory.REPORT)


def save(text: str, path: Path) -> Path:
    write_atomically(path, lambda file: file.write(text.encode("utf-8", "replace")))
    return path


def report(record: Record, seen: Observation | None, classes: list[str], missing: str = "") -> str:
    """The page of one run. ``missing`` says why nothing could be looked at, where that is so."""
    looked_at = f"Measured on {seen.looked_at} training images." if seen is not None else ""
    reading = "Point at a chart, or use the arrow keys, to read its values."
    sections = [
        Section("answers", "In short", "answers.html", answers(record) or None),
        Section("diagnosis", "Diagnosis", "findings.html", findings(record, seen), looked_at),
        Section("curves", "Curves", "curves.html", curves.curves(record), reading),
        *(seen_sections(record, seen, classes) if seen is not None else []),
        Section("mistakes", "Mistakes on test images", "mistakes.html", mistakes(record)),
        Section("cost", "Time and cost", "cost.html", numbers.cost(record)),
        Section("settings", "Settings", "settings.html", numbers.settings(record), "What differs from the defaults."),
    ]
    unfinished = f"This run has not finished: {record.done} of {record.setting('train.epochs')} epochs."
    return render(
        Page(
            numbers.title(record),
            numbers.summary(record),
            sections,
            f"Written by teachaugment {__version__} from {record.path}",
            numbers.first_numbers(record),
            "" if record.metrics else unfinished,
            f"Without pictures and what was learned: {missing}" if missing else "",
        )
    )


def seen_sections(record: Record, seen: Observation, classes: list[str]) -> list[Section]:
    """What needs images and networks."""
    title, intro = "Images", f"Training images and what the strategy {record.strategy} makes of them."
    if record.updates:
        title = "The same images through the epochs"
        intro = (
            "The same images with the same random numbers, augmented by each snapshot: only what was learned differs."
        )
    about = (
        "What the augmenter does at the end of the run, at the strength that was found. Rotation is clockwise; shifts "
        "are shares of the image's sides."
    )
    cubes = (
        "Each point is a pixel. Colours that the data do not have would show as points where there were none before."
    )
    argue = (
        "Augmented training images with the largest difference between the probabilities of target and teacher. Where "
        "the teacher is right and the target is not, augmentation teaches something; where neither is, it went too far."
    )
    distributions = learned.distributions(seen, classes) if record.learns else None
    cards = learned.cards(seen.disagreements)
    return [
        Section("images", title, "film.html", learned.film_images(seen.film), intro),
        Section("learned", "What was learned", "distributions.html", distributions, about),
        Section("colors", "Colours of pixels", "colors.html", learned.colors(seen), cubes),
        Section("argue", "Where target and teacher disagree", "disagreements.html", cards, argue),
    ]


def comparison(records: list[Record]) -> str:
    """The page of several runs: their numbers, their curves on one chart, the settings that differ."""
    names = unique([record.name for record in records])
    found = [numbers.final_numbers(record) for record in records]
    keys = dict.fromkeys(key for run in found for key in run)
    final = Table("", ["", *names], [[key, *(run.get(key, "–") for run in found)] for key in keys])
    rows = [[key, *map(as_text, values)] for key, values in differences(records).items()]
    sections = [
        Section("numbers", "Numbers at the end", "table.html", final),
        Section("curves", "Curves", "curves.html", curves.compared(records, names)),
        Section("settings", "Settings that differ", "differences.html", Table("", ["", *names], rows)),
    ]
    foot = f"Written by teachaugment {__version__}"
    warning = other_data(records)
    return render(Page(f"{len(records)} runs compared", " · ".join(names), sections, foot, warning=warning))


def other_data(records: list[Record]) -> str:
    """What to say about runs whose numbers do not compare, because they were tested on different images."""
    keys = ("data.path", "data.split_seed", "data.size", "task")
    tested = [(*(record.setting(key) for key in keys), record.start.get("test_images")) for record in records]
    if len(set(tested)) < 2:
        return ""
    shown = ", ".join(f"{record.name}: {record.setting('data.path')}" for record in records)
    return f"These runs were not tested on the same images ({shown}): their numbers do not compare."


def unique(names: list[str]) -> list[str]:
    """Names that tell runs apart: a number is added to those that are the same."""
    return [
        name if names.count(name) == 1 else f"{name} ({names[: k + 1].count(name)})" for k, name in enumerate(names)
    ]
