"""A short report of a run, in Markdown: its state, what searches and loops found, where to find results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diel.journal.snapshot import look_at
from diel.results import RunReader, summarize
from diel.states import TaskState
from diel.status import Status, read_status, task_of
from diel.status.columns import LINE, MAX_ROWS, markdown_table, plain, rest, shorten
from diel.status.run import energy_text
from diel.status.sections import SECTIONS
from diel.status.stage import StageStatus, count_text, failure_document, mean_text, named_task
from diel.table import shown
from diel.values import clock, format_duration

if TYPE_CHECKING:
    from diel.journal.records import Failed


def write_report(run: RunReader) -> str:
    """The report of a run. Raises DielError where its files cannot be read."""
    status = read_status(run.paths, look_at(run.paths))
    lines = [
        *_head(run, status),
        *_stages(status),
        *(line for section in SECTIONS if section.used(status) for line in section.report(status)),
        *_failures(status),
        *_results(run),
    ]
    return "\n".join(lines) + "\n"


def _head(run: RunReader, status: Status) -> Iterator[str]:
    yield f"# {plain(status.run)}: {status.state}"
    yield ""
    if run.workflow.description:
        yield plain(run.workflow.description)
        yield ""
    total = "?" if status.total is None else f"{status.total:,}"
    facts = [
        ("workflow", f"{status.workflow} ({run.run_file.source})"),
        ("directory", str(run.paths.root)),
        ("began", "" if status.began is None else clock(status.began)),
        ("ended", "" if status.ended is None else clock(status.ended)),
        ("took", format_duration(status.elapsed)),
        ("tasks", f"{status.good:,} of {total} done{_others(status)}"),
        ("used results of", ", ".join(status.uses)),
        ("site", status.site),
        ("energy", energy_text(status.energy)),
    ]
    yield from (f"- {name}: {plain(value)}" for name, value in facts if value)
    yield ""


def _others(status: Status) -> str:
    states = (TaskState.CACHED, TaskState.FAILED, TaskState.SKIPPED, TaskState.CANCELLED)
    counts = [count_text(s, status.count(s), status.tolerated) for s in states if status.count(s)]
    return f" ({', '.join(counts)})" if counts else ""


# --- stages ---------------------------------------------------------------------------------------


def _stages(status: Status) -> Iterator[str]:
    yield "## Stages"
    yield ""
    states = (TaskState.CACHED, TaskState.FAILED, TaskState.SKIPPED, TaskState.CANCELLED)
    used = [state for state in states if status.count(state)]
    header = ["stage", "kind", "done", *(state.label for state in used), "mean time"]
    yield from markdown_table(header, [_stage_row(stage, used) for stage in status.stages])


def _stage_row(stage: StageStatus, states: Sequence[TaskState]) -> list[str]:
    total = "?" if stage.total is None else f"{stage.total:,}"
    counts = [f"{stage[state]:,}" if stage[state] else "" for state in states]
    return [stage.name, stage.kind, f"{stage.good:,} of {total}", *counts, mean_text(stage.mean_seconds)]


# --- failures and results -------------------------------------------------------------------------


def _failures(status: Status) -> Iterator[str]:
    void = [stage for stage in status.stages if stage.void]
    if not status.failures and not void:
        return
    yield "## Failures"
    yield ""
    yield from (f"- {stage.name}: no tasks, {plain(stage.void)}" for stage in void)
    if void:
        yield ""
    if status.failures:
        rows = [_failure_row(record) for record in status.failures[:MAX_ROWS]]
        yield from markdown_table(["task", "class", "message"], rows)
        yield from rest(status.count(TaskState.FAILED), "failed tasks")
        yield f"`diel explain {status.run} {task_of(status.failures[0])}` says more."
        yield ""


def _failure_row(record: Failed) -> list[str]:
    document = failure_document(record)
    tolerated = f"tolerated by {document['tolerated']}: " if document["tolerated"] else ""
    message = tolerated + str(document["message"]).strip()
    return [named_task(record), str(document["class"]), shorten(message, LINE)]


def _results(run: RunReader) -> Iterator[str]:
    yield "## Results"
    yield ""
    found = summarize(run)
    if not found.rows:
        yield "There are none yet."
        return
    yield from markdown_table(
        ["output", "axes", "results", "first"],
        [[str(cell) for cell in row[:3]] + [_first(row[3], run.paths.root)] for row in found.rows],
    )
    yield f"`diel results {run.paths.run_id} {found.rows[0][0]}` prints a table."


def _first(value: Any, root: Path) -> str:
    """A result, shortened; a file by its path in the run's directory."""
    text = shown(value)
    return (
        text if not isinstance(value, str) or not value.startswith(f"{root}/") else value[len(f"{root}/") :]
    )
