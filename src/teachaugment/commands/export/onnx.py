"""The network as ONNX, for any number of images."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from teachaugment.commands.export.network import Deployed, as_texts
from teachaugment.engine.trained import TrainedModel
from teachaugment.errors import UserError
from teachaugment.tasks import TASKS
from teachaugment.terminal import say


def content(deployed: Deployed, about: dict[str, Any]) -> bytes:
    try:
        import onnx
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise UserError(f"{error.name} is not installed; install it with: pip install '.[onnx]'") from None
    say("tracing it for ONNX, which takes up to a minute …")
    with torch.no_grad():
        program = torch.onnx.export(
            deployed,
            (deployed.example(),),
            input_names=["image"],
            output_names=[TASKS[about["task"]].gives],
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    proto = program.model_proto
    onnx.helper.set_model_props(proto, as_texts(about))
    return proto.SerializeToString()


def outputs(content: bytes, model: TrainedModel, image: Tensor) -> Tensor:
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(None, {"image": image.numpy()})[0])
