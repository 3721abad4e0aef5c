"""What the epoch under way has added up. It is saved with the rest, so that a resumed epoch reports the whole of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from teachaugment import distributed
from teachaugment.engine.evaluate import sums, total
from teachaugment.tasks.task import Meter


@dataclass
class EpochSums:
    meter: Meter  # of the target, on the images it is trained with
    updates: int = 0  # of the augmenter
    measured: dict[str, Tensor] = field(default_factory=dict)  # in these updates, summed; of this process

    def add(self, measured: Mapping[str, Tensor] | None) -> None:
        """What one update of the augmenter measured, if there was one."""
        if measured is not None:
            self.updates += 1
            self.measured = {name: value + self.measured.get(name, 0) for name, value in measured.items()}

    def results(self) -> tuple[dict[str, Any], dict[str, float]]:
        """The metrics of all processes, and what an update of the augmenter measured on average. To be called once."""
        distributed.average_(self.measured.values())
        return total(self.meter), {name: float(value) / self.updates for name, value in self.measured.items()}

    def state_dict(self) -> dict[str, Any]:
        """What all processes have added up; they must call it together. Counts are summed; sums of fractions stay
        apart, process by process: summed now, they would be rounded otherwise than at the end of the epoch."""
        counted = {name: value.clone() for name, value in sums(self.meter).items() if not value.is_floating_point()}
        distributed.sum_(counted.values())
        return {
            "counted": counted,
            "summed": {name: distributed.gathered(value) for name, value in self._fractions().items()},
            "updates": self.updates,
            "measured": {name: distributed.gathered(value) for name, value in self.measured.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        found = sums(self.meter)
        if found.keys() != state["counted"].keys() | state["summed"].keys():
            raise ValueError(f"it counts {', '.join([*state['counted'], *state['summed']])}, not {', '.join(found)}")
        for name, value in state["counted"].items():
            found[name].copy_(value if distributed.is_main() else found[name])  # the others' are in it
        for name, value in state["summed"].items():
            found[name].copy_(_own(value, value.sum(0)))
        device = next(iter(found.values())).device
        self.updates = state["updates"]
        self.measured = {
            name: _own(value, value.mean(0), alike=True).to(device) for name, value in state["measured"].items()
        }

    def _fractions(self) -> dict[str, Tensor]:
        return {name: value for name, value in sums(self.meter).items() if value.is_floating_point()}


def _own(saved: Tensor, together: Tensor, alike: bool = False) -> Tensor:
    """This process's row; in another number of processes, all of it in the first one or, ``alike``, in each."""
    if len(saved) == distributed.world():
        return saved[distributed.rank()]
    return together if alike or distributed.is_main() else together * 0
