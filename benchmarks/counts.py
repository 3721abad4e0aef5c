"""What can be counted about a training without running it: parameters, operations, bytes that are kept."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode
from torchvision.transforms.functional import to_pil_image

from teachaugment.augment.neural import NeuralAugmenter
from teachaugment.commands.bench.objects import tensor_bytes
from teachaugment.data.decode import open_image, random_crop, random_crops
from teachaugment.hyperparameters import Hyperparameters
from teachaugment.models import create
from teachaugment.networks import frozen
from teachaugment.replay import Replay


@dataclass(frozen=True)
class Counts:
    """What one network with the augmenter for its classes needs; operations and activations per image, in 32 bits."""

    model: str
    size: int
    parameters: int
    buffer_bytes: int  # what batch norm has learned
    augmenter_parameters: int
    replay_bytes: int
    step_flops: float  # forward and backward of the target's own update
    update_flops: float  # of the augmenter's update: both networks, gradients to the image only
    step_activations: float  # bytes kept for the backward pass
    update_activations: float

    @property
    def update_steps(self) -> float:
        """The augmenter's update in plain steps."""
        return self.update_flops / self.step_flops


def count(model: str, classes: int = 1000, size: int = 224, snapshots: int = 270) -> Counts:
    """On the meta device, where tensors have shapes and nothing else."""
    with torch.device("meta"):
        target = create(model, classes, 3, (size, size)).train()
        augmenter = NeuralAugmenter(**Hyperparameters(augmenter="neural").of_augmenter(3, classes))
        images = torch.rand(2, 3, size, size)
        replay = Replay(augmenter)
        for _ in range(snapshots):
            replay.push()
        teacher = create(model, classes, 3, (size, size)).eval().requires_grad_(False)
    seen = images.clone().requires_grad_()
    plain = _run(lambda: target(images), len(images), target)
    update = _run(lambda: frozen(target, seen) + frozen(teacher, seen), len(images), target, teacher)
    return Counts(
        model=model,
        size=size,
        parameters=sum(p.numel() for p in target.parameters()),
        buffer_bytes=sum(b.nbytes for b in target.buffers() if b.is_floating_point()),
        augmenter_parameters=tensor_bytes(augmenter) // 4,
        replay_bytes=replay.nbytes(),
        step_flops=plain[0],
        update_flops=update[0],
        step_activations=plain[1],
        update_activations=update[1],
    )


def _run(forward: Callable[[], Tensor], images: int, *networks: nn.Module) -> tuple[float, float]:
    """Operations of a forward and backward pass, and bytes kept in between besides the weights, per image."""
    weights = {w.untyped_storage()._cdata for network in networks for w in (*network.parameters(), *network.buffers())}
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage()._cdata] = tensor
        return tensor

    with FlopCounterMode(display=False) as counter:
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            output = forward()
        saved = sum(tensor.untyped_storage().nbytes() for key, tensor in kept.items() if key not in weights)
        output.sum().backward()
    return counter.get_total_flops() / images, saved / images


def decode_rate(seconds: float = 1.0) -> float:
    """Photographs that a core decodes and crops in a second of its time: a smooth random JPEG of 500 × 375 pixels."""
    random = torch.Generator().manual_seed(0)
    small = torch.randint(256, (1, 3, 94, 125), generator=random).float()
    image = F.interpolate(small, (375, 500), mode="bicubic").clamp(0, 255).to(torch.uint8)[0]
    done, began = 0, time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/photograph.jpg"
        to_pil_image(image).save(path, quality=90)
        while time.process_time() - began < seconds:
            random_crops(open_image(path), path, (224, 224), [random_crop(0.08, random)])
            done += 1
    return done / (time.process_time() - began)
