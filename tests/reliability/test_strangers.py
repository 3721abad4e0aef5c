"""Files from strangers, through every door of the command: nothing in them runs, and one line says what is wrong."""

from __future__ import annotations

import os
import pickle
import shutil
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from teachaugment.engine import checkpoint, directory


class Evil:
    """Makes a directory when it is unpickled."""

    def __init__(self, made: Path):
        self.made = made

    def __reduce__(self):
        return os.mkdir, (str(self.made),)


def evil_checkpoint(path: Path, made: Path) -> None:
    """With a right checksum."""
    checkpoint.save(path, {"format": checkpoint.FORMAT, "target": Evil(made)})


def evil_torch(path: Path, made: Path) -> None:
    torch.save({"format": checkpoint.FORMAT, "target": Evil(made)}, path)


def evil_pickle(path: Path, made: Path) -> None:
    path.write_bytes(pickle.dumps(Evil(made)))


def evil_arrays(path: Path, made: Path) -> None:
    objects = np.array([Evil(made)], dtype=object)
    np.savez(path, x_train=objects, y_train=objects, x_test=objects, y_test=objects)


def evil_yaml(path: Path, made: Path) -> None:
    path.write_text(f"seed: !!python/object/apply:os.mkdir ['{made}']\n")


def endless_yaml(path: Path, made: Path) -> None:
    lines = ["a0: &a0 [x, x]", *(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 40)), "seed: *a39"]
    path.write_text("\n".join(lines))


def dotted_name(path: Path, made: Path) -> None:
    path.write_text("model: {name: os.mkdir}\n")


def bomb_picture(path: Path, made: Path) -> None:
    """A PNG of a few hundred bytes that says it has ten billion pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    content = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    for name in ("cat", "dog"):
        (path / name).mkdir(parents=True)
        for i in range(3):
            (path / name / f"{i}.png").write_bytes(b"\x89PNG\r\n\x1a\n" + content)


def bomb_arrays(path: Path, made: Path) -> None:
    """A few megabytes that unpack to more than a gigabyte."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for key, size in {"x_train": 1025, "y_train": 1, "x_test": 1, "y_test": 1}.items():
            with file.open(f"{key}.npy", "w", force_zip64=True) as member:
                for _ in range(size):
                    member.write(bytes(2**20))


TAUGHT = ["train", "--strategy", "teachaugment", "--data.size", "8"]
DOORS: dict[str, tuple[Callable[[Path, Path], None], str, list[str]]] = {
    "a configuration that calls a function": (evil_yaml, "evil.yaml", ["train", "--config", "FILE"]),
    "a configuration that refers to itself": (endless_yaml, "evil.yaml", ["train", "--config", "FILE"]),
    "a network by the path of a function": (dotted_name, "evil.yaml", ["train", "--config", "FILE"]),
    "a checkpoint to resume": (evil_checkpoint, "run/last.pt", ["train", "--resume", "RUN"]),
    "a checkpoint without its checksum": (evil_torch, "run/last.pt", ["train", "--resume", "RUN"]),
    "a checkpoint to evaluate": (evil_checkpoint, "run/last.pt", ["evaluate", "RUN"]),
    "a teacher": (evil_checkpoint, "evil.pt", [*TAUGHT, "--teacher", "FILE"]),
    "a teacher that torch saved": (evil_torch, "evil.pt", [*TAUGHT, "--teacher", "FILE"]),
    "a policy": (evil_pickle, "evil.safetensors", ["train", "--policy", "FILE", "--data.size", "8"]),
    "a policy to preview": (evil_torch, "evil.safetensors", ["preview", "FILE", "x.png"]),
    "a run's policy to export": (evil_checkpoint, "run/last.pt", ["export", "RUN", "-o", "OUT"]),
    "a report of a run": (evil_checkpoint, "run/last.pt", ["report", "RUN"]),
    "arrays with objects in them": (evil_arrays, "evil.npz", ["train", "--data", "FILE"]),
    "pictures of ten billion pixels": (bomb_picture, "photos", ["train", "--data", "FILE"]),
    "arrays that unpack to fill the memory": (bomb_arrays, "bomb.npz", ["train", "--data", "FILE"]),
}


def test_nothing_in_a_file_runs(lab, record, tmp_path):
    for number, (door, (make, name, words)) in enumerate(DOORS.items()):
        here = tmp_path / str(number)
        run, file, made = here / "run", here / name, here / "made"
        here.mkdir()
        if "RUN" in words:
            shutil.copytree(lab.reference, run)
            (run / checkpoint.PREVIOUS).unlink()
            (run / directory.POLICY).unlink()
        make(file, made)
        places = {"FILE": str(file), "RUN": str(run), "OUT": str(here / "out")}
        process = lab.start(*(places.get(word, word) for word in words))
        # A report is written all the same, without what it cannot read.
        assert process.wait() == (0 if words[0] == "report" else 2), (door, process.said())
        lines = [line for line in process.said().splitlines() if str(file) in line or "os.mkdir" in line]
        assert len(lines) == 1 and "Traceback" not in process.said(), (door, process.said())
        assert not made.exists(), door
    record("files from strangers, through every door of the command: nothing in them runs", len(DOORS))
