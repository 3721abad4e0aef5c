"""A policy: a learned augmenter, frozen, in a file of tensors with a JSON header, usable without target or teacher.

    policy = load_policy("policy.safetensors")
    images = policy(images, labels)                                      # a batch in [0, 1], as teach(images, labels)
    transform = v2.Compose([v2.RandomHorizontalFlip(), policy, ...])     # single samples, as any torchvision transform

``load.py`` reads such files; docs/policy.md is for those who use them.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save
from torch import Tensor, nn

from teachaugment import __version__
from teachaugment.augment.augmenter import Augmenter
from teachaugment.batch import IGNORE, Batch, check
from teachaugment.errors import UserError, nearest
from teachaugment.files import write_atomically
from teachaugment.policy.digest import KEY, digest
from teachaugment.replay import Replay

if TYPE_CHECKING:
    from teachaugment.policy.given_noise import GivenNoise
    from teachaugment.policy.transform import PolicyTransform

FORMAT = 3  # with a checksum in the header
WITHOUT_CHECKSUM = 2  # the format of version 0.1
VALUES, SCALES = "replay.values.", "replay.scales."  # how the file names the snapshots' tensors


class Policy(nn.Module):
    """Augments images the way it was learned.

    Called with a batch [B, C, H, W] in [0, 1], and labels if there are any, it returns the augmented images. Called
    with anything else it is a torchvision v2 transform of that sample, as :mod:`~teachaugment.policy.transform` says.

    augmenter:      what was learned.
    found:          how strong the training let it be; 1: nothing bounded it. ``strength`` is a share of this.
    shares:         of that, what each operation gets, by its name, where an image gets one of them; 1 if not named.
    replay:         earlier augmenters; each draw then takes one of them, as the target's training did.
    classes:        the names of the classes it was learned on.
    normalization:  mean and standard deviation of the images it was learned on: what the target was normalised with.
    provenance:     where it comes from, as plain data: data set, network, accuracy, version.
    """

    translation: Tensor | None  # [the labels' classes]: the policy's class, or -1 where it knows none of that name

    def __init__(
        self,
        augmenter: Augmenter,
        *,
        found: float = 1.0,
        shares: Mapping[str, float] | None = None,
        replay: Replay | None = None,
        classes: Sequence[str] | None = None,
        normalization: Mapping[str, Sequence[float]] | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.augmenter, self.replay = augmenter.requires_grad_(False), replay
        known = augmenter.settings.classes
        if classes is not None and len(classes) != known:
            raise UserError(f"{len(classes)} class names for a policy of {known or 'no'} classes")
        self.classes = None if classes is None else list(classes)
        self.normalization = None if normalization is None else {k: list(v) for k, v in normalization.items()}
        self.provenance = {"version": __version__, **(provenance or {})}
        if not (isinstance(found, (int, float)) and 0 <= found <= 1):
            raise UserError(f"the strength of a policy is a number from 0 to 1, not {found!r}")
        self.found = self.strength = float(found)
        self.shares = known_shares(shares or {}, augmenter.arms)
        if augmenter.arms:
            augmenter.share([self.shares.get(name, 1.0) for name in augmenter.arms])
        self.context: int | None = None  # the class to augment as, whatever the label
        self.labels = known  # how many classes the labels number
        self.register_buffer("translation", None, persistent=False)
        self.checked = False

    @classmethod
    def of(cls, augmenter: Augmenter, replay: Replay | None = None, **about: Any) -> Policy:
        """A copy: further training does not change the policy."""
        mine = copy.deepcopy(augmenter)
        snapshots = None
        if replay is not None and len(replay):
            snapshots = Replay(mine, replay.decay)
            snapshots.load_state_dict(replay.state_dict())
        return cls(mine, replay=snapshots, **about)

    # --- use -----------------------------------------------------------------------------------------------------

    def adjust(
        self, *, context: int | str | None = None, strength: float = 1.0, classes: Sequence[str] | None = None
    ) -> Policy:
        """Set how it is used; see :func:`load_policy`. Returns itself."""
        if not (isinstance(strength, (int, float)) and 0 <= strength <= 1):
            raise UserError(f"strength must be a number from 0 (no change) to 1 (as learned), not {strength!r}")
        self.strength, self.context = float(strength) * self.found, self._class(context)
        known = self.augmenter.settings.classes
        self.labels = known if classes is None else len(classes)
        self.translation = None
        if classes is not None and known is not None and list(classes) != self.classes:
            place = {name: i for i, name in enumerate(self.classes or ())}
            self.translation = torch.tensor([place.get(name, -1) for name in classes], device=self.augmenter.device)
        return self

    def _class(self, context: int | str | None) -> int | None:
        """A class by its name or number."""
        known = self.augmenter.settings.classes
        if context is None:
            return None
        if known is None:
            raise UserError(f"context {context!r}: this policy was learned without classes")
        names = self.classes or []
        if isinstance(context, str) and context in names:
            return names.index(context)
        if isinstance(context, str) and not context.isdigit():
            hint = nearest(context, names) if names else f"; name one of the classes 0 … {known - 1} by its number"
            raise UserError(f"the policy knows no class {context!r}{hint}")
        if not 0 <= int(context) < known:
            raise UserError(f"context {context} is not a class of this policy: 0 … {known - 1}")
        return int(context)

    def known(self) -> int | None:
        """How many of the labels' classes it was learned on, by name; None where labels are its own classes."""
        return None if self.translation is None else int((self.translation >= 0).sum())

    @torch.no_grad()
    def draw(self, n: int, labels: Tensor | None = None, generator: torch.Generator | None = None) -> Any:
        """An augmentation for each of ``n`` images, to be applied by the augmenter's ``color`` and ``warp``."""
        context = self._contexts(n, labels, generator)
        snapshots = None if self.replay is None else self.replay.draw(n, generator)
        drawn = self.augmenter.sample(n, context, generator, snapshots)
        return drawn if self.strength == 1 else self.augmenter.weakened(drawn, self.strength)

    def _contexts(self, n: int, labels: Tensor | None, generator: torch.Generator | None) -> Tensor | None:
        """The class that each image is augmented as; None: one is drawn for each of them."""
        known, device = self.augmenter.settings.classes, self.augmenter.device
        if known is None:
            return None
        if self.context is not None:
            return torch.full((n,), self.context, device=device)
        if labels is None or self.translation is None:
            return labels
        index = labels.argmax(1) if labels.is_floating_point() else labels
        translated = self.translation[index]
        return torch.where(translated >= 0, translated, torch.randint(known, (n,), device=device, generator=generator))

    @torch.no_grad()
    def augment(self, batch: Batch, generator: torch.Generator | None = None) -> Batch:
        """Images, and masks with them; without a generator the numbers come from torch's own, as torchvision's do."""
        if not self.checked:
            check(batch, self.augmenter.settings.channels, self.labels)
            self.checked = True
        if self.strength == 0:
            return batch
        drawn = self.draw(len(batch), batch.label, generator)
        return self.augmenter.warp(self.augmenter.color(batch, drawn), drawn)

    def forward(self, *inputs: Any, labels: Tensor | None = None, generator: torch.Generator | None = None) -> Any:
        if inputs and isinstance(inputs[0], Batch):
            return self.augment(inputs[0], generator)
        if inputs and isinstance(inputs[0], Tensor) and inputs[0].ndim == 4:
            return self.augment(Batch(inputs[0], inputs[1] if len(inputs) > 1 else labels), generator).image
        return self._of_samples(*inputs)

    @cached_property
    def _of_samples(self) -> PolicyTransform:
        """Kept: to make one takes as long as some of the operations."""
        return self.transform()

    def transform(
        self, labels_getter: Callable[[Any], Any] | str | None = "default", mask_fill: int = IGNORE
    ) -> PolicyTransform:
        """This policy as a torchvision v2 transform, where its two options are needed."""
        from teachaugment.policy.transform import PolicyTransform

        return PolicyTransform(self, labels_getter, mask_fill)

    def with_noise(self) -> GivenNoise:
        """This policy as a function of images and noise, all randomness as inputs: for ``torch.export`` and ONNX."""
        from teachaugment.policy.given_noise import GivenNoise

        return GivenNoise(self)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Policy:
        """The snapshots go where the augmenter goes, e.g. in ``policy.to("cuda")``."""
        super()._apply(fn, recurse)
        if self.replay is not None:
            for stack in (self.replay.values, self.replay.scales):
                stack.update({name: fn(value) for name, value in stack.items()})
        return self

    # --- file ----------------------------------------------------------------------------------------------------

    def header(self) -> dict[str, Any]:
        """Everything but the weights, as plain data."""
        replay = self.replay
        return {
            "format": FORMAT,
            "kind": self.augmenter.name,
            "augmenter": self.augmenter.describe(),
            "ranges": self.augmenter.ranges(),
            "strength": self.found,
            **({"shares": self.shares} if self.shares else {}),
            "context": "class" if self.augmenter.settings.classes else None,
            "classes": self.classes,
            "normalization": self.normalization,
            "snapshots": None if replay is None else {"count": len(replay), "decay": replay.decay},
            "provenance": self.provenance,
        }

    def save(self, path: str | Path) -> None:
        """Write the file, whole or not at all."""
        content = self.content()
        write_atomically(Path(path), lambda file: file.write(content))

    def fingerprint(self) -> str:
        """Two policies with the same one are the same. Runs keep it, so it stays what it was before the checksum."""
        header = {**self.header(), "format": WITHOUT_CHECKSUM}
        content = save(self.tensors(), metadata={"teachaugment": json.dumps(header)})
        return hashlib.blake2b(content, digest_size=16).hexdigest()

    def content(self) -> bytes:
        """The file: safetensors, with the header as JSON in its metadata."""
        tensors = self.tensors()
        try:
            header = self.header() | {KEY: digest(self.header(), tensors)}
            text = json.dumps(header, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise UserError(f"what a policy is told must be plain data, as JSON has it ({error})") from None
        return save(tensors, metadata={"teachaugment": text})

    def tensors(self) -> dict[str, Tensor]:
        """All numbers that were learned, by name, those of the snapshots too."""
        tensors = dict(self.augmenter.state_dict())
        if self.replay is not None:
            state = self.replay.state_dict()
            tensors |= {VALUES + name: value for name, value in state["values"].items()}
            tensors |= {SCALES + name: value for name, value in state["scales"].items()}
        return {name: value.detach().cpu().contiguous() for name, value in tensors.items()}


def known_shares(shares: Mapping[str, float], arms: Sequence[str]) -> dict[str, float]:
    """Those below 1, after a look at them."""
    for name, share in shares.items():
        if name not in arms:
            raise UserError(f"the policy has no operation {str(name)[:40]!r}{nearest(str(name), arms)}")
        if not (isinstance(share, (int, float)) and 0 <= share <= 1):
            raise UserError(f"the share of {name} is a number from 0 to 1, not {share!r}")
    return {name: float(share) for name, share in shares.items() if share < 1}
