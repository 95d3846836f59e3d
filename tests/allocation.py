"""Blocks of a scheduler in a run that is written by hand: their records, and workers in them."""

from __future__ import annotations

import time
from typing import Any

from diel.base.paths import RunPaths
from diel.site.shape import Shape
from diel.store.journal.segment import SegmentWriter
from tests.handmade import Handmade
from tests.record import as_record
from tests.written import Written

AGO = 600.0
"""Seconds since the blocks were asked for."""


def block(run: Written | Handmade, name: str, state: str = "running", **more: Any) -> None:
    """The record of a block: one that runs began a minute after it was asked for, an ended one has an end."""
    asked = time.time() - AGO
    pending, live = state == "pending", state in ("pending", "running", "ending")
    record = {
        "block": name,
        "job": f"10{name[-1]}",
        "epoch": int(name.partition("-")[0]),
        "pool": "cpu",
        "shape": "cpu-1c",
        "needs": Shape("cpu", 0, 1)._asdict(),
        "state": state,
        "reason": "",
        "hopeless": False,
        "nodes": "" if pending else f"n{name[-1]}",
        "walltime": 3600.0,
        "asked": asked + float(name.replace("-", ".")),
        "began": None if pending else asked + 60,
        "ended": None if live else asked + 300,
        "ending": False,
        "stderr_tail": "",
    }
    run.write("block", **{**record, **more})


class Node:
    """A worker in a block."""

    def __init__(self, paths: RunPaths, block: str, node: str, pid: int = 9) -> None:
        epoch = int(block.partition("-")[0])
        self.segment = SegmentWriter(paths.journal / f"worker-{epoch:04d}-{node}-{pid}-abc.jsonl")
        self.clock = time.time() - AGO / 2
        self._append("worker", host=node, pid=pid, block=block, node=node)

    def _append(self, event: str, **more: Any) -> Node:
        self.clock += 1
        self.segment.append(as_record({"event": event, "time": self.clock, **more}))
        return self

    def start(self, stage: str, index: int, attempt: int = 1) -> Node:
        return self._append("start", stage=stage, index=index, attempt=attempt)

    def done(self, stage: str, index: int, attempt: int = 1) -> Node:
        self.start(stage, index, attempt)
        made = {"values": {}, "artifacts": {}, "key": f"{index:032x}", "parts": ["p", "i"]}
        return self._append("done", stage=stage, index=index, attempt=attempt, seconds=2.0, **made)

    def fail(self, stage: str, index: int, attempt: int = 1, kind: str = "app") -> Node:
        self.start(stage, index, attempt)
        told = {"class": kind, "message": "exit code 3", "exit_code": 3, "stderr_tail": "boom\n"}
        return self._append("fail", stage=stage, index=index, attempt=attempt, seconds=1.0, **told)
