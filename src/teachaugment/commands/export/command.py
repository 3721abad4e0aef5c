"""``teachaugment export``: what a run has learned, as files to take along."""

from __future__ import annotations

import argparse
from pathlib import Path

from teachaugment.commands.export import FORMATS
from teachaugment.errors import UserError
from teachaugment.terminal import print_text, say_here

_WIDTH = max(map(len, FORMATS))
_FORMATS = "\n".join(f"  {name:<{_WIDTH}}  {format.help} ({format.ending})" for name, format in FORMATS.items())

EXAMPLES = f"""\
examples:
  teachaugment export runs/RUN                               writes runs/RUN/policy.safetensors and policy.md
  teachaugment export runs/RUN --checkpoint best -o bees.safetensors
  teachaugment export runs/RUN --snapshots -o replay.safetensors
  teachaugment export runs/RUN --onnx policy.onnx
  teachaugment export runs/RUN --backbone                    writes runs/RUN/backbone.safetensors
  teachaugment export runs/RUN --target onnx                 writes runs/RUN/network.onnx and network.onnx.md
  teachaugment export runs/RUN --target safetensors --half -o bees.safetensors

A policy is used by teachaugment.load_policy in Python and by teachaugment train --policy, and seen with preview. A run
of two views has two of them: policy.safetensors and policy-2.safetensors.

--target is for the trained network instead, of the best epoch where there is one:
{_FORMATS}
Normalisation is inside (with safetensors, in the header), and so are the names of the classes and the size of the
images, whose number is free. What was written is run, and compared with the run's network.

The backbone is the trained network without its classifier, or without the heads of a self-supervised task. The weights
of a ResNet have the names that torchvision and timm use:
  torchvision.models.resnet50().load_state_dict(safetensors.torch.load_file(FILE), strict=False)   # all but fc
  timm.create_model("resnet50", num_classes=0).load_state_dict(safetensors.torch.load_file(FILE))
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run directory")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="default: in the run directory, policy.safetensors or network.…"
    )
    parser.add_argument("--backbone", action="store_true", help="the network that gives features, and no policy")
    parser.add_argument("--target", choices=FORMATS.names, help="the trained network in this format, and no policy")
    parser.add_argument("--half", action="store_true", help="with --target: weights of 16 bits")
    parser.add_argument(
        "--which",
        choices=("target", "teacher"),
        help="with --target: teacher, the moving average [the better one, if known]",
    )
    parser.add_argument(
        "--checkpoint",
        choices=("last", "best"),
        help="best: chosen on the validation split [last; with --target best where there is one]",
    )
    parser.add_argument("--snapshots", action="store_true", help="take the earlier augmenters of the replay along")
    parser.add_argument("--onnx", metavar="FILE", help="write it as ONNX too, a function of images and given noise")


def run(arguments: argparse.Namespace) -> int:
    from teachaugment.engine import checkpoint, directory, policies

    path = directory.existing_run(arguments.run)
    check(arguments)
    if arguments.target:
        from teachaugment.commands.export.network import write_network

        output = Path(arguments.output) if arguments.output else None
        config = directory.settings_of(path, "cpu")
        how = arguments.target, output, arguments.checkpoint, arguments.which, arguments.half
        print_text("\n".join(write_network(config, path, *how)))
        return 0
    if arguments.backbone:
        from teachaugment.engine.features import BACKBONE, write_backbone

        print_text(write_backbone(path, arguments.checkpoint or "last", Path(arguments.output or path / BACKBONE)))
        return 0
    state, file = checkpoint.chosen(path, arguments.checkpoint or "last")
    checkpoint.of_run(state, file)
    measured = policies.measured_in(path, arguments.checkpoint or "last", state)
    found = policies.in_checkpoint(state, measured, arguments.snapshots)
    output = Path(arguments.output) if arguments.output else path / directory.POLICY
    for file, card in policies.write(found, output):
        print_text(f"{file}  the policy of epoch {state['epoch']}\n{card}  what it is, for those who get it")
    if arguments.onnx:
        from teachaugment.policy.given_noise import write_onnx

        height, width = state["data"]["size"]
        say_here("tracing it for ONNX, which takes up to a minute …")
        write_onnx(found[0], Path(arguments.onnx), height, width)
        print_text(f"{arguments.onnx}  the same as a function of images of {height}×{width} and noise")
    return 0


def check(arguments: argparse.Namespace) -> None:
    """Complain about flags that have nothing to do with each other."""
    kind = "--target" if arguments.target else "--backbone" if arguments.backbone else ""
    if kind and (arguments.snapshots or arguments.onnx):
        raise UserError(f"--snapshots and --onnx are of a policy; leave them out with {kind}")
    if arguments.target and arguments.backbone:
        raise UserError("--target is the whole network, --backbone a part of it; name one")
    if not arguments.target and (arguments.half or arguments.which):
        raise UserError("--half and --which are of a network; name its format with --target")
