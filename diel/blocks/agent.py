"""The agent: asks the scheduler in a thread of its own, one batched question a poll, for the controller."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from queue import SimpleQueue
from typing import NamedTuple

from diel.executors.workers import Load
from diel.scheduler import JobState, JobStatus, Scheduler, SchedulerBusy, SchedulerRefused

LONGEST_WAIT = 60.0
"""Seconds between two questions to a scheduler that does not answer."""

GONE_AFTER = 2.0
"""Polls in a row that must miss a job before it counts as gone."""


class BlockQueued(NamedTuple):
    """A block was queued as a job."""

    block: str
    job: str


class BlockRefused(NamedTuple):
    """The scheduler refuses a block."""

    block: str
    message: str


class Silent(NamedTuple):
    """The scheduler does not answer; an empty message: it answers again."""

    message: str


class Heard(NamedTuple):
    """An answer to a question asked at `since` (monotonic seconds)."""

    since: float
    jobs: Mapping[str, JobStatus]


News = BlockQueued | BlockRefused | Silent | Heard


class Agent:
    """A thread, its orders, and its news."""

    def __init__(
        self, scheduler: Scheduler, poll: float, loads: Callable[[], Mapping[str, Mapping[str, Load]]]
    ) -> None:
        self._scheduler = scheduler
        self._poll = poll
        self._look_at_loads = loads
        self._orders: list[tuple[str, Callable[[], None]]] = []
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopped = self._busy = False
        self._failures = 0
        self._missing: dict[str, float] = {}
        self.jobs: frozenset[str] = frozenset()
        self._next = self._asked = 0.0
        self.news: SimpleQueue[News] = SimpleQueue()
        self.loads: Mapping[str, Mapping[str, Load]] | None = None
        """The load of the connected blocks, by shape and number; None until the first look."""
        self._thread = threading.Thread(target=self._run, name="diel-agent", daemon=True)
        self._thread.start()

    def ask(self, block: str, grow: Callable[[], str]) -> None:
        """Ask for a block; `grow` returns the job's id."""

        def order() -> None:
            try:
                job = grow()
            except SchedulerRefused as error:
                self.news.put(BlockRefused(block, str(error)))
            except Exception as error:  # a full disk, for example: it will ask again
                raise SchedulerBusy(f"{type(error).__name__}: {error}") from error
            else:
                self.jobs |= {job}
                self.news.put(BlockQueued(block, job))
                self._next = 0.0

        self.do(order, block)

    def end(self, jobs: list[str]) -> None:
        """End jobs."""
        self.do(lambda: self._scheduler.cancel(jobs))
        self.look_now()

    def unask(self) -> set[str]:
        """Withdraw blocks that were not yet requested; return them."""
        with self._lock:
            under_way = self._orders[:1] if self._busy else []
            asks = {block for block, _ in self._orders[len(under_way) :] if block}
            self._orders = [one for one in self._orders if one in under_way or not one[0]]
        return asks

    def do(self, order: Callable[[], None], block: str = "") -> None:
        """Does something in the agent's thread, repeatedly until the scheduler answers."""
        with self._lock:
            self._orders.append((block, order))
        self._wake.set()

    def look_now(self) -> None:
        """Ask without waiting for the next poll, but no more than once a second."""
        if not self._failures:
            self._next = min(self._next, self._asked + 1.0)
            self._wake.set()

    def stop(self, patience: float) -> None:
        """Carry out its orders, within so many seconds, and end."""
        end = time.monotonic() + patience
        while self._orders and time.monotonic() < end:
            time.sleep(0.02)
        self._stopped = True
        self._wake.set()
        self._thread.join(max(0.0, end - time.monotonic()))

    def drain(self) -> Iterator[News]:
        """The news since the last call, one by one: what is not taken stays."""
        while not self.news.empty():
            yield self.news.get()

    def _run(self) -> None:
        while not self._stopped:
            self._wake.wait(max(0.0, self._next - time.monotonic()))
            self._wake.clear()
            try:
                self._carry_out()
                if self.jobs and time.monotonic() >= self._next:
                    self._look()
                elif not self.jobs:
                    self._next = time.monotonic() + self._poll
                self._failures = 0
            except Exception as error:  # an unexpected one must not end this thread
                self._wait_longer(str(error) or type(error).__name__)

    def _carry_out(self) -> None:
        while not self._stopped:
            with self._lock:
                if not self._orders:
                    return
                order = self._orders[0][1]
                self._busy = True
            done = True
            try:
                order()
            except SchedulerBusy:
                done = False  # it stays first in line
                raise
            except Exception as error:  # whatever it is, the agent continues
                self.news.put(Silent(str(error)))
            finally:
                with self._lock:
                    self._busy = False
                    del self._orders[: int(done)]

    def _look(self) -> None:
        since = self._asked = time.monotonic()
        asked = self.jobs
        answer = dict(self._scheduler.query(sorted(asked)))
        # A job just queued may not be known yet: it is gone if it is missing for a while.
        self._missing = {job: self._missing.get(job, since) for job in asked - answer.keys()}
        gone = [job for job, first in self._missing.items() if since - first >= GONE_AFTER * self._poll]
        answer.update({job: JobStatus(JobState.GONE) for job in gone})
        if self._failures:
            self.news.put(Silent(""))
        self.news.put(Heard(since, answer))
        self._next = since + self._poll
        with contextlib.suppress(Exception):  # Parsl may be on its way down
            self.loads = self._look_at_loads()

    def _wait_longer(self, message: str) -> None:
        self._failures += 1
        self._next = time.monotonic() + min(LONGEST_WAIT, self._poll * 2 ** min(self._failures - 1, 10))
        self._wake.clear()
        self.news.put(Silent(message))
