"""Which epoch the validation split chooses, again, for rows whose runs ended before the rule was today's.

    python experiments/choose_again.py RUNS RESULTS

RUNS is the folder of the runs that RESULTS, a file of ``teachaugment compare``, was made from. What a run measured on
its validation split stands in its log. If today's rule (``teachaugment/engine/choosing.py``) takes the last epoch, its
test metrics are there too, and the row gets them; if not, the run has to be trained again and its row is left out.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from teachaugment.engine.choosing import standard_error

CHOSEN = "chosen"


def main() -> None:
    runs, results = map(Path, sys.argv[1:])
    rows = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    kept = [again(row, find(runs, row)) if CHOSEN in row["test"] else row for row in rows]
    results.write_text("".join(json.dumps(row) + "\n" for row in kept if row is not None), encoding="utf-8")
    print(f"{results}: {len([row for row in kept if row is not None])} of {len(rows)} rows stay")


def find(runs: Path, row: dict[str, Any]) -> Path:
    (found,) = (p for p in runs.glob(f"{row['strategy'].replace(':', '-')}-seed{row['seed']}-*") if p.is_dir())
    return found


def again(row: dict[str, Any], run: Path) -> dict[str, Any] | None:
    log = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    metrics, metric, images = (
        json.loads((run / "metrics.json").read_text(encoding="utf-8")),
        row["metric"],
        log[0]["val_images"],
    )
    val = {line["epoch"]: {name: found[metric] for name, found in line["val"].items()} for line in log if "val" in line}
    highest = max(value for found in val.values() for value in found.values())
    least = highest - standard_error(highest, images)
    epoch = max(epoch for epoch, found in val.items() if max(found.values()) >= least)
    if epoch != metrics["epoch"]:
        return None
    model = max(val[epoch], key=lambda name: val[epoch][name])
    return {**row, "test": {**row["test"], CHOSEN: metrics["test"][model][metric]}}


if __name__ == "__main__":
    main()
