"""The model card of an exported network, in the form the Hugging Face hub shows: its origin, its use and its limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from teachaugment import models
from teachaugment.commands.export import Format
from teachaugment.engine.trained import TrainedModel
from teachaugment.policy.card import accuracies, plain, table
from teachaugment.tasks import TASKS

TAGS = ["teachaugment", "computer-vision"]
SHOWN = 50  # classes by name

LIMITS = """\
- It was trained on the data above. On other images it may be wrong without being unsure: try it on some of yours.
- It answers with one of its classes, also where an image shows none of them.
- {images}
- The accuracy above is that of the whole test split; single classes may be far from it."""


def card(
    file: str,
    format: Format,
    model: TrainedModel,
    about: Mapping[str, Any],
    provenance: Mapping[str, Any],
    difference: float,
) -> str:
    """Markdown with the hub's YAML in front; ``file`` is the network's file name."""
    task = TASKS[model.task_name]
    front = {"license": "unknown", "tags": TAGS, **({"pipeline_tag": task.tag} if task.tag else {})}
    height, width = model.size
    example = f"(1, {model.channels}, {height}, {width})"
    imports, made = models.plain_code(model.name, len(model.classes), model.channels, model.size)
    said = {"gives": task.gives, "output_code": task.output_code}
    use = format.use.format(file=file, shape=example, imports=imports, network=made, **said)
    parts = [
        f"---\n{yaml.safe_dump(front, sort_keys=False)}---",
        f"# {plain(model.name)} trained on {plain(provenance.get('data', 'unknown data'))}",
        f"{task.help[0].upper()}{task.help[1:]}, by a network that was trained with teachaugment. The licence of this "
        "file is its owner's to choose.",
        f"## What it is\n\n{table(facts(model, about, provenance))}",
        f"## Use\n\n{use}\n\n{preparation(model, about)}",
        f"This file was run when it was written: its {task.gives} {agreement(difference)}. From the run itself it is "
        "`teachaugment.load_model(run).predict(images)`.",
        f"## Classes\n\n{names(model.classes)}",
        f"## Limits\n\n{LIMITS.format(images=f'Images must be {height}×{width}; their number is free.')}",
    ]
    return "\n\n".join(parts) + "\n"


def facts(model: TrainedModel, about: Mapping[str, Any], provenance: Mapping[str, Any]) -> list[tuple[str, str]]:
    which = "the network that was trained" if about["which"] == "target" else "its moving average, the teacher"
    rows: list[tuple[str, Any]] = [
        ("network", model.name),
        ("weights", f"{which}; epoch {about['epoch']}; {'16' if about['half'] else '32'} bits"),
        ("parameters", f"{sum(p.numel() for p in model.network.parameters()):,}"),
        ("data", provenance.get("data")),
        ("training images", provenance.get("images")),
        ("fingerprint of the data", provenance.get("fingerprint")),
        ("seed", provenance.get("seed")),
        *accuracies(provenance.get("measured")),
        ("input", f"{model.channels} channels, {model.size[0]}×{model.size[1]}"),
        *((name, ", ".join(f"{value:.4f}" for value in about[name])) for name in ("mean", "std")),
        ("package", f"teachaugment {about['teachaugment']}"),
    ]
    return [(name, str(value)) for name, value in rows if value is not None]


def preparation(model: TrainedModel, about: Mapping[str, Any]) -> str:
    """How an image becomes what the network was evaluated on."""
    if model.preparation.size is None:
        return TASKS[model.task_name].prepared
    share = about["centre"]
    cut = {
        "crop": "the largest centred part with these proportions",
        "squash": "all",
        "pad": "all, with black beside it so that it has these proportions,",
    }[about["fit"]]
    if share != 1:
        cut = f"of {cut} the middle {100 * share:.4g} % (of each side)"
    return f"Of an image, {cut} is resized to {model.size[0]}×{model.size[1]} ({about['interpolation']}, antialiased)."


def agreement(difference: float) -> str:
    """What a comparison with the run's own network has found."""
    return f"differ from the run's by {difference:.0e} at most" if difference else "are the run's"


def names(classes: list[str]) -> str:
    shown = ", ".join(f"{k} {plain(name)}" for k, name in enumerate(classes[:SHOWN]))
    return shown + (f", … ({len(classes)}; the file has all of them)" if len(classes) > SHOWN else "")
