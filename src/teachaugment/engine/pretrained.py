"""A teacher that was trained before (the paper's ablation of the teacher): from a run, or with downloaded weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from teachaugment import models
from teachaugment.data.splits import DataSet
from teachaugment.engine import checkpoint
from teachaugment.errors import UserError


class Renormalized(nn.Module):
    """A network that expects another mean and standard deviation than the images have been normalised with."""

    factor: Tensor
    shift: Tensor

    def __init__(self, network: nn.Module, have: tuple[Sequence[float], Sequence[float]], want: tuple):
        super().__init__()
        self.network = network
        (mean, std), (own_mean, own_std) = (
            [torch.tensor(part).view(-1, 1, 1) for part in pair] for pair in (have, want)
        )
        self.register_buffer("factor", std / own_std, persistent=False)
        self.register_buffer("shift", (mean - own_mean) / own_std, persistent=False)

    def forward(self, image: Tensor) -> Tensor:
        return self.network(image * self.factor + self.shift)


def load_teacher(source: str, dataset: DataSet, split_seed: int = 0) -> nn.Module:
    """The network ``source``: a run directory, a checkpoint of a run, or the name of a network with known weights.

    ``split_seed`` is the one by which the test images of ``dataset`` were set apart, if they were.
    """
    path = Path(source).expanduser()
    if not path.exists():
        try:
            return models.pretrained(source, len(dataset.classes), dataset.channels, dataset.size)
        except UserError as error:
            raise UserError(f"--teacher {source} is not a run directory or a checkpoint, and {error}") from None
    found = checkpoint.newest(path, replay=False)[0] if path.is_dir() else checkpoint.load(path, replay=False)
    state = checkpoint.of_run(found, path)
    try:
        about, name = state["data"], state["config"]["model"]["name"]
        network = models.create(name, len(about["classes"]), about["channels"], tuple(about["size"]))
        if about["channels"] != dataset.channels:
            raise UserError(f"--teacher {source} takes {about['channels']} channels, the data have {dataset.channels}")
        if about["classes"] != list(dataset.classes):
            raise UserError(f"--teacher {source} was trained on other classes than those of {dataset.name}")
        if not dataset.own_test and about["name"] == dataset.name:
            _check_split(source, state["config"], split_seed)
        network.load_state_dict(state["target"])
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(f"--teacher {source} is not a checkpoint of such a network: {reason}") from None
    have, want = (dataset.mean, dataset.std), (about["mean"], about["std"])
    if [list(part) for part in have] != [list(part) for part in want]:
        network = Renormalized(network, have, want)
    return network


def _check_split(source: str, config: dict[str, Any], split_seed: int) -> None:
    """Refuse a teacher that has learned from images that are tested on here."""
    own = config["data"].get("split_seed")  # of runs that had none of it, it was the seed
    own = config["seed"] if own is None else own
    if own != split_seed:
        raise UserError(
            f"--teacher {source} was trained on another split of these images, by data.split_seed {own}: it knows some "
            f"of those that are tested on with {split_seed}; add --data.split_seed {own}"
        )
