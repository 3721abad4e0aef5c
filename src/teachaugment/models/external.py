"""Networks of other packages by their own names: ``torchvision/<name>``, ``timm/<name>`` where timm is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from teachaugment.errors import UserError, nearest

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
    name: str, num_classes: int, channels: int = 3, size: tuple[int, int] | None = None, pretrained: bool = False
) -> nn.Module:
    """A network of another package, newly initialised, or ``pretrained``: with weights that the package downloads."""
    check(name)
    source, _, inner = name.partition("/")
    try:
        if source == "timm":
            return _of_timm(inner, num_classes, channels, size, pretrained)
        return _of_torchvision(inner, num_classes, channels, size, pretrained)
    except UserError:
        raise
    except Exception as error:  # each network has its own way to refuse what does not suit it
        reason = (" ".join(str(error).split()) or type(error).__name__)[:200]
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


def _of_timm(name: str, classes: int, channels: int, size: tuple[int, int] | None, pretrained: bool) -> Any:
    heads = {} if pretrained else {"num_classes": classes}
    options = _timm_options(name, size)
    return _timm().create_model(name, pretrained=pretrained, in_chans=channels, **heads, **options)


def _timm_options(name: str, size: tuple[int, int] | None) -> dict[str, Any]:
    settings = _timm().get_pretrained_cfg(name)
    if size is not None and settings is not None and settings.fixed_input_size and settings.input_size[1:] != size:
        return {"img_size": size}
    return {}


def _timm() -> Any:
    try:
        import timm
    except ImportError:
        raise UserError("timm is not installed; install it with: pip install 'teachaugment[timm]'") from None
    return timm
