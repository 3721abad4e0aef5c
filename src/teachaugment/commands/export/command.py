"""``teachaugment export``: what a run has learned, as files to take along."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from teachaugment.errors import UserError

EXAMPLES = """\
examples:
  teachaugment export runs/RUN                               writes runs/RUN/policy.safetensors and policy.md
  teachaugment export runs/RUN --checkpoint best -o bees.safetensors
  teachaugment export runs/RUN --snapshots -o replay.safetensors
  teachaugment export runs/RUN --onnx policy.onnx
  teachaugment export runs/RUN --backbone                    writes runs/RUN/backbone.safetensors

A policy is used by teachaugment.load_policy in Python and by teachaugment train --policy, and seen with preview. A run
of two views has two of them: policy.safetensors and policy-2.safetensors.

The backbone is the trained network without its classifier, or without the heads of a self-supervised task. The weights
of a ResNet have the names that torchvision and timm use:
  torchvision.models.resnet50().load_state_dict(safetensors.torch.load_file(FILE), strict=False)   # all but fc
  timm.create_model("resnet50", num_classes=0).load_state_dict(safetensors.torch.load_file(FILE))
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run directory")
    parser.add_argument("-o", "--output", metavar="FILE", help="default: policy.safetensors in the run directory")
    parser.add_argument("--backbone", action="store_true", help="the network that gives features, and no policy")
    parser.add_argument(
        "--checkpoint", choices=("last", "best"), default="last", help="best: chosen on the validation split [last]"
    )
    parser.add_argument("--snapshots", action="store_true", help="take the earlier augmenters of the replay along")
    parser.add_argument("--onnx", metavar="FILE", help="write it as ONNX too, a function of images and given noise")


def run(arguments: argparse.Namespace) -> int:
    from teachaugment.engine import checkpoint, directory, policies

    path = directory.existing_run(arguments.run)
    if arguments.backbone:
        if arguments.snapshots or arguments.onnx:
            raise UserError("--snapshots and --onnx are of a policy; leave them out with --backbone")
        from teachaugment.engine.features import BACKBONE, write_backbone

        print(write_backbone(path, arguments.checkpoint, Path(arguments.output or path / BACKBONE)))
        return 0
    best = arguments.checkpoint == "best"
    state = checkpoint.load(path / checkpoint.BEST) if best else checkpoint.newest(path)[0]
    measured = policies.measured_in(path, arguments.checkpoint, state)
    found = policies.in_checkpoint(state, measured, arguments.snapshots)
    output = Path(arguments.output) if arguments.output else path / directory.POLICY
    for file, card in policies.write(found, output):
        print(f"{file}  the policy of epoch {state['epoch']}\n{card}  what it is, for those who get it")
    if arguments.onnx:
        from teachaugment.policy.given_noise import write_onnx

        height, width = state["data"]["size"]
        print("tracing it for ONNX, which takes up to a minute …", file=sys.stderr, flush=True)
        write_onnx(found[0], Path(arguments.onnx), height, width)
        print(f"{arguments.onnx}  the same as a function of images of {height}×{width} and noise")
    return 0
