"""The directory of a run: which files are in it, and how it is made and found."""

from __future__ import annotations

import re
import time
from pathlib import Path

from teachaugment.config.resolve import Config, Layer, read_run, resolve, to_yaml
from teachaugment.errors import UserError

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
    if path.is_dir() and any(path.iterdir()):
        raise UserError(f"--output {path} is not empty; name a new directory")


def create_run(config: Config) -> Path:
    """Make the run directory with its ``config.yaml``: the one named by ``output``, otherwise a fresh one in runs/."""
    check_output(config)
    try:
        if config.output is not None:
            path = Path(config.output)
            path.mkdir(parents=True, exist_ok=True)
        else:
            date = time.strftime("%Y%m%d-%H%M%S")
            path = _fresh(Path("runs") / f"{date}-{short_name(config)}-{config.augment.strategy}-seed{config.seed}")
        (path / CONFIG).write_text(to_yaml(config), encoding="utf-8")
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


def settings_of(path: Path, device: str | None = None, workers: str | None = None) -> Config:
    """The settings of a run, on another device or with other processes that read images, where flags say so."""
    values = {"device": device, "data.workers": workers}
    given = {key: value for key, value in values.items() if value is not None}
    return resolve(read_run(path / CONFIG), Layer(given, {"device": "--device", "data.workers": "--workers"}))
