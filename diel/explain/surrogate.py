"""Why a task was simulated, or not: what its surrogate answered; and whether its result is suspect."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from diel.digits import texts_apart
from diel.journal.stage_history import ranges
from diel.results import RunReader, suspects
from diel.results.suspect import suspect_inputs
from diel.status.columns import tasks_text

if TYPE_CHECKING:
    from diel.journal.records import Result


def asked_lines(run: RunReader, stage: str, record: Result | None) -> list[str]:
    """What a task's surrogate answered, if it has one."""
    answer = None if record is None else record.get("surrogate")
    surrogate = run.workflow.stages[stage].surrogate
    if answer is None or surrogate is None:
        return []
    asked = surrogate.service
    if unasked := answer.get("unasked"):
        return [f"it was simulated without asking '{asked}': {unasked}"]
    if answer.get("message"):
        return [f"it was simulated, because '{asked}' gave no answer: {answer['message']}"]
    sizes = [answer["uncertainty"], answer.get("error"), surrogate.tolerance]
    unsure, far, tolerance = texts_apart([math.inf if size is None else size for size in sizes], 3)
    doubt = "" if answer["uncertainty"] is None else f" with an uncertainty of {unsure}"
    did = "answered" if answer["used"] else "was too unsure, so it was simulated: it answered"
    if "error" in answer:
        off = "more than a number can say" if answer["error"] is None else far
        did = f"was audited by this task, and off by {off}: it answered"
    return [f"'{asked}' {did}{doubt}; the tolerance is {tolerance}"]


def doubt_of(run: RunReader, stage: str, index: int) -> tuple[list[str], str]:
    """Why a task's result is suspect, and what to do; nothing where it is not."""
    found = suspects(run)
    if index not in found.get(stage, ()):
        return [], ""
    history = run.history.stage(stage)
    surrogate = history.surrogate
    if surrogate is not None and index in history.suspect():
        why = f"audits found answers of '{surrogate.service}' further off than the tolerance"
        return [f"its answer is suspect: {why}"], f"{_recompute(run)}, and runs again what read it"
    if index in history.stays():
        why = "it read suspect answers, which were simulated since; it stays, as decisions rest on it"
    else:
        read = suspect_inputs(run, stage, index, found).items()
        named = ", ".join(f"{name}/{tasks_text(ranges(tasks))}" for name, tasks in read)
        why = f"it read suspect results: {named}"
    anew = "`diel run` decides anew, and takes the rest from the cache"
    return [why], _recompute(run) if run.history.is_doubted() else anew


def _recompute(run: RunReader) -> str:
    return f"`diel resume {run.paths.run_id} --recompute suspect` simulates what is suspect"
