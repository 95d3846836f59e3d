"""Adoption: what runs on in blocks of an earlier controller is neither lost nor run twice.

A worker whose controller is gone ends the task that it is at and commits it. The next controller takes
such tasks for handed out, reads their workers' segments, and gives a block back once all that it still
ran has ended.
"""

from __future__ import annotations

from typing import Any

from diel.controller.block import Block
from diel.controller.blocks import Blocks
from diel.controller.dispatcher import Dispatcher
from diel.controller.ledger import Ledger
from diel.journal.segment import Record
from diel.scheduler.job import JobState
from diel.site import Shape


def adopt(blocks: Blocks, ledger: Ledger, dispatcher: Dispatcher) -> None:
    """Takes over the blocks that have not ended, as far as the journal tells, and what runs in them."""
    history = ledger.history
    live = {name: record for name, record in history.blocks.items() if not JobState(record["state"]).ended}
    for record in live.values():
        blocks.adopt(_block(record))
    tasks: list[list[Any]] = []
    for (stage, index), attempt in sorted(history.left.items()):
        if history.workers[attempt.worker]["block"] in live:
            tasks.append([stage, index, attempt.number, attempt.worker])
            dispatcher.adopt(stage, index, attempt.number)
    if tasks:
        ledger.append("adopted", tasks=tasks)
    blocks.end_unknown()


def _block(record: Record) -> Block:
    """A block as the journal has it. Its shape says only which pool it is of."""
    return Block(
        name=record["block"],
        shape=Shape(record["pool"], 0, 0),
        slots=0,
        walltime=record["walltime"],
        asked=record["asked"],
        label=record["shape"],
        job=record["job"],
        state=JobState(record["state"]),
        reason=record["reason"],
        nodes=record["nodes"],
        began=record["began"],
        ending=False,
        adopted=True,
    )
