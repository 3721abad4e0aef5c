"""The network as torch.export makes it, which is what PyTorch recommends in the place of TorchScript."""

from __future__ import annotations

import io
import json
from typing import Any

import torch
from torch import Tensor

from teachaugment.commands.export.network import Deployed
from teachaugment.engine.trained import TrainedModel

ABOUT = "about.json"


def content(deployed: Deployed, about: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    with torch.no_grad():
        batch = torch.export.Dim("batch")
        program = torch.export.export(deployed, (deployed.example(),), dynamic_shapes=({0: batch},))
    torch.export.save(program, file, extra_files={ABOUT: json.dumps(about)})
    return file.getvalue()


def outputs(content: bytes, model: TrainedModel, image: Tensor) -> Tensor:
    return torch.export.load(io.BytesIO(content)).module()(image)
