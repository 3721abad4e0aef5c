"""Networks of other packages by their own names: ``torchvision/<name>``, ``timm/<name>`` where timm is installed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from teachaugment.errors import UserError, nearest
from teachaugment.models import Pretraining

if TYPE_CHECKING:
    from torch import nn

# Their second head would change the output in training.
SINGLE_HEAD = {name: {"aux_logits": False, "init_weights": True} for name in ("googlenet", "inception_v3")}


def names(source: str) -> list[str]:
    """All classification networks of a package."""
    if source == "timm":
        return list(_timm().list_models())
    import torchvision

    return list(torchvision.models.list_models(module=torchvision.models))


def check(name: str) -> None:
    """Complain about an unknown network, before anything slow is done."""
    source, _, inner = name.partition("/")
    known = names(source)
    if inner not in known and not (source == "timm" and inner.partition(".")[0] in known):
        hint = nearest(inner, known)
        more = hint if "did you mean" in hint else f"; see {source}'s list of {len(known)} networks"
        raise UserError(f"unknown model {name!r}{more}")


def create(
    name: str,
    num_classes: int,
    channels: int = 3,
    size: tuple[int, int] | None = None,
    pretrained: bool = False,
    **regularization: float,
) -> nn.Module:
    """A network of another package, newly initialised, or ``pretrained``: with weights that the package downloads, for
    the classes that those know."""
    check(name)
    source, _, inner = name.partition("/")
    try:
        if source == "timm":
            return _of_timm(inner, num_classes, channels, size, pretrained, **regularization)
        return _of_torchvision(inner, num_classes, channels, size, pretrained)
    except UserError:
        raise
    except Exception as error:  # each network has its own way to refuse what does not suit it
        reason = (" ".join(str(error).split()) or type(error).__name__)[:200]
        if pretrained:
            raise UserError(
                f"the pretrained weights of {name} cannot be downloaded ({reason}); get {_where(source, inner)} by "
                "other means and name the file with --weights"
            ) from None
        raise UserError(f"cannot make {name} for {num_classes} classes and {channels} channels: {reason}") from None


def code(name: str, num_classes: int, channels: int, size: tuple[int, int]) -> tuple[str, str]:
    """How a program makes the network and with which import."""
    source, _, inner = name.partition("/")
    if source == "timm":
        options = {"num_classes": num_classes, "in_chans": channels, **_timm_options(inner, size)}
        return "import timm", f"timm.create_model({inner!r}, {_arguments(options)})"
    options = {"num_classes": num_classes, **_torchvision_options(inner, size)}
    return "import torchvision", f"torchvision.models.get_model({inner!r}, {_arguments(options)})"


def _arguments(options: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in options.items())


def _of_torchvision(name: str, classes: int, channels: int, size: tuple[int, int] | None, pretrained: bool) -> Any:
    import torchvision

    if channels != 3:
        raise UserError(f"the networks of torchvision take 3 channels, not {channels}; timm's take any number")
    if pretrained:
        return torchvision.models.get_model(name, weights="DEFAULT")
    options = _torchvision_options(name, size)
    return torchvision.models.get_model(name, weights=None, num_classes=classes, **options)


def _torchvision_options(name: str, size: tuple[int, int] | None) -> dict[str, Any]:
    options: dict[str, Any] = dict(SINGLE_HEAD.get(name, {}))
    if name.startswith("vit_") and size is not None:
        options["image_size"] = size[0]
    return options


def _of_timm(
    name: str,
    classes: int,
    channels: int,
    size: tuple[int, int] | None,
    pretrained: bool,
    dropout: float | None = None,
    drop_path: float | None = None,
) -> Any:
    timm = _timm()
    given = {"drop_rate": dropout, "drop_path_rate": drop_path}
    options: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    options.update(_timm_options(name, size))
    settings = timm.get_pretrained_cfg(name)
    if pretrained and not (settings is not None and settings.has_weights):
        raise UserError(
            f"there are no pretrained weights of timm/{name}; timm.list_pretrained() has those that have some"
        )
    heads = {} if pretrained else {"num_classes": classes}
    with _quiet("huggingface_hub"):
        return timm.create_model(name, pretrained=pretrained, in_chans=channels, **heads, **options)


def _timm_options(name: str, size: tuple[int, int] | None) -> dict[str, Any]:
    settings = _timm().get_pretrained_cfg(name)
    if size is not None and settings is not None and settings.fixed_input_size and settings.input_size[1:] != size:
        return {"img_size": size}
    return {}


@contextmanager
def _quiet(package: str) -> Iterator[None]:
    """Without a package's warnings: how often it tried in vain is said by the error in the end."""
    logger = logging.getLogger(package)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def pretraining(name: str) -> Pretraining | None:
    """How the images were read that the weights of a network have learned from."""
    check(name)
    source, _, inner = name.partition("/")
    if source == "timm":
        found = _timm().get_pretrained_cfg(inner)
        if found is None:
            return None
        mean, std = tuple(map(float, found.mean)), tuple(map(float, found.std))
        return Pretraining(max(found.input_size[1:]), mean, std, float(found.crop_pct), found.interpolation)
    import torchvision

    made = torchvision.models.get_model_weights(inner).DEFAULT.transforms()
    side, resized = made.crop_size[0], made.resize_size[0]
    mean, std = tuple(map(float, made.mean)), tuple(map(float, made.std))
    return Pretraining(side, mean, std, min(side / resized, 1.0), made.interpolation.value)


def _where(source: str, name: str) -> str:
    """What a person may download instead."""
    if source == "timm":
        found = _timm().get_pretrained_cfg(name)
        return f"{found.hf_hub_id} of the Hugging Face hub" if found.hf_hub_id else str(found.url)
    import torchvision

    return str(torchvision.models.get_model_weights(name).DEFAULT.url)


def _timm() -> Any:
    try:
        import timm
    except ImportError:
        raise UserError("timm is not installed; install it with: pip install '.[timm]'") from None
    return timm
