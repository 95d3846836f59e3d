"""Seeds of searches that their file gives none: drawn once, and taken again by the workflow's later runs."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

from diel.errors import UsageError
from diel.project.run_file import read_run_file
from diel.project.runs import all_runs
from diel.spec import Search, Workflow


def draw_seeds(workflow: Workflow, runs: Path, *, anew: bool) -> dict[str, int]:
    """A seed for each search without one: that of the workflow's last run, so that the same trials come again
    and are found in the cache; or a new one.
    """
    unseeded = [
        name for name, axis in workflow.axes.items() if isinstance(axis, Search) and axis.seed is None
    ]
    before = {} if anew or not unseeded else _last(workflow.name, runs)
    return {name: before.get(name, random.SystemRandom().randrange(2**32)) for name in unseeded}


def _last(workflow: str, runs: Path) -> Mapping[str, int]:
    for paths in reversed(all_runs(runs)):
        try:
            file = read_run_file(paths)
        except UsageError:  # of another version
            continue
        if file.workflow == workflow and file.seeds:
            return file.seeds
    return {}
