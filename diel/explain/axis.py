"""Searches and loops: why a point is missing or never came, and what was picked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median

from diel.axes.adaptive import NOT_BEGUN, Adaptive, Standing
from diel.digits import texts_apart
from diel.errors import counted, likeness
from diel.explain.text import Explanation
from diel.journal.axis_history import Course, Trial
from diel.results import RunReader
from diel.states import RunState, TrialState
from diel.status import AxisStatus
from diel.status.axis import course_text, scores_text, what_text
from diel.status.columns import printable
from diel.tasks.choosing import ChoosingLink
from diel.tasks.link import Link

SHOWN = 5
"""The most courses of one axis, picked points, or reasons to list."""


def explain_axis(axis: AxisStatus) -> Explanation:
    """The state of a search or loop, as `status --json` has it, and in words."""
    under_way = [course for course in axis.courses if course.state in ("running", "waiting")]
    others = [course for course in axis.courses if course not in under_way]
    chosen = [*under_way, *reversed(others)][:SHOWN]
    lines = [course_text(axis, course) for course in axis.courses if course in chosen]
    hidden = len(axis.courses) - len(lines)
    if not axis.courses:
        lines.append(f"{axis.label}: has not begun ({what_text(axis)})")
    if hidden:
        lines.append(f"… {hidden:,} more of '{axis.label}'; `diel status` has all")
    document = {"axis": axis.label, **axis.document(), "text": lines}
    return Explanation(document, [printable(line) for line in lines])


def points_awaited(run: RunReader, stage: str, index: int) -> list[str]:
    """Why the trial or round of a task is still missing; nothing if all its points exist."""
    stage_run = run.stages[stage]
    coordinates = stage_run.domain.coordinates(index)
    waiting = [axis for axis in stage_run.adaptive if axis.standing(coordinates) is Standing.WAITING]
    # A point that waits for another to make room says nothing new.
    labels = {axis.label for axis in waiting}
    first = [axis for axis in waiting if not labels & set(axis.judge.context)]
    return [_awaited(run, axis, coordinates) for axis in first]


def _awaited(run: RunReader, axis: Adaptive, coordinates: Mapping[str, int]) -> str:
    course, place = axis.course(coordinates), coordinates[axis.label]
    names = " and ".join(axis.judge.stages)
    if course is NOT_BEGUN:
        return f"the {axis.axis.word} '{axis.label}' begins once the tasks of {names} are known"
    if not axis.axis.in_turn:
        return _unasked(axis, course, place, driven=run.state is RunState.RUNNING)
    begins = f"{axis.label} {place} begins when {names} of {axis.label} {place - 1} "
    begins += "are done" if len(axis.judge.stages) > 1 else "is done"
    now = ", ".join(_judges(run, axis, coordinates, len(course.rounds)))
    return f"{begins}; {axis.label} {len(course.rounds)} is not over: {now}" if now else begins


def _unasked(axis: Adaptive, course: Course, place: int, *, driven: bool) -> str:
    unasked = f"{axis.label} {place} was not requested yet"
    if course.stopped:
        return f"{unasked}, and will not be: the search begins no more trials, and ends with those that run"
    if not driven:
        return f"{unasked}, and the run has no controller"
    running = sum(trial.state is TrialState.RUNNING for trial in course.trials)
    return f"{unasked}: {running} of {axis.at_once} run"


def _judges(run: RunReader, axis: Adaptive, coordinates: Mapping[str, int], place: int) -> Iterator[str]:
    """The tasks that judge a point and have not ended: `check/2 (round=2), running`."""
    here = {label: coordinates[label] for label in axis.judge.context} | {axis.label: place}
    for name in axis.judge.stages:
        index = run.stages[name].domain.index(here)
        if index is not None and not (state := run.stages[name].history.state(index)).ended:
            yield f"{run.stages[name].task(index)}, {state.label}"


def _closed(run: RunReader, stage: str, index: int) -> list[tuple[Adaptive, Mapping[str, int]]]:
    """The searches and loops that end before the point of a task, with its coordinates."""
    stage_run = run.stages[stage]
    if not stage_run.known:
        return []
    place = stage_run.domain.coordinates(index)
    return [(axis, place) for axis in stage_run.adaptive if axis.standing(place) is Standing.CLOSED]


def point_never_came(run: RunReader, stage: str, index: int) -> list[str]:
    """Why a task's point never came: its trial was pruned, or its loop or search ended before it."""
    return [_never(run, axis, place) for axis, place in _closed(run, stage, index)]


def points_never_came(run: RunReader, stage: str, indices: Iterable[int]) -> list[str]:
    """The same for many tasks: their pruned trials, and each other reason with its first point."""
    pruned: dict[str, str] = {}
    found: dict[str, str] = {}
    for index in indices:
        for axis, place in _closed(run, stage, index):
            course = axis.course(place)
            if place[axis.label] < len(course.trials):
                pruned.setdefault(axis.label, f"{stage}/{index}")
            else:
                reason = _never(run, axis, place)
                found.setdefault(likeness(reason), reason)
    trials = [
        f"pruned with their {each}; `diel explain {run.paths.run_id} {task}` tells why"
        for each, task in pruned.items()
    ]
    return [*trials, *list(found.values())[:SHOWN]]


def _never(run: RunReader, axis: Adaptive, coordinates: Mapping[str, int]) -> str:
    course, place = axis.course(coordinates), coordinates[axis.label]
    if place < len(course.trials):
        return _pruned(run, axis, course, course.trials[place])
    status = next((one for one in run.axes if one.label == axis.label), None)
    known = None if status is None else status.course(axis.context(coordinates))
    why = course.reason if known is None else known.why
    after = f"{axis.label} {(course.points or 1) - 1}"
    return f"{axis.label} {place} never came: the {axis.axis.word} ended after {after}: {why}"


def _pruned(run: RunReader, axis: Adaptive, course: Course, trial: Trial) -> str:
    """Why a trial was pruned: what it had reported, and what the others had reported there."""
    facts = axis.facts(run.workflow)
    pruned = f"{axis.label} {trial.number} was pruned ({facts.pruner}): {trial.message}"
    others = _reported_before(course, trial, max(trial.reported)) if trial.reported else []
    if not others:
        return pruned
    best, middle = texts_apart([min(others) if facts.objectives[0][1] else max(others), median(others)])
    many = counted(len(others), "trial")
    return f"{pruned}; {many} before it had there: best {best}, median {middle}"


def _reported_before(course: Course, trial: Trial, step: int) -> list[float]:
    """What others had reported at a step before the trial was pruned for its value there."""
    found = []
    for number, *what in course.told:
        if [number, *what] == [trial.number, step]:
            break
        if what == [step]:
            found.append(course.trials[number].reported[step])
    return found


@dataclass(frozen=True)
class Pick:
    """A point of a search or loop at which an edge reads."""

    axis: str
    point: int
    values: list[float] | None
    """Of a trial that is complete."""
    text: str


def picks(link: Link, members: list[int]) -> list[Pick]:
    """The points of searches and loops at which an edge reads."""
    if not isinstance(link, ChoosingLink) or not link.up.known:
        return []
    places = [link.up.domain.coordinates(member) for member in members[:SHOWN]]
    found = [_pick(link.axes[label], place) for place in places for label in link.edge.chosen]
    return [pick for number, pick in enumerate(found) if pick not in found[:number]]


def _pick(axis: Adaptive, coordinates: Mapping[str, int]) -> Pick:
    label, place = axis.label, coordinates[axis.label]
    course = axis.course(coordinates)
    trial = course.trials[place] if place < len(course.trials) else None
    if trial is None or trial.state is not TrialState.COMPLETE:
        return Pick(label, place, None, f"{label} {place}")
    names = ", ".join(reference for reference, _ in axis.axis.objectives)
    scored = f" with {names} {scores_text(trial)}" if trial.values else ""
    return Pick(label, place, trial.values, f"{label} {place}{scored}")


def choice_awaited(link: ChoosingLink, index: int) -> str:
    """What a picking edge still waits for, to follow the words `waits for`."""
    here = link.down.domain.coordinates(index)
    up = link.up.name
    for label, choice in link.edge.chosen.items():
        axis = link.axes[label]
        if label in here:
            place = axis.before(here) if choice.word == "previous" else here[label]
            return f"{up} of {label} {place}"
        course = _first_open(axis, here)
        if axis.axis.in_turn:
            rounds = 0 if course is None else len(course.rounds)
            return f"{up} of the last {label}, known once the loop is over: {rounds:,} judged so far"
        trials = [] if course is None else course.trials
        ended = sum(trial.state is not TrialState.RUNNING for trial in trials)
        word = f"top {choice.most}" if choice.word == "top" else choice.word
        return (
            f"{up} of the {word} {label}, known once the search is over: "
            f"{ended:,} of at most {counted(axis.size, 'trial')} have ended"
        )
    return up


def _first_open(axis: Adaptive, here: Mapping[str, int]) -> Course | None:
    for course in axis.history.courses.values():
        found = dict(zip(axis.judge.context, course.context, strict=True))
        if not course.over and all(here.get(label, place) == place for label, place in found.items()):
            return course
    return next(iter(axis.history.courses.values()), None)
