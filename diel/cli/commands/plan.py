"""`diel validate`: what is wrong in a workflow file; `diel plan`: what would run where, at what cost."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import click

from diel.base.errors import Problem, SpecError, UsageError, counted
from diel.base.paths import RunPaths
from diel.base.values import format_duration, format_size
from diel.cli.options import Output, WorkflowOptions, json_option, sized_option, workflow_options
from diel.planning.check.imports import refuse_missing
from diel.planning.check.remarks import column_lines, column_types, warnings
from diel.planning.plan import Plan, StagePlan, make_plan, prepare
from diel.site.shape import cores_of, memory_of, nodes_of
from diel.site.site import missing
from diel.store.project.run_file import RunOptions, Sizes
from diel.store.project.runs import find_run
from diel.store.project.submission import Home
from diel.store.table import Listing, render
from diel.workflow.models.variables import apply_sizes

EXECUTORS = {
    "threads": "worker processes of this machine",
    "blocks": "Parsl's high-throughput executor, in blocks of the scheduler",
}
HOMES = {
    "login": "a process of its own on the host where you type `diel submit`",
    "job": "a small job of its own",
    "inside": "one allocation, with all workers",
}
POOL = "<the command line of Parsl's worker pool, known when the run has started>"
WIDTH = 72


@click.command("validate")
@workflow_options()
@json_option
def validate(out: Output, **options: Unpack[WorkflowOptions]) -> int:
    """Give the file, line and column of each mistake. Nothing is run. The exit code is 0 for a good file and
    2 for a wrong one.
    """
    file = str(options["file"])
    try:
        plan = prepare(**options)
    except UsageError as error:
        if not out.as_json:
            raise
        message, _, hint = str(error).partition("\n    ")  # of the command line: it has no place in the file
        own = [Problem(file, 1, 1, "", message, hint)]
        problems = error.problems if isinstance(error, SpecError) else own
        wrong = [problem._asdict() for problem in problems]
        out.show(lambda: {"valid": False, "file": file, "problems": wrong}, ())
        return error.exit_code
    remarks = list(warnings(plan.checked, options["runs"]))
    for problem in () if out.as_json else remarks:
        click.echo(f"warning: {problem}", err=True)
    lines = [f"{file}: good: {counted(len(plan.stages), 'stage')}, {_tasks_text(plan)}"]
    lines += [f"    {line}" for line in column_lines(plan.checked)]
    if unread := sorted({module.reference for module in plan.modules.values() if not module.digest}):
        lines.append(f"    read only where their packages are: {', '.join(unread)}")
    document = {
        "valid": True,
        "file": file,
        "problems": [],
        "workflow": plan.workflow.name,
        "stages": len(plan.stages),
        "tasks": plan.tasks,
        "tasks_known": _known_tasks(plan),
    }
    more = {"columns": column_types(plan.checked), "warnings": [problem._asdict() for problem in remarks]}
    out.show(lambda: document | more, lines)
    return 0


def _known_tasks(plan: Plan) -> int:
    return sum(stage.tasks or 0 for stage in plan.stages.values())


def _tasks_text(plan: Plan) -> str:
    """Count the tasks: `96+… tasks` if only the run will show the rest."""
    number = _known_tasks(plan)
    if plan.tasks is None:
        return f"{number:,}+… tasks"
    return f"{'up to ' if plan.may_end_early else ''}{counted(number, 'task')}"


@click.command("plan")
@workflow_options()
@json_option
@click.option(
    "--scripts", "with_scripts", is_flag=True, help="Print the job scripts that such a run would submit."
)
@click.option(
    "--home",
    type=click.Choice(list(HOMES)),
    help="Where `diel submit --home` would put the controller, instead of where the site says.",
)
@sized_option
def command(
    out: Output,
    with_scripts: bool,
    home: Home | None,
    sized_by: str | None,
    **options: Unpack[WorkflowOptions],
) -> None:
    """Nothing is run. Core-hours are a bound: every task at its longest, by `walltime` or `timeout`."""
    plan = _at_home(plan_sized(options, sized_by)[0], home)
    if plan.checked.modules and not plan.site.scheduled:
        refuse_missing(plan.checked)
    for problem in warnings(plan.checked, options["runs"]):
        click.echo(f"warning: {problem}", err=True)
    runs = options["runs"]
    lines = _script_lines(plan, runs) if with_scripts else lines_of(plan)
    out.show(lambda: _document(plan, runs, with_scripts=with_scripts), lines)


def plan_to_start(
    begin_at: str | None,
    no_cache: bool,
    fail_fast: bool,
    dry_run: bool,
    sized_by: str | None,
    **options: Unpack[WorkflowOptions],
) -> tuple[Plan, RunOptions]:
    """Return the plan of a new run, and its other options. With `dry_run` print the plan, and exit."""
    plan, sizes = plan_sized(options, sized_by)
    if dry_run:
        click.echo("\n".join(lines_of(plan)))
        raise click.exceptions.Exit(0)
    return plan, {"use_cache": not no_cache, "begin_at": begin_at, "fail_fast": fail_fast, "sizes": sizes}


def plan_sized(options: WorkflowOptions, sized_by: str | None) -> tuple[Plan, Sizes]:
    """Return the plan of a workflow, and what a run advises its stages to ask for. Raise UsageError."""
    plan = prepare(**options)
    return (plan, {}) if sized_by is None else _sized(plan, sized_by, options["runs"])


def _sized(plan: Plan, word: str, runs: Path) -> tuple[Plan, Sizes]:
    """Return the plan with a run's advice, within its pools, and the advice by stage. Raise UsageError."""
    # Few runs are sized by another.
    from diel.observe.results import read
    from diel.observe.results.attempts import sizes_by

    paths = find_run(runs, word)
    (advised, used), flaws = read(paths, lambda run: (sizes_by(run), run.history.uses))
    for flaw in flaws:
        click.echo(flaw, err=True)
    sizes = {name: size for name, size in advised.items() if name in plan.stages}
    if not sizes:
        uses = ", ".join(sorted(used))
        raise UsageError(
            f"--sized-by {word}: {paths.run_id} has no task of this workflow's stages that ended well "
            f"({', '.join(plan.stages)}): "
            + (f"it took its results from {uses}" if uses else f"`diel explain {paths.run_id}` says why")
        )
    for name, size in sizes.items():
        pool = plan.site.pools[plan.stages[name].pool]
        if "memory" in size:
            size["memory"] = min(size["memory"], memory_of(pool))
        if "walltime" in size:
            size["walltime"] = min(size["walltime"], pool.longest)
        if "cores_per_rank" in size:
            resources = plan.checked.workflow.stages[name].bare.resources
            there = cores_of(pool) // math.ceil(resources.processes / nodes_of(resources))
            size["cores_per_rank"] = max(1, min(size["cores_per_rank"], there))
    apply_sizes(plan.checked.workflow, sizes)
    return make_plan(plan.checked, plan.site), sizes


def _at_home(plan: Plan, home: Home | None) -> Plan:
    """Return the plan with its controller in another home. Raise UsageError if it cannot be there."""
    if home is None:
        return plan
    from diel.controller.home import choose_home, refuse_homeless  # slow, and seldom needed here

    choose_home(plan.site, home)
    controller = plan.site.controller.model_copy(update={"home": home})
    moved = plan._replace(site=plan.site.model_copy(update={"controller": controller}))
    refuse_homeless(moved, home)
    return moved


def _document(plan: Plan, runs: Path, *, with_scripts: bool) -> dict[str, Any]:
    document = plan.document()
    document["home"] = plan.site.controller.home if plan.site.scheduled else "login"
    document["blocks"] = list(_blocks(plan))
    document["columns"] = column_types(plan.checked)
    if with_scripts:
        document["scripts"] = [script._asdict() for script in _scripts(plan, runs)]
    return document


class Script(NamedTuple):
    """A job script that such a run would submit, whole."""

    file: str
    """Absolute, as it would be for a run named `<workflow>-N`."""
    about: str
    shape: str | None
    """The resource shape of the block; None for a controller."""
    stages: list[str]
    text: str


def _scripts(plan: Plan, runs: Path) -> Iterator[Script]:
    """Yield a plan's scripts; none if the site has no scheduler. Raise UsageError where the run cannot live
    in one allocation as its site says, and SchedulerRefused for a path that no job script can hold."""
    if not plan.site.scheduled:
        return
    # Slow, and seldom needed.
    from diel.backends.blocks.script import block_job, node_script, planned
    from diel.controller.home import choose_home, controller_job
    from diel.site.scheduler import scheduler_named  # as above
    from diel.site.scheduler.allocation import AllocationScheduler

    paths = RunPaths((runs / f"{plan.workflow.name}-N").absolute())
    home, scheduler = choose_home(plan.site), scheduler_named(plan.site.scheduler)
    if home != "login":
        whole = "the controller and all workers" if home == "inside" else "the controller"
        about = f"the job of {whole}, for `diel submit`"
        text = scheduler.script(controller_job(plan, paths, home))
        yield Script(str(paths.controllers / "c1.sh"), about, None, list(plan.stages), text)
    if home == "inside":
        scheduler = AllocationScheduler(scheduler, (), "", 0.0)
    for number, (shape, stages) in enumerate(plan.shapes.items()):
        block = planned(plan, shape, number)
        job = scheduler.script(block_job(plan.site, scheduler, paths, block))
        about = f"a block of shape {shape.label}, for {', '.join(stages)}"
        yield Script(str(paths.block_script(block.name)), about, shape.label, stages, job)
        node = node_script(plan.site, scheduler, paths, block, POOL)
        about = f"what {'the first' if shape.nodes else 'each'} node of that block runs"
        yield Script(str(paths.node_script(block.name)), about, shape.label, stages, node)


def _script_lines(plan: Plan, runs: Path) -> Iterator[str]:
    scripts = list(_scripts(plan, runs))
    if not scripts:
        yield f"site '{plan.site.name}' has no scheduler: runs there need no job scripts"
        return
    name = f"{plan.workflow.name}-N"
    yield f"{name} is a placeholder: the run's number and the names of its jobs are known once it is made."
    for script in scripts:
        yield f"\n=== {script.file}: {script.about}"
        yield script.text.rstrip("\n")


def lines_of(plan: Plan) -> Iterator[str]:
    about = f": {plan.workflow.description}" if plan.workflow.description else ""
    yield f"{plan.workflow.name}{about}"
    yield ""
    rows = [_row(plan, stage) for stage in plan.stages.values()]
    columns = ("stage", "kind", "tasks", "axes", "pool", "each task", "at most", "core-hours")
    yield from render(Listing(columns, rows, {}), width=WIDTH)
    yield ""
    if plan.site.scheduled:
        header = ("shape", "pool", "stages", "tasks a block", "block", "walltime", "most blocks")
        yield from render(Listing(header, list(_block_rows(plan)), {}), width=WIDTH)
        yield ""
    yield from (f"columns        {line}" for line in column_lines(plan.checked))
    rest = "" if plan.tasks is not None else ": the run will show the rest"
    for label, adaptive in plan.adaptive.items():
        yield f"{adaptive.axis.word:<14} {label}: {adaptive}"
    yield f"tasks          {_tasks_text(plan)}{rest}"
    yield f"core-hours     {_cost(plan)}"
    yield f"longest chain  {' → '.join(plan.critical_path)}"
    cores = counted(plan.capacity, "core")
    yield f"runs on        site '{plan.site.name}', {cores}, through {EXECUTORS[plan.executor]}"
    if plan.site.scheduled:
        home = plan.site.controller.home
        yield f"controller     {home}: {HOMES[home]}"
    for stage in plan.stages.values():
        for both in stage.launchers.values():
            yield f"launcher       {stage.name}: {' '.join(map(_span, *both))}"
    for lack in missing(plan.site):
        yield f"still needed   {lack}"


def _span(first: str, last: str) -> str:
    """Two words as one: `--ntasks=1–64`."""
    return first if first == last else f"{first}–{last.removeprefix(first.rstrip('0123456789'))}"


def _blocks(plan: Plan) -> Iterator[dict[str, Any]]:
    for shape, stages in plan.shapes.items() if plan.site.scheduled else ():
        pool = plan.site.pools[shape.pool]
        yield {
            "shape": shape.label,
            "pool": shape.pool,
            "stages": stages,
            "tasks": shape.slots(pool),
            "nodes": shape.block_nodes(pool),
            "cores": cores_of(pool),
            "gpus": pool.gpus if shape.gpus else 0,
            "walltime_s": shape.block_walltime(pool, plan.site.grace),
            "most": pool.blocks,
        }


def _block_rows(plan: Plan) -> Iterator[tuple[object, ...]]:
    for block in _blocks(plan):
        size = f"{counted(block['nodes'], 'node')} × {counted(block['cores'], 'core')}"
        size += f", {counted(block['gpus'], 'GPU')}" if block["gpus"] else ""
        stages, walltime = ", ".join(block["stages"]), format_duration(block["walltime_s"])
        yield block["shape"], block["pool"], stages, block["tasks"], size, walltime, block["most"]


def _row(plan: Plan, stage: StagePlan) -> tuple[object, ...]:
    counts = plan.checked.counts
    early = {label for label, adaptive in plan.adaptive.items() if adaptive.axis.may_end_early}
    axes = " × ".join(f"{axis} ({_count(counts[axis], bound=axis in early)})" for axis in stage.axes)
    tasks = _count(stage.tasks, bound=bool(early & set(stage.axes)))
    longest = "no limit" if stage.seconds is None else format_duration(stage.seconds)
    hours = "" if stage.core_hours is None else _hours(stage.core_hours)
    return stage.name, stage.kind, tasks, axes, stage.pool, _resources(plan, stage), longest, hours


def _count(count: int | None, *, bound: bool) -> str:
    return "…" if count is None else f"{'≤' if bound else ''}{count:,}"


def _resources(plan: Plan, stage: StagePlan) -> str:
    needs, varied = plan.workflow.stages[stage.name].resources, stage.demand
    if varied is not None:
        keys = [key for key in ("nodes", "ranks", "memory") if getattr(needs, key) is not None]
        gpus = ["gpus"] if varied.spans.get("gpus", (0, 0))[1] else []
        own = {key[-1] for key in plan.workflow.stages[stage.name].demand} | {"cores", "gpus"}
        static = {"nodes": counted(needs.nodes or 0, "node"), "ranks": counted(needs.ranks or 0, "rank")}
        static["memory"] = format_size(needs.memory or 0)
        return ", ".join(varied.words(key) if key in own else static[key] for key in (*keys, "cores", *gpus))
    words = [
        counted(needs.nodes, "node") if needs.nodes is not None else "",
        counted(needs.ranks, "rank") if needs.ranks is not None else "",
        counted(stage.cores, "core") if stage.cores else "no core of its own",
        counted(stage.gpus, "GPU") if stage.gpus else "",
        format_size(needs.memory) if needs.memory is not None else "",
    ]
    return ", ".join(filter(None, words))


def _hours(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.3g}"


def _cost(plan: Plan) -> str:
    if plan.core_hours is not None:
        return f"at most {_hours(plan.core_hours)}"
    without = [stage.name for stage in plan.stages.values() if stage.seconds is None]
    if without:
        have = "has" if len(without) == 1 else "have"
        later = " that is known before the run" if any(plan.stages[name].demand for name in without) else ""
        return f"no bound: {', '.join(without)} {have} no `walltime` or `timeout`{later}"
    return "no bound: the number of tasks is not known before the run"
