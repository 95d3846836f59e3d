"""The job scripts that a run on a scheduled site would submit, whole. Nothing is submitted or written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from diel.blocks.script import block_job, node_script, planned
from diel.controller.home import choose_home, controller_job
from diel.paths import RunPaths
from diel.plan import Plan
from diel.scheduler import scheduler_named
from diel.scheduler.inside import Inside

POOL = "<the command line of Parsl's worker pool, known when the run has started>"


@dataclass(frozen=True)
class Script:
    """One file that would be written."""

    file: str
    """Absolute, as it would be for a run named `<workflow>-N`."""
    about: str
    shape: str | None
    """The resource shape of the block; None for a controller."""
    stages: list[str]
    text: str


def scripts_of(plan: Plan, runs: Path) -> list[Script]:
    """The scripts of a plan; none if the site has no scheduler. Raises UsageError where the run cannot live
    in one allocation as its site says, and SchedulerRefused for a path that no job script can hold."""
    return list(_scripts(plan, RunPaths((runs / f"{plan.workflow.name}-N").absolute())))


def _scripts(plan: Plan, paths: RunPaths) -> Iterator[Script]:
    if not plan.site.scheduled:
        return
    home, scheduler = choose_home(plan.site), scheduler_named(plan.site.scheduler)
    if home != "login":
        whole = "the controller and all workers" if home == "inside" else "the controller"
        about = f"the job of {whole}, for `diel submit`"
        text = scheduler.script(controller_job(plan, paths, home))
        yield Script(str(paths.controllers / "c1.sh"), about, None, list(plan.stages), text)
    if home == "inside":
        scheduler = Inside(scheduler, (), "", 0.0)
    for number, (shape, stages) in enumerate(plan.shapes.items()):
        block = planned(plan, shape, number)
        job = scheduler.script(block_job(plan.site, scheduler, paths, block))
        about = f"a block of shape {shape.label}, for {', '.join(stages)}"
        yield Script(str(paths.block_script(block.name)), about, shape.label, stages, job)
        node = node_script(plan.site, scheduler, paths, block, POOL)
        about = f"what {'the first' if shape.nodes else 'each'} node of that block runs"
        yield Script(str(paths.node_script(block.name)), about, shape.label, stages, node)
