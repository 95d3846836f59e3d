"""How a block is requested: Parsl's engine, its workers and their job; the agent that asks the scheduler."""

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple

from diel.backends.blocks.block import Block
from diel.backends.blocks.script import block_job, block_job_name, node_script
from diel.backends.executors import Load, Workers
from diel.base.errors import DielError
from diel.base.files import put
from diel.base.paths import RunPaths
from diel.planning.plan import Plan
from diel.site.scheduler import JobState, JobStatus, Scheduler, SchedulerBusy, SchedulerRefused
from diel.site.scheduler.allocation import AllocationScheduler
from diel.site.shape import Shape
from diel.site.site import Pool
from diel.store.project.submission import job_prefix
from diel.worker.attempt.addresses import addresses
from diel.worker.attempt.block import MARGIN, start_slack
from diel.worker.attempt.bundle import Bundle

if TYPE_CHECKING:
    from diel.backends.executors.parsl import BlockEngine


class BlockRequester:
    """The engine of one run, and its jobs."""

    def __init__(self, plan: Plan, paths: RunPaths, scheduler: Scheduler) -> None:
        self._site = plan.site
        self._paths = paths
        self._scheduler = scheduler
        self.engine: BlockEngine | None = None
        self._current: Block | None = None
        self._job = ""
        self.shapes: dict[str, Shape] = {}
        """Shapes that ever had a bundle, by label."""
        self.excluded: frozenset[str] = frozenset()

    def pool(self, shape: Shape) -> Pool:
        return self._site.pools[shape.pool]

    def walltime(self, shape: Shape) -> float:
        """Return seconds that a block requested now can last."""
        remaining = (
            self._scheduler.remaining if isinstance(self._scheduler, AllocationScheduler) else math.inf
        )
        return min(shape.block_walltime(self.pool(shape), self._site.grace), max(1.0, remaining))

    def slots(self, shape: Shape, nodes: int) -> int:
        """Tasks of a shape that run side by side on `nodes` connected nodes of a block."""
        workers = shape.workers(self.pool(shape))
        return workers if shape.nodes else workers * nodes

    def drain(self, shape: Shape, needed: float = 0.0) -> float:
        """Return seconds after which a block gets no more tasks; tasks without a walltime need `needed`."""
        walltime, task_walltime = self.walltime(shape), shape.walltime or max(self._site.grace, needed)
        return max(start_slack(walltime), walltime - task_walltime - MARGIN)

    def is_worth_it(self, shape: Shape, needed: float) -> bool:
        """Tell whether a block would last for tasks that take `needed`: an allocation may end soon."""
        if not isinstance(self._scheduler, AllocationScheduler):
            return True
        short = needed <= shape.block_walltime(self.pool(shape), self._site.grace) / 2
        return self.walltime(shape) >= max(shape.walltime, needed if short else 0.0) + MARGIN

    def _workers(self, shape: Shape) -> Workers:
        slots, gpus_of_slot = shape.workers(self.pool(shape)), shape.gpus
        gpus = tuple(
            ",".join(str(slot * gpus_of_slot + i) for i in range(gpus_of_slot)) for slot in range(slots)
        )
        return Workers(
            slots=slots,
            mpi_nodes=shape.nodes,
            gpus=gpus if gpus_of_slot and not shape.nodes else (),
            drain=round(self.drain(shape)),
            silence=max(2, round(self._site.silence)),
            orphan=round(self.walltime(shape)),  # a node's keeper ends it before, if it has nothing to do
        )

    def start(self) -> "BlockEngine":
        if self.engine is None:
            from diel.backends.executors.parsl import BlockEngine  # slow, and not needed if all is cached

            self._paths.blocks.mkdir(parents=True, exist_ok=True)
            self.engine = BlockEngine(self._paths, addresses(self._site.address), self._submit_job)
        return self.engine

    def submit(self, shape: Shape, cores: int, bundle: Bundle) -> Future[bytes]:
        """Send a bundle; there may be no block for it yet."""
        engine, label = self.start(), shape.label
        if label not in self.shapes:
            engine.open(label, self._workers(shape))
            self.shapes[label] = shape
        return engine.submit(label, bundle, cores)

    def asks_the_same(self, block: Block) -> bool:
        """Return whether the job of an earlier controller's block is just what would be asked now."""
        if isinstance(self._scheduler, AllocationScheduler) or block.shape.pool not in self._site.pools:
            return False
        if block.walltime != self.walltime(block.shape):
            return False
        try:
            path = self._paths.block_script(block.name)
            return path.read_text(encoding="utf-8", errors="surrogateescape") == self._script(block)
        except (OSError, DielError):
            return False

    def ask(self, block: Block) -> str:
        """Ask for a block; return the job's id."""
        # A scheduler that did not answer in time may still have queued the job.
        name = block_job_name(self._paths, block)
        if block.tried and (job := self._scheduler.find(name).get(name)):
            return job
        return self._grow(block)

    def renew(self, block: Block) -> str:
        """Make the nodes of a kept block work for this controller; return its job's id."""
        return block.job if block.number else self._grow(block)

    def _grow(self, block: Block) -> str:
        self._current, self._job = block, ""
        self.start().grow(block.shape.label)
        if not self._job:
            raise DielError("Parsl did not ask for the block")
        return self._job

    def _submit_job(self, label: str, number: str, command: str) -> str:
        """Submit the job of the block that is being requested; called by Parsl."""
        block = self._current
        assert block is not None
        paths = self._paths
        paths.blocks.mkdir(parents=True, exist_ok=True)
        node = node_script(self._site, self._scheduler, paths, block, command)
        put(paths.node_script(block.name), node)
        block.number = number
        if block.job:  # an earlier controller asked for it
            self._job = block.job
        else:
            script = paths.block_script(block.name)
            put(script, self._script(block))
            block.tried = True
            self._job = self._scheduler.submit(script)
        return self._job

    def _script(self, block: Block) -> str:
        """Return the job script of a block. Raise SchedulerRefused."""
        job = block_job(self._site, self._scheduler, self._paths, block)
        return self._scheduler.script(job._replace(exclude=tuple(sorted(self.excluded))))

    def hold(self, block: Block) -> None:
        """Make Parsl give a block no more tasks."""
        if self.engine is not None:
            self.engine.hold(block.shape.label, block.number)

    def loads(self) -> Mapping[str, Mapping[str, Load]]:
        """Return the load of Parsl's blocks, by shape and number."""
        if self.engine is None:
            return {}
        return {label: self.engine.loads(label) for label in list(self.shapes)}

    def end_unknown(self, blocks: Mapping[str, Block]) -> None:
        """End jobs of the run that were queued but never recorded, because their controller was killed."""
        prefix, own_jobs = f"{job_prefix(self._paths)}-", {block.job for block in blocks.values()}
        jobs_by_name = self._scheduler.find(prefix).items()
        if jobs := [
            job for name, job in jobs_by_name if not name.startswith(f"{prefix}c") and job not in own_jobs
        ]:
            self._scheduler.cancel(jobs)


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
    """Asks the scheduler in a thread of its own, one batched question a poll, for the controller."""

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
            self._orders = [order for order in self._orders if order in under_way or not order[0]]
        return asks

    def do(self, order: Callable[[], None], block: str = "") -> None:
        """Do something in the agent's thread, repeatedly until the scheduler answers."""
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
        """Yield the news since the last call, one by one: what is not taken stays."""
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
        jobs = self.jobs
        answer = dict(self._scheduler.query(sorted(jobs)))
        # A job just queued may not be known yet: it is gone if it is missing for a while.
        self._missing = {job: self._missing.get(job, since) for job in jobs - answer.keys()}
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
