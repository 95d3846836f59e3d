"""The sum of the records of a stage with a surrogate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from diel.journal.records import Result, StageRecord


@dataclass(slots=True)
class SurrogateHistory:
    """Which tasks were answered, which were simulated, and how long both took, in seconds."""

    service: str = ""
    training: tuple[str, ...] = ()
    """Stages that train its model."""
    simulations: tuple[str, ...] = ()
    """Stages that simulate the same, whose results the model learned too."""
    answered: int = 0
    """Tasks whose result the surrogate answered."""
    answered_seconds: float = 0.0
    """Their whole run time."""
    simulated: int = 0
    simulated_seconds: float = 0.0
    """Without the time of asking."""
    vain_seconds: float = 0.0
    """Time of asking, for tasks that were then simulated."""
    unanswered: int = 0
    """Questions without a usable answer."""
    message: str = ""
    """Why the last of them had none."""


def knowing(known: SurrogateHistory | None, record: StageRecord) -> SurrogateHistory:
    """With what the controller says about the workflow."""
    found, facts = known or SurrogateHistory(), record["surrogate"]
    found.service = facts["service"]
    found.training, found.simulations = tuple(facts["training"]), tuple(facts["simulations"])
    return found


def counting(known: SurrogateHistory | None, record: Result) -> SurrogateHistory:
    """With another task's result."""
    found, answer, seconds = known or SurrogateHistory(), record["surrogate"], record.get("seconds", 0.0)
    if answer["used"]:
        found.answered += 1
        found.answered_seconds += seconds
    else:
        found.simulated += 1
        found.simulated_seconds += max(0.0, seconds - answer["asked"])
        found.vain_seconds += answer["asked"]
    if answer.get("message"):
        found.unanswered += 1
        found.message = answer["message"]
    return found


def unpacked(packed: dict[str, Any]) -> SurrogateHistory:
    """From the fields of a snapshot."""
    lists = {name: tuple(packed[name]) for name in ("training", "simulations")}
    return SurrogateHistory(**{**packed, **lists})
