"""Blocks of a scheduler: a worker's block, the block that tasks wait for, and why a block ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from diel.errors import UsageError
from diel.explain.text import Explanation, clock, section, tail
from diel.journal.segment import read_segment
from diel.project.submission import awaited
from diel.results import Recorded
from diel.site import Shape, Site, lacks, shape_of
from diel.states import RunState, TaskState
from diel.status import blocks_of
from diel.status.blocks import is_hopeless, is_live, reason_of
from diel.values import format_duration

if TYPE_CHECKING:
    from diel.journal.records import BlockFacts, BlockNow

SHOWN = 20
"""The most attempts of a block to list; all are counted."""
SHOWN_ENDED = 3
"""The most blocks to list that ended badly."""
ENDS = {
    "completed": "its nodes had nothing more to do, and left",
    "failed": "its job failed",
    "cancelled": "it was cancelled from outside diel: by scancel or qdel, or by an administrator",
    "oom": "its job needed more memory than it had",
    "node_failed": "the scheduler lost one of its nodes",
    "preempted": "the scheduler took its nodes away for other jobs",
    "gone": "the scheduler no longer knows it, and nothing says how it ended",
}
NEXT = {
    "timeout": "give tasks a `resources.walltime`: none is then begun in a block that cannot finish it",
    "oom": "give tasks that need much memory a `resources.memory`: fewer then share a node",
    **dict.fromkeys(("node_failed", "preempted", "cancelled"), "nothing: what ran in it runs again"),
}


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
            yield f"block {block['block']} ({_job(block)}) ended: {block['state']}{says(block)}"
            yield from tail(block["stderr_tail"])
            yield f"    next: `diel explain {run.paths.run_id} --block {block['block']}`"


def blocks_shown(run: Recorded) -> list[BlockNow]:
    """The blocks that have not ended, and the last ones that ended without diel asking for it."""
    blocks = blocks_of(run.history)
    bad = [block for block in blocks if not is_live(block) and not block["ending"]]
    bad = [block for block in bad if block["state"] != "completed"][-SHOWN_ENDED:]
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
        text = f"waits for a block: {block['block']} ({_job(block)}) {state}{says(block)}"
        text += _more(pending, ", and", 1)
    else:
        text = f"waits for a block of shape {shape.label}{_why_none(site, shape, live)}"
        text += f"; trouble: {history.trouble}" if history.trouble else ""
    if history.silent:
        text += f"; the scheduler does not answer: {history.silent}"
    return BlockWait(text, "" if vain is None or held else _never_step(run, vain))


def _more(blocks: Sequence[BlockFacts], word: str, shown: int) -> str:
    return f"{word} {len(blocks) - shown:,} more" if len(blocks) > shown else ""


def _never_step(run: Recorded, block: BlockFacts) -> str:
    """What to do about a block that can never run."""
    name, site = run.paths.run_id, run.run_file.site
    return (
        f"ask for less in `resources`, or fix pool '{block['pool']}' of site '{site}', then "
        f"`diel cancel {name}` and run it again; `diel explain {name} --block {block['block']}` tells more"
    )


def _job(block: BlockFacts) -> str:
    return f"job {block['job'] or 'unknown'}"


def _named(block: BlockFacts) -> str:
    nodes = f", {block['nodes']}" if block["nodes"] else ""
    return f"{block['block']} ({_job(block)}{nodes})"


def _why_none(site: Site, shape: Shape, live: Sequence[BlockFacts]) -> str:
    """Why there is no block of a shape yet."""
    most = site.pools[shape.pool].blocks
    if sum(block["pool"] == shape.pool for block in live) < most:
        return ", which the scheduler has not taken yet"
    return f": pool '{shape.pool}' may have {most} at a time, and all have other shapes"


def _site(run: Recorded) -> Site | None:
    """The site as it was when the run was made; None if it has no scheduler, or cannot be read."""
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


def explain_block(run: Recorded, word: str) -> Explanation:
    """Everything about one block, by its name or its job's id. Raises UsageError if there is none."""
    block = _find(run, word)
    attempts = _attempts(run, block)
    counts = Counter(attempt.state for attempt in attempts)
    shown = [attempt for attempt in attempts if attempt.state != "done"][:SHOWN]
    files = [str(path) for path in sorted(run.paths.blocks.glob(f"{block['block']}.*"))]
    why, following = _why(block), _next(run, block)
    document = {
        "run": run.paths.run_id,
        **block,
        "why": why,
        "next": following,
        "attempts": counts,
        "tasks": [attempt.document() for attempt in shown],
        "files": files,
    }
    lines = [f"{run.paths.run_id} block {block['block']} {block['state']}", f"    why: {why}"]
    lines += [f"    next: {following}"] if following else []
    lines += section("block", {name: text for name, text in _facts(block).items() if text})
    if counts:
        lines += ["", f"attempts: {', '.join(f'{number:,} {state}' for state, number in counts.items())}"]
    lines += map(str, shown)
    if block["stderr_tail"]:
        lines += ["", "what its job said last", *tail(block["stderr_tail"])]
    if files:
        lines += ["", "files", *(f"    {file}" for file in files)]
    return Explanation(document, lines)


def _facts(block: BlockNow) -> dict[str, str]:
    asked, began, ended = block["asked"], block["began"], block["ended"]
    return {
        "job": block["job"] or "not known",
        "shape": f"{block['shape']} (pool {block['pool']})",
        "nodes": block["nodes"],
        "walltime": format_duration(block["walltime"]),
        "asked for": clock(asked),
        "began": "" if began is None else f"{clock(began)}, after {format_duration(began - asked)}",
        "ended": "" if ended is None else clock(ended),
    }


def _find(run: Recorded, word: str) -> BlockNow:
    blocks = blocks_of(run.history)
    for block in blocks:
        if word in (block["block"], block["job"]) or (word and word == block["job"].partition(".")[0]):
            return block
    if not blocks:
        raise UsageError(f"{run.paths.run_id} has no blocks: it asked no scheduler for any")
    named = ", ".join(f"{block['block']} (job {block['job']})" for block in blocks[-5:])
    some = "blocks" if len(blocks) <= 5 else "the last blocks"
    raise UsageError(f"{run.paths.run_id} has no block '{word}'; {some}: {named}")


@dataclass
class _Begun:
    """An attempt that began in a block, as its worker wrote it down."""

    stage: str
    index: int
    attempt: int
    node: str | None
    state: Literal["running", "lost", "done", "failed"]
    failure: str | None = None
    """Its class."""

    def document(self) -> dict[str, str | int | None]:
        task = f"{self.stage}/{self.index}"
        known = {"attempt": self.attempt, "node": self.node, "state": self.state}
        return {"task": task, **known, "class": self.failure}

    def __str__(self) -> str:
        how = self.state + (f" ({self.failure})" if self.failure else "")
        return f"    {self.stage}/{self.index} attempt {self.attempt} {how} on {self.node}"


def _attempts(run: Recorded, block: BlockNow) -> list[_Begun]:
    found: dict[tuple[str, int, int], _Begun] = {}
    for segment, worker in sorted(run.history.workers.items()):
        if worker["block"] != block["block"]:
            continue
        for _, _, record in read_segment(run.paths.journal / segment):
            if record is not None and record["event"] in ("start", "done", "fail"):
                key = (record["stage"], record["index"], record["attempt"])
                known = found.setdefault(key, _Begun(*key, worker["node"], _unended(run, *key)))
                if record["event"] != "start":
                    known.state = "done" if record["event"] == "done" else "failed"
                    known.failure = record["class"] if record["event"] == "fail" else None
    return list(found.values())


def _unended(run: Recorded, stage: str, index: int, number: int) -> Literal["running", "lost"]:
    """The state of an attempt whose end its worker did not record."""
    under_way = run.history.stage(stage).under_way.get(index) or run.history.left.get((stage, index))
    runs = under_way is not None and under_way.number == number and under_way.state == TaskState.RUNNING
    return "running" if runs else "lost"


def _why(block: BlockNow) -> str:
    reason, state = says(block), block["state"]
    if block["ended"] is None:
        if block["ending"]:
            return "diel has given it back, and the scheduler is about to end it"
        if state == "pending":
            return f"{'it can never run' if is_hopeless(block) else 'it waits in the queue'}{reason}"
        return f"it runs{reason}"
    if block["ending"]:
        return "diel gave it back: there was nothing more to do in it, or the run ended"
    if state == "timeout":
        return f"its walltime of {format_duration(block['walltime'])} was over{reason}"
    return f"{ENDS.get(state, f'it ended: {state}')}{reason}"


def _next(run: Recorded, block: BlockNow) -> str:
    if is_hopeless(block):
        return _never_step(run, block).partition("; ")[0]
    if block["ended"] is None or block["ending"]:
        return ""
    if block["state"] in ("failed", "gone"):
        log = run.paths.blocks / f"{block['block']}.err"
        return f"see {log}, and `diel doctor --site {run.run_file.site} --job`"
    return NEXT.get(block["state"], "")
