"""Searches that are given more trials than their run began with: `diel resume RUN --trials 40`.

The run's file has the new numbers first: every later controller finds from them what is left to do.
"""

from __future__ import annotations

from collections.abc import Iterable

from diel.axes.adaptive import Adaptive, Searched
from diel.controller.again import Again
from diel.errors import UsageError, did_you_mean
from diel.results import RunReader
from diel.spec.model import MAX_POINTS


def read_trials(run: RunReader, said: Iterable[str]) -> dict[str, int]:
    """How many trials searches are to have: `40` for the only one, `AXIS=40` for one of several.

    Raises UsageError for what is not there, or cannot have so many.
    """
    known = {label: axis for label, axis in run.adaptive.items() if isinstance(axis, Searched)}
    found: dict[str, int] = {}
    for word in said:
        label, _, number = word.rpartition("=")
        if not label and len(known) == 1:
            label = next(iter(known))
        if label not in known:
            there = f"its searches: {', '.join(known)}" if known else "no axis of its workflow is a search"
            hint = did_you_mean(label, known) or there
            wrong = f"no search '{label}'" if label else "write --trials AXIS=N" if known else "no search"
            raise UsageError(f"--trials {word}: {run.paths.run_id}: {wrong}; {hint}")
        if not number.isdecimal() or not 0 < int(number) <= MAX_POINTS:
            raise UsageError(f"--trials {word}: expected a number of trials, such as --trials 40")
        if label in found:
            raise UsageError(f"--trials {word}: how many '{label}' is to have is said twice")
        if why := _refusal(run, known[label], int(number)):
            raise UsageError(f"--trials {word}: {run.paths.run_id}: {why}")
        found[label] = int(number)
    return found


def _refusal(run: RunReader, axis: Searched, trials: int) -> str:
    """Why a search cannot have so many trials; empty if it can."""
    label, courses = axis.label, axis.history.courses.values()
    stages, axes = run.workflow.stages, run.workflow.axes
    if axis.axis.trials is None:
        return f"the grid of '{label}' has been tried as a whole"
    if trials < axis.size:
        return f"'{label}' has {axis.size} trials: give it more"
    if courses and all(course.over and not course.failed and course.reason != "trials" for course in courses):
        why = next(course.reason for course in courses)
        ends = {"until": "its `until` held", "timeout": "its time was over", "core_hours": "they were spent"}
        hint = "run the workflow again with more `trials`, and what is done comes from the cache"
        return f"'{label}' has ended for another reason than its trials: {ends.get(why, why)}; {hint}"
    for name in sorted(_after(run, {label})):
        decides = [one for one in stages[name].over if axes[one].adaptive]
        makes = [one for one, made in axes.items() if made.maker == name]
        if decides or makes:
            return f"what '{label}' found has decided on '{(decides + makes)[0]}': run the workflow again"
    return ""


def find_extended(view: RunReader) -> Again:
    """Return the tasks that read all that a search found which goes on; in `view` they have no result now."""
    labels = {label for label, axis in view.adaptive.items() if _goes_on(axis)}
    found: dict[str, dict[int, int]] = {}
    for name in sorted(_after(view, labels)) if labels else ():
        stage = view.stages[name]
        for index in range(stage.size):
            if stage.history.state(index).good:
                attempt = stage.history.result_attempt(index)
                found.setdefault(name, {})[index] = attempt
                stage.history.lose(index, attempt)
    return found


def is_extended(run: RunReader) -> bool:
    """Whether a search has been given trials that nobody has begun."""
    return any(_goes_on(axis) for axis in run.adaptive.values())


def _goes_on(axis: Adaptive) -> bool:
    courses = axis.history.courses.values()
    return isinstance(axis, Searched) and any(axis.is_extended(course) for course in courses)


def _after(run: RunReader, labels: Iterable[str]) -> set[str]:
    """The stages that read what searches found, and all that depend on them."""
    found: set[str] = set()
    for edge in run.graph.edges:
        inside, whole = run.workflow.stages[edge.downstream].over, {*edge.gathered, *edge.chosen}
        reads = edge.output is not None or edge.hyperparameter is not None or edge.axis is not None
        if reads and any(label in whole and label not in inside for label in labels):
            found |= run.graph.after(edge.downstream)
    return found
