"""What a workflow drew before: seeds of searches, which later runs take again, and designs of other sizes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path

from diel.errors import UsageError
from diel.project.run_file import read_run_file
from diel.project.runs import all_runs, runs_of
from diel.spec import Search, Workflow
from diel.spec.forms.sample import Sample


def draw_seeds(workflow: Workflow, runs: Path, *, anew: bool) -> dict[str, int]:
    """Return a seed for each search without one: the last run's, for the cache; or a new one."""
    unseeded = [
        name for name, axis in workflow.axes.items() if isinstance(axis, Search) and axis.seed is None
    ]
    before = {} if anew or not unseeded else _last(workflow.name, runs)
    return {name: before.get(name, random.SystemRandom().randrange(2**32)) for name in unseeded}


def enlarged_designs(workflow: Workflow, runs: Path) -> Iterator[tuple[str, str, int]]:
    """Latin hypercubes of another size than when last drawn: the axis, that run, its points."""
    labels = [
        label
        for label, axis in workflow.axes.items()
        if isinstance(axis, Sample) and axis.method == "lhs" and axis.points > 1
    ]
    earlier = runs_of(workflow.name, runs) if labels else []
    for label in labels:
        for file in (paths.axis(label) for paths in reversed(earlier)):
            if file.is_file():
                count = file.read_bytes().count(b"\n") - 1
                if count != workflow.axes[label].size({}):
                    yield label, file.parent.parent.name, count
                break


def _last(workflow: str, runs: Path) -> Mapping[str, int]:
    for paths in reversed(all_runs(runs)):
        try:
            file = read_run_file(paths)
        except UsageError:  # of another version
            continue
        if file.workflow == workflow and file.seeds:
            return file.seeds
    return {}
