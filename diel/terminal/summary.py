"""What a run says at its beginning and end: how much it is, how it ended, what its last stages made."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from diel.controller.controller import Controller
from diel.errors import counted
from diel.paths import here
from diel.states import RunState, TaskState
from diel.status import task_of
from diel.status.columns import columns, paint, paint_state, printable, shorten
from diel.status.sections import SECTIONS
from diel.status.tasks import count_text
from diel.tasks.results import artifact_path
from diel.values import format_duration

if TYPE_CHECKING:
    from diel.journal.records import Made

MAX_VALUES = 10
"""Tasks of a last stage whose values are shown."""
MAX_WIDTH = 60


def start_line(controller: Controller) -> str:
    """The run, and how much it is."""
    plan = controller.plan
    known = [stage.tasks for stage in plan.stages.values() if stage.tasks is not None]
    stages = "one stage" if len(plan.stages) == 1 else f"{len(plan.stages)} stages"
    number = f"{'up to ' if plan.may_end_early else ''}{counted(sum(known), 'task')}"
    number += "" if len(known) == len(plan.stages) else " and more"
    return f"{controller.paths.run_id}: {number} in {stages}, on site {plan.site.name}"


def summary(controller: Controller, state: RunState, seconds: float, *, quiet: bool) -> list[str]:
    """How it ended, the values of the last stages, and what to do next."""
    history = controller.history
    counts = {s: sum(stage.counts()[s.label] for stage in history.stages.values()) for s in TaskState}
    tolerated = sum(len(stage.tolerated) for stage in history.stages.values())
    done = counts[TaskState.DONE] + counts[TaskState.CACHED]
    parts = [f"{counted(done, 'task')} done"]
    if counts[TaskState.CACHED]:
        parts[0] += f" ({counts[TaskState.CACHED]:,} cached)"
    for other in (TaskState.FAILED, TaskState.SKIPPED, TaskState.CANCELLED):
        if counts[other]:
            parts.append(count_text(other, counts[other], tolerated))
    run = paint(controller.paths.run_id, bold=True)
    lines = [f"{run} {paint_state(state)} after {format_duration(seconds)}: {', '.join(parts)}"]
    if state is not RunState.SUCCEEDED:
        stages = controller.history.stages.items()
        lines += [f"{name}: no tasks, {stage.void}" for name, stage in stages if stage.void]
    if quiet:
        return lines
    lines += [
        line
        for section in SECTIONS
        if section.summary is not None and section.used(history)
        for line in section.summary(history)
    ]
    if state in (RunState.SUCCEEDED, RunState.FAILED):
        lines += _values(controller)
    return lines + _next_steps(controller, state)


def _next_steps(controller: Controller, state: RunState) -> list[str]:
    """Commands that lead on, aligned with what they do."""
    where = here(controller.paths)
    run = controller.paths.run_id
    steps: list[tuple[str, str]] = []
    if state is RunState.SUCCEEDED:
        steps.append((f"diel results {run} {_example(controller)}{where}", "prints results as a table"))
    elif state is RunState.FAILED and controller.history.failures:
        task = task_of(next(iter(controller.history.failures.values())))
        steps.append((f"diel explain {run} {task}{where}", "tells why it failed"))
        steps.append((f"diel logs {run} {task}{where}", "shows what it printed"))
    elif state is RunState.FAILED:  # a search or loop failed whose tasks are done: nothing to try again
        steps.append((f"diel explain {run}{where}", "tells why it failed"))
    if state is not RunState.SUCCEEDED and (controller.history.failures or state is not RunState.FAILED):
        again = "tries again what failed" if state is RunState.FAILED else "goes on where it stopped"
        steps.append((f"diel resume {run}{where}", again))
    return ["", *columns([[f"  {step}", paint(why, dim=True)] for step, why in steps])]


def _example(controller: Controller) -> str:
    """An output of a last stage, for a command that the user can type as it is."""
    for name in reversed(controller.plan.graph.order):
        stage = controller.stages[name]
        for index in range(min(stage.size, 1)):
            if stage.history.state(index).good:
                values = controller.results.record(name, index).get("values")
                return f"{name}.{next(iter(values))}" if values else name
    return controller.plan.graph.order[-1]


def _values(controller: Controller) -> list[str]:
    """What the last stages made, where it is little."""
    feeding = {edge.upstream for edge in controller.plan.graph.edges}
    lines: list[str] = []
    for name in controller.plan.graph.order:
        stage = controller.stages[name]
        if name in feeding or not 0 < stage.size <= MAX_VALUES:
            continue
        rows = []
        for index in range(stage.size):
            if stage.history.state(index).good:
                outputs = _outputs(controller, controller.results.record(name, index))
                if outputs:
                    rows.append({**stage.point(index), **outputs})
        if rows:
            lines += ["", paint(name, bold=True), *_value_lines(rows)]
    return lines


def _outputs(controller: Controller, record: Made) -> dict[str, object]:
    found: dict[str, object] = dict(record.get("values") or {})
    for label, artifact in (record.get("artifacts") or {}).items():
        if "files" in artifact:
            found[label] = counted(len(artifact["files"]), "file")
            continue
        path = artifact_path(record, artifact["path"], controller.paths.root)
        found[label] = os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
    return found


def _value_lines(rows: list[dict[str, object]]) -> list[str]:
    """One task as a line a value, several as a table."""
    if len(rows) == 1:
        return columns([[f"  {label}", printable(_short(value))] for label, value in rows[0].items()])
    labels = list(dict.fromkeys(label for row in rows for label in row))
    table = [[f"  {paint(labels[0], dim=True)}", *(paint(label, dim=True) for label in labels[1:])]]
    for row in rows:
        cells = [
            shorten(printable(_short(row[label])), MAX_WIDTH) if label in row else "" for label in labels
        ]
        table.append([f"  {cells[0]}", *cells[1:]])
    return columns(table)


def _short(value: object) -> str:
    """A value as people read it: six digits of a float, the beginning of something long."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, str):
        return value
    return shorten(repr(value), MAX_WIDTH)
