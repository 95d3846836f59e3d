"""The state of a run's searches and loops: best trials, trials under way, the course of rounds."""

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

from diel.base.errors import counted
from diel.base.paths import RunPaths
from diel.base.states import TaskState, TrialState
from diel.base.values import (
    MOST_DIGITS,
    as_float,
    digits_apart,
    format_duration,
    is_finite,
    json_value,
    number_text,
    read_json,
    sparkline,
    value_text,
)
from diel.observe.status.columns import columns, paint, printable, shorten
from diel.store.journal.axis_history import (
    AxisFacts,
    AxisHistory,
    Context,
    Course,
    Round,
    Trial,
    front,
    ranked,
)
from diel.store.journal.history import History
from diel.tasks.points.domain import Domain, Factor

CourseState = Literal["waiting", "running", "over", "failed"]
"""`waiting` has not begun, or its run has no controller; `failed` is over without a point to hand on."""

LATEST = 100
TAIL = 64 * 1024
STEPS = ("step", "epoch", "iteration")
"""Metrics that show how far a task is."""
_REASONS = {
    "until": "`until` held",
    "timeout": "its `timeout` was over",
    "core_hours": "its `core_hours` were spent",
    "all": "every combination was tried",
}


class RunningTrial(NamedTuple):
    """A trial that was requested and has no score yet."""

    trial: Trial
    seconds: float
    """Since it was requested."""
    step: int | None
    reported: float | None
    """The last value that it reported on the way, and its step."""
    done: int
    running: int
    waiting: int

    def document(self) -> dict[str, Any]:
        return {
            "trial": self.trial.number,
            "hp": self.trial.hp,
            "seconds": round(self.seconds, 3),
            "step": self.step,
            "reported": self.reported,
            "tasks": {"done": self.done, "running": self.running, "waiting": self.waiting},
        }


@dataclass(frozen=True)
class CourseStatus:
    """One search or loop: one of many if the axis runs once for each point of others."""

    facts: AxisFacts
    at: Mapping[str, Any]
    """The parameters of the points that it runs for; none if it runs once."""
    state: CourseState
    reason: str = ""
    """Why it ended, or requests no more; a word (`trials`, `max`, `until` …) or a sentence."""
    tolerated: str = ""
    """If it failed: what lets others go on without it."""
    trials: tuple[Trial, ...] = ()
    """All that were requested, by number."""
    running: tuple[RunningTrial, ...] = ()
    rounds: tuple[Round, ...] = ()
    """Those that were judged, by number."""
    done: int = 0
    """Rounds that are over."""
    points: int | None = None
    """The number of points in the end; None until it is over."""
    context: Context = ()
    """Its coordinates on the axes of its context."""

    @property
    def idle(self) -> int:
        """Trials that were requested, of which no task runs now."""
        return sum(not trial.running for trial in self.running)

    def count(self, state: TrialState) -> int:
        return sum(trial.state is state for trial in self.trials)

    @property
    def total(self) -> int:
        """The most points that there can be, or all that there were."""
        return self.facts.size if self.points is None else self.points

    @property
    def best(self) -> Trial | None:
        """The best trial so far, for one objective."""
        objectives = self.facts.objectives
        return next(iter(ranked(self.trials, objectives[0][1])), None) if len(objectives) == 1 else None

    @property
    def front(self) -> list[Trial]:
        """The Pareto front so far, for several objectives, by number."""
        return front(self.trials, [small for _, small in self.facts.objectives])

    @property
    def round(self) -> int:
        """The round that runs, or the last one."""
        return max(0, min(self.done, self.total - 1))

    @property
    def why(self) -> str:
        """Why it ended, in words; empty if it has not."""
        if self.facts.kind == "loop" and self.reason == "until":
            return f"`until` held in round {self.done - 1}"
        if self.reason == "max":
            never = ", and `until` never held" if self.facts.until else ""
            return f"all {self.done:,} rounds were run{never}"
        if self.reason == "trials":
            return f"all {len(self.trials):,} trials were run"
        return _REASONS.get(self.reason, self.reason)

    @property
    def good(self) -> list[Trial]:
        """A list of the best trial so far, or the front of several objectives."""
        if len(self.facts.objectives) > 1:
            return self.front
        return [] if self.best is None else [self.best]

    def document(self) -> dict[str, Any]:
        entries = self._rounds() if self.facts.kind == "loop" else self._trials()
        return {"state": self.state, **entries, "reason": self.reason, "tolerated": self.tolerated}

    def _trials(self) -> dict[str, Any]:
        counts = {state.value: self.count(state) for state in TrialState}
        counts |= {"running": counts["running"] - self.idle, "waiting": self.idle}
        good = [trial_document(trial) for trial in self.good]
        several = len(self.facts.objectives) > 1
        return {
            "trials": {"total": self.total, **counts},
            "best": good[0] if good and not several else None,
            **({"front": good} if several else {}),
            "running": [running.document() for running in self.running],
            "latest": [_row(trial, self.running) for trial in self.trials[-LATEST:]],
        }

    def _rounds(self) -> dict[str, Any]:
        return {
            "rounds": {"max": self.facts.size, "done": self.done},
            "round": self.round,
            "course": [
                {"round": entry.number, "values": json_value(entry.values), "holds": entry.holds}
                for entry in self.rounds
            ],
        }


def _row(trial: Trial, under_way: Iterable[RunningTrial]) -> dict[str, Any]:
    """Return a trial's row in the table, as JSON: its step, its last report, why it has no score."""
    own = next((candidate for candidate in under_way if candidate.trial is trial), None)
    step = max(trial.reported, default=None) if own is None else own.step
    value = trial.reported.get(step) if own is None and step is not None else own and own.reported
    return {
        **trial_document(trial),
        "state": str(trial.state) if own is None or own.running else "waiting",
        "step": step,
        "reported": value,
        "message": trial.message,
    }


def trial_document(trial: Trial) -> dict[str, Any]:
    """Return a trial as JSON: its scores, and what it set."""
    return {"trial": trial.number, "values": trial.values, "hp": trial.hp}


class AxisStatus(NamedTuple):
    """A search or loop axis: one course, or one for each combination of the axes of its context."""

    label: str
    facts: AxisFacts
    courses: tuple[CourseStatus, ...]

    @property
    def single(self) -> CourseStatus | None:
        """The one course of an axis that runs once."""
        return None if self.facts.context else self.courses[0]

    @property
    def condition(self) -> str:
        """`until` without the braces around it."""
        text = self.facts.until.strip()
        inner = text.removeprefix("${{").removesuffix("}}")
        return " ".join(inner.split() if "${{" not in inner else text.split())

    @property
    def state(self) -> CourseState:
        """The state of all courses together."""
        states = {course.state for course in self.courses}
        if "running" in states or "waiting" in states:
            return "running" if "running" in states else "waiting"
        return "failed" if "failed" in states else "over" if states else "waiting"

    @property
    def objectives(self) -> list[dict[str, str]]:
        """The objectives of a search as JSON."""
        objectives = self.facts.objectives
        return [{"value": value, "goal": "minimize" if small else "maximize"} for value, small in objectives]

    def document(self) -> dict[str, Any]:
        """Return the axis as JSON; what differs between contexts is under `each`."""
        facts = self.facts
        document: dict[str, Any] = {"kind": facts.kind, "state": self.state}
        if facts.kind == "search":
            document |= {"sampler": facts.sampler, "objectives": self.objectives}
        if facts.kind == "loop" or facts.until:
            document["until"] = facts.until
        if self.single is not None:
            return document | self.single.document()
        return document | {"each": [{"at": dict(course.at), **course.document()} for course in self.courses]}


def axes_of(paths: RunPaths, history: History, now: float, *, driven: bool) -> tuple[AxisStatus, ...]:
    """Return the searches and loops of a run, in the file's order. `driven`: whether a controller lives."""
    return tuple(
        AxisStatus(
            label, axis.facts, tuple(_AxisView(paths, history, label, axis.facts, now, driven).courses(axis))
        )
        for label, axis in history.axes.items()
        if axis.facts is not None
    )


@dataclass(frozen=True)
class _AxisView:
    paths: RunPaths
    history: History
    label: str
    facts: AxisFacts
    now: float
    driven: bool

    @cached_property
    def domains(self) -> dict[str, Domain]:
        """The tasks of its stages that are known."""
        domains = {}
        for name in self.facts.stages:
            packed = self.history.stages[name].factors if name in self.history.stages else ()
            factors = tuple(
                Factor(
                    tuple(spec["axes"]),
                    spec["count"],
                    None if spec["rows"] is None else tuple(tuple(row) for row in spec["rows"]),
                )
                for spec in packed
            )
            if factors:
                domains[name] = Domain(tuple(axis for factor in factors for axis in factor.axes), factors)
        return domains

    def courses(self, axis: AxisHistory) -> list[CourseStatus]:
        courses = [self._course(course) for course in axis.courses.values()]
        if not courses and not self.facts.judges:
            return [self._unjudged()]
        return courses if courses or self.facts.context else [CourseStatus(self.facts, {}, "waiting")]

    def _course(self, course: Course) -> CourseStatus:
        under_way = [trial for trial in course.trials if trial.state is TrialState.RUNNING]
        over: CourseState = "failed" if course.failed else "over"
        return CourseStatus(
            self.facts,
            course.at,
            over if course.over else "running" if self.driven else "waiting",
            course.reason or course.stopped,
            course.tolerated,
            tuple(course.trials),
            tuple(self._running(course.context, trial) for trial in under_way),
            tuple(course.rounds),
            len(course.rounds),
            course.points,
            course.context,
        )

    def _running(self, context: Context, trial: Trial) -> RunningTrial:
        here = {**dict(zip(self.facts.context, context, strict=True)), self.label: trial.number}
        states = [
            self.history.stages[name].state(index)
            for name, domain in self.domains.items()
            for index in domain.matching({axis: place for axis, place in here.items() if axis in domain.axes})
        ]
        step, value = self._on_the_way(here, trial)
        return RunningTrial(
            trial,
            max(0.0, self.now - trial.began),
            step,
            value,
            sum(state.good for state in states),
            sum(state == TaskState.RUNNING for state in states),
            sum(not state.ended and state != TaskState.RUNNING for state in states),
        )

    def _on_the_way(self, here: Mapping[str, int], trial: Trial) -> tuple[int | None, float | None]:
        """Return step and value of a running trial's last report: to its pruner, or a metric of its task."""
        reported = max(trial.reported.items(), default=(None, None))
        name, _, metric = self.facts.watched.rpartition(".")
        domain = self.domains.get(name)
        index = None if domain is None else domain.index(here)
        attempt = None if index is None else self.history.stages[name].under_way.get(index)
        if index is None or attempt is None or attempt.state != TaskState.RUNNING:
            return reported
        metrics = self.paths.task_dir(name, index, attempt.number) / ".metrics.jsonl"
        return last_metric(metrics, metric) or reported

    def _unjudged(self) -> CourseStatus:
        """Return the rounds of a loop without `until`: they are over when their tasks have ended."""
        stages, size = self.history.stages, self.facts.size
        is_whole = len(self.domains) == sum(name in stages for name in self.facts.stages)

        def has_ended(place: int) -> bool:
            tasks = (
                (n, i) for n, domain in self.domains.items() for i in domain.matching({self.label: place})
            )
            return is_whole and all(stages[name].state(index).ended for name, index in tasks)

        done = next((place for place in range(size) if not has_ended(place)), size)
        if done == size:
            return CourseStatus(self.facts, {}, "over", "max", done=done, points=size)
        return CourseStatus(self.facts, {}, "running" if self.driven else "waiting", done=done)


def last_metric(path: Path, metric: str) -> tuple[int | None, float] | None:
    """Return step and value of the last line that has a metric; None if there is none. The step is None where
    no line tells it, and lines were cut off so that they cannot be counted."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - TAIL))
            lines = file.read().split(b"\n")[:-1]  # the last one may not be whole yet
    except OSError:
        return None
    last = None
    count = 0
    for line in lines:
        with suppress(ValueError, KeyError, TypeError, RecursionError):  # a task can write anything
            content = read_json(line)
            value = content[metric]
            if type(value) in (int, float) and math.isfinite(as_float(value)):
                step = next((content[name] for name in STEPS if isinstance(content.get(name), int)), None)
                last = (count if step is None and size <= TAIL else step), float(value)
                count += 1
    return last


ROWS = 8
"""Running trials, trials of a front, or courses shown for one axis; the rest are counted."""
LOST = 3
"""Trials that were pruned or failed, of which status shows why; `diel results --trials` lists all."""
LAST = 3
"""Rounds whose values are shown as numbers."""
SPARK = 24
LEAST = 5
"""Significant digits of a float in a row, where they tell it apart."""
LONG = 24
_ORDER = (TrialState.COMPLETE, TrialState.RUNNING, TrialState.PRUNED, TrialState.FAILED)


def axis_lines(axes: Sequence[AxisStatus], width: int, rows: int = ROWS) -> list[str]:
    """Return the searches and loops of a run, in lines of at most `width` columns, `rows` rows for each."""
    lines: list[str] = []
    for axis in axes:
        head, *rest = _axis(axis, rows)
        label = shorten(axis.label, width)
        head = shorten(printable(f"  {head}"), max(width - len(label), 0))
        lines.append(paint(label, bold=True) + head)
        lines += [shorten(printable(line), width) for line in rest]
    return lines


def _axis(axis: AxisStatus, rows: int) -> Iterator[str]:
    course = axis.single
    facts, what = axis.facts, what_text(axis)
    if course is None:
        states = Counter(member.state for member in axis.courses)
        counts = ", ".join(f"{count:,} {state}" for state, count in states.items()) or "none has begun"
        yield f"{what}, for each {' × '.join(facts.context)} · {counts}"
        latest = _latest(axis, rows)
        yield from columns([_course_row(member) for member in latest])
        if len(axis.courses) > len(latest):
            yield f"  … {len(axis.courses) - len(latest):,} more"
        return
    yield f"{what} · {standing_text(course)}"
    if facts.kind == "loop":
        yield from list(_values(course))[:rows]
    else:
        yield from _trials(course, rows)


def _latest(axis: AxisStatus, rows: int) -> list[CourseStatus]:
    under_way = [course for course in axis.courses if course.state == "running"][:rows]
    ended = [course for course in axis.courses if course.state != "running"]
    shown = under_way + ended[len(ended) - min(len(ended), rows - len(under_way)) :]
    return [course for course in axis.courses if any(course is candidate for candidate in shown)]


def _course_row(course: CourseStatus) -> list[str]:
    best = course.best
    if course.facts.kind == "loop":
        result = "; ".join(line.strip() for line in _values(course))
    elif best is not None:
        scores, hp = _digits(course.trials)
        result = f"best {best.number}: {scores_text(best, scores)}  {hp_text(best.hp, hp)}"
    else:
        result = f"front of {len(course.front)}" if course.front else ""
    return [f"  {at_text(course)}", standing_text(course), result]


def _trials(course: CourseStatus, rows: int) -> Iterator[str]:
    good = course.good
    word = "  front" if len(course.facts.objectives) > 1 else "  best"
    running = course.running if course.state == "running" else ()
    lost = [trial for trial in course.trials if trial.state in (TrialState.PRUNED, TrialState.FAILED)][-LOST:]
    scores, hp = _digits(course.trials)
    table = [
        [word, f"trial {trial.number}", scores_text(trial, scores), "", hp_text(trial.hp, hp)]
        for trial in good[:rows]
    ]
    table += [_running_row(row, scores, hp) for row in running[:rows]]
    table += [[f"  {t.state}", f"trial {t.number}", "", t.message, hp_text(t.hp, hp)] for t in lost]
    if not any(row[3] for row in table):
        table = [[*row[:3], row[4]] for row in table]
    yield from columns(table, right=(2,))
    if len(good) > rows:
        yield f"  … {len(good) - rows:,} more of the front"
    if len(running) > rows:
        yield f"  … {len(running) - rows:,} more running"


def _digits(trials: Sequence[Trial]) -> tuple[int, int]:
    """Return how many digits tell apart the scores of trials (reported ones too), and hyperparameters."""
    scores = (value for row in trials for value in (*row.values, *row.reported.values()))
    return digits_apart(scores, LEAST), digits_apart((v for row in trials for v in row.hp.values()), LEAST)


def _running_row(running: RunningTrial, scores: int, hp: int) -> list[str]:
    step = "" if running.step is None else f" at {running.step:,}"
    reported = "" if running.reported is None else f"{short(running.reported, scores)}{step}"
    whole = running.done + running.running + running.waiting
    took = f"{format_duration(running.seconds)}{f', {running.done}/{whole} tasks' if whole > 1 else ''}"
    return [
        "  runs" if running.running else "  waits",
        f"trial {running.trial.number}",
        reported,
        took,
        hp_text(running.trial.hp, hp),
    ]


def _values(course: CourseStatus) -> Iterator[str]:
    """Yield a line for each value that `until` reads: its course over the rounds, and the last numbers."""
    for name in dict.fromkeys(name for entry in course.rounds for name in entry.values):
        values = [entry.values[name] for entry in course.rounds if name in entry.values]
        digits = digits_apart(values[-SPARK:], LEAST)
        last = " → ".join(short(value, digits) for value in values[-LAST:])
        more = "… → " if len(values) > LAST else ""
        drawn = drawn_course(values[-SPARK:])
        yield f"  {name}  {drawn + '  ' if drawn else ''}{more}{last}"


def drawn_course(values: Sequence[Any]) -> str:
    """Return numbers as bars of text; empty if there is nothing to compare."""
    return sparkline(values) if len(values) > 1 and all(map(is_finite, values)) else ""


def what_text(axis: AxisStatus) -> str:
    """Return `tpe, minimize train.loss`, `loop until check.error < 0.1`."""
    facts = axis.facts
    if facts.kind == "loop":
        return f"loop until {axis.condition}" if facts.until else "loop"
    return f"{facts.sampler}, {objectives_text(axis)}"


def objectives_text(axis: AxisStatus) -> str:
    """Return `minimize train.loss, maximize test.accuracy`."""
    return ", ".join(f"{objective['goal']} {objective['value']}" for objective in axis.objectives)


def at_text(course: CourseStatus) -> str:
    """Return the point that a course runs for: `material Si, round 3`."""
    return ", ".join(f"{name} {value_text(value, LONG)}" for name, value in course.at.items())


def course_name(axis: AxisStatus, course: CourseStatus) -> str:
    """Return `trial`, `trial at material Si`."""
    at = at_text(course)
    return f"{axis.label} at {at}" if at else axis.label


def standing_text(course: CourseStatus) -> str:
    """Return how far a course is: `12 of 20 trials: 9 complete, 1 pruned`, `over after 4 rounds: …`."""
    over = course.state in ("over", "failed")
    tolerated = f", tolerated by {course.tolerated}" if course.tolerated else ""
    if course.facts.kind == "loop" and over:
        return f"{course.state} after {counted(course.done, 'round')}{tolerated}: {course.why}"
    if course.facts.kind == "loop":
        most = f"{'at most ' if course.facts.until else ''}{course.facts.size:,}"
        verb = "" if course.state == "running" else f" ({course.state})"
        return f"round {course.round:,} of {most}, {course.done:,} done{verb}"
    # Without a controller nothing runs: requested trials wait to continue.
    words = {TrialState.RUNNING: "begun"} if course.state == "waiting" else {}
    counts = {state: course.count(state) for state in _ORDER}
    if course.state == "running":
        counts[TrialState.RUNNING] -= course.idle
    named = [(count, words.get(state, state.value)) for state, count in counts.items()]
    named.insert(2, (course.idle if course.state == "running" else 0, "waiting"))
    states = ", ".join(f"{count:,} {word}" for count, word in named if count)
    states = f": {states}" if states else ""
    if over:
        end = f"; {course.state}{tolerated}: {course.why}"
        end = "" if course.reason in ("trials", "all") else end
        return f"{counted(len(course.trials), 'trial')}{states}{end}{_unheard(course)}"
    end = f"; no further ones: {course.why}" if course.reason else ""
    return f"{len(course.trials):,} of {counted(course.total, 'trial')}{states}{end}"


def _unheard(course: CourseStatus) -> str:
    """Return a warning that no trial reported the metric that a pruner watches: its name may be wrong."""
    heard = course.state == "failed" or any(trial.reported for trial in course.trials)
    if heard or course.facts.pruner == "none":
        return ""
    return f"; nothing was pruned, because no trial reported {course.facts.watched} on its way"


def end_text(axis: AxisStatus, course: CourseStatus) -> str:
    """Return the state of a search or loop, with its best trial or its front, in one line."""
    line = f"{course_name(axis, course)}: {standing_text(course)}"
    best = course.best
    if best is not None:
        scores, hp = _digits(course.trials)
        return f"{line}; best trial {best.number}: {scores_text(best, scores)}, {hp_text(best.hp, hp)}"
    several = len(course.facts.objectives) > 1
    return f"{line}; a Pareto front of {counted(len(course.front), 'trial')}" if several else line


def course_text(axis: AxisStatus, course: CourseStatus) -> str:
    """Return the state of a search or loop with its goal: `tpe, minimize train.loss`."""
    return f"{end_text(axis, course)} ({what_text(axis)})"


def scores_text(trial: Trial, digits: int = MOST_DIGITS) -> str:
    """Return the values of a trial, one for each objective."""
    return ", ".join(short(value, digits) for value in trial.values)


def hp_text(values: Mapping[str, Any], digits: int = MOST_DIGITS) -> str:
    """Return `hidden=32, learning_rate=0.01`."""
    return ", ".join(f"{name}={short(value, digits)}" for name, value in values.items())


def short(value: object, digits: int = MOST_DIGITS) -> str:
    """Return a value as people read it in a row: so many digits of a float."""
    if isinstance(value, float):
        return number_text(value, digits)
    text = str(value)
    return text if len(text) <= LONG else f"{text[: LONG - 1]}…"
