"""``teachaugment preview``: images of your own beside what a policy makes of them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from teachaugment.errors import UserError
from teachaugment.terminal import print_text

if TYPE_CHECKING:
    from PIL import Image
    from torch import Tensor

    from teachaugment.policy.policy import Policy

EXAMPLES = """\
examples:
  teachaugment preview runs/RUN cat.jpg dog.jpg -o preview.png
  teachaugment preview policy.safetensors cat.jpg --class cat --draws 8 --seed 1 --strength 0.5
"""

SIDE = 192  # pixels of the longer side, in the picture


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("policy", metavar="POLICY_OR_RUN", help="a policy file or a run directory")
    parser.add_argument("images", metavar="IMAGE", nargs="+", help="image files")
    parser.add_argument("-o", "--output", metavar="FILE", default="preview.png", help="the picture [preview.png]")
    parser.add_argument("--draws", metavar="N", type=int, default=4, help="augmented versions of each image [4]")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="other versions for another number [0]")
    parser.add_argument("--strength", metavar="X", type=float, default=1.0, help="0: no change, 1: as learned [1]")
    parser.add_argument("--class", metavar="NAME", dest="context", help="augment as this class; default: one is drawn")


def run(arguments: argparse.Namespace) -> int:
    if arguments.draws < 1:
        raise UserError(f"--draws must be at least 1, not {arguments.draws}")
    from teachaugment.policy.load import load_policy
    from teachaugment.show.pictures import comparison

    policy = load_policy(arguments.policy, context=arguments.context, strength=arguments.strength)
    pictures = [opened(Path(name), policy) for name in arguments.images]
    made = [draws(policy, picture, arguments.draws, arguments.seed + i) for i, picture in enumerate(pictures)]
    originals = framed([as_tensor(picture) for picture in pictures])
    versions = [framed(list(parts)) for parts in zip(*made, strict=True)]
    suffix = "" if arguments.context is None else f" as {arguments.context}"
    names = [Path(name).name + suffix for name in arguments.images]
    sheet = comparison(originals, versions, names, columns=1, cell=SIDE)
    try:
        sheet.save(arguments.output)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot write --output {arguments.output}: {error}") from None
    print_text(f"{arguments.output}  {len(pictures)} image(s), {arguments.draws} version(s) of each")
    return 0


def opened(path: Path, policy: Policy, side: int = SIDE) -> Image.Image:
    """An image file, upright, in the policy's channels, no larger than what will be shown."""
    from PIL import ImageOps

    from teachaugment.data import decode
    from teachaugment.data.opened import opened as open_file

    try:
        with open_file(path) as file:
            return prepared(ImageOps.exif_transpose(file), policy, side)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"cannot read image {path}: {decode.reason(error)}") from None


def prepared(picture: Image.Image, policy: Policy, side: int) -> Image.Image:
    modes = {1: "L", 3: "RGB"}
    channels = policy.augmenter.settings.channels
    if channels not in modes:
        raise UserError(f"this policy takes images of {channels} channels; only those of 1 and 3 can be shown")
    picture = picture.convert(modes[channels])
    picture.thumbnail((side, side))
    return picture


def draws(policy: Policy, picture: Image.Image, count: int, seed: int) -> list[Tensor]:
    """Versions of one image, [C, H, W] in [0, 1]; each is a function of the seed and its number."""
    from teachaugment.batch import Batch
    from teachaugment.seeds import generator

    batch = Batch(as_tensor(picture)[None])
    device = policy.augmenter.device
    return [policy.augment(batch.to(device), generator(device, seed, "preview", i)).image[0] for i in range(count)]


def as_tensor(picture: Image.Image) -> Tensor:
    import numpy as np
    import torch

    pixels = torch.from_numpy(np.array(picture)).float() / 255
    return pixels[None] if pixels.ndim == 2 else pixels.permute(2, 0, 1)


def framed(images: list[Tensor]) -> Tensor:
    """Images of several sizes as one batch: small ones enlarged by a whole factor, all centred, on white."""
    import torch.nn.functional as F
    from torch import stack

    factors = [max(1, SIDE // max(image.shape[-2:])) for image in images]
    grown = [x.repeat_interleave(k, -1).repeat_interleave(k, -2) for x, k in zip(images, factors, strict=True)]
    height, width = (max(image.shape[axis] for image in grown) for axis in (-2, -1))
    padded = []
    for image in grown:
        high, wide = height - image.shape[-2], width - image.shape[-1]
        padded.append(F.pad(image, (wide // 2, wide - wide // 2, high // 2, high - high // 2), value=1.0))
    return stack(padded)
