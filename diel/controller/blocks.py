"""A scheduler's blocks as a backend: grown for ready tasks, given back when idle.

One thread, the controller's, decides; the agent asks the scheduler. Each resource shape has workers of
its own, in blocks of its own.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

from diel.controller.adoption import adopt
from diel.controller.agent import Agent, Asked, Heard, Loads, Refused, Silent
from diel.controller.backend import LetGo, Outlook
from diel.controller.block import Block, tail_of
from diel.controller.block_job import block_job, drain_after, node_script
from diel.controller.ledger import Ledger
from diel.controller.sizing import is_idle, wants_block
from diel.errors import DielError
from diel.executors.addresses import addresses
from diel.executors.workers import Load, Workers
from diel.plan import Plan
from diel.scheduler.inside import Inside
from diel.scheduler.job import JobState, JobStatus
from diel.scheduler.scheduler import Scheduler
from diel.site import Pool, Shape
from diel.submission import job_prefix
from diel.worker.block import MARGIN
from diel.worker.bundle import Bundle

if TYPE_CHECKING:
    from diel.controller.dispatcher import Dispatcher
    from diel.executors.parsl import BlockEngine

BARREN = 3
"""Blocks in a row that end before any of their nodes was heard of: then something is wrong."""
REFUSALS = 3
REFUSED_WAIT = 5.0
"""Seconds before a refused block is asked for again; doubles."""
LONGEST_REFUSED_WAIT = 300.0
LIMBO = 30.0
"""Seconds that a lost worker waits for the word of a scheduler that does not answer."""
STUCK = 120.0
"""Seconds that a block may have bundles and no worker at a task, before it is given back."""
END_PATIENCE = 45.0
"""Seconds that the jobs of a run may take to end with it."""


class Blocks:
    """The blocks of one run."""

    def __init__(
        self,
        plan: Plan,
        ledger: Ledger,
        epoch: int,
        scheduler: Scheduler,
        lost: Callable[[Block], None],
        busy: Callable[[], set[str]],
    ) -> None:
        """`lost` is told of each block that ended; `busy` tells in which blocks tasks are known to run."""
        self._plan = plan
        self._ledger = ledger
        self._paths = ledger.paths
        self._epoch = epoch
        self._scheduler = scheduler
        self._lost = lost
        self._busy = busy
        self._engine: BlockEngine | None = None
        self._agent = Agent(scheduler, plan.site.poll, self._loads)
        self._out: dict[str, dict[int, float]] = {}
        """Bundles that are out, by shape: when each was handed out (monotonic seconds)."""
        self._where: dict[int, str] = {}
        self._shapes: dict[str, Shape] = {}
        self._refused_room: set[str] = set()
        self._barren: dict[str, int] = {}
        self._refusals: dict[str, int] = {}
        self._not_before: dict[str, float] = {}
        self._count = 0
        self._current: Block | None = None
        self._job = ""
        self._excluded: frozenset[str] = frozenset()
        self._forgiven: frozenset[str] = frozenset()
        self._backlog: Mapping[str, float] = {}
        self.blocks: dict[str, Block] = {}
        self._silent = ""
        self._heard = 0.0

    # --- what the dispatcher asks -----------------------------------------------------------------

    def line(self, shape: Shape) -> str:
        return shape.label

    def bundles(self, shape: Shape) -> bool:
        return not shape.nodes

    def width(self, shape: Shape) -> int:
        return sum(block.slots for block in self._usable(shape)) or shape.slots(self._pool(shape))

    def has_room(self, shape: Shape, cores: int) -> bool:
        """Twice what running workers can take, and once what those of waiting blocks will.

        Without any block there is room for one: it is asked for once there is work for it.
        """
        now = time.time()
        usable = [block for block in self._of(shape) if block.takes_tasks(now, self._drain(shape))]
        room = sum(block.slots * (2 if block.connected else 1) for block in usable)
        fits = len(self._out.get(shape.label, ())) < (room or shape.slots(self._pool(shape)))
        if not fits:
            self._refused_room.add(shape.label)
        return fits

    def submit(self, shape: Shape, cores: int, bundle: Bundle) -> Future[bytes]:
        label = shape.label
        engine = self._start()
        if not engine.is_open(label):
            engine.open(label, self._workers(shape))
            self._shapes[label] = shape
        self._out.setdefault(label, {})[bundle.number] = time.monotonic()
        self._where[bundle.number] = label
        future = engine.submit(label, bundle, cores)
        if not self._usable(shape):
            self._grow(shape)
        return future

    def ended(self, number: int) -> None:
        label = self._where.pop(number, None)
        if label is not None:
            self._out[label].pop(number, None)

    # --- Parsl ------------------------------------------------------------------------------------

    def _start(self) -> BlockEngine:
        if self._engine is None:
            from diel.executors.parsl import BlockEngine  # slow: not where all is cached

            self._paths.blocks.mkdir(parents=True, exist_ok=True)
            self._engine = BlockEngine(self._paths.logs, addresses(self._plan.site.address), self._ask)
        return self._engine

    def _workers(self, shape: Shape) -> Workers:
        site, pool = self._plan.site, self._pool(shape)
        walltime = self._walltime(shape)
        slots = shape.workers(pool)
        each = shape.gpus
        gpus = (
            tuple(",".join(str(slot * each + i) for i in range(each)) for slot in range(slots))
            if each
            else ()
        )
        return Workers(
            slots=slots,
            mpi_nodes=shape.nodes,
            gpus=() if shape.nodes else gpus,
            drain=round(self._drain(shape)),
            silence=max(2, round(site.silence)),
            orphan=round(walltime),  # the keeper of a node ends it before, where it has nothing to do
        )

    def _loads(self) -> Mapping[str, Mapping[str, Load]]:
        """Asks Parsl what its blocks have to do; called in the agent's thread."""
        if self._engine is None:
            return {}
        return {label: self._engine.loads(label) for label in list(self._shapes)}

    def _ask(self, label: str, number: str, command: str) -> str:
        """Asks the scheduler for the block that is being grown; called by Parsl in the agent's thread."""
        block = self._current
        assert block is not None
        folder, stem = self._paths.blocks, block.name
        folder.mkdir(parents=True, exist_ok=True)
        name = self._job_name(block)
        spread = self._scheduler.spread
        site, shape, root = self._plan.site, block.shape, self._paths.root
        job = block_job(site, shape, name, spread, folder, stem, block.walltime, sorted(self._excluded))
        node = node_script(site, shape, root, stem, block.walltime, command, os.environ)
        script = folder / f"{stem}.sh"
        (folder / f"{stem}.node.sh").write_text(node, encoding="utf-8", errors="surrogateescape")
        script.write_text(self._scheduler.script(job), encoding="utf-8", errors="surrogateescape")
        block.number, block.tried = number, True
        self._job = self._scheduler.submit(script)
        return self._job

    def _job_name(self, block: Block) -> str:
        return f"{job_prefix(self._paths)}-{block.name}"

    # --- growing and shrinking --------------------------------------------------------------------

    def _pool(self, shape: Shape) -> Pool:
        return self._plan.site.pools[shape.pool]

    def _drain(self, shape: Shape) -> float:
        grace = self._plan.site.grace
        return drain_after(shape, self._walltime(shape), grace)

    def _walltime(self, shape: Shape) -> float:
        """Seconds that a block asked for now may last."""
        left = self._scheduler.left if isinstance(self._scheduler, Inside) else math.inf
        return min(shape.block_walltime(self._pool(shape), self._plan.site.grace), max(1.0, left))

    def _of(self, shape: Shape) -> list[Block]:
        return [block for block in self.blocks.values() if block.shape == shape and block.live]

    def _usable(self, shape: Shape) -> list[Block]:
        now = time.time()
        return [block for block in self._of(shape) if block.takes_tasks(now, self._drain(shape))]

    def _grow(self, shape: Shape) -> None:
        """Asks for one more block of a shape, where its pool allows it."""
        label, pool = shape.label, self._pool(shape)
        held = [block for block in self.blocks.values() if block.shape.pool == shape.pool and block.live]
        if len(held) >= pool.blocks or time.monotonic() < self._not_before.get(label, 0.0):
            return
        if isinstance(self._scheduler, Inside) and self._walltime(shape) < shape.walltime + MARGIN:
            if not any(block.live for block in self.blocks.values()):
                raise DielError(
                    f"what is left of the allocation is too short for tasks of {label}; "
                    f"`diel resume {self._paths.run_id}` asks for another one"
                )
            return
        name = f"{self._epoch}-{self._count}"
        self._count += 1
        walltime = self._walltime(shape)
        block = Block(name, shape, shape.slots(pool), walltime, time.time(), label)
        self.blocks[name] = block
        engine = self._start()

        def grow() -> str:
            # A scheduler that did not answer in time may have queued the job all the same.
            if block.tried and (
                job := self._scheduler.find(self._job_name(block)).get(self._job_name(block))
            ):
                return job
            self._current, self._job = block, ""
            engine.grow(label)
            if not self._job:
                raise DielError("Parsl did not ask for the block")
            return self._job

        self._agent.ask(name, grow)

    def tend(self, outlook: Outlook) -> bool:
        self._backlog = outlook.backlog
        self._excluded = outlook.excluded - self._forgiven
        if self._engine is not None and self._engine.broken:
            raise LetGo(
                "Parsl's interchange is gone (out of memory on this host?); running tasks go on, "
                f"`diel resume {self._paths.run_id}` takes them over"
            )
        self._take_news()
        self._hold_tainted()
        for shape in list(self._shapes.values()):
            if self._wants_block(shape):
                self._grow(shape)
        self._refused_room.clear()
        busy = self._busy()
        self._end([block for block in self.blocks.values() if self._is_spare(block, busy)])
        return False

    def _hold_tainted(self) -> None:
        """Gives no more tasks to blocks with a node that is to be avoided."""
        if not self._excluded:
            return
        workers = self._ledger.history.workers.values()
        tainted = {worker["block"] for worker in workers if worker["node"] in self._excluded}
        for block in self.blocks.values():
            if block.name in tainted and block.live and not block.held:
                block.held = True
                if self._engine is not None and not block.adopted:
                    self._agent.do(partial(self._engine.hold, block.shape.label, block.number))

    def _is_spare(self, block: Block, busy: set[str]) -> bool:
        if block.adopted or block.held:
            return block.live and block.name not in busy and not block.bundles
        return self._is_idle(block) or self._is_stuck(block, busy)

    def _take_news(self) -> None:
        for news in self._agent.drain():
            if isinstance(news, Asked):
                self._note_asked(news)
            elif isinstance(news, Refused):
                self._note_refused(news)
            elif isinstance(news, Heard):
                self._note_heard(news)
            elif isinstance(news, Loads):
                self._note_loads(news)
            else:
                self._note_silent(news)
        self._agent.watch(frozenset(block.job for block in self.blocks.values() if block.live and block.job))

    def _wants_block(self, shape: Shape) -> bool:
        """Whether another block would be of use for tasks that are ready now."""
        label = shape.label
        return wants_block(
            shape,
            sorted(self._out.get(label, {}).values()),
            self._usable(shape),
            more=label in self._refused_room,
            backlog=self._backlog.get(label, 0.0),
            now=time.monotonic(),
        )

    def _is_idle(self, block: Block) -> bool:
        """Whether a block is of no more use: nothing in it, nothing for it, and that for a while."""
        if not block.live or block.ending or not block.job:
            return False
        others = sum(other.slots for other in self._usable(block.shape) if other is not block)
        patience = 0.0 if self._is_wanted_elsewhere(block) else self._pool(block.shape).idle
        return is_idle(block, len(self._out.get(block.shape.label, ())), others, patience, time.time())

    def _is_wanted_elsewhere(self, block: Block) -> bool:
        """Whether tasks of another shape wait for this block's place in its pool."""
        pool = block.shape.pool
        rivals = (shape for shape in self._shapes.values() if shape.pool == pool and shape != block.shape)
        return any(self._out.get(shape.label) and not self._usable(shape) for shape in rivals)

    def _is_stuck(self, block: Block, busy: set[str]) -> bool:
        """Whether a block has bundles and does nothing: a killed worker can take its node's queue along."""
        if not block.live or block.ending or block.adopted or not block.connected or not block.bundles:
            block.stuck_since = None
            return False
        now = time.monotonic()
        if block.name in busy or block.stuck_since is None:
            block.stuck_since = now
        return now - block.stuck_since > STUCK

    def _end(self, blocks: Iterable[Block]) -> None:
        """Gives blocks back."""
        ending = [block for block in blocks if block.live and not block.ending]
        for block in ending:
            block.ending = True
            label, number = block.shape.label, block.number
            if self._engine is not None and block.connected and not block.adopted:
                self._agent.do(partial(self._engine.hold, label, number))
        if jobs := [block.job for block in ending if block.job]:
            self._agent.end(jobs)
        for block in ending:  # last: a full disk must not keep jobs alive
            self._write(block)

    # --- news -------------------------------------------------------------------------------------

    def _write(self, block: Block) -> None:
        self._ledger.append("block", **block.record())

    def _note_asked(self, news: Asked) -> None:
        block = self.blocks.get(news.block)
        if block is None:
            self._agent.end([news.job])
            return
        for other in self.blocks.values():
            if other.live and other.job == news.job:  # the scheduler lost its memory, and counts anew
                other.state, other.reason = JobState.GONE, "the scheduler gave its id to another job"
                self._note_end(other)
        block.job = news.job
        self._refusals.pop(block.shape.label, None)
        if block.ending:
            self._agent.end([block.job])
        self._write(block)

    def _note_refused(self, news: Refused) -> None:
        """Asks again later, without excluded nodes. Raises DielError where the pool has no block at all."""
        block = self.blocks.pop(news.block)
        label, pool = block.shape.label, block.shape.pool
        count = self._refusals[label] = self._refusals.get(label, 0) + 1
        if count >= REFUSALS and not self._has_working(pool) and not self._excluded:
            raise DielError(
                f"the scheduler refuses blocks of pool '{pool}': {news.message}\n"
                f"correct the site file, or choose another site; `diel doctor --site {self._plan.site.name}` "
                "checks it"
            )
        without = " (asked again without the nodes to avoid)" if self._excluded else ""
        self._forgiven |= self._excluded  # there may be no others
        wait = min(REFUSED_WAIT * 2 ** min(count - 1, 10), LONGEST_REFUSED_WAIT)
        self._not_before[label] = time.monotonic() + wait
        self._ledger.append("trouble", message=f"a block was refused: {news.message}{without}")

    def _has_working(self, pool: str) -> bool:
        """Whether a pool has a block whose nodes were heard of: then the site's description is right."""
        return any(b.live and b.connected for b in self.blocks.values() if b.shape.pool == pool)

    def _note_silent(self, news: Silent) -> None:
        if news.message != self._silent:
            self._silent = news.message
            self._ledger.append("scheduler", message=news.message)

    def _note_heard(self, news: Heard) -> None:
        self._note_silent(Silent(""))
        self._heard = news.since
        by_job = {block.job: block for block in self.blocks.values() if block.live and block.job}
        for job, status in news.jobs.items():
            if job in by_job:
                self._note_status(by_job[job], status)

    def _note_status(self, block: Block, status: JobStatus) -> None:
        before = (block.state, block.reason, block.nodes)
        block.state = status.state
        block.reason = status.reason
        block.nodes = status.nodes or block.nodes
        if status.state == JobState.RUNNING and block.began is None:
            block.began = time.time()
        if status.state.ended:
            block.ended = time.time()
            block.stderr_tail = tail_of(self._paths.blocks / f"{block.name}.err")
        if before != (block.state, block.reason, block.nodes):
            self._write(block)
        if status.state.ended:
            self._note_end(block)

    def _note_end(self, block: Block) -> None:
        if self._engine is not None and block.connected and not block.held:
            self._agent.do(partial(self._engine.hold, block.shape.label, block.number))  # no task goes there
        self._lost(block)
        pool = block.shape.pool
        if block.connected or block.ending or block.adopted or block.state == JobState.PREEMPTED:
            self._barren[pool] = 0
            return
        self._barren[pool] = self._barren.get(pool, 0) + 1
        if self._barren[pool] >= BARREN and not self._has_working(pool):
            said = block.stderr_tail.strip() or "nothing"
            raise DielError(
                f"{BARREN} blocks of pool '{pool}' ended before any worker was heard of; the last was "
                f"{block.state}{f' ({block.reason})' if block.reason else ''} and said: {said}\n"
                f"see {self._paths.blocks}, and `diel doctor --site {self._plan.site.name} --job`"
            )

    def _note_loads(self, news: Loads) -> None:
        for block in self.blocks.values():
            load = news.blocks.get(block.shape.label, {}).get(block.number)
            if block.adopted or not block.live:
                continue
            if load is not None:
                if not block.connected:
                    block.connected, block.connected_since = True, time.monotonic()
                    block.began = block.began or time.time()
                block.bundles, block.idle = load.bundles, load.idle
            elif block.connected:  # Parsl has given all its nodes up: it will never hear of them again
                block.bundles, block.idle = 0, float("inf")
                block.held = True

    def knows(self, since: float) -> bool:
        """The scheduler has answered a question put since then, or does not answer at all."""
        if self._heard > since or time.monotonic() - since > LIMBO:
            return True
        self._agent.look_now()
        return False

    # --- another controller's blocks -----------------------------------------------------------------

    def adopt(self, dispatcher: Dispatcher) -> None:
        for block, name in adopt(self._ledger, dispatcher):
            self.blocks[name] = block
        self._end_unknown()

    def _end_unknown(self) -> None:
        """Ends jobs of the run that were queued and never written down: their controller was killed then."""
        prefix = f"{job_prefix(self._paths)}-"

        def order() -> None:
            known = {block.job for block in self.blocks.values()}
            own = f"{prefix}c"
            found = self._scheduler.find(prefix)
            if jobs := [job for name, job in found.items() if not name.startswith(own) and job not in known]:
                self._scheduler.cancel(jobs)

        self._agent.do(order)

    # --- the end ----------------------------------------------------------------------------------

    def detach(self) -> None:
        """Lets go: what runs in blocks goes on, for the next controller to adopt."""
        self._agent.stop(1.0)
        if self._engine is not None:
            self._engine.stop()

    def stop(self) -> None:
        """Ends all blocks, and waits until the scheduler says that they are gone."""
        for name in self._agent.unask():
            if not self.blocks[name].tried:  # else it may be queued all the same: `end_unknown` looks
                del self.blocks[name]
        self._end_unknown()
        with contextlib.suppress(DielError):
            self._end(list(self.blocks.values()))
        end = time.monotonic() + END_PATIENCE
        while any(block.live and block.job for block in self.blocks.values()) and time.monotonic() < end:
            with contextlib.suppress(DielError):
                self._take_news()
                self._end([block for block in self.blocks.values() if block.job])
            self._agent.look_now()
            time.sleep(0.2)
        self._agent.stop(1.0)
        if self._engine is not None:
            self._engine.stop()

    @property
    def left(self) -> tuple[str, ...]:
        return tuple(block.job for block in self.blocks.values() if block.live and block.job)
