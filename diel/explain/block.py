"""One block of a run: why it stands as it does, what ran in it, and where its files are."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from diel.errors import UsageError
from diel.explain.place import never_step, says
from diel.journal.segment import read_segment
from diel.results import Recorded
from diel.states import TaskState
from diel.status import blocks_of
from diel.status.blocks import is_hopeless
from diel.values import format_duration

if TYPE_CHECKING:
    from diel.journal.records import BlockNow

SHOWN = 20
"""Attempts that are told one by one; all are counted."""
ENDS = {
    "completed": "its nodes had nothing more to do, and left",
    "failed": "its job failed",
    "cancelled": "it was cancelled from outside of diel: by scancel or qdel, or by an administrator",
    "oom": "its job needed more memory than it had",
    "node_failed": "the scheduler lost a node of it",
    "preempted": "the scheduler took its nodes away for other jobs",
    "gone": "the scheduler no longer knows it, and nothing says how it ended",
}


def explain_block(run: Recorded, word: str) -> dict[str, Any]:
    """Everything about one block, by its name or its job's id; the document that `--json` prints.

    Raises UsageError where there is none.
    """
    block = _find(run, word)
    attempts = _attempts(run, block)
    folder = run.paths.blocks
    return {
        "run": run.paths.run_id,
        **block,
        "why": _why(block),
        "next": _next(run, block),
        "attempts": Counter(attempt["state"] for attempt in attempts),
        "tasks": [attempt for attempt in attempts if attempt["state"] != "done"][:SHOWN],
        "files": [str(path) for path in sorted(folder.glob(f"{block['block']}.*"))],
    }


def _find(run: Recorded, word: str) -> BlockNow:
    blocks = blocks_of(run.history)
    for block in blocks:
        if word in (block["block"], block["job"]) or (word and word == block["job"].partition(".")[0]):
            return block
    if not blocks:
        raise UsageError(f"{run.paths.run_id} has no blocks: it asked no scheduler for any")
    named = ", ".join(f"{block['block']} (job {block['job']})" for block in blocks[-5:])
    last = "" if len(blocks) <= 5 else "the last "
    raise UsageError(f"{run.paths.run_id} has no block '{word}'; {last}blocks: {named}")


def _attempts(run: Recorded, block: BlockNow) -> list[dict[str, Any]]:
    """The attempts that began in a block, as the workers there wrote them down."""
    found: dict[tuple[str, int, int], dict[str, Any]] = {}
    for segment, worker in sorted(run.history.workers.items()):
        if worker["block"] != block["block"]:
            continue
        for _, _, record in read_segment(run.paths.journal / segment):
            if record is not None and record["event"] in ("start", "done", "fail"):
                key = (record["stage"], record["index"], record["attempt"])
                known = found.setdefault(key, _begun(run, *key, worker["node"]))
                if record["event"] != "start":
                    known["state"] = "done" if record["event"] == "done" else "failed"
                    known["class"] = record.get("class")
    return list(found.values())


def _begun(run: Recorded, stage: str, index: int, number: int, node: str | None) -> dict[str, Any]:
    """An attempt whose end its worker did not write: it runs, or was lost."""
    under_way = run.history.stage(stage).under_way.get(index) or run.history.left.get((stage, index))
    runs = under_way is not None and under_way.number == number and under_way.state == TaskState.RUNNING
    state = "running" if runs else "lost"
    return {"task": f"{stage}/{index}", "attempt": number, "node": node, "state": state, "class": None}


def _why(block: BlockNow) -> str:
    reason = says(block)
    state = block["state"]
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
    site = run.run_file.site
    if is_hopeless(block):
        return never_step(run, block).partition("; ")[0]
    if block["ended"] is None or block["ending"]:
        return ""
    match block["state"]:
        case "timeout":
            return "give tasks a `resources.walltime`: none is then begun in a block that cannot finish it"
        case "oom":
            return "give tasks that need much memory a `resources.memory`: fewer then share a node"
        case "failed" | "gone":
            folder = run.paths.blocks
            return f"see {folder / block['block']}.err, and `diel doctor --site {site} --job`"
        case "node_failed" | "preempted" | "cancelled":
            return "nothing: what ran in it runs again"
    return ""
