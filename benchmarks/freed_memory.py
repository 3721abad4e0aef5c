"""What it saves that the command keeps the memory of a step for the next one, on a CPU.

    python benchmarks/freed_memory.py benchmarks/results/freed-memory.json

Plain training steps of some networks, on one thread, in processes that keep it and processes that do not, in turn. The
time is the processor's, of the program and of the system, which other programs disturb less than that on the wall.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from statistics import median

CASES = (("cnn-4", 64, 32), ("wrn-16-1", 64, 32), ("wrn-40-2", 128, 32), ("timm/tf_efficientnet_lite0", 32, 112))
ROUNDS, STEPS, SECONDS = 3, 4, 4.0  # at least so many steps, and so long


def seconds_of_a_step(model: str, batch: int, size: int, keep: bool) -> tuple[float, float]:
    """Processor seconds and the largest memory of the process, in MB."""
    import torch

    from teachaugment.commands.bench.objects import training_step
    from teachaugment.commands.freed_memory import keep_freed_memory
    from teachaugment.models import create

    torch.set_num_threads(1)
    if keep and not keep_freed_memory():
        sys.exit("this C library, or this environment, keeps memory in its own way")
    network = create(model, 10, size=(size, size)).to(memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    images, labels = torch.rand(batch, 3, size, size), torch.randint(10, (batch,))
    for _ in range(2):
        training_step(network, optimizer, images, labels)
    steps, began = 0, used()
    while steps < STEPS or used() - began < SECONDS:
        training_step(network, optimizer, images, labels)
        steps += 1
    return (used() - began) / steps, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def used() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main(path: str) -> None:
    rows = []
    for model, batch, size in CASES:
        found: dict[str, list[list[float]]] = {"given back": [], "kept": []}
        for _ in range(ROUNDS):
            for way in found:
                command = [sys.executable, __file__, "--one", model, str(batch), str(size), way]
                environment = {**os.environ, "OMP_NUM_THREADS": "1"}
                done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
                found[way].append(json.loads(done.stdout))
        row = {"model": model, "batch_size": batch, "size": size}
        for way, measured in found.items():
            row[way] = {"seconds": median(s for s, _ in measured), "megabytes": median(m for _, m in measured)}
        pairs = zip(found["kept"], found["given back"], strict=True)
        row["kept to given back"] = median(kept / other for (kept, _), (other, _) in pairs)
        rows.append(row)
        print(json.dumps(row), flush=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"rounds": ROUNDS, "threads": 1, "channels_last": True, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        _, _, model, batch, size, way = sys.argv
        print(json.dumps(seconds_of_a_step(model, int(batch), int(size), way == "kept")))
    else:
        main(sys.argv[1])
