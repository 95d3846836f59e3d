"""Where tasks run on a scheduled site: the block of a worker, and the block that ready tasks wait for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from diel.project.submission import awaited
from diel.results import Recorded
from diel.site import Shape, Site, lacks, shape_of
from diel.states import FailureClass, RunState
from diel.status.blocks import is_hopeless, is_live, reason_of

if TYPE_CHECKING:
    from diel.journal.records import BlockFacts

LOST = (FailureClass.NODE, FailureClass.PREEMPTED, FailureClass.WALLTIME, FailureClass.OOM)
"""Failures of tasks for which the end of a block may be to blame."""


def job_of(block: BlockFacts) -> str:
    return f"job {block['job'] or 'unknown'}"


def says(block: BlockFacts) -> str:
    """The scheduler's own words of a block, behind a colon; nothing where they say no more than its state."""
    reason = reason_of(block)
    return f": {reason}" if reason and reason.lower() != block["state"] else ""


# --- where an attempt ran -------------------------------------------------------------------------


def place_of(run: Recorded, worker: str) -> dict[str, Any]:
    """The block, job and node of a worker, by its segment's name without the suffix; None on one machine."""
    known = run.history.workers.get(f"{worker}.jsonl")
    if known is None:
        return {"block": None, "job": None, "node": None}
    block = run.history.blocks.get(known["block"])
    return {"block": known["block"], "job": None if block is None else block["job"], "node": known["node"]}


def place_text(place: Mapping[str, Any]) -> str:
    """`node n1, block 1-0 (job 123)`; empty on one machine."""
    if place["block"] is None:
        return ""
    job = f" (job {place['job']})" if place["job"] else ""
    return f"node {place['node']}, block {place['block']}{job}"


def block_end(run: Recorded, name: str | None) -> dict[str, Any] | None:
    """How a block ended; None where it has not, or nobody knows."""
    block = run.history.blocks.get(name or "")
    if block is None or is_live(block):
        return None
    return {key: block[key] for key in ("state", "reason", "stderr_tail", "ended")}


def awaited_text(run: Recorded) -> str:
    """`waits for its controller, job 84`; empty where none is still to come."""
    coming = awaited(run.paths, run.history) if run.state is RunState.PENDING else None
    if coming is None:
        return ""
    return f"waits for its controller, {f'job {coming.job}' if coming.job else f'on {coming.host}'}"


# --- what is waited for ---------------------------------------------------------------------------


def wait_for_block(run: Recorded, stage: str, index: int | None = None) -> dict[str, Any] | None:
    """The block that ready tasks of a stage, or one of them, wait for, and why.

    `text` has it in words, `next` what to do where it will never come, `blocks` the names of those that
    will take the tasks. None on a site without a scheduler, and while no controller drives the run.
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
        more = f" and {len(held) - 3:,} more" if len(held) > 3 else ""
        text = f"waits for a free worker in block {named}{more}"
    elif pending:
        block = vain or pending[0]
        more = f", and {len(pending) - 1:,} more" if len(pending) > 1 else ""
        stands = "can never run" if vain is not None else "is pending"
        text = f"waits for a block: {block['block']} ({job_of(block)}) {stands}{says(block)}{more}"
    else:
        text = f"waits for a block of shape {shape.label}{_why_none(site, shape, live)}"
        text += f"; trouble: {history.trouble}" if history.trouble else ""
    if history.silent:
        text += f"; the scheduler does not answer: {history.silent}"
    return {
        "text": text,
        "next": "" if vain is None or held else never_step(run, vain),
        "blocks": [block["block"] for block in own],
    }


def never_step(run: Recorded, block: BlockFacts) -> str:
    """What to do about a block that can never run."""
    name, site = run.paths.run_id, run.run_file.site
    return (
        f"ask for less in `resources`, or correct pool '{block['pool']}' of site '{site}', then "
        f"`diel cancel {name}` and run it anew; `diel explain {name} --block {block['block']}` tells more"
    )


def _named(block: BlockFacts) -> str:
    nodes = f", {block['nodes']}" if block["nodes"] else ""
    return f"{block['block']} ({job_of(block)}{nodes})"


def _why_none(site: Site, shape: Shape, live: Sequence[BlockFacts]) -> str:
    """Why there is no block of a shape yet."""
    held = [block for block in live if block["pool"] == shape.pool]
    most = site.pools[shape.pool].blocks
    if len(held) < most:
        return ", which the scheduler has not taken yet"
    return f": pool '{shape.pool}' may have {most} at a time, and all are of other shapes"


def _site(run: Recorded) -> Site | None:
    """The site as it was when the run was made; None where it has no scheduler, or cannot be read."""
    try:
        site = Site.model_validate_json(run.paths.site.read_bytes())
    except (OSError, ValueError):
        return None
    return site if site.scheduled else None


def _shape(run: Recorded, site: Site, stage: str, index: int | None) -> Shape | None:
    """What a task needs: as its stage says, or more where earlier attempts had too little."""
    spec = run.workflow.stages[stage]
    changed = {} if index is None else run.history.stage(stage).resources.get(index, {})
    for name, pool in site.pools.items():
        if spec.resources.pool in (None, name) and not lacks(pool, spec.resources, scheduled=True):
            return shape_of(name, spec.resources.changed(changed))
    return None
