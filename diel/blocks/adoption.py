"""Adoption: what runs on in blocks of an earlier controller is neither lost nor run twice.

A worker whose controller is gone ends the task that it is at and commits it. The next controller takes
such tasks for handed out, and reads their workers' segments. What becomes of their blocks, the caller decides
(docs/decisions/026).
"""

from __future__ import annotations

import contextlib
from collections.abc import Container
from typing import TYPE_CHECKING

from diel.blocks.backend import Adopt
from diel.blocks.block import Block
from diel.scheduler import JobState
from diel.site import Shape
from diel.tasks.ledger import Ledger
from diel.worker.fence import put_up

if TYPE_CHECKING:
    from diel.journal import records


def adopt(ledger: Ledger, take: Adopt) -> list[Block]:
    """Takes what runs in blocks of an earlier controller for handed out; returns these blocks.

    Whether a block has ended since, the scheduler will tell.
    """
    history = ledger.history
    live = {name: record for name, record in history.blocks.items() if not JobState(record["state"]).ended}
    tasks: list[tuple[str, int, int, str]] = []
    _give_up(ledger, live)
    for (stage, index), attempt in sorted(history.left.items()):
        tasks.append((stage, index, attempt.number, attempt.worker))
        take(stage, index, attempt.number)
    if tasks:
        ledger.append({"event": "adopted", "tasks": tasks})
    return [_block(record) for record in live.values()]


def _give_up(ledger: Ledger, live: Container[str]) -> None:
    """Fences what may still run in blocks that have ended: it is handed out again."""
    history = ledger.history
    over = {history.workers[attempt.worker]["block"] for attempt in history.left.values()}
    for block in sorted(name for name in over if name not in live):
        with contextlib.suppress(OSError):  # what is written down decides
            put_up(ledger.paths, block)
    ledger.read_all()
    for (stage, index), attempt in sorted(history.left.items()):
        if history.workers[attempt.worker]["block"] not in live:
            ledger.append({"event": "fenced", "stage": stage, "tasks": [[index, attempt.number]]})


def _block(record: records.BlockFacts) -> Block:
    """A block as the journal has it."""
    return Block(
        name=record["block"],
        shape=Shape(**record["needs"]),
        slots=0,
        walltime=record["walltime"],
        asked=record["asked"],
        epoch=record["epoch"],
        job=record["job"],
        state=JobState(record["state"]),
        reason=record["reason"],
        nodes=record["nodes"],
        began=record["began"],
        ending=False,
        adopted=True,
    )
