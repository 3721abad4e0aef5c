"""Where a run leaves its traces: the run directory, ``log.jsonl``, TensorBoard, and what the terminal shows."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from teachaugment.config import Config, to_yaml
from teachaugment.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

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


class Log:
    """One JSON object per line. Everything that depends on the clock is under the key ``time``."""

    def __init__(self, path: Path, epoch: int | None = None):
        """Open for appending. What a run wrote after epoch ``epoch`` goes: it will be written again. None: all."""
        size = 0
        if path.exists() and epoch is not None:
            for line in path.read_bytes().splitlines(keepends=True):
                if not _belongs(line, epoch):
                    break
                size += len(line)
        try:
            self.file = path.open("ab", buffering=0)  # a line that cannot be written must not wait for the end
            self.file.truncate(size)
        except OSError as error:
            raise UserError(f"cannot write {path}: {error.strerror}") from None

    def write(self, record: Mapping[str, Any]) -> None:
        """Append a line and put it on the disk: a checkpoint must never be ahead of its log."""
        line = json.dumps(record).encode() + b"\n"
        try:
            while line:
                line = line[self.file.write(line) :]
            os.fsync(self.file.fileno())
        except OSError as error:
            raise UserError(f"cannot write {self.file.name}: {error.strerror}") from None

    def close(self) -> None:
        self.file.close()


def _belongs(line: bytes, epoch: int) -> bool:
    """Whether a line is whole and from no later than ``epoch``; the end of a run is always written anew."""
    try:
        record = json.loads(line)
        return line.endswith(b"\n") and record.get("epoch", 0) <= epoch and record["event"] != "end"
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


class Nowhere:
    """The log, the board and the display of a process that leaves writing to another one."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


class Board:
    """TensorBoard, imported only when it is wanted."""

    def __init__(self, path: Path, step: int = 0):
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise UserError("TensorBoard is not installed; install it, or set train.tensorboard to false") from None
        self.writer = SummaryWriter(str(path), purge_step=step + 1 if step else None)

    def scalars(self, tree: Mapping[str, Any], step: int, prefix: str = "") -> None:
        """All numbers of a nested record, named by their path."""
        for name, value in tree.items():
            if isinstance(value, Mapping):
                self.scalars(value, step, f"{prefix}{name}/")
            elif isinstance(value, (int, float)):
                self.writer.add_scalar(prefix + name, value, step)

    def picture(self, name: str, image: Tensor, step: int) -> None:
        self.writer.add_image(name, image, step)

    def close(self) -> None:
        self.writer.close()


class Display:
    """Progress on standard error: a bar on a terminal, otherwise plain lines."""

    def __init__(self, total: int, done: int = 0, epochs: int = 1, stream: TextIO | None = None):
        self.stream = stream if stream is not None else sys.stderr
        self.total, self.done, self.first, self.epochs = total, done, done, epochs
        self.began = self.spoken = time.monotonic()
        self.advised: set[str] = set()
        self.bar: Any = bar(self.stream, total, done, "{desc} {percentage:3.0f}%|{bar}| {remaining} left{postfix}")

    def step(self, epoch: int) -> None:
        self.done += 1
        if self.bar is not None:
            self.bar.set_description_str(f"epoch {epoch}/{self.epochs}", refresh=False)
            self.bar.update()

    def reading(self, epoch: int, metrics: Mapping[str, float], rate: float) -> None:
        """Numbers just read from the device; without a terminal they are printed only every half minute."""
        text = f"{numbers(metrics)}  {rate:,.0f} images/s"
        if self.bar is not None:
            self.bar.set_postfix_str(text)
        elif time.monotonic() - self.spoken > 30:
            self.say(f"epoch {epoch}/{self.epochs}  step {self.done}/{self.total}  {text}  {self.left()} left")

    def epoch(self, record: Mapping[str, Any], metric: str, shown: Sequence[str]) -> None:
        """The line of one epoch, from its record in the log."""
        train = {name: value for name, value in record["train"].items() if name in shown}
        parts = [f"epoch {record['epoch']}/{self.epochs}", numbers(train)]
        for split in ("val", "test"):
            for name, result in record.get(split, {}).items():
                parts.append(f"{split} {name} {metric} {100 * result[metric]:.1f} %")
        parts.append(f"{record['time']['images_per_second']:,.0f} images/s")
        self.say("  ".join(parts if self.bar is not None else [*parts, f"{self.left()} left"]))

    def left(self) -> str:
        steps = self.done - self.first
        seconds = (time.monotonic() - self.began) / steps * (self.total - self.done) if steps else 0.0
        return duration(seconds)

    def say(self, line: str) -> None:
        self.spoken = time.monotonic()
        if self.bar is not None:
            self.bar.write(line, file=self.stream)
        else:
            print(line, file=self.stream, flush=True)

    def once(self, topic: str, line: str) -> None:
        """Say something that one mention in a run is enough for."""
        if topic not in self.advised:
            self.advised.add(topic)
            self.say(line)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()


def bar(stream: TextIO, total: int, done: int, layout: str) -> Any:
    """tqdm's bar on a terminal, otherwise None."""
    if not stream.isatty():
        return None
    from tqdm import tqdm

    width: dict[str, Any] = {"dynamic_ncols": True} if _columns(stream) else {"ncols": 80}
    return tqdm(total=total, initial=done, file=stream, bar_format=layout, leave=False, **width)


def _columns(stream: TextIO) -> int:
    """The terminal's width; some terminals do not know it and say 0."""
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return 0


def existing_run(name: str) -> Path:
    """The run directory of this name."""
    path = Path(name)
    if not (path / CONFIG).is_file():
        found = f"has no {CONFIG}" if path.is_dir() else "is not a directory" if path.exists() else "does not exist"
        raise UserError(f"{path} is not a run directory: it {found}; look under runs/")
    return path


def numbers(metrics: Mapping[str, float]) -> str:
    """``loss 0.812  accuracy 71.2 %``: shares of one are shown in percent."""
    plain = {"loss": ".3f", "spread": ".2f", "rank": ".1f"}
    return "  ".join(f"{k} {v:{plain[k]}}" if k in plain else f"{k} {100 * v:.1f} %" for k, v in metrics.items())


def duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
