"""What the records of a stage with a surrogate add up to."""

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
    """Stages that simulate alike, and whose results the model learned too."""
    answered: int = 0
    """Tasks whose result is an answer."""
    answered_seconds: float = 0.0
    """Their whole run time."""
    simulated: int = 0
    simulated_seconds: float = 0.0
    """Without the time of asking."""
    vain_seconds: float = 0.0
    """Time of asking, of tasks that were simulated then."""
    unanswered: int = 0
    """Questions without an answer that could be weighed."""
    message: str = ""
    """Why the last of them had none."""


def knowing(known: SurrogateHistory | None, record: StageRecord) -> SurrogateHistory:
    """With what the controller says of the workflow."""
    found, facts = known or SurrogateHistory(), record["surrogate"]
    found.service = facts["service"]
    found.training, found.simulations = tuple(facts["training"]), tuple(facts["simulations"])
    return found


def counting(known: SurrogateHistory | None, record: Result) -> SurrogateHistory:
    """With a task's result that is not counted yet."""
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


def unpacked(packed: dict[str, Any] | None) -> SurrogateHistory | None:
    """From the fields that a snapshot keeps."""
    if packed is None:
        return None
    lists = {name: tuple(packed[name]) for name in ("training", "simulations")}
    return SurrogateHistory(**{**packed, **lists})
