"""Why a task was simulated, or not: what its surrogate answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from diel.results import Recorded

if TYPE_CHECKING:
    from diel.journal.records import Result


def asked_lines(run: Recorded, stage: str, record: Result | None) -> list[str]:
    """What a task's surrogate answered, if it has one."""
    answer = None if record is None else record.get("surrogate")
    surrogate = run.workflow.stages[stage].surrogate
    if answer is None or surrogate is None:
        return []
    if unasked := answer.get("unasked"):
        return [f"it was simulated without asking '{surrogate.service}': {unasked}"]
    if answer.get("message"):
        return [f"it was simulated, because '{surrogate.service}' gave no answer: {answer['message']}"]
    doubt = "" if answer["uncertainty"] is None else f" with an uncertainty of {answer['uncertainty']:.3g}"
    did = "answered" if answer["used"] else "was too unsure, so it was simulated: it answered"
    if "error" in answer:
        off = "more than a number can say" if answer["error"] is None else f"{answer['error']:.3g}"
        did = f"was audited by this task, and off by {off}: it answered"
    return [f"'{surrogate.service}' {did}{doubt}; the tolerance is {surrogate.tolerance:.3g}"]
