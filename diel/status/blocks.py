"""The blocks of a run, and how each of them stands."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from diel.journal.history import History
from diel.journal.segment import decode
from diel.paths import RunPaths
from diel.states import TaskState

if TYPE_CHECKING:
    from diel.journal.records import BlockFacts, BlockNow

NEVER = "can never run"
"""Shown instead of `pending` if the scheduler says that waiting is no use."""


def blocks_of(history: History) -> list[BlockNow]:
    """Return the run's allocations, oldest first, each with the number of tasks known to run in it."""
    at = {
        (name, index): attempt.worker
        for name, stage in history.stages.items()
        for index, attempt in stage.under_way.items()
        if attempt.state == TaskState.RUNNING
    }
    at |= {task: attempt.worker for task, attempt in history.left.items()}
    running = Counter(history.workers[worker]["block"] for worker in at.values() if worker in history.workers)
    blocks = sorted(history.blocks.items(), key=lambda item: item[1]["asked"])
    facts = ({**block, "running": running[name]} for name, block in blocks)
    return [cast("BlockNow", {key: now[key] for key in now if key not in ("event", "time")}) for now in facts]


def silent_since(paths: RunPaths, history: History) -> float | None:
    """Return when the scheduler stopped answering, as the controller recorded it."""
    since = None
    with suppress(FileNotFoundError), open(paths.controller_segment(history.epoch), "rb") as file:
        for line in file:
            record = decode(line) if b'"event":"scheduler"' in line and line.endswith(b"\n") else None
            if record is not None and record["event"] == "scheduler":
                since = (since or record["time"]) if record["message"] else None
    return since


def is_live(block: BlockFacts) -> bool:
    """Return whether a block has not ended, according to its controller."""
    return block["ended"] is None


def ended_badly(block: BlockFacts) -> bool:
    """Return whether a block ended although diel did not ask it to."""
    return not is_live(block) and not block["ending"] and block["state"] != "completed"


def is_hopeless(block: BlockFacts) -> bool:
    """Return whether a block waits in vain."""
    return block["state"] == "pending" and bool(block.get("hopeless"))


def reason_of(block: BlockFacts) -> str:
    """Return the scheduler's own words, without those that diel adds."""
    reason = str(block["reason"]).strip()
    return re.sub(rf"^{NEVER}:?\s*", "", reason, flags=re.IGNORECASE) if is_hopeless(block) else reason
