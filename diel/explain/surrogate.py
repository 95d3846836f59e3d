"""Why a task was simulated, or not: what its surrogate said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from diel.results import Recorded

if TYPE_CHECKING:
    from diel.journal.records import Result


def asked_lines(run: Recorded, stage: str, record: Result | None) -> list[str]:
    """What a task's surrogate said, where it has one."""
    told = None if record is None else record.get("surrogate")
    surrogate = run.workflow.stages[stage].surrogate
    if told is None or surrogate is None:
        return []
    if told.get("message"):
        return [f"it was simulated, since '{surrogate.service}' gave no answer: {told['message']}"]
    doubt = "" if told["uncertainty"] is None else f" with an uncertainty of {told['uncertainty']:.3g}"
    did = "answered" if told["used"] else "was too unsure, so that it was simulated: it answered"
    return [f"'{surrogate.service}' {did}{doubt}; the tolerance is {surrogate.tolerance:.3g}"]
