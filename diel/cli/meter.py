"""How far a controller is: what a live display shows, measured cheaply and not too often."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

from diel.controller.controller import Controller
from diel.journal.history import History, StageHistory
from diel.states import TaskState

WINDOW = 15.0
"""Seconds over which a stage's rate is measured."""
SAMPLE = 0.5


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


@dataclass(frozen=True)
class Cost:
    """The measured run time of a stage's tasks."""

    seconds: float
    timed: int


class Meter:
    """Looks at a controller from inside its process."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._began: float | None = None
        self._before: dict[str, Cost] = {}
        self._samples: dict[str, deque[tuple[float, int]]] = {}

    def begin(self, history: History) -> None:
        """Notes what earlier controllers of the run did: it says nothing of this one's speed."""
        if self._began is None:
            self._began = time.monotonic()
            self._before = {n: Cost(s.seconds, s.timed) for n, s in history.stages.items()}

    def rows(self, history: History) -> list[Row]:
        """A row a stage, in the order of the graph."""
        now = time.monotonic()
        running = self._running()
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
            total=stage.total if known else self._controller.plan.stages[name].tasks,
            good=done + cached,
            cached=cached,
            running=running,
            failed=count(TaskState.FAILED),
            skipped=count(TaskState.SKIPPED) + count(TaskState.CANCELLED),
            rate=self._rate(name, done, now),
            complete=run is not None and run.complete,
        )

    def _running(self) -> dict[str, int]:
        """Tasks that run now: one for each of the oldest bundles that the workers have room for.

        Workers tell their controller what they began only now and then, but they run a bundle's
        tasks one after the other, and bundles in the order in which they were handed out.
        """
        room = self._controller.plan.capacity
        found: dict[str, int] = {}
        for sent in self._controller.sent.values():
            if sent.cores > room:
                break
            room -= sent.cores
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

    def time_left(self, history: History) -> tuple[float, bool] | None:
        """Seconds to the end, and whether every stage's run time has been measured.

        Run times are weighed by cores and scaled by how fast this controller got through those that
        are done, so that whatever else costs time is in it. None while nothing was measured.
        """
        if self._began is None:
            return None
        done = left = 0.0
        certain = True
        for name, plan in self._controller.plan.stages.items():
            stage = history.stage(name)
            before = self._before.get(name, Cost(0.0, 0))
            done += (stage.seconds - before.seconds) * plan.cores
            open_ = self._open_tasks(name, stage)
            if open_ == 0:
                continue
            if open_ is None or not stage.timed:
                certain = False
                continue
            left += open_ * stage.seconds / stage.timed * plan.cores
        if done <= 0:
            return None
        return (time.monotonic() - self._began) * left / done, certain

    def _open_tasks(self, name: str, stage: StageHistory) -> int | None:
        run = self._controller.stages.get(name)
        if run is None or run.domain is None:
            return 0 if run is not None and run.void else None
        return max(0, run.size - run.ended)
