"""What stops a trial early that will not be among the best."""

import math
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, get_args

from diel.spec.forms.named import Named, or_name
from diel.spec.model import Flaw, optional

_Name = Literal["median", "percentile", "hyperband", "asha", "none"]
_RANKS = ("n_startup_trials", "n_warmup_steps", "interval_steps", "n_min_trials")


class Pruner(Named):
    """One of Optuna's pruners, with its options under Optuna's names."""

    options: ClassVar = {
        "median": _RANKS,
        "percentile": ("percentile", *_RANKS),
        "hyperband": ("min_resource", "max_resource", "reduction_factor"),
        "asha": ("min_resource", "reduction_factor", "min_early_stopping_rate"),
    }

    name: _Name = optional("Which one.", "none")
    percentile: float | None = optional("How many per cent of the trials go on.", ge=0, le=100)
    n_startup_trials: int | None = optional("Trials that end before one is stopped.", ge=0)
    n_warmup_steps: int | None = optional("Steps of a trial before it can be stopped.", ge=0)
    interval_steps: int | None = optional("Steps between two looks at a trial.", ge=1)
    n_min_trials: int | None = optional("Trials that reported at a step before it is judged.", ge=1)
    min_resource: int | None = optional("Steps that each trial may do.", ge=1)
    max_resource: int | None = optional("Steps of a whole trial; by default those of the first.", ge=1)
    reduction_factor: int | None = optional("One of so many trials goes on at each rung.", ge=2)
    min_early_stopping_rate: int | None = optional("Rungs that are left out at the beginning.", ge=0)

    def flaws(self) -> Iterator[Flaw]:
        yield from super().flaws()
        if self.name == "percentile" and self.percentile is None:
            yield Flaw("percentile needs `percentile`", "write percentile: 25 for the best quarter")
        if (self.max_resource or math.inf) < (least := self.min_resource or 1):
            said = f"max_resource {self.max_resource} is below min_resource {least}"
            yield Flaw(said, "a whole trial has at least the steps that each may do")


PrunerOrName = Annotated[
    Pruner, or_name(Pruner, lambda: get_args(_Name), "median, or {name: hyperband, reduction_factor: 4}")
]
