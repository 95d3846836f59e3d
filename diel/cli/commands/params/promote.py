"""`diel params promote`: the best trial's values become the project's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from diel.cli.commands.params.known import known_workflows
from diel.cli.commands.params.searched import good_trials, pairs, searches_of, trial_document
from diel.cli.options import json_option, run_argument, runs_option
from diel.errors import UsageError, counted, did_you_mean
from diel.journal.axis_history import Trial
from diel.paths import RunPaths, runs_dir
from diel.project.run_file import read_run_file
from diel.project.runs import find_run
from diel.registry import Change, append_change, read_current
from diel.spec import Flaws
from diel.states import TrialState
from diel.status import CourseStatus
from diel.table import shown
from diel.values import scalar

Search = tuple[str, CourseStatus]


@click.command("promote")
@run_argument
@click.option("--axis", metavar="NAME", help="The search, where the run has several.")
@click.option("--trial", type=click.IntRange(min=0), metavar="N", help="A trial that is not the best one.")
@click.option(
    "--at",
    "points",
    multiple=True,
    metavar="NAME=VALUE",
    help="The point of another axis, where there is a search for each.",
)
@runs_option
@json_option
def command(
    run: str, axis: str | None, trial: int | None, points: tuple[str, ...], runs: Path | None, as_json: bool
) -> int:
    """Make the values of a search's best trial what all later runs of the project begin with.

    Where a search has several objectives no trial is the best: --trial says which one of the front.
    """
    paths = find_run(runs_dir(runs), run)
    label, course = _search(paths, axis, points)
    chosen = _trial(paths, label, course, trial)
    place = paths.root.parent
    before = {name: held.value for name, held in read_current(place)[0].items()}
    run_file = read_run_file(paths)
    made = append_change(
        place,
        Change(
            "promotion",
            chosen.hp,
            workflow=run_file.workflow,
            run=paths.run_id,
            axis=label,
            trial=chosen.number,
            began=run_file.created,
        ),
    )
    misfits = _misfits(place, made)
    if as_json:
        known = {name: before[name] for name in made.values if name in before}
        document = {"run": paths.run_id, "axis": label, **trial_document(chosen)}
        click.echo(json.dumps({**document, "before": known, "misfits": misfits}))
        return 0
    scores = ", ".join(map(shown, chosen.values))
    click.echo(f"{paths.run_id}, {label} {chosen.number} ({scores}) is what later runs begin with:")
    for name, value in made.values.items():
        before_it = f"was {shown(before[name])}" if name in before else "the project had none"
        click.echo(f"    hp.{name} = {shown(value)}  ({before_it})")
    for misfit in misfits:
        click.echo(f"but {misfit}", err=True)
    return 0


def _search(paths: RunPaths, axis: str | None, points: Sequence[str]) -> Search:
    """The search that is meant. Raises UsageError where there is none, or more than one."""
    found = searches_of(paths)
    labels = list(dict.fromkeys(label for label, _ in found))
    if not labels:
        raise UsageError(f"{paths.run_id} has no search whose trials could be promoted, or none has begun")
    if axis is not None and axis not in labels:
        hint = did_you_mean(axis, labels) or f"searches: {', '.join(labels)}"
        raise UsageError(f"{paths.run_id} has no search '{axis}'\n    {hint}")
    if axis is None and len(labels) > 1:
        raise UsageError(f"{paths.run_id} has several searches: say which one, --axis {' or '.join(labels)}")
    wanted = dict(map(_point, points))
    named = [(label, course) for label, course in found if label == (axis or labels[0])]
    here = [one for one in named if all(one[1].at.get(name) == value for name, value in wanted.items())]
    if len(here) == 1:
        return here[0]
    known = "; ".join(pairs(course.at) for _, course in named[:5])
    if not here:
        hint = f"there are: {known}" if known else "it searches once, for all points: leave --at out"
        raise UsageError(f"no search '{named[0][0]}' at {pairs(wanted)}\n    {hint}")
    raise UsageError(
        f"'{named[0][0]}' has searched at each of {len(here)} points: say at which by --at NAME=VALUE\n"
        f"    there are: {known}{'; …' if len(named) > 5 else ''}"
    )


def _point(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--at {text}: expected NAME=VALUE")
    return name.strip(), scalar(value)


def _trial(paths: RunPaths, label: str, course: CourseStatus, number: int | None) -> Trial:
    """The trial that is promoted. Raises UsageError where there is none, or none that is the best."""
    if number is not None:
        return _numbered(paths, label, course, number)
    name = f"search '{label}' of {paths.run_id}"
    if course.state == "failed":
        raise UsageError(f"{name} failed, and has no trial to promote: {course.why or course.reason}")
    if course.state != "over":
        done = course.count(TrialState.COMPLETE)
        raise UsageError(
            f"{name} is not over: {done} of at most {counted(course.total, 'trial')} have a score\n"
            f"    `diel resume {paths.run_id}` goes on where nothing runs; "
            "--trial N promotes one that is complete"
        )
    good = good_trials(course)
    if len(course.facts.objectives) > 1:
        shown_front = "; ".join(f"{one.number}: {', '.join(map(shown, one.values))}" for one in good[:8])
        goals = ", ".join(value for value, _ in course.facts.objectives)
        raise UsageError(
            f"{name} has several objectives ({goals}), and so no best trial: say which one by --trial N\n"
            f"    the front: {shown_front or 'empty'}"
        )
    if not good:
        raise UsageError(f"{name} has no trial with a score")
    return good[0]


def _numbered(paths: RunPaths, label: str, course: CourseStatus, number: int) -> Trial:
    if number >= len(course.trials):
        raise UsageError(f"search '{label}' of {paths.run_id} has trials 0 to {len(course.trials) - 1} alone")
    found = course.trials[number]
    if found.state is not TrialState.COMPLETE:
        why = f": {found.message}" if found.message else ""
        raise UsageError(f"{label} {number} of {paths.run_id} is {found.state.value}, and has no score{why}")
    return found


def _misfits(runs: Path, change: Change) -> list[str]:
    """The workflows of the project that the values do not fit: their runs will be refused."""
    found = []
    for known in known_workflows(runs):
        for name, value in change.values.items():
            if name in known.hyperparameters:
                try:
                    known.hyperparameters[name].accept(value)
                except Flaws as error:
                    why = error.flaws[0].message
                    found.append(f"hp.{name} does not fit workflow '{known.name}' ({known.where}): {why}")
    return found
