"""TeachAugment: data augmentation that is learned while the model trains."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from teachaugment.algorithm import TeachAugment
    from teachaugment.batch import Batch
    from teachaugment.engine.trained import TrainedModel, load_model
    from teachaugment.errors import UserError
    from teachaugment.hyperparameters import Hyperparameters
    from teachaugment.policy.load import load_policy
    from teachaugment.policy.policy import Policy

__version__ = "0.1.0"
__all__ = [
    "Batch",
    "Hyperparameters",
    "Policy",
    "TeachAugment",
    "TrainedModel",
    "UserError",
    "__version__",
    "load_model",
    "load_policy",
]

_HOME = {
    "Batch": ".batch",
    "Hyperparameters": ".hyperparameters",
    "Policy": ".policy.policy",
    "TeachAugment": ".algorithm",
    "TrainedModel": ".engine.trained",
    "UserError": ".errors",
    "load_model": ".engine.trained",
    "load_policy": ".policy.load",
}


def __getattr__(name: str) -> Any:
    """Import torch only when a name that needs it is used: the command's help must not wait for it."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name], __name__), name)
