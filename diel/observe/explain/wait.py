"""What waits for what: tasks that are not done or never will be, points of searches and loops, gangs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from statistics import median
from typing import Any

from diel.base.errors import counted, likeness
from diel.base.states import RunState, TaskState, TrialState
from diel.base.values import task_text, texts_apart
from diel.observe.explain import Explanation
from diel.observe.results import RunReader
from diel.observe.status.axis import AxisStatus, course_text, scores_text, what_text
from diel.observe.status.columns import printable
from diel.store.journal.axis_history import Course, Trial
from diel.store.journal.history import History
from diel.tasks.link import Link, Verdict
from diel.tasks.points.adaptive import NOT_BEGUN, Adaptive, PointState
from diel.tasks.points.domain import Group
from diel.tasks.selection import ChoosingLink
from diel.tasks.stage_run import StageRun
from diel.workflow.drawing import picked_points
from diel.workflow.graph import Gang, gangs

SHOWN = 5
"""The most tasks, courses of an axis, picked points, or reasons to name; the rest are counted."""


@dataclass(frozen=True)
class Wait:
    """One stage that is waited for."""

    stage: str
    rule: str
    """How the edge moves data, in words."""
    total: int | None = None
    """How many of its tasks are waited for; None until known."""
    open: int | None = None
    states: dict[str, int] = field(default_factory=dict)
    tasks: tuple[str, ...] = ()
    """The first of those that have not ended."""
    points: tuple[dict[str, Any], ...] = ()
    text: str = ""

    def __str__(self) -> str:
        if self.text:
            return self.text
        if self.total is None:
            return f"{self.stage}, whose own axes are not known yet"
        if self.total == 1 and self.tasks:
            return f"{task_text(self.tasks[0], self.points[0])}, {', '.join(self.states)}"
        states = ", ".join(f"{number:,} {state}" for state, number in self.states.items())
        tasks = map(task_text, self.tasks, self.points)
        named = f": {', '.join(tasks)}" if self.open == len(self.tasks) else ""
        return f"{self.open:,} of {counted(self.total, 'task')} of {self.stage} ({states}{named})"


def rule_of(link: Link) -> str:
    """Return the edge rules of a link in words: `matches density, gathers temperature`."""
    edge = link.edge
    words = []
    if edge.axis is not None:
        words.append(f"makes axis {edge.axis}")
    if edge.matched:
        words.append(f"matches {', '.join(edge.matched)}")
    words += [f"picks {text}" for text in picked_points(edge)]
    if edge.gathered:
        words.append(f"gathers {', '.join(edge.gathered)}")
    apart = (*edge.matched, *edge.chosen, edge.axis)
    broadcast = [axis for axis in link.down.spec.over if axis not in apart]
    if broadcast:
        words.append(f"same for every {', '.join(broadcast)}")
    if link.way:
        words.append(link.way)
    elif edge.output is None and edge.hyperparameter is None:
        words.append("order alone")
    return ", ".join(words) or "one result"


def _waited_for(run: RunReader, stage: str) -> Iterator[Link]:
    return (link for link in run.into(stage) if not link.edge.stream)  # which is read as it is made


def waits_of_stage(run: RunReader, stage: str) -> list[Wait]:
    """Return the stages that a whole stage still waits for."""
    waits: dict[str, Wait] = {}
    for link in _waited_for(run, stage):
        up = link.up
        if link.edge.follows:
            continue  # it waits for itself, or for what comes after it
        if not up.known:
            waits[up.name] = Wait(up.name, rule_of(link))
            continue
        wait = _wait(link, range(up.size), up.history.expected)
        if wait.open:
            waits.setdefault(up.name, wait)
    return list(waits.values())


def waits_of_task(run: RunReader, stage: str, index: int) -> list[Wait]:
    """Return the upstream tasks that one task still waits for."""
    waits: dict[tuple[str, str], Wait] = {}
    for link in _waited_for(run, stage):
        if not link.up.known:
            waits[(link.up.name, "")] = Wait(link.up.name, rule_of(link))
            continue
        group = link.group_of_downstream(index)
        members = list(link.members(group))
        if isinstance(link, ChoosingLink) and not members and link.verdict(group) is Verdict.WAITING:
            text = choice_awaited(link, index)
            waits[(link.up.name, text)] = Wait(link.up.name, rule_of(link), text=text)
            continue
        wait = _wait(link, members, len(members))
        if not wait.open and _is_undecided(link, group):
            labels = ", ".join(axis.label for axis in link.leaves)
            wait = replace(wait, open=1, text=f"the end of {labels}, which may still prune what it gathers")
        if wait.open:
            waits.setdefault((link.up.name, wait.rule), wait)
    return list(waits.values())


def _is_undecided(link: Link, group: Group) -> bool:
    """Return whether a search may still prune or pick. Not `verdict`, which needs counts of ended tasks."""
    if isinstance(link, ChoosingLink):
        return link.verdict(group) is Verdict.WAITING
    return not link.alongside and link.is_undecided(group)


def _wait(link: Link, members: Iterable[int], total: int) -> Wait:
    name, state = link.up.name, link.up.history.state
    undone = [member for member in members if not state(member).ended]
    states = dict(Counter(state(member).label for member in undone))
    tasks = tuple(f"{name}/{member}" for member in undone[:SHOWN])
    points = tuple(map(link.up.point, undone[:SHOWN]))
    return Wait(name, rule_of(link), total, len(undone), states, tasks, points)


def culprits(run: RunReader, stage: str, index: int) -> Iterator[tuple[Link, StageRun, list[int]]]:
    """Yield the links and upstream tasks that made a task skip: those that ended without a result. Also the
    tasks of other stages that were to make the points of these."""
    for link in run.into(stage):
        members = [*link.members(link.group_of_downstream(index))] if link.up.known else []
        if (bad := _lost(link.up, members)) or not link.up.known:
            yield link, link.up, bad
        if members and link.edge.min_success < 1:
            continue
        place = link.down.domain.coordinates(index) if link.down.known else {}
        fixed = {axis: place[axis] for axis in link.edge.matched if axis in place} | link.pinned
        for maker in _makers(run, link.up):
            here = {axis: at for axis, at in fixed.items() if axis in maker.domain.axes}
            if bad := _lost(maker, maker.domain.matching(here)):
                yield link, maker, bad


def _lost(stage: StageRun, members: Iterable[int]) -> list[int]:
    return [member for member in members if stage.history.state(member).ended and stage.has_lost(member)]


def _makers(run: RunReader, stage: StageRun) -> Iterator[StageRun]:
    """Yield the stages that make axes of a stage; of one without tasks, those that make its own axes."""
    for label in stage.spec.over:
        if (name := run.workflow.axes[label].maker) is not None:
            yield from [run.stages[name]] if run.stages[name].known else _makers(run, run.stages[name])


def roots(run: RunReader, stage: str, index: int, depth: int = 0) -> list[str]:
    """Return the failed or cancelled tasks at which a chain of skipped tasks begins, each once."""
    tasks: dict[str, None] = {}
    for _, up, bad in culprits(run, stage, index):
        for member in bad[:SHOWN]:
            if up.history.state(member) == TaskState.SKIPPED and depth < len(run.stages):
                tasks.update(dict.fromkeys(roots(run, up.name, member, depth + 1)))
            else:
                tasks[f"{up.name}/{member}"] = None
        if len(tasks) >= SHOWN:
            break
    return list(tasks)[:SHOWN]


def stopped_by(history: History, stage: str, rule: str) -> str:
    """Return what stopped a stage by a rule. Two rules stop the whole run because of one stage."""
    held = history.stage(stage).held
    if rule in ("fail_fast", "imports"):
        whole = (other.held[1] for other in history.stages.values() if other.held and other.held[0] == rule)
        return next(whole, "a task failed, and the run was to stop at that")
    return held[1] if held else "more of its tasks failed than were to"


def explain_axis(axis: AxisStatus) -> Explanation:
    """Return the state of a search or loop, as `status --json` has it, and in words."""
    under_way = [course for course in axis.courses if course.state in ("running", "waiting")]
    rest = [course for course in axis.courses if course not in under_way]
    chosen = [*under_way, *reversed(rest)][:SHOWN]
    lines = [course_text(axis, course) for course in axis.courses if course in chosen]
    hidden = len(axis.courses) - len(lines)
    if not axis.courses:
        lines.append(f"{axis.label}: has not begun ({what_text(axis)})")
    if hidden:
        lines.append(f"… {hidden:,} more of '{axis.label}'; `diel status` has all")
    document = {"axis": axis.label, **axis.document(), "text": lines}
    return Explanation(document, [printable(line) for line in lines])


def points_awaited(run: RunReader, stage: str, index: int) -> list[str]:
    """Return why the trial or round of a task is still missing; nothing if all its points exist."""
    stage_run = run.stages[stage]
    coordinates = stage_run.domain.coordinates(index)
    waiting = [axis for axis in stage_run.adaptive if axis.standing(coordinates) is PointState.WAITING]
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
    """Yield the tasks that judge a point and have not ended: `check/2 (round=2), running`."""
    here = {label: coordinates[label] for label in axis.judge.context} | {axis.label: place}
    for name in axis.judge.stages:
        index = run.stages[name].domain.index(here)
        if index is not None and not (state := run.stages[name].history.state(index)).ended:
            yield f"{run.stages[name].task(index)}, {state.label}"


def _closed(run: RunReader, stage: str, index: int) -> list[tuple[Adaptive, Mapping[str, int]]]:
    """Return the searches and loops that end before the point of a task, with its coordinates."""
    stage_run = run.stages[stage]
    if not stage_run.known:
        return []
    place = stage_run.domain.coordinates(index)
    return [(axis, place) for axis in stage_run.adaptive if axis.standing(place) is PointState.CLOSED]


def point_never_came(run: RunReader, stage: str, index: int) -> list[str]:
    """Return why a task's point never came: its trial was pruned, or its loop or search ended before it."""
    return [_never(run, axis, place) for axis, place in _closed(run, stage, index)]


def points_never_came(run: RunReader, stage: str, indices: Iterable[int]) -> list[str]:
    """Return why points of many tasks never came: pruned trials, and the first point of other reasons."""
    pruned: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for index in indices:
        for axis, place in _closed(run, stage, index):
            course = axis.course(place)
            if place[axis.label] < len(course.trials):
                pruned.setdefault(axis.label, f"{stage}/{index}")
            else:
                reason = _never(run, axis, place)
                reasons.setdefault(likeness(reason), reason)
    trials = [
        f"pruned with their {label}; `diel explain {run.paths.run_id} {task}` tells why"
        for label, task in pruned.items()
    ]
    return [*trials, *list(reasons.values())[:SHOWN]]


def _never(run: RunReader, axis: Adaptive, coordinates: Mapping[str, int]) -> str:
    course, place = axis.course(coordinates), coordinates[axis.label]
    if place < len(course.trials):
        return _pruned(run, axis, course, course.trials[place])
    context, shown = axis.context(coordinates), (status for status in run.axes if status.label == axis.label)
    whys = (entry.why for status in shown for entry in status.courses if entry.context == context)
    why = next(whys, course.reason)
    after = f"{axis.label} {(course.points or 1) - 1}"
    return f"{axis.label} {place} never came: the {axis.axis.word} ended after {after}: {why}"


def _pruned(run: RunReader, axis: Adaptive, course: Course, trial: Trial) -> str:
    """Return why a trial was pruned: what it had reported, and what the others had reported there."""
    facts = axis.facts(run.workflow)
    pruned = f"{axis.label} {trial.number} was pruned ({facts.pruner}): {trial.message}"
    values = _reported_before(course, trial, max(trial.reported)) if trial.reported else []
    if not values:
        return pruned
    best, middle = texts_apart([min(values) if facts.objectives[0][1] else max(values), median(values)])
    many = counted(len(values), "trial")
    return f"{pruned}; {many} before it had there: best {best}, median {middle}"


def _reported_before(course: Course, trial: Trial, step: int) -> list[float]:
    """Return what others had reported at a step before the trial was pruned for its value there."""
    values = []
    for number, *what in course.told:
        if [number, *what] == [trial.number, step]:
            break
        if what == [step]:
            values.append(course.trials[number].reported[step])
    return values


@dataclass(frozen=True)
class Pick:
    """A point of a search or loop at which an edge reads."""

    axis: str
    point: int
    values: list[float] | None
    """Of a trial that is complete."""
    text: str


def picks(link: Link, members: list[int]) -> list[Pick]:
    """Return the points of searches and loops at which an edge reads."""
    if not isinstance(link, ChoosingLink) or not link.up.known:
        return []
    places = [link.up.domain.coordinates(member) for member in members[:SHOWN]]
    read_at = [_pick(link.axes[label], place) for place in places for label in link.edge.chosen]
    return [pick for number, pick in enumerate(read_at) if pick not in read_at[:number]]


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
    """Return what a picking edge still waits for, to follow the words `waits for`."""
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
        point = dict(zip(axis.judge.context, course.context, strict=True))
        if not course.over and all(here.get(label, place) == place for label, place in point.items()):
            return course
    return next(iter(axis.history.courses.values()), None)


_LOOKED_AT = 1000
"""The most tasks of a stage to look at: a gang can have a million."""


def gang_of(run: RunReader, stage: str) -> Gang | None:
    """Return the gang of a stage; None if it runs alone."""
    return next((gang for gang in _gangs(run) if stage in gang.stages), None)


@lru_cache(maxsize=1)
def _gangs(run: RunReader) -> tuple[Gang, ...]:
    """Return the gangs of a run, found once for all its stages."""
    return gangs(run.graph)


def partners_awaited(run: RunReader, stage: str, index: int) -> list[str]:
    """Return the tasks that must run at the same time as this one and still wait."""
    gang, own = gang_of(run, stage), run.stages[stage]
    if gang is None or not own.known:
        return []
    coordinates = own.domain.coordinates(index)
    place = {axis: coordinates[axis] for axis in gang.axes}
    lines: list[str] = []
    for name in gang.stages:
        other, in_waves = run.stages[name], name in gang.in_waves
        if not other.known:
            lines.append(f"waits for '{name}', which runs at the same time, and whose axes are not known yet")
            continue
        states = {i: other.history.state(i) for i in islice(other.domain.matching(place), _LOOKED_AT)}
        if in_waves and {TaskState.QUEUED, TaskState.RUNNING} & set(states.values()):
            continue  # with one of its tasks there, the others may come later
        idle = [i for i, state in states.items() if state in (TaskState.WAITING, TaskState.READY)]
        waits_by_task = ((i, waits_of_task(run, name, i)) for i in idle if (name, i) != (stage, index))
        held = (
            f"{other.task(i)}, which runs at the same time and waits for {waits[0]}"
            for i, waits in waits_by_task
            if waits
        )
        lines += [f"waits for {text}" for text in islice(held, 1 if in_waves else SHOWN)]
    return lines[:SHOWN]


def room_awaited(run: RunReader, stage: str) -> str:
    """Return what a ready task waits for, if not for a block."""
    gang = gang_of(run, stage)
    if gang is None:
        return "waits for a free worker"
    partners = ", ".join(f"'{name}'" for name in gang.stages if name != stage)
    return f"runs at the same time as {partners}, and waits until there is room for all of them"
