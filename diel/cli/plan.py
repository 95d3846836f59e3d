"""`diel plan`: what would run where, and what it may cost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

from diel.check import check
from diel.cli.options import json_option, settings_options
from diel.cli.validate import tasks_text
from diel.plan import Plan, StagePlan, make_plan
from diel.site import find_site
from diel.table import Table, render
from diel.values import format_duration, format_size

EXECUTORS = {
    "threads": "a few worker processes, which start at once",
    "htex": "Parsl's high-throughput executor, in warm workers",
}


@click.command("plan")
@click.argument("file", type=click.Path(path_type=Path))
@settings_options
@click.option(
    "--site", metavar="NAME", help="Where it would run; `local` where neither this nor DIEL_SITE is given."
)
@json_option
def command(
    file: Path, settings: tuple[str, ...], params_files: tuple[Path, ...], site: str | None, as_json: bool
) -> int:
    """Show what would run where, and what it may cost. Nothing is run.

    Core-hours are a bound: every task at its longest, by `walltime` or `timeout`.
    """
    plan = make_plan(check(file, settings, params_files), find_site(site, file.parent))
    click.echo(json.dumps(plan.document()) if as_json else "\n".join(_lines(plan)))
    return 0


def _lines(plan: Plan) -> Iterator[str]:
    about = f": {plan.workflow.description}" if plan.workflow.description else ""
    yield f"{plan.workflow.name}{about}"
    yield ""
    rows = [_row(plan, stage) for stage in plan.stages.values()]
    columns = ("stage", "kind", "tasks", "axes", "pool", "each task", "at most", "core-hours")
    yield from render(Table(columns, rows, {}), width=72)
    yield ""
    rest = "" if plan.tasks is not None else ": the run will tell the rest"
    yield f"tasks          {tasks_text(plan)}{rest}"
    yield f"core-hours     {_cost(plan)}"
    yield f"longest chain  {' → '.join(plan.critical_path)}"
    yield f"runs on        site '{plan.site.name}', {plan.capacity} cores, through {EXECUTORS[plan.executor]}"
    for stage in plan.stages.values():
        if stage.launcher:
            yield f"launcher       {stage.name}: {' '.join(stage.launcher)}"


def _row(plan: Plan, stage: StagePlan) -> tuple[object, ...]:
    counts = plan.checked.counts
    axes = " × ".join(
        f"{axis} ({'…' if counts[axis] is None else format(counts[axis], ',')})" for axis in stage.axes
    )
    tasks = "…" if stage.tasks is None else f"{stage.tasks:,}"
    longest = "no limit" if stage.seconds is None else format_duration(stage.seconds)
    hours = "" if stage.core_hours is None else _hours(stage.core_hours)
    return stage.name, stage.kind, tasks, axes, stage.pool, _resources(plan, stage), longest, hours


def _resources(plan: Plan, stage: StagePlan) -> str:
    wanted = plan.workflow.stages[stage.name].resources
    words = [_count(stage.cores, "core")]
    if wanted.ranks is not None:
        words.insert(0, _count(wanted.ranks, "rank"))
    if wanted.nodes is not None:
        words.insert(0, _count(wanted.nodes, "node"))
    if stage.gpus:
        words.append(_count(stage.gpus, "GPU"))
    if wanted.memory is not None:
        words.append(format_size(wanted.memory))
    return ", ".join(words)


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' if number != 1 else ''}"


def _hours(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.3g}"


def _cost(plan: Plan) -> str:
    if plan.core_hours is not None:
        return f"at most {_hours(plan.core_hours)}"
    without = [stage.name for stage in plan.stages.values() if stage.seconds is None]
    if without:
        have = "has" if len(without) == 1 else "have"
        return f"no bound: {', '.join(without)} {have} no `walltime` or `timeout`"
    return "no bound: the number of tasks is not known before the run"
