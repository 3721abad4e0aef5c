"""The network of a run that gives features: trained, averaged, or as it was before training."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import torch
from safetensors.torch import save
from torch import nn

from teachaugment.config.resolve import read_yaml, resolve
from teachaugment.engine import build, directory, restore
from teachaugment.engine.precision import LowPrecision
from teachaugment.engine.probe import calibrate
from teachaugment.engine.trainer import Trainer
from teachaugment.errors import UserError
from teachaugment.files import write_atomically
from teachaugment.models.backbone import backbone
from teachaugment.models.simsiam import SimSiam
from teachaugment.seeds import mix

BACKBONE = "backbone.safetensors"


def features_of(model: nn.Module, trainer: Trainer) -> tuple[nn.Module, int]:
    """The part of a run's target or teacher that gives features, in eval mode, and how many they are."""
    inner = model.network if isinstance(model, LowPrecision) else model
    if isinstance(inner, SimSiam):
        return inner.backbone.eval(), inner.features
    if not isinstance(inner, nn.Module):
        raise TypeError(f"not a network: {type(inner)}")
    config = trainer.config
    network, width = backbone(copy.deepcopy(inner), len(trainer.data.classes), config.model.name)
    return network.eval(), width


def untrained(trainer: Trainer) -> nn.Module:
    """The network of a run with its initial weights; only its batch norms have seen images."""
    torch.manual_seed(mix(trainer.config.seed, "init"))
    model = build.new_target(trainer.config, trainer.data).to(trainer.device)
    calibrate(features_of(model, trainer)[0], trainer.reference(), trainer.task.normalize)
    return model


def write_backbone(path: Path, which: str, output: Path) -> str:
    """The backbone of the run in ``path`` as safetensors; returns a line that says what was written."""
    if output.suffix != ".safetensors":
        raise UserError(f"--output {output} must end in .safetensors")
    config = resolve(read_yaml(path / directory.CONFIG))
    trainer, name = restore.restored(config, path, which)
    network, width = features_of(trainer.target, trainer)
    tensors = {key: value.detach().cpu().contiguous() for key, value in network.state_dict().items()}
    data = trainer.data
    images = {"channels": data.channels, "size": list(data.size), "mean": list(data.mean), "std": list(data.std)}
    about = {
        "model": config.model.name,
        "features": width,
        "checkpoint": name,
        "epoch": trainer.epoch,
        "images": images,
    }
    written = save(tensors, metadata={"teachaugment": json.dumps(about)})
    write_atomically(output, lambda file: file.write(written))
    return f"{output}  {config.model.name} without its classifier: {len(tensors)} tensors, {width} features per image"
