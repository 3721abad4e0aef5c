"""The directory of a run: which files are in it, and how it is made and found."""

from __future__ import annotations

import re
import time
from contextlib import ExitStack
from pathlib import Path

from teachaugment.config.resolve import SECTIONS, Config, Layer, read_run, read_yaml, resolve, to_yaml
from teachaugment.engine import lock
from teachaugment.errors import UserError
from teachaugment.files import UNFINISHED, create_whole

CONFIG, LOG, METRICS, POLICY, CARD, PICTURE, PREDICTIONS, REPORT = (
    "config.yaml",
    "log.jsonl",
    "metrics.json",
    "policy.safetensors",
    "policy.md",
    "augmented.png",
    "predictions.png",
    "report.html",
)
LINEAR = "linear.json"  # what a linear classifier makes of the features
SECOND_POLICY = "policy-2.safetensors"  # of the second view, where there are two


def check_output(config: Config) -> None:
    """Refuse a directory that holds something, before any work: no run is ever overwritten."""
    if config.output is None:
        return
    path = Path(config.output)
    if (path / CONFIG).exists():
        raise UserError(f"{path} already holds a run; continue it with --resume {path}, or name a new directory")
    if path.exists() and not path.is_dir():
        raise UserError(f"--output {path} is a file; name a new directory")
    if path.is_dir() and any(not left_by_a_start(entry) for entry in path.iterdir()):
        raise UserError(f"--output {path} is not empty; name a new directory")


def left_by_a_start(entry: Path) -> bool:
    """Whether a file is all that a process leaves which is killed before its run has begun."""
    return entry.name == lock.NAME or entry.name.startswith(UNFINISHED)


def create_run(config: Config, locks: ExitStack | None = None) -> Path:
    """Make the run directory with its ``config.yaml``: the one named by ``output``, otherwise a fresh one in runs/.

    Its lock is held until ``locks`` closes, where it is given.
    """
    check_output(config)
    try:
        if config.output is not None:
            path = Path(config.output)
            path.mkdir(parents=True, exist_ok=True)
        else:
            date = time.strftime("%Y%m%d-%H%M%S")
            path = _fresh(Path("runs") / f"{date}-{short_name(config)}-{config.augment.strategy}-seed{config.seed}")
        with ExitStack() as here:
            (here if locks is None else locks).enter_context(lock.held(path))
            check_output(config)  # another process may have been faster
            create_whole(path / CONFIG, to_yaml(config).encode())
    except OSError as error:
        raise UserError(f"cannot write the run directory {error.filename}: {error.strerror}") from None
    return path


def short_name(config: Config) -> str:
    """Data and network, as part of a directory's name."""
    data = re.sub(r"[^A-Za-z0-9_.]+", "-", Path(config.data.path).resolve().name).strip("-.") or "data"
    return f"{data}-{re.sub(r'[^A-Za-z0-9_.]+', '-', config.model.name)}"


def _fresh(path: Path) -> Path:
    """The directory, newly made; a number is added when the name is taken."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for number in range(1, 10_000):
        candidate = path if number == 1 else path.with_name(f"{path.name}-{number}")
        try:
            candidate.mkdir()
        except FileExistsError:
            continue
        return candidate
    raise UserError(f"{path} and 10,000 names after it are taken")


def existing_run(name: str) -> Path:
    """The run directory of this name."""
    path = Path(name)
    if not (path / CONFIG).is_file():
        found = f"has no {CONFIG}" if path.is_dir() else "is not a directory" if path.exists() else "does not exist"
        raise UserError(f"{path} is not a run directory: it {found}; look under runs/")
    return path


def whole_settings(path: Path) -> Layer:
    """The settings of a run to go on with; a file that was cut short would train something else."""
    there = {key.partition(".")[0] for key in read_yaml(path / CONFIG).values}
    missing = [name for name in SECTIONS if name not in there]
    if missing:
        raise UserError(
            f"{path / CONFIG} is not whole: it has no section {missing[0]}; if the run has no checkpoint, begin it anew"
        )
    return read_run(path / CONFIG)


def settings_of(path: Path, device: str | None = None, workers: str | None = None) -> Config:
    """The settings of a run, on another device or with other processes that read images, where flags say so."""
    values = {"device": device, "data.workers": workers}
    given = {key: value for key, value in values.items() if value is not None}
    return resolve(read_run(path / CONFIG), Layer(given, {"device": "--device", "data.workers": "--workers"}))
