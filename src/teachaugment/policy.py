"""A policy: a learned augmenter, frozen, saved as safetensors with a JSON header, usable without target or teacher."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from .augment import create
from .augment.augmenter import Augmenter
from .batch import Batch
from .errors import UserError

FORMAT = 1


class Policy(nn.Module):
    """Augments batches of images in [0, 1] the way it was learned; without labels it draws a class for each image."""

    def __init__(self, augmenter: Augmenter, about: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.augmenter = augmenter.requires_grad_(False)
        self.about = about or {}

    @classmethod
    def of(cls, augmenter: Augmenter, about: dict[str, Any] | None = None) -> Policy:
        """A copy: further training does not change the policy."""
        copy = create(augmenter.name, **augmenter.describe())
        copy.load_state_dict(augmenter.state_dict())
        return cls(copy.to(augmenter.device), about)

    @torch.no_grad()
    def forward(self, images: Tensor, labels: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        return self.augmenter(Batch(images, labels), generator).image

    def save(self, path: str | Path) -> None:
        kind, settings = self.augmenter.name, self.augmenter.describe()
        header = {"format": FORMAT, "kind": kind, "augmenter": settings, "about": self.about}
        tensors = {name: value.detach().cpu().contiguous() for name, value in self.augmenter.state_dict().items()}
        Path(path).write_bytes(save(tensors, metadata={"teachaugment": json.dumps(header)}))

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        try:
            with safe_open(str(path), framework="pt") as file:
                header = json.loads((file.metadata() or {})["teachaugment"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        except (OSError, SafetensorError, KeyError, json.JSONDecodeError) as error:
            raise UserError(
                f"{path} is not a policy that teachaugment wrote ({type(error).__name__}: {error})"
            ) from None
        if header.get("format") != FORMAT:
            raise UserError(f"{path} has policy format {header.get('format')}; this version reads format {FORMAT}")
        try:
            augmenter = create(header.get("kind", "neural"), **header["augmenter"])
            augmenter.load_state_dict(tensors)
        except UserError as error:
            raise UserError(f"{path}: {error}") from None
        except (TypeError, KeyError, RuntimeError) as error:
            raise UserError(f"{path}: header and weights do not fit ({str(error).splitlines()[0]})") from None
        return cls(augmenter, header.get("about", {}))
