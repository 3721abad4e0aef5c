"""Weights to begin with: read from a file as tensors and nothing else, and put into a network where they fit.

Names are compared without the usual prefixes. A head for another number of classes stays new; of all else a file must
have nearly everything. One line says what was taken, what is new and what was left.
"""

from __future__ import annotations

import pickle
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from teachaugment.errors import UserError
from teachaugment.models.parts import heads, in_head

# What other programs put in front of the names of a network's own weights.
PREFIXES = ("module.", "_orig_mod.", "model.", "backbone.", "encoder.", "network.")
INSIDE = ("state_dict_ema", "state_dict", "model_ema", "model", "target")  # where a checkpoint keeps the weights
ENOUGH = 0.9  # of the numbers outside the head: a file that has fewer is of another network
COUNTED = "num_batches_tracked"  # by batch norm, for nothing
SHOWN = 2  # names in a message


def weights_file(path: str) -> Path:
    """The file of this name, which must be there."""
    file = Path(path).expanduser()
    if not file.is_file():
        found = "is a folder; name a file in it" if file.is_dir() else "is not there"
        raise UserError(f"the file of --weights {path} {found}")
    return file


def read_weights(path: str) -> dict[str, Tensor]:
    """The tensors of a file by their names. Nothing in it is executed."""
    file = weights_file(path)
    try:
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            tree: Any = load_file(file)
        else:
            tree = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise UserError(
            f"the weights {path} are refused: the file is damaged, or it holds more than tensors, and reading it could "
            "run code; save its state_dict as .safetensors where you trust it"
        ) from None
    except (OSError, RuntimeError, ValueError, KeyError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:100]
        raise UserError(
            f"cannot read the weights {path}: the file is damaged or no file of weights ({reason})"
        ) from None
    except Exception as error:  # SafetensorError has no base of its own
        raise UserError(f"cannot read the weights {path}: the file is damaged ({str(error)[:100]})") from None
    for key in INSIDE:
        if isinstance(tree, Mapping) and isinstance(tree.get(key), Mapping):
            tree = tree[key]
            break
    tensors = {str(k): v for k, v in tree.items() if isinstance(v, Tensor)} if isinstance(tree, Mapping) else {}
    if not tensors:
        raise UserError(f"{path} holds no tensors by name; expected a state_dict, or one under {', '.join(INSIDE)}")
    return tensors


def take(network: nn.Module, tensors: Mapping[str, Tensor], source: str, name: str) -> str:
    """Put the tensors of ``source`` into the network ``name``; returns the line that says what was done."""
    head, own = heads(network), network.state_dict()
    found = _matched(own, tensors)
    if any(found[k][1].shape != own[k].shape and not in_head(k, head) for k in found):
        fitted = _fitted(network, {k: value for k, (_, value) in found.items()})
        found = {k: (given, fitted.get(k, value)) for k, (given, value) in found.items()}
    found = {k: (given, _channels(value, own[k])) for k, (given, value) in found.items()}
    fits = {k: value for k, (_, value) in found.items() if value.shape == own[k].shape}
    parameters = {k: p.numel() for k, p in network.named_parameters() if not in_head(k, head)}
    share = sum(n for k, n in parameters.items() if k in fits) / max(sum(parameters.values()), 1)
    if share < ENOUGH:
        missing = [k for k in parameters if k not in fits]
        raise UserError(
            f"{source} is not for {name}: it has {share:.0%} of what the network needs outside its head; "
            f"{_few(missing, 'is missing or of another shape', 'are missing or of other shapes')}"
        )
    network.load_state_dict({k: value.to(own[k].dtype) for k, value in fits.items()}, strict=False)
    new = [k for k in own if k not in fits and not k.endswith(COUNTED)]
    # At zero every class is as likely, and no noise reaches the pretrained weights. A network that says itself what its
    # heads are begins them in its own way: those of detectors expect that a box is rare.
    for part in () if hasattr(network, "head_modules") else head:
        layer = network.get_submodule(part) if f"{part}.weight" in new else None
        if isinstance(layer, (nn.Linear, nn.Conv2d)):
            nn.init.zeros_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    known = {given for k, (given, _) in found.items() if k in fits or in_head(k, head)}
    left = [k for k in tensors if k not in known and not k.endswith(COUNTED)]
    return (
        f"weights: {len(fits):,} tensors taken from {source}; "
        f"{_few(new, 'is new', 'are new') if new else 'nothing is new'}{_classes(found, own, new)}; "
        f"{_few(left, 'of the file was left', 'of the file were left') if left else 'nothing else was left'}"
    )


def _matched(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> dict[str, tuple[str, Tensor]]:
    """For each tensor of the network the one that has its name, with or without prefixes, and that name in the file."""
    bare: dict[str, str] = {}
    twice = set()
    for name in tensors:
        if (short := without_prefixes(name)) in bare:
            twice.add(short)
        bare[short] = name
    found = {}
    for name in own:
        short = without_prefixes(name)
        if name in tensors:
            found[name] = name, tensors[name]
        elif short in bare and short not in twice:
            found[name] = bare[short], tensors[bare[short]]
    return found


def without_prefixes(name: str) -> str:
    """The name as the network itself would say it."""
    while prefix := next((p for p in PREFIXES if name.startswith(p)), ""):
        name = name.removeprefix(prefix)
    return name


def _fitted(network: nn.Module, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors as timm fits them to another size of images, such as the positions of a transformer's patches."""
    fit = getattr(sys.modules.get(type(network).__module__), "checkpoint_filter_fn", None)
    if fit is None or not hasattr(network, "pretrained_cfg"):
        return {}
    try:
        return {k: v for k, v in fit(dict(tensors), network).items() if isinstance(v, Tensor)}
    except Exception:  # made for the files of its authors: what it cannot fit stays as it is
        return {}


def _channels(tensor: Tensor, own: Tensor) -> Tensor:
    """A first convolution for another number of channels: each gets the mean over the old ones, to the same sum."""
    same = tensor.ndim == own.ndim == 4 and tensor.shape[1] == 3 != own.shape[1]
    if not same or (tensor.shape[0], *tensor.shape[2:]) != (own.shape[0], *own.shape[2:]):
        return tensor
    return (tensor.mean(1, keepdim=True) * (3 / own.shape[1])).expand_as(own)


def _classes(found: Mapping[str, tuple[str, Tensor]], own: Mapping[str, Tensor], new: list[str]) -> str:
    """How many classes the head has, and how many it had, where that is why it is new."""
    sizes = {(len(own[k]), len(found[k][1])) for k in new if k in found and own[k].ndim and found[k][1].ndim}
    return " ({:,} classes, {:,} in the file)".format(*sizes.pop()) if len(sizes) == 1 else ""


def _few(names: list[str], one: str, many: str) -> str:
    if len(names) <= SHOWN:
        return f"{' and '.join(names)} {one if len(names) == 1 else many}"
    return f"{len(names):,} tensors such as {', '.join(names[:SHOWN])} {many}"
