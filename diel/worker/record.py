"""Records of attempts, as a worker writes them to its segment."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from diel.artifacts import Artifacts, Values
from diel.attempt.bundle import Failure
from diel.attempt.surrogate import Consulted
from diel.attempt.watchdog import RunningAttempt

if TYPE_CHECKING:
    from diel.journal.records import Done, Fail


def done_record(
    attempt: RunningAttempt, values: Values, artifacts: Artifacts, asked: Consulted | None
) -> Done:
    """An attempt that ended well; `asked` is what was answered before it ran."""
    request = attempt.request
    record: Done = {
        "event": "done",
        "stage": attempt.work.stage,
        "index": request.index,
        "attempt": request.attempt,
        "time": time.time(),
        "seconds": round(time.monotonic() - attempt.began, 6),
        "key": request.key,
        "parts": request.parts,
    }
    if values:
        record["values"] = values
    if artifacts:
        record["artifacts"] = artifacts
    if asked is not None:
        asked.tell(record)
    if (usage := attempt.usage.facts()) is not None:
        record["usage"] = usage
    return record


def fail_record(attempt: RunningAttempt, bundle: int, failure: Failure, tail: str) -> Fail:
    """An attempt that ended without a result; `tail` is the end of what it wrote to standard error."""
    record: Fail = {
        "event": "fail",
        "stage": attempt.work.stage,
        "index": attempt.request.index,
        "attempt": attempt.request.attempt,
        "bundle": bundle,
        "time": time.time(),
        "seconds": round(time.monotonic() - attempt.began, 6),
        "class": failure.kind,
        "message": failure.message,
        "exit_code": failure.exit_code,
        "stderr_tail": tail,
    }
    if (usage := attempt.usage.facts()) is not None:
        record["usage"] = usage
    return record
