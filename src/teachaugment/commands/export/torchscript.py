"""The network as TorchScript, by tracing. PyTorch has deprecated it; C++ programs and older versions load it."""

from __future__ import annotations

import io
import json
import warnings
from typing import Any

import torch
from torch import Tensor

from teachaugment.commands.export.network import Deployed
from teachaugment.engine.trained import TrainedModel

ABOUT = "about.json"


def content(deployed: Deployed, about: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is deprecated, and that sizes are constants, which is what is wanted
        program = torch.jit.trace(deployed, deployed.example(), check_trace=False)
        torch.jit.save(program, file, _extra_files={ABOUT: json.dumps(about)})
    return file.getvalue()


def outputs(content: bytes, model: TrainedModel, image: Tensor) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.load(io.BytesIO(content))(image)
