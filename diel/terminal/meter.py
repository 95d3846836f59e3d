"""How far a controller is: what a live display shows, measured cheaply and not too often."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from diel.controller.controller import Controller
from diel.errors import counted
from diel.journal.history import History
from diel.journal.stage_history import StageHistory
from diel.plan import Plan
from diel.site import cores_of
from diel.states import TaskState
from diel.status import AxisStatus, axes_of
from diel.status.blocks import is_hopeless, is_live
from diel.status.columns import one_line
from diel.values import format_duration

WINDOW = 15.0
"""Seconds over which a stage's rate is measured."""
SAMPLE = 0.5
LOOK = 0.5
"""Seconds between two looks at what running trials tell, which stands in files."""


@dataclass(frozen=True)
class Row:
    """One stage of a live display."""

    name: str
    total: int | None
    good: int
    """Tasks with a result, cached ones included."""
    cached: int
    running: int
    failed: int
    skipped: int
    rate: float | None
    """Results a second of late; None where nothing was computed."""
    complete: bool

    @property
    def total_text(self) -> str:
        return "?" if self.total is None else f"{self.total:,}"


class Meter:
    """Looks at a controller from inside its process."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._began: float | None = None
        self._before: dict[str, float] = {}
        self._samples: dict[str, deque[tuple[float, int]]] = {}
        self._axes: tuple[float, tuple[AxisStatus, ...]] = (0.0, ())

    def axes(self, history: History, *, last: bool = False) -> tuple[AxisStatus, ...]:
        """The searches and loops, looked at now and then, and when the run is over."""
        now = time.monotonic()
        if history.axes and (last or now - self._axes[0] >= LOOK):
            paths = self._controller.paths
            self._axes = (now, axes_of(paths, history, time.time(), driven=history.ended is None))
        return self._axes[1]

    def begin(self, history: History) -> None:
        """Notes what earlier controllers of the run did: it says nothing of this one's speed."""
        if self._began is None:
            self._began = time.monotonic()
            self._before = {name: stage.seconds for name, stage in history.stages.items()}

    def rows(self, history: History) -> list[Row]:
        """A row a stage, in the order of the graph."""
        now = time.monotonic()
        running = self._running(history)
        return [
            self._row(name, history.stage(name), running.get(name, 0), now)
            for name in self._controller.plan.graph.order
        ]

    def _row(self, name: str, stage: StageHistory, running: int, now: float) -> Row:
        run = self._controller.stages.get(name)
        known = run is not None and run.domain is not None
        count = stage.states.count
        cached = count(TaskState.CACHED)
        done = count(TaskState.DONE)
        return Row(
            name=name,
            total=stage.expected if known else self._controller.plan.stages[name].tasks,
            good=done + cached,
            cached=cached,
            running=running,
            failed=count(TaskState.FAILED),
            skipped=count(TaskState.SKIPPED) + count(TaskState.CANCELLED) - stage.never,
            rate=self._rate(name, done, now),
            complete=run is not None and run.complete,
        )

    def _running(self, history: History) -> dict[str, int]:
        """Tasks that run now: one for each of the oldest bundles that the workers have room for.

        Workers tell their controller what they began only now and then, but they run a bundle's
        tasks one after the other, and bundles in the order in which they were handed out. What has begun
        in blocks, of which nobody knows when they begin, only the journal knows.
        """
        if self._controller.plan.executor == "blocks":
            return {n: stage.states.count(TaskState.RUNNING) for n, stage in history.stages.items()}
        room = self._controller.plan.capacity
        found: dict[str, int] = {}
        for sent in self._controller.sent.values():
            cores = self._controller.plan.stages[sent.stage.name].cores
            if cores > room:
                break
            room -= cores
            found[sent.stage.name] = found.get(sent.stage.name, 0) + 1
        return found

    def _rate(self, name: str, done: int, now: float) -> float | None:
        samples = self._samples.setdefault(name, deque())
        if not samples or now - samples[-1][0] >= SAMPLE:
            samples.append((now, done))
        while now - samples[0][0] > WINDOW:
            samples.popleft()
        then, before = samples[0] if samples else (now, done)
        return (done - before) / (now - then) if done > before and now > then else None

    def time_left(self, history: History) -> tuple[float, str] | None:
        """Seconds to the end, and how sure that is; None while nothing was measured.

        Sure (empty) where every stage was measured; `~` where one has yet to begin and is taken to
        be like the others; `≤` where a loop or search may end before all its points were there; `≥` where it
        is not even known how many tasks a stage will have. Run times are
        weighed by cores and scaled by how fast this controller got through those that are done,
        so that whatever else costs time is in it.
        """
        if self._began is None:
            return None
        stages = history.stages.values()
        timed = sum(stage.timed for stage in stages)
        usual = sum(stage.seconds for stage in stages) / timed if timed else 0.0
        done = left = 0.0
        sure = ""
        for name, plan in self._controller.plan.stages.items():
            stage = history.stage(name)
            done += (stage.seconds - self._before.get(name, 0.0)) * plan.cores
            open_ = self._open_tasks(name)
            if open_ is None:
                sure = "≥"
            elif open_:
                sure = sure or (self._may_end_early(name) and "≤") or ("" if stage.timed else "~")
                left += open_ * (stage.seconds / stage.timed if stage.timed else usual) * plan.cores
        if done <= 0:
            return None
        return (time.monotonic() - self._began) * left / done, sure

    def blocks_text(self, history: History) -> str:
        """What blocks there are, in a line: those that run, or what is waited for; empty on one machine."""
        return blocks_text(self._controller.plan, history)

    def time_left_text(self, history: History) -> str:
        """`2m05s left`, `~ 2m05s left` where that is a guess, nothing where nobody knows."""
        left = self.time_left(history)
        if left is None:
            return ""
        seconds, sure = left
        return f"{sure} {format_duration(seconds)} left".lstrip()

    def _may_end_early(self, name: str) -> bool:
        """Whether a stage runs over a loop or search of which not all points need come."""
        run = self._controller.stages.get(name)
        return run is not None and any(axis.may_end_early for axis in run.adaptive)

    def _open_tasks(self, name: str) -> int | None:
        """How many tasks have not ended; None where nobody knows."""
        run = self._controller.stages.get(name)
        if run is not None and run.void:
            return 0
        if run is None or run.domain is None:
            return self._controller.plan.stages[name].tasks
        return max(0, run.size - run.ended)


def blocks_text(plan: Plan, history: History) -> str:
    """What blocks a run has: `2 blocks, 16 cores`, `waiting for a block: job 123 pending (Priority)`."""
    live = [block for block in history.blocks.values() if is_live(block) and not block["ending"]]
    pending = [block for block in live if block["state"] == "pending"]
    held = [block for block in live if block["state"] != "pending"]
    parts = []
    if held:
        cores = sum(_cores(plan, block) for block in held)
        parts.append(f"{counted(len(held), 'block')}, {counted(cores, 'core')}")
    if pending:
        first = min(pending, key=lambda block: not is_hopeless(block))
        reason = f" ({one_line(first['reason'])})" if first["reason"] else ""
        more = f" and {len(pending) - 1:,} more" if len(pending) > 1 else ""
        waiting = f"job {first['job']} pending{reason}{more}"
        parts.append(waiting if held else f"waiting for a block: {waiting}")
    if history.silent:
        parts.append(f"the scheduler does not answer: {one_line(history.silent)}")
    return ", ".join(parts)


def _cores(plan: Plan, block: Mapping[str, Any]) -> int:
    """Cores of a block, by its shape; one that only retries have is taken to be as large as its pool's."""
    pool = plan.site.pools.get(block["pool"])
    if pool is None:
        return 0
    shapes = {stage.shape.label: stage.shape for stage in plan.stages.values()}
    shape = shapes.get(block["shape"])
    return (shape.block_nodes(pool) if shape is not None else pool.block_nodes) * cores_of(pool)
