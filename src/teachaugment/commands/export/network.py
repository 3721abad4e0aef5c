"""A run's network as a file: with its preprocessing, its classes' names, and checked by running it."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from teachaugment import __version__, seeds
from teachaugment.commands.export import FORMATS
from teachaugment.commands.export.card import agreement, card
from teachaugment.config.sections import Config
from teachaugment.engine import policies
from teachaugment.engine.trained import TrainedModel, load_trained
from teachaugment.errors import UserError
from teachaugment.files import write_atomically
from teachaugment.tasks import TASKS

NETWORK = "network"  # the file's name in the run directory, without its ending
CLOSE, CLOSE_IN_HALF = 1e-4, 2e-2  # by which probabilities may differ from the original's
CHECKED = (3, 1)  # images that pass at once: their number must be free
TRACED = 2


class Deployed(nn.Module):
    """Images [B, C, H, W] in [0, 1] to probabilities [B, K] or, of a segmenter, [B, K, H, W], all in 32 bits; of a
    detector to boxes.

    half: the weights are in 16 bits, and so is what passes through the network.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, model: TrainedModel, half: bool = False):
        super().__init__()
        self.dtype = torch.float16 if half else torch.float32
        self.network = copy.deepcopy(model.network).to("cpu", self.dtype).to(memory_format=torch.contiguous_format)
        self.task, self.size, self.channels = model.task, model.size, model.channels
        for name in ("mean", "std"):
            self.register_buffer(name, torch.tensor(getattr(model, name)).view(-1, 1, 1))
        self.eval().requires_grad_(False)

    def forward(self, image: Tensor) -> Tensor:
        seen = (image - self.mean) / self.std
        return self.task.probabilities(self.network(seen.to(self.dtype)))

    def example(self, count: int = TRACED) -> Tensor:
        random = seeds.generator("cpu", 0, "export", count)
        return torch.rand(count, self.channels, *self.size, generator=random)


def write_network(
    config: Config, path: Path, target: str, output: Path | None, checkpoint: str | None, which: str | None, half: bool
) -> list[str]:
    """The network of the run in ``path`` in the format ``target``; returns lines that say what was written."""
    entry, format = FORMATS[target], FORMATS.load(target)
    model = load_trained(config, path, checkpoint, which)
    output = output or path / f"{NETWORK}{entry.ending}"
    if output.suffix != entry.ending:
        raise UserError(f"--output {output} must end in {entry.ending}")
    about = description(model, half)
    if entry.traced and (why := getattr(model.network, "not_traced", "")):
        raise UserError(f"{model.name} cannot be written as {target}: {why}; --target safetensors has its weights")
    try:
        content = format.content(Deployed(model, half), about)
    except UserError:
        raise
    except Exception as error:  # of a network that cannot be traced, each tracer has its own
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise UserError(f"{model.name} cannot be written as {target}: {reason}") from None
    difference = check(format, content, model, CLOSE_IN_HALF if half else CLOSE)
    measured = policies.measured_in(path, model.file.stem, model.about)
    text = card(output.name, entry, model, about, policies.about(model.about, measured)["provenance"], difference)
    beside = output.with_name(f"{output.name}.md")
    write_atomically(output, lambda opened: opened.write(content))
    write_atomically(beside, lambda opened: opened.write(text.encode()))
    taken = f"the {model.which} of epoch {model.epoch} ({model.file.name})"
    return [
        f"{output}  {model.name}, {taken}: {len(model.classes)} classes, {len(content) / 1e6:.1f} MB",
        f"{beside}  what it is and how it is used",
        f"checked by running it: its {TASKS[model.task_name].gives} {agreement(difference)}",
    ]


def description(model: TrainedModel, half: bool) -> dict[str, Any]:
    """What the file says about itself."""
    return {
        "model": model.name,
        "task": model.task_name,
        "classes": model.classes,
        "size": list(model.size),
        "channels": model.channels,
        "mean": list(model.mean),
        "std": list(model.std),
        "centre": model.preparation.centre,
        "interpolation": model.preparation.interpolation,
        "fit": model.preparation.fit,
        "which": model.which,
        "epoch": model.epoch,
        "half": half,
        "teachaugment": __version__,
    }


@torch.no_grad()
def check(format: Any, content: bytes, model: TrainedModel, close: float) -> float:
    """By how much the probabilities of what was made differ from those of the run's own network, at most."""
    network, worst = copy.deepcopy(model.network).cpu(), 0.0
    for count in CHECKED:
        image = torch.rand(count, model.channels, *model.size, generator=seeds.generator("cpu", 1, "export", count))
        expected = model.task.probabilities(network(model.task.normalize(image)))
        found = format.outputs(content, model, image)
        if found.shape != expected.shape:
            raise UserError(f"{model.name} in this format gives {list(found.shape)}, not {list(expected.shape)}")
        apart = (found - expected).abs() / expected.abs().clamp_min(1)  # of probabilities this is the difference
        worst = max(worst, float(apart.nan_to_num(torch.inf).max()))
    if worst > close:
        raise UserError(
            f"{model.name} in this format gives other {TASKS[model.task_name].gives} than the run's network (by "
            f"{worst:.0e}, more than {close:.0e}); nothing was written"
        )
    return worst


def as_texts(about: Mapping[str, Any]) -> dict[str, str]:
    """The same for formats whose metadata are texts."""
    return {name: json.dumps(value) for name, value in about.items()}
