"""`--sized-by RUN`: stages ask for what an earlier run's usage says."""

from __future__ import annotations

import math
from pathlib import Path

import click

from diel.errors import UsageError
from diel.plan import Plan, make_plan
from diel.project.run_file import Sizes
from diel.project.runs import find_run
from diel.results import read
from diel.results.usage import sizes_by
from diel.site import cores_of, memory_of, nodes_of
from diel.spec.variables import apply_sizes


def sized(plan: Plan, word: str, runs: Path) -> tuple[Plan, Sizes]:
    """The plan with what a run advises, and that by stage. Raises UsageError where it advises nothing.

    No stage asks for more than its pool has.
    """
    paths = find_run(runs, word)
    (advised, used), flaws = read(paths, lambda run: (sizes_by(run), run.history.uses))
    for flaw in flaws:
        click.echo(flaw, err=True)
    sizes = {name: given for name, given in advised.items() if name in plan.stages}
    if not sizes:
        uses = ", ".join(sorted(used))
        raise UsageError(
            f"--sized-by {word}: {paths.run_id} has no task of this workflow's stages that ended well "
            f"({', '.join(plan.stages)}): "
            + (f"it took its results from {uses}" if uses else f"`diel explain {paths.run_id}` says why")
        )
    for name, given in sizes.items():
        pool = plan.site.pools[plan.stages[name].pool]
        if "memory" in given:
            given["memory"] = min(given["memory"], memory_of(pool))
        if "walltime" in given:
            given["walltime"] = min(given["walltime"], pool.longest)
        if "cores_per_rank" in given:
            wanted = plan.checked.workflow.stages[name].bare.resources
            there = cores_of(pool) // math.ceil(wanted.processes / nodes_of(wanted))
            given["cores_per_rank"] = max(1, min(given["cores_per_rank"], there))
    apply_sizes(plan.checked.workflow, sizes)
    return make_plan(plan.checked, plan.site), sizes
