"""The network of a run that gives features: trained, averaged, or as it was before training."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import torch
from safetensors.torch import save
from torch import nn

from teachaugment.engine import directory, restore
from teachaugment.engine.precision import LowPrecision
from teachaugment.engine.probe import calibrate
from teachaugment.engine.trained import UNFIT, unfit, without_images
from teachaugment.engine.trainer import Trainer
from teachaugment.errors import UserError
from teachaugment.files import write_atomically
from teachaugment.seeds import derive
from teachaugment.tasks import TASKS

BACKBONE = "backbone.safetensors"


def features_of(model: nn.Module, trainer: Trainer) -> tuple[nn.Module, int]:
    """The part of a run's target or teacher that gives features, in eval mode, and how many they are."""
    inner = model.network if isinstance(model, LowPrecision) else model
    network, width = trainer.task.features(copy.deepcopy(inner), trainer.config.model.name)
    return network.eval(), width


def untrained_features(trainer: Trainer) -> tuple[nn.Module, int]:
    """The same of the run's network with its initial weights; only its batch norms have seen images."""
    torch.manual_seed(derive(trainer.config.seed, "init"))
    model = trainer.task.network(trainer.config, trainer.data).to(trainer.device)
    network, width = features_of(model, trainer)
    calibrate(network, trainer.reference(), trainer.task.normalize)
    return network, width


def write_backbone(path: Path, which: str, output: Path) -> str:
    """The backbone of the run in ``path`` as safetensors; returns a line that says what was written.

    The run's data may be gone.
    """
    if output.suffix != ".safetensors":
        raise UserError(f"--output {output} must end in .safetensors")
    config, state, file = restore.checkpoint_of(directory.settings_of(path, "cpu"), path, which, replay=False)
    dataset = without_images(state["data"])
    task = TASKS.load(config.task).from_config(config, dataset)
    target = task.network(config, dataset)
    try:
        target.load_state_dict(state["target"])
    except UNFIT as error:
        raise unfit(file, config, error) from None
    network, width = task.features(target, config.model.name)
    tensors = {key: value.detach().cpu().contiguous() for key, value in network.state_dict().items()}
    images = {name: state["data"][name] for name in ("channels", "size", "mean", "std")}
    about = {
        "model": config.model.name,
        "features": width,
        "checkpoint": file.name,
        "epoch": state["epoch"],
        "images": images,
    }
    written = save(tensors, metadata={"teachaugment": json.dumps(about)})
    write_atomically(output, lambda file: file.write(written))
    what = f"{config.model.name} without its classifier"
    return f"{output}  {what}: {len(tensors)} tensors, {width} features per image"
