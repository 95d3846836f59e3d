"""`diel params set` and `diel params promote`: values of hyperparameters for all later runs of a project."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from diel.base.errors import DielError, UsageError, counted, did_you_mean
from diel.base.paths import RunPaths
from diel.base.states import TrialState
from diel.base.values import scalar
from diel.cli.commands.params.show import pairs, searches_of
from diel.cli.options import PATH, Output, json_option, runs_option
from diel.cli.target import choose, run_argument
from diel.observe.results import RunReader
from diel.observe.status.axis import CourseStatus, trial_document
from diel.store.journal.axis_history import Trial
from diel.store.project.run_file import read_run_file
from diel.store.project.runs import all_runs, find_run
from diel.store.registry import Change, append_change, read_current, typed
from diel.store.table import shown
from diel.workflow.load import load
from diel.workflow.models import Violations, Workflow

ProjectWorkflow = tuple[str, Workflow]
"""A workflow that the project knows, from its file or from a run of it."""


@click.command("set", short_help="Set values that later runs begin with, or remove them.")
@click.argument("words", nargs=-1, required=True, metavar="NAME=VALUE...")
@click.option("--unset", is_flag=True, help="Remove the project's values of these names.")
@click.option(
    "--workflow",
    "files",
    multiple=True,
    type=PATH,
    metavar="FILE",
    help="A workflow to check the values against, besides those of the project's runs.",
)
@runs_option
@json_option
def set_(words: tuple[str, ...], unset: bool, files: tuple[Path, ...], runs: Path, out: Output) -> None:
    """Set values that all later runs of the project begin with, or remove them.

    They beat the defaults of workflows; --params and --set of a run beat them. Each is checked against
    type and bounds in every workflow of the project that has it.
    """
    before = _held(runs)
    if unset:
        change = Change("set", unset=_names(words, before))
    else:
        change = Change("set", _values(words, known_workflows(runs, files)))
    stored = append_change(runs, change)
    earlier = {name: before[name] for name in (*stored.values, *stored.unset) if name in before}
    document = {"set": dict(stored.values), "unset": list(stored.unset), "before": earlier}
    back = "back to the default of each workflow"
    unset_ = [f"hp.{name}: {back}  (was {shown(before[name])})" for name in stored.unset]
    out.show(lambda: document, [*_lines(stored, before), *unset_])


def _held(runs: Path) -> dict[str, Any]:
    return {name: held.value for name, held in read_current(runs)[0].items()}


def _lines(change: Change, before: dict[str, Any]) -> list[str]:
    was = {
        name: f"was {shown(before[name])}" if name in before else "the project had none"
        for name in change.values
    }
    return [f"hp.{name} = {shown(value)}  ({was[name]})" for name, value in change.values.items()]


def _names(words: Sequence[str], held: dict[str, Any]) -> tuple[str, ...]:
    """Return the names to unset. Raise UsageError if the project has no value for one."""
    names = tuple(dict.fromkeys(word.partition("=")[0].strip().removeprefix("hp.") for word in words))
    for name in names:
        if name not in held:
            hint = did_you_mean(name, held) or f"it has: {', '.join(held) or 'none'}"
            raise UsageError(f"the project has no value for '{name}'\n    {hint}")
    return names


def _values(words: Sequence[str], workflows: Sequence[ProjectWorkflow]) -> dict[str, Any]:
    """Return the values by name. Raise UsageError with all that is wrong."""
    values: dict[str, Any] = {}
    wrong: list[str] = []
    for word in words:
        key, equals, text = word.partition("=")
        name = key.strip().removeprefix("hp.")
        try:
            if not equals or not name:
                raise UsageError(f"{word}: expected NAME=VALUE; --unset removes a value")
            choose(values, name, _value(name, text, having(workflows, name)))
        except UsageError as error:
            wrong.append(str(error))
    if wrong:
        raise UsageError("\n".join(wrong))
    return values


def _value(name: str, text: str, workflows: Sequence[ProjectWorkflow]) -> Any:
    value: Any = None
    for where, workflow in workflows:
        hyperparameter = workflow.hyperparameters[name]
        try:
            if where == workflows[0][0]:
                value = typed(hyperparameter, text)
            hyperparameter.accept(value)
        except Violations as error:
            flaw = error.flaws[0]
            hint = f"\n    {flaw.hint}" if flaw.hint else ""
            by = f"by workflow '{workflow.name}' ({where})"
            raise UsageError(f"hp.{name}={text}: {flaw.message}, {by}{hint}") from None
    return value


@click.command("promote", short_help="Make the best trial's values those of later runs.")
@run_argument
@click.option("--axis", metavar="NAME", help="The search, if the run has several.")
@click.option("--trial", type=click.IntRange(min=0), metavar="N", help="A trial that is not the best one.")
@click.option(
    "--at",
    "points",
    multiple=True,
    metavar="NAME=VALUE",
    help="The point of another axis, if there is a search for each.",
)
@runs_option
@json_option
def promote(
    run: str, axis: str | None, trial: int | None, points: tuple[str, ...], runs: Path, out: Output
) -> None:
    """Make the values of a search's best trial those that all later runs of the project begin with.

    Where a search has several objectives no trial is the best: --trial says which one of the front.
    """
    paths = find_run(runs, run)
    label, course = _search(paths, axis, points)
    chosen = _trial(paths, label, course, trial)
    place = paths.root.parent
    before = _held(place)
    run_file = read_run_file(paths)
    change = Change(
        "promotion",
        chosen.hp,
        workflow=run_file.workflow,
        run=paths.run_id,
        axis=label,
        trial=chosen.number,
        began=run_file.created,
    )
    stored = append_change(place, change)
    misfits = _misfits(place, stored)
    earlier = {name: before[name] for name in stored.values if name in before}
    document = {"run": paths.run_id, "axis": label, **trial_document(chosen)}
    scores = ", ".join(map(shown, chosen.values))
    head = f"{paths.run_id}, {label} {chosen.number} ({scores}): later runs begin with"
    lines = [head, *(f"    {line}" for line in _lines(stored, before))]
    notes = () if out.as_json else map("but {}".format, misfits)
    out.show(lambda: {**document, "before": earlier, "misfits": misfits}, lines, notes)


def _search(paths: RunPaths, axis: str | None, points: Sequence[str]) -> tuple[str, CourseStatus]:
    """Return the search that is meant. Raise UsageError if there is none, or more than one."""
    courses: dict[str, list[CourseStatus]] = {}
    for item, course in searches_of(paths):
        courses.setdefault(item.label, []).append(course)
    if not courses:
        raise UsageError(f"{paths.run_id} has no search to promote a trial from, or none has begun")
    if axis is not None and axis not in courses:
        hint = did_you_mean(axis, courses) or f"searches: {', '.join(courses)}"
        raise UsageError(f"{paths.run_id} has no search '{axis}'\n    {hint}")
    if axis is None and len(courses) > 1:
        raise UsageError(f"{paths.run_id} has several searches: choose one, --axis {' or '.join(courses)}")
    label = axis or next(iter(courses))
    at: dict[str, Any] = {}
    for text in points:
        choose(at, *_point(text))
    here = [item for item in courses[label] if all(item.at.get(name) == value for name, value in at.items())]
    if len(here) == 1:
        return label, here[0]
    offer = "; ".join(pairs(course.at) for course in courses[label][:5])
    if not here:
        hint = f"there are: {offer}" if offer else "it searches once, for all points: omit --at"
        raise UsageError(f"no search '{label}' at {pairs(at)}\n    {hint}")
    raise UsageError(
        f"'{label}' has searched at each of {len(here)} points: choose one by --at NAME=VALUE\n"
        f"    there are: {offer}{'; …' if len(courses[label]) > 5 else ''}"
    )


def _point(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--at {text}: expected NAME=VALUE")
    return name.strip(), scalar(value)


def _trial(paths: RunPaths, label: str, course: CourseStatus, number: int | None) -> Trial:
    """Return the trial to promote. Raise UsageError if there is none, or no best one."""
    name = f"search '{label}' of {paths.run_id}"
    if number is not None:
        if number >= len(course.trials):
            raise UsageError(f"{name} only has trials 0 to {len(course.trials) - 1}")
        chosen = course.trials[number]
        if chosen.state is not TrialState.COMPLETE:
            why = f": {chosen.message}" if chosen.message else ""
            trial = f"{label} {number} of {paths.run_id}"
            raise UsageError(f"{trial} is {chosen.state.value}, and has no score{why}")
        return chosen
    if course.state == "failed":
        raise UsageError(f"{name} failed, and has no trial to promote: {course.why or course.reason}")
    if course.state != "over":
        done = course.count(TrialState.COMPLETE)
        raise UsageError(
            f"{name} is not over: {done} of at most {counted(course.total, 'trial')} have a score\n"
            f"    `diel resume {paths.run_id}` continues it if nothing runs; "
            "--trial N promotes a complete one"
        )
    good = course.good
    if len(course.facts.objectives) > 1:
        front = "; ".join(f"{best.number}: {', '.join(map(shown, best.values))}" for best in good[:8])
        goals = ", ".join(value for value, _ in course.facts.objectives)
        raise UsageError(
            f"{name} has several objectives ({goals}), and so no best trial: choose one by --trial N\n"
            f"    the front: {front or 'empty'}"
        )
    if not good:
        raise UsageError(f"{name} has no trial with a score")
    return good[0]


def _misfits(runs: Path, change: Change) -> list[str]:
    """Warns of workflows of the project that the values do not fit: their runs will be refused."""
    misfits = []
    for where, workflow in known_workflows(runs):
        for name, value in change.values.items():
            try:
                if name in workflow.hyperparameters:
                    workflow.hyperparameters[name].accept(value)
            except Violations as error:
                why = error.flaws[0].message
                misfits.append(f"hp.{name} does not fit workflow '{workflow.name}' ({where}): {why}")
    return misfits


def known_workflows(runs: Path, files: Iterable[Path] = ()) -> list[ProjectWorkflow]:
    """Return the workflows of a project: the named files first, then those of its runs, newest first.

    Of a run its file counts, as it is now; where that is gone or wrong, what the run has kept of it.
    Raise SpecError for a named file that is wrong.
    """
    workflows: dict[str, ProjectWorkflow] = {}
    for path in files:
        workflow = load(path).spec
        workflows[workflow.name] = str(path), workflow
    for paths in reversed(all_runs(runs)):
        run = RunReader(paths)
        try:
            if run.run_file.workflow not in workflows:
                workflows[run.run_file.workflow] = _of_run(run)
        except DielError:
            continue  # made by another diel, or damaged: it does not count here
    return list(workflows.values())


def _of_run(run: RunReader) -> ProjectWorkflow:
    source = run.run_file.source
    with suppress(DielError):
        workflow = load(Path(source)).spec
        if workflow.name == run.run_file.workflow:
            return source, workflow
    return run.paths.run_id, run.workflow


def having(workflows: Sequence[ProjectWorkflow], name: str) -> list[ProjectWorkflow]:
    """Return the workflows that have a hyperparameter. Raise UsageError if none has."""
    holders = [entry for entry in workflows if name in entry[1].hyperparameters]
    if holders:
        return holders
    if not workflows:
        raise UsageError(
            f"no hyperparameter '{name}': no run here defines its type and bounds\n"
            "    name a workflow that has it: --workflow FILE"
        )
    names = sorted({name for _, workflow in workflows for name in workflow.hyperparameters})
    hint = did_you_mean(name, names) or (f"there are: {', '.join(names)}" if names else "they have none")
    where = ", ".join(where for where, _ in workflows[:3])
    raise UsageError(f"no hyperparameter '{name}' in {where}\n    {hint}; --workflow FILE adds another")
