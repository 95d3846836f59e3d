"""What is to be told of a run: worked out from its history, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from diel.journal.history import History
from diel.paths import RunPaths, here
from diel.states import RunState, TaskState
from diel.values import bare, format_duration, task_text

SETTLED = 1.0
"""Seconds after a failure in which others may still say that they go on without the task."""


class Notice(NamedTuple):
    """Something to tell, once in a run's life."""

    key: str
    """What it is about: no two of a run have the same, whoever drives it."""
    kind: str
    subject: str
    lines: tuple[str, ...]


def due(history: History, paths: RunPaths, now: float, after: float) -> Iterator[Notice]:
    """Yield the notices that a history gives at a time; of blocks those that wait `after` seconds."""
    run, where = paths.run_id, here(paths)
    for (stage, index), record in history.failures.items():
        if "tolerated" not in record and now - record.get("time", now) >= SETTLED:
            task = f"{stage}/{index}"
            message = bare(record.get("headline") or record["message"])
            named = task_text(task, record.get("point"))
            yield Notice(
                "failed",
                "failed",
                f"{run}: {named} failed",
                (f"class {record['class']}: {message}", f"diel explain {run} {task}{where}"),
            )
            break
    for name, held in history.stages.items():
        if held.held and held.held[0] == "hold":
            answer = f"go on with it? diel resume {run} --anyway{where}; see diel explain {run} {name}{where}"
            subject = f"{run} waits for an answer: '{name}' is held"
            yield Notice(f"held-{name}", "held", subject, (held.held[1], answer))
    for name, block in history.blocks.items():
        waited = now - block["asked"]
        if block["state"] == "pending" and waited > after:
            subject = f"{run}: job {block['job']} has waited for {format_duration(waited)}"
            why = block["reason"] or "the scheduler gives no reason"
            lines = (f"block {name} in pool {block['pool']}: {why}", f"diel explain {run}{where}")
            yield Notice(f"waiting-{name}", "waiting", subject, lines)


def ended(history: History, paths: RunPaths, state: RunState, epoch: int, now: float) -> Notice:
    """Return the notice of a run's end: one for each controller that ends it."""
    counts = [stage.counts() for stage in history.stages.values()]
    totals = {kind.label: sum(count[kind.label] for count in counts) for kind in TaskState}
    tasks = ", ".join(f"{count:,} {label}" for label, count in totals.items() if count)
    subject = f"{paths.run_id} {state} after {format_duration(max(0.0, now - history.began))}"
    command = "results" if state is RunState.SUCCEEDED else "explain"
    return Notice(
        f"ended-{epoch}",
        "ended",
        subject,
        (f"tasks: {tasks or 'none'}", f"diel {command} {paths.run_id}{here(paths)}"),
    )
