"""What this package promises about its speed, beside what was measured. Only what was measured is compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from teachaugment.commands.bench.augmentation import KORNIA, OURS, OURS_ONE, TRIVIAL
from teachaugment.commands.bench.photographs import OURS as READER

# Of a plain step, for a model at batch 128 and 32².
UPDATE, DRAW, UPDATE_MEMORY = 1.5, 0.02, 1.1
OVERHEAD = {
    ("wrn-40-2", "5"): 1.35,
    ("wrn-40-2", "1"): 2.6,
    ("wrn-40-2", "5, half batch"): 1.15,
    ("wrn-40-2", "5, quarter batch"): 1.15,
    ("wrn-16-1", "5"): 1.6,
}
ADAPTIVE = {"wrn-40-2": 1.1, "wrn-16-1": 1.15, "cnn-4": 1.15}  # training time with the default, times plain
AT_ZERO = 1.02  # the same while its strength is zero
COLOR_SPEEDUP = {224: 10.0, 1024: 15.0}  # against the network on every pixel
COLOR_ERROR = 1.0  # levels of 1/255, mean
COLOR_MEMORY = 6.0  # image-sized tensors: "a few"
REPLAY_GROWTH = 1.1  # of the time to draw, from the smallest replay to the largest
REPLAY_BYTES = 300e6
IN_WORKER, DIFFERENCE = 1.0, 2.0  # times TrivialAugment's speed on PIL images; levels of 1/255 from the tensor path
INPUT = 0.02  # of a step
READING = 1.0  # times the speed of the fastest other loader
WAITING = 0.05  # of the time, for photographs
HELP, IMPORT = 1.0, 0.3  # seconds

Comparison = tuple[str, float, str, float]  # what, measured, "at most" or "at least", limit


def compare(results: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "what": what,
            "measured": measured,
            "relation": relation,
            "limit": limit,
            "ok": measured <= limit if relation == "at most" else measured >= limit,
        }
        for part in (_training, _augmentation, _color, _scaling, _rest)
        for what, measured, relation, limit in part(results)
    ]


def _training(results: dict[str, Any]) -> Iterator[Comparison]:
    for run in results.get("training", []):
        if (run["batch_size"], run["size"]) != (128, 32):
            continue
        model = run["model"]
        if model == "wrn-40-2":
            yield f"{model}: augmenter update, plain steps", run["plain_steps"]["update"]["median"], "at most", UPDATE
            memory = run["peak_bytes"]["update"] / run["peak_bytes"]["plain"]
            yield f"{model}: memory of an augmenter update, plain steps", memory, "at most", UPDATE_MEMORY
        for n, overhead in run["overhead"].items():
            if (model, n) in OVERHEAD:
                what = f"{model}: training time at n_inner {n}, times plain"
                yield what, overhead["measured"]["median"], "at most", OVERHEAD[model, n]
        for name, measured in run.get("adaptive", {}).items():
            limit = AT_ZERO if name == "strength zero" else ADAPTIVE.get(model)
            if limit is not None:
                yield f"{model}: training time with adaptive at {name}", measured["median"], "at most", limit
        if model == "wrn-40-2":
            yield f"{model}: drawing a batch, plain steps", run["plain_steps"]["draw"]["median"], "at most", DRAW


def _augmentation(results: dict[str, Any]) -> Iterator[Comparison]:
    rows = [row for row in results.get("augmentation", []) if row["installed"]]
    speed = {(row["size"], row["name"]): row["forward"]["images_per_second"] for row in rows}
    if (224, KORNIA) in speed:
        yield "224²: images/s, times kornia's", speed[224, OURS] / speed[224, KORNIA], "at least", 1.0
    rivals = [value for (size, name), value in speed.items() if size == 32 and name.startswith(TRIVIAL)]
    if rivals:
        ours = speed.get((32, OURS_ONE), speed[32, OURS])
        yield "32²: images/s on one thread, times TrivialAugment's faster form", ours / max(rivals), "at least", 1.0
    for row in rows:
        size, ours = row["size"], row["name"].removesuffix(", PIL")
        if "difference" in row and size in (224, 512):
            faster = speed[size, row["name"]] / speed[size, f"{TRIVIAL}, PIL"]
            what = f"{size}²: {ours} of PIL images"
            yield f"{what}, speed times TrivialAugment's", faster, "at least", IN_WORKER
            yield f"{what}, levels from the tensor path", row["difference"], "at most", DIFFERENCE


def _color(results: dict[str, Any]) -> Iterator[Comparison]:
    rows = results.get("color", [])
    for row in rows:
        if row["size"] in COLOR_SPEEDUP:
            faster = row["forward"]["times_fast"]["dense"]["median"]
            yield f"colour {row['size']}²: times faster than per pixel", faster, "at least", COLOR_SPEEDUP[row["size"]]
    if rows:
        error = max(row["error"]["1"]["mean"] for row in rows)
        yield "colour: mean error in levels of 1/255, worst size", error, "at most", COLOR_ERROR
        largest = max(rows, key=lambda row: row["size"])
        extra = largest["forward"]["peak_bytes"]["fast"] / largest["image_bytes"]
        yield f"colour {largest['size']}²: extra memory in images", extra, "at most", COLOR_MEMORY


def _scaling(results: dict[str, Any]) -> Iterator[Comparison]:
    if "scaling" not in results:
        return
    rows = [row for row in results["scaling"]["rows"] if row["axis"] == "snapshots"]
    if len(rows) > 1:
        growth = rows[-1]["draw"]["seconds"]["median"] / rows[0]["draw"]["seconds"]["median"]
        what = f"drawing from {rows[-1]['value']} snapshots, times from {rows[0]['value']}"
        yield what, growth, "at most", REPLAY_GROWTH
    stored = results["scaling"]["stored"]
    what = f"{stored['snapshots']} snapshots for {stored['classes']} classes, MB"
    yield what, stored["bytes"] / 1e6, "at most", REPLAY_BYTES / 1e6


def _photographs(results: dict[str, Any]) -> Iterator[Comparison]:
    for side in dict.fromkeys(row["side"] for row in results["rows"]):
        others = [
            row["times_ours"]["median"]
            for row in results["rows"]
            if row["side"] == side and row["installed"] and row["name"] != READER
        ]
        yield (
            f"photographs of {side} pixels: images/s, times the fastest other loader",
            min(others),
            "at least",
            READING,
        )
    if waiting := results["waiting"]:
        yield f"{waiting['model']}: share of its time waiting for photographs", waiting["share"], "at most", WAITING


def _rest(results: dict[str, Any]) -> Iterator[Comparison]:
    if "input" in results:
        part = results["input"]["of_a_step"]["median"]
        yield f"reading a batch, {results['input']['model']} steps", part, "at most", INPUT
    if "photographs" in results:
        yield from _photographs(results["photographs"])
    if "startup" in results:
        start = results["startup"]
        yield "teachaugment --help, seconds", start["help_seconds"]["median"], "at most", HELP
        yield "import beyond torch, seconds", start["import_seconds"]["median"], "at most", IMPORT
