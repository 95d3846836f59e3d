"""How a block is requested: Parsl's engine, which starts with the first bundle, its workers and their job."""

from __future__ import annotations

import math
from collections.abc import Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING

from diel.attempt.addresses import addresses
from diel.attempt.block import MARGIN, start_slack
from diel.attempt.bundle import Bundle
from diel.blocks.block import Block
from diel.blocks.script import block_job, block_job_name, node_script
from diel.errors import DielError
from diel.executors.workers import Load, Workers
from diel.files import put
from diel.paths import RunPaths
from diel.plan import Plan
from diel.project.submission import job_prefix
from diel.scheduler import Scheduler
from diel.scheduler.inside import Inside
from diel.site import Pool, Shape

if TYPE_CHECKING:
    from diel.executors.parsl import BlockEngine


class BlockAsking:
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

    # --- shapes -----------------------------------------------------------------------------------

    def pool(self, shape: Shape) -> Pool:
        return self._site.pools[shape.pool]

    def walltime(self, shape: Shape) -> float:
        """Seconds that a block requested now can last."""
        left = self._scheduler.left if isinstance(self._scheduler, Inside) else math.inf
        return min(shape.block_walltime(self.pool(shape), self._site.grace), max(1.0, left))

    def slots(self, shape: Shape, nodes: int) -> int:
        """Tasks of a shape that run side by side on `nodes` connected nodes of a block."""
        workers = shape.workers(self.pool(shape))
        return workers if shape.nodes else workers * nodes

    def drain(self, shape: Shape, needed: float = 0.0) -> float:
        """Seconds after which a block gets no more tasks; tasks without a walltime need `needed`."""
        walltime, wanted = self.walltime(shape), shape.walltime or max(self._site.grace, needed)
        return max(start_slack(walltime), walltime - wanted - MARGIN)

    def is_worth_it(self, shape: Shape, needed: float) -> bool:
        """Tell whether a block would last for tasks that take `needed`: an allocation may end soon."""
        if not isinstance(self._scheduler, Inside):
            return True
        short = needed <= shape.block_walltime(self.pool(shape), self._site.grace) / 2
        return self.walltime(shape) >= max(shape.walltime, needed if short else 0.0) + MARGIN

    def _workers(self, shape: Shape) -> Workers:
        slots, each = shape.workers(self.pool(shape)), shape.gpus
        gpus = tuple(",".join(str(slot * each + i) for i in range(each)) for slot in range(slots))
        return Workers(
            slots=slots,
            mpi_nodes=shape.nodes,
            gpus=gpus if each and not shape.nodes else (),
            drain=round(self.drain(shape)),
            silence=max(2, round(self._site.silence)),
            orphan=round(self.walltime(shape)),  # a node's keeper ends it before, if it has nothing to do
        )

    # --- the engine -------------------------------------------------------------------------------

    def start(self) -> BlockEngine:
        if self.engine is None:
            from diel.executors.parsl import BlockEngine  # slow, and not needed if all is cached

            self._paths.blocks.mkdir(parents=True, exist_ok=True)
            self.engine = BlockEngine(self._paths, addresses(self._site.address), self._submit_job)
        return self.engine

    def submit(self, shape: Shape, cores: int, bundle: Bundle) -> Future[bytes]:
        """Send a bundle; there may be no block for it yet."""
        engine, label = self.start(), shape.label
        if not engine.is_open(label):
            engine.open(label, self._workers(shape))
            self.shapes[label] = shape
        return engine.submit(label, bundle, cores)

    def asks_the_same(self, block: Block) -> bool:
        """Whether the job of an earlier controller's block equals what would be requested now, word for
        word."""
        if isinstance(self._scheduler, Inside) or block.shape.pool not in self._site.pools:
            return False
        if block.walltime != self.walltime(block.shape):
            return False
        try:
            path = self._paths.block_script(block.name)
            return path.read_text(encoding="utf-8", errors="surrogateescape") == self._script(block)
        except (OSError, DielError):
            return False

    # --- called in the agent's thread -------------------------------------------------------------

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
        """The job script of a block. Raise SchedulerRefused."""
        job = block_job(self._site, self._scheduler, self._paths, block)
        return self._scheduler.script(job._replace(exclude=tuple(sorted(self.excluded))))

    def hold(self, block: Block) -> None:
        """Make Parsl give a block no more tasks."""
        if self.engine is not None:
            self.engine.hold(block.shape.label, block.number)

    def loads(self) -> Mapping[str, Mapping[str, Load]]:
        """The load of Parsl's blocks, by shape and number."""
        if self.engine is None:
            return {}
        return {label: self.engine.loads(label) for label in list(self.shapes)}

    def end_unknown(self, blocks: Mapping[str, Block]) -> None:
        """End jobs of the run that were queued but never recorded, because their controller was killed."""
        prefix, known = f"{job_prefix(self._paths)}-", {block.job for block in blocks.values()}
        found = self._scheduler.find(prefix).items()
        if jobs := [job for name, job in found if not name.startswith(f"{prefix}c") and job not in known]:
            self._scheduler.cancel(jobs)
