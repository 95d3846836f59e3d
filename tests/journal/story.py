"""Made-up runs: what controllers and workers would have written, in the order in which it happened."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

Record = dict[str, Any]
Line = tuple[str, Record]
"""A segment's name and a record in it."""
TASKS = 8


@dataclass
class Worker:
    """A worker process: the tasks in its queue as (index, attempt), and the one that it is at."""

    name: str
    bundle: int = 0
    rest: list[tuple[int, int]] = field(default_factory=list)
    at: tuple[int, int] | None = None


class Story:
    """A run of a few tasks, with failures, releases, lost workers and controllers that take over."""

    def __init__(self, seed: int, steps: int) -> None:
        self._dice = random.Random(seed)
        self._clock = 1000.0
        self._epoch = self._bundle = self._made = 0
        self._workers: list[Worker] = []
        self._late: list[Worker] = []
        self._given: dict[int, Worker] = {}
        self._closed: set[int] = set()
        self._done: set[int] = set()
        self._attempts: dict[int, int] = {}
        """How many attempts began, as far as the controller knows."""
        self._begun: set[tuple[int, int]] = set()
        self.fenced: set[tuple[int, int]] = set()
        """Attempts that were given up for lost: their results count no more."""
        self._over = False
        self.lines: list[Line] = []
        self._take_over()
        for _ in range(steps):
            self._step()

    def _write(self, segment: str, event: str, **more: Any) -> None:
        self._clock += 1.0
        self.lines.append((segment, {"event": event, "stage": "s", "time": self._clock, **more}))

    def _control(self, event: str, **more: Any) -> None:
        self._write(f"controller-{self._epoch:04d}.jsonl", event, **more)

    def _step(self) -> None:
        steps = [self._work] * 6 + [self._late_work]
        if not self._over:
            steps += [self._queue] * 3 + [self._lose, self._judge, self._cache, self._end]
        if self._over or self._dice.random() < 0.1:
            steps.append(self._take_over)
        self._dice.choice(steps)()

    def _take_over(self) -> None:
        self._late += self._workers
        self._epoch += 1
        self._bundle = 0
        self._workers, self._given, self._closed, self._over = [], {}, set(), False
        self._control("controller", epoch=self._epoch, host="node", pid=self._epoch, started=0.0)
        self._control("stage", kind="simulation", total=TASKS, parts={"module": "m"})
        if self._epoch % 2:
            self._control("stage", stage="void", kind="analysis", total=0, void="its axis was not made")

    def _open(self) -> list[int]:
        return [i for i in range(TASKS) if i not in self._done | self._closed and i not in self._given]

    def _queue(self) -> None:
        chosen = sorted(self._dice.sample(self._open(), min(len(self._open()), self._dice.randint(1, 4))))
        idle = [w for w in self._workers if not w.rest and w.at is None]
        if not chosen:
            return
        if not idle:
            self._made += 1
            tag = self._dice.randrange(10**6)  # so that segments sort in any order
            idle = [Worker(f"worker-{self._epoch:04d}-node-{tag:06d}-{self._made}.jsonl")]
            self._workers += idle
            self._write(idle[0].name, "worker", host="node", pid=self._made, started=0.0)
        worker = self._dice.choice(idle)
        self._bundle += 1
        worker.bundle = self._bundle
        for index in chosen:
            self._given[index] = worker
        worker.rest = [(index, self._attempts.get(index, 0) + 1) for index in chosen]
        more = {} if {a for _, a in worker.rest} == {1} else {"attempts": [a for _, a in worker.rest]}
        self._control("queued", bundle=self._bundle, tasks=chosen, **more)

    def _work(self) -> None:
        busy = [w for w in self._workers if w.rest or w.at]
        if busy:
            self._advance(self._dice.choice(busy))

    def _late_work(self) -> None:
        """A worker that was given up ends what it is at; now and then one begins another task."""
        busy = [w for w in self._late if w.at or (w.rest and self._dice.random() < 0.3)]
        if busy:
            self._advance(self._dice.choice(busy))

    def _advance(self, worker: Worker) -> None:
        if worker.at is None:
            worker.at = worker.rest.pop(0)
            index, attempt = worker.at
            late = worker in self._late  # of such the controller may hear later
            if (index, attempt) in self._begun:
                worker.at = None
                self._write(worker.name, "release", bundle=worker.bundle, tasks=[index], taken=attempt)
                if not late and index not in self._done:
                    self._fence(index, attempt)
                self._free(index, worker)
            else:
                self._begun.add((index, attempt))
                self._write(worker.name, "start", index=index, attempt=attempt, bundle=worker.bundle)
            if not late:
                self._attempts[index] = max(attempt, self._attempts.get(index, 0))
            return
        if worker.rest and self._dice.random() < 0.2:
            self._write(worker.name, "release", bundle=worker.bundle, tasks=[i for i, _ in worker.rest])
            for index, _ in worker.rest:
                self._free(index, worker)
            worker.rest = []
            return
        index, attempt = worker.at
        worker.at = None
        lost = (index, attempt) in self.fenced
        if self._dice.random() < 0.6 and (lost or index not in self._done):
            self._write(worker.name, "done", index=index, attempt=attempt, seconds=0.25 * (index + 1))
            self._done |= set() if lost else {index}
        else:
            more = {"attempt": attempt, "bundle": worker.bundle, "class": "app", "message": "m"}
            self._write(worker.name, "fail", index=index, **more)
        self._free(index, worker)

    def _free(self, index: int, worker: Worker) -> None:
        if self._given.get(index) is worker:
            del self._given[index]

    def _lose(self) -> None:
        """A worker is given up for lost; its controller hands its tasks out anew."""
        if self._workers:
            worker = self._workers.pop(self._dice.randrange(len(self._workers)))
            self._late.append(worker)
            if worker.at is not None and worker.at[0] not in self._done:
                self._fence(*worker.at)
            self._given = {index: other for index, other in self._given.items() if other is not worker}

    def _fence(self, index: int, attempt: int) -> None:
        self.fenced.add((index, attempt))
        self._control("fenced", tasks=[[index, attempt]])

    def _judge(self) -> None:
        free = self._open()
        if free:
            index = self._dice.choice(free)
            event = self._dice.choice(["failed", "failed", "skipped", "cancelled"])
            self._control(event, tasks=[[index, index]], **{"class": "app", "message": "gave up"})
            self._closed.add(index)

    def _cache(self) -> None:
        free = self._open()
        if free:
            index = self._dice.choice(free)
            self._control("cached", index=index, run="w-1", seconds=1.0)
            self._done.add(index)

    def _end(self) -> None:
        if self._dice.random() < 0.2:
            self._control("end", state=self._dice.choice(["failed", "cancelled", "interrupted"]))
            self._over = True
            self._late += self._workers
            self._workers = []

    def segments(self) -> dict[str, list[Record]]:
        """The records by segment."""
        found: dict[str, list[Record]] = {}
        for name, record in self.lines:
            found.setdefault(name, []).append(record)
        return found
