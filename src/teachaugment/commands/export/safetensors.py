"""The weights alone, under the names they have in the plain network, with all else in the header."""

from __future__ import annotations

from typing import Any

import safetensors.torch
from torch import Tensor

from teachaugment import models
from teachaugment.commands.export.network import Deployed, as_texts
from teachaugment.engine.trained import TrainedModel


def content(deployed: Deployed, about: dict[str, Any]) -> bytes:
    weights = models.plain(deployed.network).state_dict()
    # A copy of each: what two layers share would be refused.
    tensors = {name: value.detach().clone().contiguous() for name, value in weights.items()}
    return safetensors.torch.save(tensors, metadata={"format": "pt", **as_texts(about)})


def outputs(content: bytes, model: TrainedModel, image: Tensor) -> Tensor:
    """As somebody does it who has the file and the network's name."""
    network = models.create(model.name, len(model.classes), model.channels, model.size)
    models.plain(network).load_state_dict(safetensors.torch.load(content))
    return model.task.probabilities(network.eval()(model.task.normalize(image)))
