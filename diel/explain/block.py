"""Blocks of a scheduler: a worker's block, those that ended badly, the block that tasks wait for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from diel.errors import UsageError
from diel.explain.demand import wanted_by
from diel.explain.text import tail
from diel.project.submission import awaited
from diel.results import Recorded
from diel.site import Shape, Site, lacks, read_kept_site, shape_of
from diel.states import RunState
from diel.status import blocks_of
from diel.status.blocks import ended_badly, is_hopeless, is_live, reason_of

if TYPE_CHECKING:
    from diel.journal.records import BlockFacts, BlockNow

SHOWN_ENDED = 3
"""The most blocks to list that ended badly."""


def says(block: BlockFacts) -> str:
    """The scheduler's own words about a block, after a colon; nothing if they only repeat its state."""
    reason = reason_of(block)
    return f": {reason}" if reason and reason.lower() != block["state"] else ""


@dataclass(frozen=True)
class Location:
    """The block, job and node of a worker; None on one machine."""

    block: str | None = None
    job: str | None = None
    node: str | None = None

    def __str__(self) -> str:
        """`node n1, block 1-0 (job 123)`; empty on one machine."""
        if self.block is None:
            return ""
        return f"node {self.node}, block {self.block}" + (f" (job {self.job})" if self.job else "")


def place_of(run: Recorded, worker: str) -> Location:
    """Where a worker is, by its segment's name without the suffix."""
    known = run.history.workers.get(f"{worker}.jsonl")
    if known is None:
        return Location()
    block = run.history.blocks.get(known["block"])
    return Location(known["block"], None if block is None else block["job"], known["node"])


def ended_block(run: Recorded, name: str | None) -> BlockFacts | None:
    """A block that has ended; None if it has not, or if unknown."""
    block = run.history.blocks.get(name or "")
    return None if block is None or is_live(block) else block


def ended_blocks(run: Recorded) -> Iterator[str]:
    """The last blocks that ended without diel asking for it, and what else went wrong."""
    for block in blocks_shown(run):
        if block["ended"] is not None:
            yield ""
            yield f"block {block['block']} ({job_text(block)}) ended: {block['state']}{says(block)}"
            yield from tail(block["stderr_tail"])
            yield f"    next: `diel explain {run.paths.run_id} --block {block['block']}`"


def blocks_shown(run: Recorded) -> list[BlockNow]:
    """The blocks that have not ended, and the last ones that ended without diel asking for it."""
    blocks = blocks_of(run.history)
    bad = [block for block in blocks if ended_badly(block)][-SHOWN_ENDED:]
    return [block for block in blocks if is_live(block) or block in bad]


def awaited_text(run: Recorded) -> str:
    """`waits for its controller, job 84`; empty if none is still to come."""
    coming = awaited(run.paths, run.history) if run.state is RunState.PENDING else None
    if coming is None:
        return ""
    return f"waits for its controller, {f'job {coming.job}' if coming.job else f'on {coming.host}'}"


@dataclass(frozen=True)
class BlockWait:
    """The block that ready tasks wait for, in words, and what to do if it will never come."""

    text: str
    next: str = ""


def wait_for_block(run: Recorded, stage: str, index: int | None = None) -> BlockWait | None:
    """What ready tasks of a stage, or one of them, wait for.

    None on a site without a scheduler, and while no controller drives the run.
    """
    site = _site(run)
    shape = None if site is None else _shape(run, site, stage, index)
    if site is None or shape is None or run.state is not RunState.RUNNING:
        return None
    history = run.history
    live = [block for block in history.blocks.values() if is_live(block) and not block["ending"]]
    # Blocks of an earlier controller get no more tasks.
    own = [b for b in live if b["shape"] == shape.label and b["epoch"] == history.epoch]
    pending = [block for block in own if block["state"] == "pending"]
    held = [block for block in own if block["state"] != "pending"]
    vain = next((block for block in pending if is_hopeless(block)), None)
    if held:
        named = ", ".join(_named(block) for block in held[:3])
        text = f"waits for a free worker in block {named}{_more(held, ' and', 3)}"
    elif pending:
        block = vain or pending[0]
        state = "can never run" if vain is not None else "is pending"
        text = f"waits for a block: {block['block']} ({job_text(block)}) {state}{says(block)}"
        text += _more(pending, ", and", 1)
    else:
        text = f"waits for a block of shape {shape.label}{_why_none(site, shape, live)}"
        text += f"; trouble: {history.trouble}" if history.trouble else ""
    if history.silent:
        text += f"; the scheduler does not answer: {history.silent}"
    return BlockWait(text, "" if vain is None or held else never_step(run, vain))


def _more(blocks: Sequence[BlockFacts], word: str, shown: int) -> str:
    return f"{word} {len(blocks) - shown:,} more" if len(blocks) > shown else ""


def never_step(run: Recorded, block: BlockFacts) -> str:
    """What to do about a block that can never run."""
    name, site = run.paths.run_id, run.run_file.site
    return (
        f"ask for less in `resources`, or fix pool '{block['pool']}' of site '{site}', then "
        f"`diel cancel {name}` and run it again; `diel explain {name} --block {block['block']}` tells more"
    )


def job_text(block: BlockFacts) -> str:
    return f"job {block['job'] or 'unknown'}"


def _named(block: BlockFacts) -> str:
    nodes = f", {block['nodes']}" if block["nodes"] else ""
    return f"{block['block']} ({job_text(block)}{nodes})"


def _why_none(site: Site, shape: Shape, live: Sequence[BlockFacts]) -> str:
    """Why there is no block of a shape yet."""
    most = site.pools[shape.pool].blocks
    if sum(block["pool"] == shape.pool for block in live) < most:
        return ", which the scheduler has not taken yet"
    return f": pool '{shape.pool}' may have {most} at a time, and all have other shapes"


def _site(run: Recorded) -> Site | None:
    """The site as it was when the run was made; None if it has no scheduler, or cannot be read."""
    try:
        site = read_kept_site(run.paths)
    except UsageError:
        return None
    return site if site.scheduled else None


def _shape(run: Recorded, site: Site, stage: str, index: int | None) -> Shape | None:
    """What a task needs: as its stage says, or more where earlier attempts had too little."""
    wanted = wanted_by(run, stage, index)
    changed = {} if index is None else run.history.stage(stage).resources.get(index, {})
    for name, pool in site.pools.items():
        if wanted.pool in (None, name) and not lacks(pool, wanted, scheduled=True):
            return shape_of(name, wanted.changed(changed))
    return None
