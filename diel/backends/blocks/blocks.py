"""A scheduler's blocks as a backend: grown for ready tasks, given back when idle; each shape has its own."""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from typing import assert_never

from diel.backends.blocks.block import (
    Adopt,
    Block,
    EngineLost,
    Outlook,
    ServiceLoad,
    is_idle,
    tail_of,
    wants_block,
)
from diel.backends.blocks.leftovers import adopt
from diel.backends.blocks.requester import Agent, BlockQueued, BlockRefused, BlockRequester, Heard, Silent
from diel.backends.blocks.script import NeverRuns, is_at_start, refusal
from diel.base.errors import DielError
from diel.planning.check.imports import imported
from diel.planning.plan import Plan
from diel.site.scheduler import JobState, JobStatus, Scheduler
from diel.site.shape import Shape
from diel.site.site import Site
from diel.tasks.ledger import Ledger
from diel.worker.attempt.bundle import Bundle

BARREN = 3
"""Consecutive blocks that may end before any of their nodes reports: then something is wrong."""
REFUSALS = 3
REFUSED_WAIT = 5.0
"""Seconds before a refused block is requested again; doubles."""
LONGEST_REFUSED_WAIT = 300.0
LIMBO = 30.0
"""Seconds that a lost worker waits for a scheduler that does not answer."""


@dataclass
class BlockMonitor:
    """News of a run's blocks, from the scheduler and Parsl; a site without any that works is given up."""

    _blocks: dict[str, Block]
    """The run's, by name: a refused one is taken out."""
    _agent: Agent
    _asking: BlockRequester
    _ledger: Ledger
    _site: Site
    _lost: Callable[[Block], None]
    """Gets each that ended."""
    _barren: dict[str, int] = field(default_factory=dict)
    _refusals: dict[str, int] = field(default_factory=dict)
    not_before: dict[str, float] = field(default_factory=dict)
    """When a refused block of a shape can be requested again (monotonic seconds)."""
    _silent: str = ""
    _heard: float = 0.0
    forgiven: frozenset[str] = frozenset()
    """Nodes to avoid that blocks can still have: there may be no others."""

    def knows(self, since: float) -> bool:
        """Return whether the scheduler has answered a question asked since then, or does not answer."""
        if self._heard > since or time.monotonic() - since > LIMBO:
            return True
        self._agent.look_now()
        return False

    def write(self, block: Block) -> None:
        self._ledger.append(block.record())

    def take_news(self) -> None:
        """Read the news. Raise DielError if the site gives no block that works."""
        for news in self._agent.drain():
            match news:
                case BlockQueued():
                    self._note_asked(news)
                case BlockRefused():
                    self._note_refused(news)
                case Heard():
                    self._note_heard(news)
                case Silent():
                    self._note_silent(news.message)
                case _:
                    assert_never(news)
        self._note_loads()
        self._agent.jobs = frozenset(block.job for block in self._live() if block.job)

    def _note_asked(self, news: BlockQueued) -> None:
        block = self._blocks.get(news.block)
        if block is None:
            self._agent.end([news.job])
            return
        for other in self._live():
            # A scheduler that lost its memory counts from the beginning.
            if other is not block and other.job == news.job:
                other.state, other.reason = JobState.GONE, "the scheduler gave its id to another job"
                self._note_end(other)
        block.job = news.job
        self._refusals.pop(block.shape.label, None)
        if block.ending:
            self._agent.end([block.job])
        self.write(block)

    def _note_refused(self, news: BlockRefused) -> None:
        """Ask again later, without excluded nodes. Raise DielError if the pool has no block at all."""
        block = self._blocks.pop(news.block)
        if is_at_start(self._ledger.history):
            raise NeverRuns(refusal(self._site, block.shape.pool, news.message))
        label, pool, excluded = block.shape.label, block.shape.pool, self._asking.excluded
        count = self._refusals[label] = self._refusals.get(label, 0) + 1
        if count >= REFUSALS and not self._has_working(pool) and not excluded:
            raise DielError(
                f"the scheduler refuses blocks of pool '{pool}': {news.message}\n"
                f"fix the site file, or choose another; `diel doctor --site {self._site.name}` checks it"
            )
        without = " (requested again without the nodes to avoid)" if excluded else ""
        self.forgiven |= excluded
        wait = min(REFUSED_WAIT * 2 ** min(count - 1, 10), LONGEST_REFUSED_WAIT)
        self.not_before[label] = time.monotonic() + wait
        self._ledger.trouble(f"a block was refused: {news.message}{without}")

    def _live(self) -> list[Block]:
        return [block for block in self._blocks.values() if block.live]

    def _has_working(self, pool: str) -> bool:
        """Return whether a pool has a block whose nodes reported: then the site's description is right."""
        return any(block.connected for block in self._live() if block.shape.pool == pool)

    def _note_silent(self, message: str) -> None:
        if message != self._silent:
            self._silent = message
            self._ledger.append({"event": "scheduler", "message": message})

    def _note_heard(self, news: Heard) -> None:
        self._note_silent("")
        self._heard = news.since
        for block in self._live():
            if block.job in news.jobs:
                self._note_status(block, news.jobs[block.job])

    def _note_status(self, block: Block, status: JobStatus) -> None:
        before = (block.state, block.reason, block.nodes)
        block.state, block.reason, block.hopeless = status.state, status.reason, status.hopeless
        block.nodes = status.nodes or block.nodes
        if status.state == JobState.RUNNING and block.began is None:
            block.began = time.time()
            if block.kept is not None:  # it may have begun while nobody looked
                with contextlib.suppress(OSError, ValueError):
                    block.began = float(self._ledger.paths.block_begin(block.name).read_text())
        if status.state.ended:
            block.ended = time.time()
            block.stderr_tail = tail_of(self._ledger.paths.blocks / f"{block.name}.err")
        if before != (block.state, block.reason, block.nodes):
            self.write(block)
        if is_at_start(self._ledger.history):  # the first news of a block can be that it can never run
            if status.hopeless:
                why = f"job {block.job} would wait forever: {status.reason}"
                raise NeverRuns(refusal(self._site, block.shape.pool, why))
            if status.state is JobState.PENDING and not status.reason:
                self._agent.look_now()
        if status.state.ended:
            self._note_end(block)

    def _note_end(self, block: Block) -> None:
        if block.connected and not block.held:
            self._agent.do(partial(self._asking.hold, block))  # no task goes there
        self._lost(block)
        pool = block.shape.pool
        if block.connected or block.ending or block.adopted or block.state == JobState.PREEMPTED:
            self._barren[pool] = 0
            return
        if block.kept is not None:  # its end may be that of a node for which no controller came in time
            return
        self._barren[pool] = self._barren.get(pool, 0) + 1
        if self._barren[pool] >= BARREN and not self._has_working(pool):
            errors = block.stderr_tail.strip() or "nothing"
            raise DielError(
                f"{BARREN} blocks of pool '{pool}' ended before any worker reported; the last was "
                f"{block.state}{f' ({block.reason})' if block.reason else ''} and said: {errors}\n"
                f"see {self._ledger.paths.blocks}, and `diel doctor --site {self._site.name} --job`"
            )

    def _note_loads(self) -> None:
        if (loads := self._agent.loads) is None:
            return
        for block in self._live():
            load = loads.get(block.shape.label, {}).get(block.number)
            if load is None:
                if block.connected:  # Parsl has given up all its nodes: it will never hear from them again
                    block.bundles, block.idle, block.held = 0, float("inf"), True
                continue
            if block.kept is not None:  # its nodes come over one by one, as their tasks end
                block.adopted, block.slots = False, self._asking.slots(block.shape, load.nodes)
            if not block.connected:
                block.connected, block.connected_since = True, time.monotonic()
                block.began = block.began or time.time()
            block.bundles, block.idle = load.bundles, load.idle


COMING = 60.0
"""Seconds that the nodes of a kept block have to come over, once none of its tasks runs."""
STUCK = 120.0
"""Seconds that a block can have bundles but no worker at a task, before it is given back."""
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
        """`lost` gets each block that ended; `busy` names the blocks in which tasks are known to run."""
        self._ledger = ledger
        self._epoch = epoch
        self._busy = busy
        self._blocks: dict[str, Block] = {}
        self._count = 0
        self._out: dict[str, dict[int, float]] = {}
        """Bundles that are out, by shape: when each was handed out (monotonic seconds)."""
        self._holding = ServiceLoad(plan)
        self._imports = Imports(plan)
        self._refused_room: set[str] = set()
        self._backlog: Mapping[str, float] = {}
        self._needed: Mapping[str, float] = {}
        self._asking = BlockRequester(plan, ledger.paths, scheduler)
        self._agent = Agent(scheduler, plan.site.poll, self._asking.loads)
        self._watching = BlockMonitor(self._blocks, self._agent, self._asking, ledger, plan.site, lost)

    def line(self, shape: Shape) -> str:
        """Return the queue of tasks of a shape: none goes before its first task."""
        return shape.label

    def bundles(self, shape: Shape) -> bool:
        """Return whether several tasks of a shape go in one bundle."""
        return not shape.nodes

    def width(self, shape: Shape) -> int:
        """Tasks of a shape that can run side by side now: a bundle is at most a fair share of what waits."""
        return sum(block.slots for block in self._usable(shape)) or shape.slots(self._asking.pool(shape))

    def has_room(self, shape: Shape, cores: int) -> bool:
        """Tell whether a bundle can go out: twice what workers take, once what waiting blocks will."""
        room = sum(block.slots * (2 if block.connected else 1) for block in self._usable(shape))
        fits = len(self._out.get(shape.label, ())) < (room or shape.slots(self._asking.pool(shape)))
        if not fits:
            self._refused_room.add(shape.label)
        return fits

    def has_room_for(self, tasks: Sequence[tuple[Shape, int]]) -> bool:
        """Tell whether tasks can run at once beside those handed out, counting blocks still to come."""
        free: dict[str, int] = {}
        for shape, count in Counter(shape for shape, _ in tasks).items():
            pool = self._asking.pool(shape)
            held = sum(block.live and block.shape.pool == shape.pool for block in self._blocks.values())
            slots = sum(block.slots for block in self._usable(shape))
            lacking = max(0, count + len(self._out.get(shape.label, ())) - slots)
            free.setdefault(shape.pool, max(0, pool.blocks - held))
            free[shape.pool] -= ceil(lacking / shape.slots(pool))
        return min(free.values(), default=0) >= 0

    def could_hold(self, tasks: Sequence[tuple[Shape, int]]) -> bool:
        """Return whether they could once everything handed out has ended, except what lasts."""
        counts = Counter(shape for shape, _ in tasks)
        return all(self._holding.room_beside(shape) >= count for shape, count in counts.items())

    def submit(self, shape: Shape, cores: int, bundle: Bundle) -> Future[bytes]:
        """Hand out a bundle; the future raises if its worker was lost."""
        future = self._asking.submit(shape, cores, self._imports.ask(shape.pool, bundle))
        self._imports.note(shape.pool, future)
        self._out.setdefault(shape.label, {})[bundle.number] = time.monotonic()
        self._holding.take(bundle, shape, cores)
        self._renew(shape)
        if not self._usable(shape):
            self._grow(shape)
        return future

    def ended(self, number: int) -> None:
        """Free the room of a bundle that ended."""
        self._holding.ended(number)
        for out in self._out.values():
            out.pop(number, None)

    def knows(self, since: float) -> bool:
        """Return whether it is known why a worker was lost at that moment (monotonic seconds)."""
        return self._watching.knows(since)

    def tend(self, outlook: Outlook) -> None:
        """Look after the blocks, now and then."""
        self._backlog, self._needed = outlook.backlog, outlook.needed
        self._asking.excluded = outlook.excluded - self._watching.forgiven
        if self._asking.engine is not None and self._asking.engine.broken:
            raise EngineLost("Parsl's interchange is gone (out of memory here?); running tasks continue")
        self._watching.take_news()
        self._hold_unfit()
        for shape in list(self._asking.shapes.values()):
            label, usable = shape.label, self._usable(shape)
            more, backlog = label in self._refused_room, self._backlog.get(label, 0.0)
            out = sorted(self._out.get(label, {}).values())
            if wants_block(shape, out, usable, more=more, backlog=backlog, now=time.monotonic()):
                self._grow(shape)
        self._refused_room.clear()
        self._note_busy()
        self._end([block for block in self._blocks.values() if self._is_spare(block)])

    def _note_busy(self) -> None:
        busy, now = self._busy(), time.monotonic()
        for block in self._blocks.values():
            block.free_since = None if block.name in busy else block.free_since or now

    def _usable(self, shape: Shape) -> list[Block]:
        """Return the blocks that tasks of a shape go to, now or once they have begun."""
        now, drain = time.time(), self._asking.drain(shape)
        return [b for b in self._blocks.values() if b.shape == shape and b.takes_tasks(now, drain)]

    def _grow(self, shape: Shape) -> None:
        """Ask for one more block of a shape, if its pool allows it."""
        label, pool = shape.label, self._asking.pool(shape)
        held = [block for block in self._blocks.values() if block.shape.pool == shape.pool and block.live]
        if len(held) >= pool.blocks or time.monotonic() < self._watching.not_before.get(label, 0.0):
            return
        if any(block.shape == shape and self._is_coming(block) for block in held):
            return
        if not self._asking.is_worth_it(shape, self._needed.get(label, 0.0)):
            if not any(block.live for block in self._blocks.values()):
                raise DielError(
                    f"what is left of the allocation is too short for tasks of {label}; "
                    f"`diel resume {self._ledger.paths.run_id}` asks for another one"
                )
            return
        name = f"{self._epoch}-{self._count}"
        self._count += 1
        walltime = self._asking.walltime(shape)
        block = Block(name, shape, shape.slots(pool), walltime, time.time(), self._epoch)
        self._blocks[name] = block
        self._asking.start()
        self._agent.ask(name, partial(self._asking.ask, block))

    def _hold_unfit(self) -> None:
        """Give no more tasks to blocks with a node to avoid, or too short for the shortest queued task."""
        excluded, workers = self._asking.excluded, self._ledger.history.workers.values()
        tainted = {worker["block"] for worker in workers if worker["node"] in excluded} if excluded else set()
        for block in self._blocks.values():
            seconds = self._needed.get(block.shape.label, 0.0)
            short = False
            if seconds and block.began is not None and block.connected and not block.adopted:
                short = time.time() > block.began + self._asking.drain(block.shape, seconds)
            if short or block.name in tainted:
                self._hold(block)

    def _hold(self, block: Block) -> None:
        if block.live and not block.held:
            block.held = True
            if not block.adopted:
                self._agent.do(partial(self._asking.hold, block))

    def _is_spare(self, block: Block) -> bool:
        if block.free_since is None:
            return False
        if block.adopted or block.held:
            return block.live and not block.bundles and not self._is_coming(block)
        return self._is_idle(block) or self._is_stuck(block)

    def _is_coming(self, block: Block) -> bool:
        """Return whether an earlier controller's nodes are about to work for this one."""
        is_adopted = block.adopted and block.tried and block.live and not (block.ending or block.held)
        return is_adopted and block.free_since is not None and time.monotonic() - block.free_since < COMING

    def _is_idle(self, block: Block) -> bool:
        """Return whether a block has had nothing in it, and nothing for it, for a while."""
        if not block.live or block.ending or not block.job:
            return False
        other_slots = sum(other.slots for other in self._usable(block.shape) if other is not block)
        patience = 0.0 if self._is_wanted_elsewhere(block) else self._asking.pool(block.shape).idle
        return is_idle(block, len(self._out.get(block.shape.label, ())), other_slots, patience, time.time())

    def _is_wanted_elsewhere(self, block: Block) -> bool:
        """Return whether tasks of another shape wait for this block's place in its pool."""
        pool, shapes = block.shape.pool, self._asking.shapes.values()
        rivals = (shape for shape in shapes if shape.pool == pool and shape != block.shape)
        return any(self._out.get(shape.label) and not self._usable(shape) for shape in rivals)

    def _is_stuck(self, block: Block) -> bool:
        """Return whether a block has bundles but does nothing: a killed worker may take its node's queue."""
        if not block.live or block.ending or not block.connected or not block.bundles:
            block.stuck_since = None
            return False
        now = time.monotonic()
        block.stuck_since = max(block.stuck_since or now, block.free_since or now)
        return now - block.stuck_since > STUCK

    def _end(self, blocks: Iterable[Block]) -> None:
        """Give blocks back."""
        ending = [block for block in blocks if block.live and not block.ending]
        for block in ending:
            block.ending = True
            if block.connected and not block.adopted:
                self._agent.do(partial(self._asking.hold, block))
        if jobs := [block.job for block in ending if block.job]:
            self._agent.end(jobs)
        for block in ending:  # last: a full disk must not keep jobs alive
            self._watching.write(block)

    def adopt(self, take: Adopt) -> None:
        """Take over what still runs from an earlier controller; call `take` with each task."""
        begun = {worker["block"] for worker in self._ledger.history.workers.values()}
        for block in adopt(self._ledger, take):
            self._blocks[block.name] = block
            if not block.ending and self._asking.asks_the_same(block):
                block.kept, block.epoch = time.time(), self._epoch
                if block.name not in begun:
                    block.adopted = False
                    block.slots = block.shape.slots(self._asking.pool(block.shape))
        self._note_busy()
        self._agent.do(partial(self._asking.end_unknown, self._blocks))

    def _renew(self, shape: Shape) -> None:
        """Make the nodes of kept blocks work for this controller, now that there is work for them."""
        for block in self._blocks.values():
            if block.shape == shape and block.live and block.kept is not None and not block.tried:
                block.tried = True
                self._agent.ask(block.name, partial(self._asking.renew, block))

    def detach(self) -> None:
        """Let go: tasks in blocks continue, for the next controller to adopt."""
        self._agent.stop(1.0)
        if self._asking.engine is not None:
            self._asking.engine.stop()

    def stop(self) -> None:
        """End all blocks, and wait until the scheduler says that they are gone."""
        for name in self._agent.unask():
            if not self._blocks[name].tried:  # else it may be queued all the same: `end_unknown` looks
                del self._blocks[name]
        self._agent.do(partial(self._asking.end_unknown, self._blocks))
        with contextlib.suppress(DielError):
            self._end(list(self._blocks.values()))
        end = time.monotonic() + END_PATIENCE
        while self.left and time.monotonic() < end:
            with contextlib.suppress(DielError):
                self._watching.take_news()
                self._end([block for block in self._blocks.values() if block.job])
            self._agent.look_now()
            time.sleep(0.2)
        self.detach()

    @property
    def left(self) -> tuple[str, ...]:
        """Jobs that have not ended, according to the scheduler."""
        return tuple(block.job for block in self._blocks.values() if block.live and block.job)


class Imports:
    """Ask in bundles for packages that modules import, until a worker of the pool has answered."""

    def __init__(self, plan: Plan) -> None:
        self._wanted: dict[str, set[str]] = {}
        for shape, stages in plan.shapes.items():
            for _, _, names in imported(plan.checked, stages):
                self._wanted.setdefault(shape.pool, set()).update(names)

    def ask(self, pool: str, bundle: Bundle) -> Bundle:
        """Return a bundle with what its worker is to look for, if anything."""
        names = self._wanted.get(pool)
        return bundle._replace(imports=tuple(sorted(names))) if names else bundle

    def note(self, pool: str, future: Future[bytes]) -> None:
        """Ask no more in a pool once a bundle of it was reported."""
        if pool in self._wanted:
            future.add_done_callback(partial(self._answered, pool))

    def _answered(self, pool: str, future: Future[bytes]) -> None:
        if not future.cancelled() and future.exception() is None:
            self._wanted.pop(pool, None)
