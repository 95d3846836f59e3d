"""What earlier runs found, for searches with `warm_start`: found when a run is made, and kept in it."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from diel.base.errors import DielError, SpecError, UsageError
from diel.base.files import put
from diel.base.paths import RunPaths
from diel.base.states import TrialState
from diel.base.values import is_finite
from diel.observe.results import RunReader
from diel.store.journal.axis_history import Context
from diel.store.project.run_file import draw_seeds
from diel.store.project.runs import all_runs, find_run
from diel.tasks.points.adaptive import SearchAxis
from diel.workflow.load import Document
from diel.workflow.models import Search, Workflow

MAX_RUNS = 100
"""How many of the newest runs of a workflow are asked."""
MAX_TRIALS = 1000
"""How many trials a search is told of, the newest ones: samplers take longer with each."""

Earlier = dict[str, list[dict[str, Any]]]
"""By axis: trials as `begin` of a course, hyperparameters, values, and what they break of the constraints."""
_Place = tuple[Context, int]


class WarmStart(NamedTuple):
    """What the searches of a new run begin with."""

    seeds: dict[str, int]
    earlier: Earlier

    def keep(self, paths: RunPaths) -> None:
        """Keep what they are told in the run, so that whoever resumes it tells the same. Raise OSError."""
        for label, trials in self.earlier.items():
            paths.axes.mkdir(exist_ok=True)
            put(paths.earlier(label), json.dumps(trials))


def begin_searches(document: Document, runs: Path, *, anew: bool) -> WarmStart:
    """Return seeds of searches, and what those with `warm_start` are told. Raise SpecError."""
    workflow, earlier = document.spec, Earlier()
    for label, axis in workflow.axes.items():
        if isinstance(axis, Search) and axis.warm_start is not None:
            try:
                earlier[label] = _find_earlier(workflow, axis, axis.warm_start, runs)
                if not earlier[label] and axis.warm_start != "project":
                    bounds = [reference for reference, _, _ in axis.bounds]
                    goals = ", ".join([*(reference for reference, _ in axis.objectives), *bounds])
                    sought = f"over {', '.join(axis.parameters)} that was judged by {goals}"
                    raise UsageError(f"{axis.warm_start} has no complete trial {sought}")
            except UsageError as error:
                raise SpecError(
                    [document.problem(("axes", label, "search", "warm_start"), str(error))]
                ) from error
    return WarmStart(draw_seeds(workflow, runs, anew=anew), earlier)


def _find_earlier(workflow: Workflow, axis: Search, name: str, runs: Path) -> list[dict[str, Any]]:
    mine = (paths for paths in all_runs(runs) if paths.run_id.rpartition("-")[0] == workflow.name)
    asked = [*mine][-MAX_RUNS:] if name == "project" else [find_run(runs, name)]
    trials = (trial for run in map(RunReader, asked) for trial in _trials(run, axis))
    unique = {json.dumps(trial, sort_keys=True): trial for trial in trials}
    return [*unique.values()][-MAX_TRIALS:]


def _trials(run: RunReader, search: Search) -> Iterator[dict[str, Any]]:
    """Yield the complete trials of searches for the same objectives over the same hyperparameters."""
    try:
        axes = [axis for axis in run.adaptive.values() if isinstance(axis, SearchAxis)]
    except DielError:  # of another version, or damaged: who asks for it is told
        return
    for axis in axes:
        if axis.axis.objectives == search.objectives and {*axis.axis.parameters} == {*search.parameters}:
            values = _given(run, axis, {reference for reference, _, _ in search.bounds})
            for course in axis.history.courses.values():
                for trial in course.trials:
                    results = values.get((course.context, trial.number), {})
                    excess = [
                        sign * (results[of] - bound) for of, sign, bound in search.bounds if of in results
                    ]
                    # Its own bounds may have been others: one that does not tell how far it is beyond the
                    # present ones would be taken for a good one.
                    if trial.state is TrialState.COMPLETE and len(excess) == len(search.bounds):
                        yield {"at": course.at, "hp": trial.hp, "values": trial.values, "excess": excess}


def _given(run: RunReader, axis: SearchAxis, references: Iterable[str]) -> dict[_Place, dict[str, float]]:
    """Return what trials gave for each STAGE.VALUE, where that is a number."""
    values: dict[_Place, dict[str, float]] = {}
    for reference in references:
        name, _, value = reference.rpartition(".")
        stage = run.workflow.stages.get(name)
        judges = stage is not None and {*stage.over} == {*axis.judge.context, axis.label}
        domain = run.domain(name) if judges else None
        if domain is None:
            continue
        for record in run.results(name):
            number = record.get("values", {}).get(value)
            if is_finite(number):
                place = domain.coordinates(record["index"])
                values.setdefault((axis.context(place), place[axis.label]), {})[reference] = float(number)
    return values
