"""What a shell may offer for the words of a command: runs, stages, tasks."""

from __future__ import annotations

import click

from diel.cli.options import complete_run
from diel.errors import DielError
from diel.journal.segment import read_run
from diel.journal.stage_history import StageHistory
from diel.paths import runs_dir
from diel.project.runs import find_run
from diel.status import stage_names

__all__ = ["complete_run", "complete_stage", "complete_target", "complete_task"]

FIRST = 20
"""Tasks of a stage that are offered: a shell then completes to `simulate/`, and shows a few."""


def complete_stage(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """[RUN] STAGE."""
    words = context.params.get("words") or ()
    runs = [] if words else complete_run(context, parameter, incomplete)
    stages = _stages(context, words[0] if words else "last")
    return [*runs, *(name for name in stages if name.startswith(incomplete))]


def complete_task(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """[RUN] TASK."""
    words = context.params.get("words") or ()
    runs = [] if words else complete_run(context, parameter, incomplete)
    return [*runs, *_tasks(context, words[0] if words else "last", incomplete)]


def complete_target(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """RUN [STAGE|TASK]...: what follows the run."""
    run = context.params.get("run") or "last"
    stages = [name for name in _stages(context, run) if name.startswith(incomplete)]
    return stages if stages and "/" not in incomplete else _tasks(context, run, incomplete)


def _tasks(context: click.Context, run: str, incomplete: str) -> list[str]:
    found = []
    for name, stage in _stages(context, run).items():
        found += [name] if stage.total <= 1 else [f"{name}/{i}" for i in range(stage.total)[:FIRST]]
        index = incomplete.removeprefix(f"{name}/")
        if index != incomplete and index.isdecimal() and FIRST <= int(index) < stage.total:
            found.append(incomplete)
    return [task for task in found if task.startswith(incomplete)]


def _stages(context: click.Context, run: str) -> dict[str, StageHistory]:
    """The stages of a run; nothing where it cannot be read, for a shell must not be disturbed."""
    try:
        paths = find_run(runs_dir(context.params.get("runs")), run)
        known = read_run(paths).history.stages
    except DielError:
        return {}
    later = [name for name in stage_names(paths) if name not in known]
    return known | {name: StageHistory("analysis", 0, bytearray()) for name in later}
