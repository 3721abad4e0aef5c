"""The strategy ``policy``: what an earlier run has learned, without a teacher and without updates."""

from __future__ import annotations

from typing import Any

from teachaugment.config.sections import Config
from teachaugment.data.splits import DataSet
from teachaugment.errors import UserError
from teachaugment.policy.load import load_policy
from teachaugment.policy.policy import Policy
from teachaugment.strategies.fixed import EachView
from teachaugment.strategies.strategy import Setup


def policy(setup: Setup) -> FromPolicy:
    """A policy of an earlier run. Classes are matched by name; for one that it does not know, it draws one."""
    file, data = setup.config.augment.policy or "", setup.data
    try:
        found = load_policy(file, classes=data.classes)
    except UserError as error:
        raise UserError(f"--policy: {error}") from None
    if (channels := found.augmenter.settings.channels) != data.channels:
        raise UserError(
            f"--policy {file} was learned on images of {channels} channel(s); those of {data.name} have {data.channels}"
        )
    return FromPolicy(found.to(setup.device), file)


class FromPolicy(EachView):
    key = "policy"

    def __init__(self, policy: Policy, file: str) -> None:
        super().__init__(policy.augment)
        self.policy, self.file, self.fingerprint = policy, file, policy.fingerprint()

    def policies(self, **about: Any) -> list[Policy]:
        """The policy as it came: it is another run's, and so is where it comes from."""
        return [self.policy]

    def describe(self, config: Config, data: DataSet) -> str:
        """With how many of the classes it knows."""
        known, classes = self.policy.known(), len(data.classes)
        if self.policy.augmenter.settings.classes is None:
            detail = "the same for all classes"
        else:
            detail = f"it knows {classes if known is None else known} of {classes} classes by name"
        return (
            f"{config.augment.strategy} {self.file} of {self.policy.provenance.get('data', 'unknown data')} ({detail})"
        )

    def state_dict(self) -> str:
        return self.fingerprint

    def load_state_dict(self, state: str) -> None:
        if state != self.fingerprint:
            raise UserError(f"{self.file} is not the policy that this run was trained with; it has changed")
