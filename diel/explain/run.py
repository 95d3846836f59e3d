"""A run, or one stage of it: what failed, what is skipped, what waits for what, what runs."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from diel.explain.advice import again_step, next_step
from diel.explain.axis import explain_axes, point_never_came, points_awaited, pruned_trials
from diel.explain.computed import why_computed
from diel.explain.gang import partners_awaited, room_awaited
from diel.explain.place import awaited_text, place_of, wait_for_block
from diel.explain.view import View
from diel.explain.wait import SHOWN, Wait, roots, waits_of_stage
from diel.journal.stage_history import Attempt, spread
from diel.results import Recorded
from diel.states import RunState, TaskState
from diel.status import blocks_of
from diel.status.blocks import is_live

if TYPE_CHECKING:
    from diel.journal.records import BlockNow, Failed

MANY = 1000
"""Tasks that were left out of which the reason is looked at."""
SHOWN_BLOCKS = 3
"""How many of the blocks that ended badly are told."""
_VARYING = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|/[\w./-]+")
"""What differs between the messages of one failure at many points: numbers and paths."""


def explain_run(run: Recorded, stage: str | None = None) -> dict[str, Any]:
    """Why a run, or one stage of it, stands as it does; the document that `--json` prints."""
    view = View(run)
    stages = [stage] if stage is not None else list(run.graph.order)
    document: dict[str, Any] = {
        "run": run.paths.run_id,
        "workflow": run.run_file.workflow,
        "state": str(run.state),
        "controller": awaited_text(run),
        "stages": {name: _counts(run, name) for name in stages},
        "axes": explain_axes(view) if stage is None else [],
        "failures": [failure for name in stages for failure in _failures(run, name)],
        "skipped": [skip for name in stages for skip in _skips(view, name)],
        "waiting": [wait for name in stages if (wait := _waiting(view, name)) is not None],
        "running": [
            task for name in stages for task in _running(run, name, run.history.stage(name).under_way)
        ],
        "lost": [task for name in stages for task in _running(run, name, run.lost(name))],
        "blocks": _blocks(run),
        "trouble": run.history.trouble if run.state is not RunState.SUCCEEDED else "",
    }
    document["computed"] = [told for name in stages if (told := _computed(view, name)) is not None]
    return document


def _counts(run: Recorded, stage: str) -> dict[str, int]:
    history = run.history.stage(stage)
    return {"total": history.expected, **history.counts()}


# --- failures -------------------------------------------------------------------------------------


def _failures(run: Recorded, stage: str) -> Iterator[dict[str, Any]]:
    """The failures of a stage, those of one sort together."""
    history = run.history.stage(stage)
    if not history.states.count(TaskState.FAILED):
        return
    last: dict[int, Failed] = {}
    for record in run.failed(stage):
        for index in spread(record["tasks"]):
            if history.state(index) == TaskState.FAILED:
                last[index] = record
    groups: dict[tuple[str, str, str], list[int]] = {}
    for index in sorted(last):
        record = last[index]
        message = _VARYING.sub("#", record.get("message", ""))
        sort = (record.get("class", "app"), message, history.tolerated.get(index, ""))
        groups.setdefault(sort, []).append(index)
    for (kind, _, tolerated), indices in groups.items():
        first = last[indices[0]]
        task = f"{stage}/{indices[0]}"
        yield {
            "stage": stage,
            "class": kind,
            "count": len(indices),
            "first": task,
            "tasks": [f"{stage}/{index}" for index in indices[:SHOWN]],
            "message": first.get("message", ""),
            "exit_code": first.get("exit_code"),
            "stderr_tail": first.get("stderr_tail", ""),
            "tolerated": tolerated,
            "next": again_step(run, task)
            if tolerated
            else next_step(run, task, kind, first.get("exit_code")),
        }


# --- skipped, waiting, running --------------------------------------------------------------------


def _skips(view: View, stage: str) -> Iterator[dict[str, Any]]:
    history = view.run.history.stage(stage)
    if stage in view.run.void and history.total == 0:
        yield {
            "stage": stage,
            "count": 0,
            "reason": "void",
            "cause": view.run.void[stage],
            "first": None,
            "roots": [],
        }
    if not history.states.count(TaskState.SKIPPED):
        return
    groups: dict[tuple[str, str], list[int]] = {}
    for record in view.run.skipped(stage):
        for index in spread(record["tasks"]):
            if history.state(index) == TaskState.SKIPPED:
                groups.setdefault((record.get("reason", ""), record.get("cause", "")), []).append(index)
    for (reason, cause), indices in groups.items():
        first = min(indices)
        yield {
            "stage": stage,
            "count": len(set(indices)),
            "reason": reason,
            "cause": cause,
            "first": f"{stage}/{first}",
            "roots": roots(view, stage, first) if reason == "upstream" else [],
            **({"why": _never_came(view, stage, indices)} if reason == "axis" else {}),
        }


def _never_came(view: View, stage: str, indices: list[int]) -> list[str]:
    """Why points never came, each sort of reason once, told of the first such point."""
    found: dict[str, str] = {}
    for index in sorted(indices)[:MANY]:
        for told in point_never_came(view, stage, index):
            if " never came" in told:
                found.setdefault(_VARYING.sub("#", told), told)
    return [*pruned_trials(view, stage, sorted(indices)[:MANY]), *list(found.values())[:SHOWN]]


def _waiting(view: View, stage: str) -> dict[str, Any] | None:
    run = view.run
    counts = run.history.stage(stage).counts()
    known = view.stages[stage].domain is not None
    block = wait_for_block(run, stage)
    waiting = counts["waiting"] + counts["ready"] + (counts["queued"] if block is not None else 0)
    if (
        (known and not waiting)
        or stage in view.run.void
        or run.state in (RunState.SUCCEEDED, RunState.CANCELLED)
    ):
        return None
    waits: list[Wait] = waits_of_stage(view, stage)
    axes = [{"axis": axis, "stage": maker} for axis, maker in view.unknown_axes(stage)]
    points = _points_awaited(view, stage) if known and not waits else []
    return {
        "stage": stage,
        "count": waiting if known else None,
        "axes": axes,
        "for": [asdict(wait) for wait in waits],
        "text": "; ".join(points) or _waiting_text(view, stage, axes, waits, block),
        "next": "" if axes or waits or block is None else block["next"],
    }


def _points_awaited(view: View, stage: str) -> list[str]:
    """Why the first task of a stage that waits is not there yet: its trial or round, or its gang, is not."""
    history = view.run.history.stage(stage)
    waiting = (i for i in range(history.total) if history.state(i) == TaskState.WAITING)
    first = next(waiting, None)
    return [] if first is None else points_awaited(view, stage, first) or partners_awaited(view, stage, first)


def _waiting_text(
    view: View,
    stage: str,
    axes: list[dict[str, str]],
    waits: list[Wait],
    block: Mapping[str, Any] | None,
) -> str:
    run = view.run
    if axes:
        return "; ".join(f"axis '{a['axis']}' is known when '{a['stage']}' is done" for a in axes)
    if waits:
        return "; ".join(f"waits for {wait}" for wait in waits)
    if run.state == RunState.PENDING and (coming := awaited_text(run)):
        return f"the run {coming}"
    if run.state == RunState.INTERRUPTED:
        return f"nothing hinders it, but its controller is gone: `diel resume {run.paths.run_id}`"
    if run.state == RunState.FAILED:
        return "was not tried before the run ended"
    if block is not None:
        return str(block["text"])
    return room_awaited(view, stage) or "waits for a free worker"


def _blocks(run: Recorded) -> list[BlockNow]:
    """The blocks that have not ended, and the last ones that ended otherwise than by diel's wish."""
    blocks = blocks_of(run.history)
    bad = [block for block in blocks if not is_live(block) and not block["ending"]]
    bad = [block for block in bad if block["state"] != "completed"][-SHOWN_BLOCKS:]
    return [block for block in blocks if is_live(block) or block in bad]


def _running(run: Recorded, stage: str, under_way: Mapping[int, Attempt]) -> list[dict[str, Any]]:
    """The attempts under way, the longest first."""
    now = time.time()
    found = [
        {
            "task": f"{stage}/{index}",
            "attempt": attempt.number,
            "since": attempt.time,
            "seconds": max(0.0, now - attempt.time),
            "worker": attempt.worker.removesuffix(".jsonl"),
            **place_of(run, attempt.worker.removesuffix(".jsonl")),
        }
        for index, attempt in under_way.items()
        if attempt.state == TaskState.RUNNING
    ]
    return sorted(found, key=lambda task: task["since"])


# --- what was computed although there are earlier runs --------------------------------------------


def _computed(view: View, stage: str) -> dict[str, Any] | None:
    """Why a stage's tasks were not all taken from the cache: told for the first that was not."""
    history = view.run.history.stage(stage)
    count = history.states.count(TaskState.DONE)
    if not count:
        return None
    index = history.states.index(TaskState.DONE)
    found = why_computed(view, stage, index)
    why = found.sentences()
    last = history.states.rindex(TaskState.DONE)
    if last != index:
        others = [told for told in why_computed(view, stage, last).sentences() if told not in why]
        why += [f"{stage}/{last}: {told}" for told in others]
    return {
        "stage": stage,
        "count": count,
        "first": f"{stage}/{index}",
        "earlier": found.earlier,
        "again": found.again,
        "why": why,
        "changes": [asdict(change) for change in found.changes],
    }
