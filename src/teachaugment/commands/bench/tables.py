"""The results as tables, one function for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from teachaugment.commands.bench.render import number, size, time, times
from teachaugment.show.table import Table

Results = dict[str, Any]

PART_NAMES = {
    "plain": "plain step",
    "target": "target step with augmentation",
    "draw": "drawing a batch, no gradient",
    "update": "augmenter update",
    "teacher": "teacher update",
}


def tables(results: Results) -> list[Table]:
    """Those of the parts that were measured; the machine first, the targets last."""
    makers: dict[str, Callable[[Results], list[Table]]] = {
        "training": _training,
        "augmentation": _augmentation,
        "color": _color,
        "scaling": _scaling,
        "input": _input,
        "photographs": _photographs,
        "options": _options,
        "startup": _startup,
    }
    found = [table for part, make in makers.items() if part in results for table in make(results)]
    return [_machine(results), *found, *([_targets(results)] if results["targets"] else [])]


def _machine(results: Results) -> Table:
    rows = [
        [name.replace("_", " "), "–" if value is None else str(value)] for name, value in results["machine"].items()
    ]
    note = "Times are medians, with the quartiles in brackets. Load: processes that wanted a core, these included."
    return Table("Machine", ["machine", "value"], rows, note)


def _training(results: Results) -> list[Table]:
    made = []
    for run in results["training"]:
        where = f"{run['model']}, batch {run['batch_size']}, {run['size']}², {run['snapshots']} snapshots in the replay"
        rows = [
            [
                PART_NAMES[name],
                time(spread),
                times(run["plain_steps"][name]) if name in run["plain_steps"] else "1",
                size(run["peak_bytes"][name]),
            ]
            for name, spread in run["seconds"].items()
        ]
        note = f"Peak memory: {results['memory_method']}."
        made.append(Table(f"Training, {where}", ["part", "time", "plain steps", "peak memory"], rows, note))
        rate = run["images_per_second"]
        rows = [["plain", "1", "1", f"{rate['plain']:,.0f}"]]
        for n, overhead in run["overhead"].items():
            measured, computed = times(overhead["measured"]), number(overhead["from_parts"])
            rows.append([f"TeachAugment, n_inner {n}", measured, computed, f"{rate[f'n_inner {n}']:,.0f}"])
        for name, measured in run.get("adaptive", {}).items():
            rows.append([f"adaptive at {name}", "–", times(measured), f"{rate['plain'] / measured['median']:,.0f}"])
        kept = ", ".join(f"{name} {size(count)}" for name, count in run["kept_bytes"].items())
        header = ["training", "time, measured over whole cycles", "time, from the parts", "images/s"]
        made.append(Table(f"Overhead, {run['model']}", header, rows, f"Kept in memory: {kept}."))
    return made


def _augmentation(results: Results) -> list[Table]:
    rows = []
    for row in results["augmentation"]:
        shown = [f"{row['size']}², batch {row['batch_size']}: {row['name']}"]
        if row["installed"]:
            shown += [str(row["threads"]), *_speed(row.get("forward")), *_speed(row.get("both"))]
        else:
            shown += ["not installed", *["–"] * 4]
        rows.append(shown)
    header = ["augmentation alone", "threads", "images/s", "peak memory", "forward+backward images/s", "peak memory"]
    return [Table("Augmentation", header, rows)]


def _speed(measured: dict[str, Any] | None) -> list[str]:
    if measured is None:
        return ["–", "–"]
    low, high = (measured["seconds"]["median"] / measured["seconds"][q] for q in ("q3", "q1"))
    rate = measured["images_per_second"]
    shown = f"{number(rate)} ({number(rate * low)}–{number(rate * high)})"
    return [shown, size(measured["peak_bytes"]) if "peak_bytes" in measured else "–"]


def _color(results: Results) -> list[Table]:
    names = {"fast": "fast form", "per pixel": "sub-network on every pixel", "dense": "whole network on every pixel"}
    rows, errors = [], []
    for row in results["color"]:
        for form, name in names.items():
            shown = [f"{row['size']}², batch {row['batch_size']}: {name}"]
            for direction in ("forward", "both"):
                measured = row.get(direction)
                if measured is None:
                    shown += ["–"] * 3
                    continue
                ratio = times(measured["times_fast"][form]) if form != "fast" else "1"
                memory = number(measured["peak_bytes"][form] / row["image_bytes"])
                shown += [time(measured["seconds"][form]), ratio, memory]
            rows.append(shown)
        found = [number(row["error"][strength][kind]) for strength in ("1", "3") for kind in ("mean", "max")]
        errors.append([f"{row['size']}²", *found])
    one = ["time", "times the fast form", "extra memory, images"]
    header = ["colour alone", *one, *(f"fwd+bwd {name}" for name in one)]
    kinds = [f"{kind}, {which}" for which in ("as drawn", "three times as strong") for kind in ("mean", "largest")]
    note = "In levels of 1/255, on images of every colour. The second augmenter's outputs are mostly saturated."
    return [Table("Colour", header, rows), Table("Error of the fast colour form", ["image", *kinds], errors, note)]


def _scaling(results: Results) -> list[Table]:
    rows = [
        [
            f"{row['axis']} {row['value']:,}",
            time(row["draw"]["seconds"]),
            size(row["draw"]["peak_bytes"]),
            time(row["both"]["seconds"]),
            size(row["both"]["peak_bytes"]),
            size(row["replay_bytes"]),
        ]
        for row in results["scaling"]["rows"]
    ]
    plan, stored = results["plan"], results["scaling"]["stored"]
    note = (
        f"Otherwise batch {plan['batch_size']} ({plan['scaling_batch']} along pixels), {plan['size']}², "
        f"{plan['classes']} classes, {plan['snapshots']} snapshots. "
        f"{stored['snapshots']} snapshots for {stored['classes']:,} classes take {size(stored['bytes'])}."
    )
    header = ["along", "drawing", "peak memory", "forward+backward", "peak memory", "replay"]
    return [Table("Scaling of the augmentation", header, rows, note)]


def _input(results: Results) -> list[Table]:
    found = results["input"]
    rows = [
        [f"{found['model']} step", time(found["seconds"]["step"]), "1"],
        ["one batch from memory", time(found["seconds"]["input"]), times(found["of_a_step"])],
    ]
    where = f"batch {found['batch_size']}, {found['size']}², {found['images']:,} images"
    return [Table(f"Input, {where}", ["", "time", "steps"], rows)]


def _photographs(results: Results) -> list[Table]:
    found = results["photographs"]
    rows = []
    for row in found["rows"]:
        shown = [f"{row['side']} pixels: {row['name']}"]
        shown += (
            [number(row["images_per_second"]), times(row["times_ours"])] if row["installed"] else ["not installed", "–"]
        )
        rows.append(shown)
    note = f"JPEG files, 4 by 3, to random crops of {found['size']}², on one core; pixels of the longer side."
    if waiting := found["waiting"]:
        note += (
            f" {waiting['model']}, batch {waiting['batch_size']}, files of all these sizes, {waiting['workers']} "
            f"workers: {waiting['share']:.1%} of the time goes into waiting for images."
        )
    return [Table("Photographs", ["reading", "images/s", "time, times ours"], rows, note)]


def _options(results: Results) -> list[Table]:
    found = results["options"]
    rows = []
    for name, measured in found["seconds"].items():
        form, what = name.split()
        first = found.get(f"first_{what}_seconds", {}).get(form)  # older files have only the step's
        shown = "" if first is None else f"{first:.1f} s"
        rows.append([form, what, time(measured), times(found["times_plain"][name]), shown])
    where = f"{found['model']}, batch {found['batch_size']}, {found['size']}²"
    header = ["form", "", "time", "times the plain form", "first step"]
    return [
        Table(f"Options, {where}", header, rows, "A step is a plain training step, an update one of the augmenter.")
    ]


def _startup(results: Results) -> list[Table]:
    found = results["startup"]
    rows = [
        ["teachaugment --help", time(found["help_seconds"])],
        ["from teachaugment import TeachAugment, after import torch", time(found["import_seconds"])],
    ]
    return [Table("Start-up", ["", "time"], rows)]


def _targets(results: Results) -> Table:
    rows = [
        [one["what"], number(one["measured"]), f"{one['relation']} {number(one['limit'])}", verdict(one)]
        for one in results["targets"]
    ]
    return Table("Targets", ["target", "measured", "wanted", ""], rows)


def verdict(target: dict[str, Any]) -> str:
    return "ok" if target["ok"] else "missed"
