"""``teachaugment export``: what a run has learned, as files to take along."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from teachaugment.errors import UserError

if TYPE_CHECKING:
    from teachaugment.policy.policy import Policy

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
    from teachaugment.engine import checkpoint, directory

    path = directory.existing_run(arguments.run)
    if arguments.backbone:
        if arguments.snapshots or arguments.onnx:
            raise UserError("--snapshots and --onnx are of a policy; leave them out with --backbone")
        from teachaugment.engine.features import BACKBONE, write_backbone

        print(write_backbone(path, arguments.checkpoint, Path(arguments.output or path / BACKBONE)))
        return 0
    best = arguments.checkpoint == "best"
    state = checkpoint.load(path / checkpoint.BEST) if best else checkpoint.newest(path)[0]
    policies = policies_of(state, measured_in(path, arguments.checkpoint, state), arguments.snapshots)
    output = Path(arguments.output) if arguments.output else path / directory.POLICY
    for file, card in write_all(policies, output):
        print(f"{file}  the policy of epoch {state['epoch']}\n{card}  what it is, for those who get it")
    if arguments.onnx:
        policy = policies[0]
        from teachaugment.policy.given_noise import write_onnx

        height, width = state["data"]["size"]
        print("tracing it for ONNX, which takes up to a minute …", file=sys.stderr, flush=True)
        write_onnx(policy, Path(arguments.onnx), height, width)
        print(f"{arguments.onnx}  the same as a function of images of {height}×{width} and noise")
    return 0


def policies_of(state: dict[str, Any], measured: dict[str, Any] | None = None, snapshots: bool = False) -> list[Policy]:
    """What a run has learned: one policy, or one for each of two views."""
    parts = [("augmenter", "replay"), ("second", "second_replay")]
    teach = state["teach"] or {"augmenter": None}
    return [policy_of(state, measured, snapshots, names) for names in parts if names[0] in teach]


def policy_of(
    state: dict[str, Any],
    measured: dict[str, Any] | None = None,
    snapshots: bool = False,
    names: tuple[str, str] = ("augmenter", "replay"),
) -> Policy:
    """A policy in a run's state, as the trainer has it and its checkpoints keep it, under these names."""
    import torch

    from teachaugment.augment import create
    from teachaugment.policy.policy import Policy
    from teachaugment.replay import Replay

    config, data, teach = state["config"], state["data"], state["teach"]
    if teach is None:
        raise UserError(f"this run learned no augmentation: its strategy was {config['augment']['strategy']}")
    with torch.random.fork_rng(devices=[]):
        augmenter = create(teach["kind"], **teach["settings"])
    augmenter.load_state_dict(teach[names[0]])
    replay = None
    if snapshots and teach[names[1]]["count"]:
        replay = Replay(augmenter, config["teach"]["replay_decay"])
        replay.load_state_dict(teach[names[1]])
    return Policy(
        augmenter,
        replay=replay,
        classes=data["classes"] if augmenter.settings.classes else None,
        normalization={"mean": data["mean"], "std": data["std"]},
        provenance={
            "task": config["task"],
            "data": data["name"],
            "fingerprint": data["fingerprint"],
            "images": data["train_images"],
            "size": list(data["size"]),
            "model": config["model"]["name"],
            "epochs": state["epoch"],
            "seed": config["seed"],
            "measured": measured,
        },
    )


def measured_as(split: str, metric: str, results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What was measured with the target and the teacher on a split, for the policy's provenance."""
    return {"split": split, "metric": metric, **{name: float(result[metric]) for name, result in results.items()}}


def measured_in(path: Path, which: str, state: dict[str, Any]) -> dict[str, Any] | None:
    """The same from a finished run's ``metrics.json``, if it is of this state."""
    from teachaugment.engine.directory import METRICS

    try:
        metrics = json.loads((path / METRICS).read_text(encoding="utf-8"))
        found = metrics["best"] if which == "best" else metrics
        if found["epoch"] == state["epoch"]:
            return measured_as("test", metrics.get("metric", "accuracy"), found["test"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def write_all(policies: list[Policy], path: Path) -> list[tuple[Path, Path]]:
    """All policies of a run, the second one as NAME-2, with their model cards; returns the paths of both."""
    paths = [path, path.with_stem(f"{path.stem}-2")]
    return [(place, write(policy, place)) for place, policy in zip(paths, policies, strict=False)]


def write(policy: Policy, path: Path) -> Path:
    """The policy and, beside it, its model card, whose path is returned."""
    from teachaugment.files import write_atomically
    from teachaugment.policy.card import card

    beside, text = path.with_suffix(".md"), card(policy, path.name)
    policy.save(path)
    write_atomically(beside, lambda file: file.write(text.encode()))
    return beside
