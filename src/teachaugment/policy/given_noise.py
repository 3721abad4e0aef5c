"""A policy as a pure function: all its randomness comes in as tensors, for ``torch.export``, ONNX and other runtimes.

    module = load_policy("policy.safetensors").with_noise()
    program = torch.export.export(module, module.example(8, 32, 32), dynamic_shapes=module.dynamic())

Export under ``torch.no_grad()``: with gradients the draws are the relaxed ones of the training.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

from teachaugment.augment.functional import affine_warp
from teachaugment.augment.mlp import Live, Sources
from teachaugment.augment.neural import NeuralAugmenter, Noise
from teachaugment.errors import UserError
from teachaugment.files import write_atomically
from teachaugment.policy.policy import Policy

INPUTS = ("image", "label", "applied", "noise", "color_units", "geometry_units", "rgb_units")


class GivenNoise(nn.Module):
    """Images [B, C, H, W] in [0, 1] to augmented images, with the policy's strength.

    label:           [B], whole numbers: the class each image is augmented as. A policy without classes ignores it.
    applied:         [B, 2], uniform in [0, 1): whether colour and geometry act.
    noise:           [B, 128], normal.
    color_units:     [B, 2, 512], uniform: the hidden units with the highest numbers are kept, in either layer.
    geometry_units:  [B, 2, 512], uniform.
    rgb_units:       [B, 2, 128], uniform.

    Every image has noise of its own. (In training, images in groups of eight share the kept units of two of the three
    networks, which is faster and, image by image, makes no difference.) Earlier augmenters are not part of it.
    """

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        if not isinstance(policy.augmenter, NeuralAugmenter):
            raise UserError(f"only a neural augmenter has a form with given noise, not {policy.augmenter.name}")
        self.augmenter = policy.augmenter
        self.strength = policy.strength

    def forward(
        self,
        image: Tensor,
        label: Tensor,
        applied: Tensor,
        noise: Tensor,
        color_units: Tensor,
        geometry_units: Tensor,
        rgb_units: Tensor,
    ) -> Tensor:
        augmenter, live = self.augmenter, Live(self.augmenter)
        units = (scores.transpose(0, 1) for scores in (color_units, geometry_units, rgb_units))
        draw = augmenter.draw_from(Noise(applied, noise, *units), label, Sources(live, live), group=1)
        if self.strength != 1:
            draw = augmenter.weakened(draw, self.strength)
        return affine_warp(augmenter.colors.apply_map(image, draw.color), draw.affine)

    def example(self, n: int, height: int, width: int, generator: torch.Generator | None = None) -> tuple[Tensor, ...]:
        """Inputs for ``n`` images: random ones, with noise as the policy draws it."""
        s, device = self.augmenter.settings, self.augmenter.device
        image = torch.rand(n, s.channels, height, width, device=device, generator=generator)
        label = torch.randint(s.classes or 1, (n,), device=device, generator=generator)
        drawn = self.augmenter.noise(n, 1, generator)
        return image, label, drawn.applied, drawn.z, *(u.transpose(0, 1) for u in drawn[2:])

    def dynamic(self) -> dict[str, dict[int, torch.export.Dim]]:
        """For ``torch.export``: any number of images, all of the example's size."""
        batch = torch.export.Dim("batch")
        return {name: {0: batch} for name in INPUTS}


def write_onnx(policy: Policy, path: Path, height: int, width: int) -> None:
    """The function as ONNX, for any number of images of one size."""
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError:
        raise UserError("onnx and onnxscript are not installed; install them: pip install '.[onnx]'") from None
    module = GivenNoise(policy).eval()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "# The axis name")  # all inputs share one, as they should
        program = torch.onnx.export(
            module,
            module.example(2, height, width),
            input_names=list(INPUTS),
            output_names=["augmented"],
            dynamic_shapes=module.dynamic(),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    content = program.model_proto.SerializeToString()
    write_atomically(path, lambda file: file.write(content))
