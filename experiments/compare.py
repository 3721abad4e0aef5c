"""Train strategies under one protocol, paired over seeds, and write one JSON line per finished run.

    python experiments/compare.py results/shapes.jsonl --strategies none,teachaugment --seeds 5 -- --epochs 60
    python experiments/compare.py results/shapes.jsonl --summary

For each seed every strategy has the same initial weights, data order and budget. Two runs go side by side, one thread
each. Stop it and start it again: finished runs are not repeated. What follows `--` goes to `teachaugment train`; a
strategy may carry settings of its own, as in `teachaugment:teach.n_inner=1:teach.n_buffer=2`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tqdm import tqdm


def train(strategy: str, seed: int, flags: list[str]) -> dict:
    """One run in a process and directory of its own; returns what the results file keeps of it."""
    name, *own = strategy.split(":")
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch) / "run"
        command = [sys.executable, "-m", "teachaugment", "train", "--strategy", name, "--seed", str(seed)]
        command += ["--output", str(run), "--train.tensorboard", "false", *flags]
        for setting in own:
            key, _, value = setting.partition("=")
            command += [f"--{key}", value]
        began = time.monotonic()
        result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        if result.returncode:
            raise SystemExit(f"{' '.join(command)}\n{result.stderr}")
        seconds = time.monotonic() - began
        metrics = json.loads((run / "metrics.json").read_text())
        epochs = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    last = [record for record in epochs if record["event"] == "epoch"][-1]
    test = {model: values["accuracy"] for model, values in metrics["test"].items()}
    return {
        "strategy": strategy,
        "seed": seed,
        "flags": flags,
        "test": test,
        "val": {model: values["accuracy"] for model, values in last.get("val", {}).items()},
        "train_accuracy": last["train"]["accuracy"],
        "probabilities": metrics.get("probabilities"),
        "seconds": round(seconds),
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, one thread per run",
    }


def summary(lines: list[dict], model: str = "target", split: str = "test") -> str:
    """A table of mean ± std and of the paired difference to the first strategy, with its standard error."""
    by_strategy: dict[str, dict[int, dict]] = {}
    for line in lines:
        by_strategy.setdefault(line["strategy"], {})[line["seed"]] = line
    baseline = next(iter(by_strategy.values()))
    table = [
        f"| strategy | {split} accuracy | paired difference | wins | training accuracy | time | n |",
        "|---|---|---|---|---|---|---|",
    ]
    for strategy, runs in by_strategy.items():
        values = [100 * run[split][model] for run in runs.values()]
        spread = statistics.stdev(values) if len(values) > 1 else math.nan
        pairs = [100 * (runs[s][split][model] - baseline[s][split][model]) for s in runs if s in baseline]
        paired, wins = "–", "–"
        if runs is not baseline and len(pairs) > 1:
            error = statistics.stdev(pairs) / math.sqrt(len(pairs))
            paired = f"{statistics.mean(pairs):+.2f} ± {error:.2f} (s.e.)"
            wins = f"{sum(p > 0 for p in pairs)}/{len(pairs)}"
        seconds = statistics.mean(run["seconds"] for run in runs.values())
        trained = 100 * statistics.mean(run["train_accuracy"] for run in runs.values())
        table.append(
            f"| {strategy} | {statistics.mean(values):.2f} ± {spread:.2f} | {paired} | {wins} | {trained:.1f} "
            f"| {seconds:.0f} s | {len(values)} |"
        )
    return "\n".join(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="JSON lines, appended to")
    parser.add_argument("--strategies", default="none,teachaugment")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--parallel", type=int, default=2, help="runs side by side")
    parser.add_argument("--summary", action="store_true", help="only print the table")
    parser.add_argument("--split", default="test", choices=("test", "val"))
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    args, flags = parser.parse_args(words[:cut]), words[cut + 1 :]

    lines = [json.loads(line) for line in args.results.read_text().splitlines()] if args.results.exists() else []
    if not args.summary:
        done = {(line["strategy"], line["seed"]) for line in lines if line["flags"] == flags}
        wanted = [(s, seed) for seed in range(args.seeds) for s in args.strategies.split(",")]
        args.results.parent.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(args.parallel) as pool, args.results.open("a") as file:
            todo = [pair for pair in wanted if pair not in done]
            for line in tqdm(pool.map(lambda pair: train(*pair, flags), todo), total=len(todo), unit="run"):
                file.write(json.dumps(line) + "\n")
                file.flush()
                lines.append(line)
    print(summary(lines, split=args.split))


if __name__ == "__main__":
    main()
