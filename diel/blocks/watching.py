"""News of a run's blocks, from the scheduler and Parsl; a site that gives no block that works is given up."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from functools import partial
from typing import assert_never

from diel.blocks.agent import Agent, BlockQueued, BlockRefused, Heard, Silent
from diel.blocks.asking import BlockAsking
from diel.blocks.block import Block, tail_of
from diel.blocks.script import NeverRuns, is_at_start, refusal
from diel.errors import DielError
from diel.scheduler import JobState, JobStatus
from diel.site import Site
from diel.tasks.ledger import Ledger

BARREN = 3
"""Consecutive blocks that may end before any of their nodes reports: then something is wrong."""
REFUSALS = 3
REFUSED_WAIT = 5.0
"""Seconds before a refused block is requested again; doubles."""
LONGEST_REFUSED_WAIT = 300.0
LIMBO = 30.0
"""Seconds that a lost worker waits for a scheduler that does not answer."""


class Watching:
    """Reads the agent's news, and records what changed."""

    def __init__(
        self,
        blocks: dict[str, Block],
        agent: Agent,
        asking: BlockAsking,
        ledger: Ledger,
        site: Site,
        lost: Callable[[Block], None],
    ) -> None:
        """`blocks` are the run's, by name: a refused one is taken out; `lost` gets each that ended."""
        self._blocks = blocks
        self._agent = agent
        self._asking = asking
        self._ledger = ledger
        self._site = site
        self._lost = lost
        self._barren: dict[str, int] = {}
        self._refusals: dict[str, int] = {}
        self.not_before: dict[str, float] = {}
        """When a refused block of a shape can be requested again (monotonic seconds)."""
        self._silent = ""
        self._heard = 0.0
        self.forgiven: frozenset[str] = frozenset()
        """Nodes to avoid that blocks can still have: there may be no others."""

    def knows(self, since: float) -> bool:
        """Whether the scheduler has answered a question asked since then, or does not answer at all."""
        if self._heard > since or time.monotonic() - since > LIMBO:
            return True
        self._agent.look_now()
        return False

    def write(self, block: Block) -> None:
        self._ledger.append(block.record())

    def take_news(self) -> None:
        """Reads the news. Raises DielError if the site gives no block that works."""
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

    # --- what the scheduler says ------------------------------------------------------------------

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
        """Asks again later, without excluded nodes. Raises DielError if the pool has no block at all."""
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
        """Whether a pool has a block whose nodes reported: then the site's description is right."""
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
            said = block.stderr_tail.strip() or "nothing"
            raise DielError(
                f"{BARREN} blocks of pool '{pool}' ended before any worker reported; the last was "
                f"{block.state}{f' ({block.reason})' if block.reason else ''} and said: {said}\n"
                f"see {self._ledger.paths.blocks}, and `diel doctor --site {self._site.name} --job`"
            )

    # --- what Parsl says --------------------------------------------------------------------------

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
