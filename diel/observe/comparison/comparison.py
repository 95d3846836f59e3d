"""What differs between two runs: what they were given, how long their tasks took, what these made."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from diel.base.errors import DielError, counted
from diel.base.form import NOT_AS_IT_SHOULD_BE
from diel.base.states import RunState
from diel.base.terms import SIMULATED
from diel.base.values import (
    clock,
    digits_apart,
    format_duration,
    is_finite,
    json_value,
    number_text,
    value_text,
)
from diel.observe.comparison.scatter import Shift, middle, paired, unpaired
from diel.observe.results import RunReader
from diel.observe.status.columns import columns, paint, printable
from diel.store.journal.records import Result
from diel.store.journal.segment import DamagedRecord
from diel.store.table import shown, texts
from diel.workflow.expressions.aggregates import AGGREGATES

JITTER = 0.1
"""Seconds by which a single task can be late for no reason of its own, as machines that are shared are."""
_mean = AGGREGATES["mean"]
_LEAST = 1e-6
"""Seconds: a shorter time is taken for this one, which has a logarithm."""


class UnequalFact(NamedTuple):
    """A fact that is not the same; None where a run has none."""

    name: str
    first: Any
    second: Any


class Times(NamedTuple):
    """How long the tasks of a stage took in each run."""

    stage: str
    tasks: tuple[int, int]
    """Those that each run computed."""
    cached: tuple[int, int]
    matched: int
    """Tasks at the same points, which were compared pair by pair; 0 if all with all."""
    median: tuple[float | None, float | None]
    """Seconds, of the tasks that were compared."""
    shift: Shift | None
    """Of the logarithms; None if a run computed none."""

    @property
    def ratio(self) -> float | None:
        return None if self.shift is None else math.exp(self.shift.value)

    @property
    def interval(self) -> tuple[float, float] | None:
        if self.shift is None or self.shift.low is None or self.shift.high is None:
            return None
        return math.exp(self.shift.low), math.exp(self.shift.high)

    @property
    def verdict(self) -> str:
        """`slower`, `faster`, `scatter`, `too few` to tell, or `none` where nothing can be compared."""
        if self.shift is None:
            return "none"
        if not self.shift.can_tell:
            return "too few"
        return "scatter" if not self.shift.is_real else "slower" if self.shift.value > 0 else "faster"

    def is_slower(self, by: float) -> bool:
        """Return whether it is slower by more than this share for certain: all of the interval is above it.
        Where too few tasks give none, medians decide that are apart by more than a machine's own delays."""
        if self.interval is not None:
            return self.interval[0] > 1 + by
        before, after = self.median
        return before is not None and after is not None and after > max(before * (1 + by), before + JITTER)


class OutputPair(NamedTuple):
    """What the tasks of a stage made in each run, for one output."""

    output: str
    tasks: tuple[int, int]
    matched: int
    differ: int | None
    """Of the matched ones, those whose values are not equal; None where none are matched."""
    mean: tuple[float | None, float | None]
    """Of the tasks that were compared: the pairs, or all; None of what is no number."""
    shift: Shift | None
    """Of numbers: how far the second run's lie above the first's."""
    largest: tuple[float, str] | None
    """The largest difference of matched numbers, and where."""
    answered: tuple[int, int] = (0, 0)
    """The results that a model answered: they are in the means."""
    missing: int = 0
    """Of the matched ones, those with null in one run alone: they are not among those that differ."""


class RunDiff(NamedTuple):
    """Two runs beside each other."""

    names: tuple[str, str]
    facts: tuple[UnequalFact, ...]
    """State, times and counts of both, also where they are equal."""
    hyperparameters: tuple[UnequalFact, ...]
    versions: tuple[UnequalFact, ...]
    """Also machines, settings, and what programs run in."""
    workflow: tuple[UnequalFact, ...]
    """By stage, the parts of its definition that differ."""
    times: tuple[Times, ...]
    results: tuple[OutputPair, ...]
    notes: tuple[str, ...]
    """What could not be compared, and why."""

    def slower(self, by: float) -> list[Times]:
        return [times for times in self.times if times.is_slower(by)]


def compare(first: RunReader, second: RunReader) -> RunDiff:
    """Compare two runs. Raise UsageError where a directory holds no run."""
    before, after = ComparedRun(first), ComparedRun(second)
    names = dict.fromkeys((*before.stages, *after.stages))
    ended = {name: (before.ended(name), after.ended(name)) for name in names}
    return RunDiff(
        (before.name, after.name),
        tuple(map(UnequalFact, _overview(before), _overview(before).values(), _overview(after).values())),
        tuple(_differing(first.run_file.hyperparameters, second.run_file.hyperparameters)),
        tuple(_differing(facts_of(first), facts_of(second))),
        tuple(_changed_stages(before, after)),
        tuple(_times(name, *both) for name, both in ended.items()),
        tuple(result for name, both in ended.items() for result in _results(name, *both)),
        (*before.notes, *after.notes),
    )


def _differing(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[UnequalFact]:
    for name in dict.fromkeys((*first, *second)):
        if first.get(name) != second.get(name):
            yield UnequalFact(name, first.get(name), second.get(name))


def _overview(side: "ComparedRun") -> dict[str, Any]:
    file = side.run.run_file
    if not side.stages:
        return {"began": clock(file.created), "state": None, "took": None, "tasks done": None, "cached": None}
    history, counts = side.run.history, [stage.counts() for stage in side.run.history.stages.values()]
    took = None if history.ended is None else format_duration(history.ended - history.began)
    return {
        "began": clock(history.began or file.created),
        "state": RunState(side.run.state).value,
        "took": took,
        "tasks done": sum(count["done"] for count in counts),
        "cached": sum(count["cached"] for count in counts),
    }


def _changed_stages(before: "ComparedRun", after: "ComparedRun") -> Iterator[UnequalFact]:
    """Yield what of a stage is not the same: `module`, `params`; or that a run has no such stage."""
    for name in dict.fromkeys((*before.parts, *after.parts)):
        first, second = before.parts.get(name), after.parts.get(name)
        if first is None or second is None:
            yield UnequalFact(name, first is not None, second is not None)
        elif parts := [part.name for part in _differing(first, second)]:
            yield UnequalFact(name, parts, parts)


def _common(first: "Mapping[Point, Any]", second: "Mapping[Point, Any]") -> "list[Point]":
    """Return the points that both have; none if those are few, so that most would be left out."""
    both = [point for point in first if point in second]
    return both if 2 * len(both) >= min(len(first), len(second)) else []


def _times(stage: str, first: "EndedTask", second: "EndedTask") -> Times:
    tasks, cached = (len(first.seconds), len(second.seconds)), (first.cached, second.cached)
    points = _common(first.seconds, second.seconds)
    earlier = [first.seconds[point] for point in points] or [*first.seconds.values()]
    later = [second.seconds[point] for point in points] or [*second.seconds.values()]
    shift = None
    if earlier and later:
        before, after = ([math.log(max(t, _LEAST)) for t in times] for times in (earlier, later))
        pairs = [b - a for a, b in zip(before, after, strict=False)]
        shift = paired(pairs) if points else unpaired(before, after)
    return Times(stage, tasks, cached, len(points), (middle(earlier), middle(later)), shift)


def _results(stage: str, first: "EndedTask", second: "EndedTask") -> Iterator[OutputPair]:
    for output in dict.fromkeys((*first.values, *second.values)):
        pair = _result(f"{stage}.{output}", first.values.get(output, {}), second.values.get(output, {}))
        yield pair._replace(answered=(_answers(first), _answers(second)))


def _answers(ended: "EndedTask") -> int:
    return [*ended.values.get(SIMULATED, {}).values()].count(False)


def _result(output: str, first: "Mapping[Point, Any]", second: "Mapping[Point, Any]") -> OutputPair:
    points = _common(first, second)
    missing = sum((first[point] is None) is not (second[point] is None) for point in points)
    unequal = sum(_text(first[point]) != _text(second[point]) for point in points)
    earlier, later = numbers(first), numbers(second)
    both = [point for point in points if point in earlier and point in later]
    # Infinity less itself is none.
    same = {point for point in both if _text(earlier[point]) == _text(later[point])}
    pairs = [(point, 0.0 if point in same else later[point] - earlier[point]) for point in both]
    shift, largest = None, None
    if pairs:
        earlier, later = ({point: sample[point] for point, _ in pairs} for sample in (earlier, later))
        finite = [difference for _, difference in pairs if is_finite(difference)]
        shift = paired(finite) if finite else None
        where, most = max(pairs, key=lambda pair: math.inf if math.isnan(pair[1]) else abs(pair[1]))
        largest = (most, point_name(where))
    elif earlier and later:
        before, after = ([*filter(math.isfinite, values.values())] for values in (earlier, later))
        shift = unpaired(before, after) if before and after else None
    tasks, means = (len(first), len(second)), (_mean([*earlier.values()]), _mean([*later.values()]))
    differ = unequal - missing if points else None
    return OutputPair(output, tasks, len(points), differ, means, shift, largest, missing=missing)


def _text(value: Any) -> str:
    return json.dumps(value)  # not-a-number equals itself here


def numbers(values: "Mapping[Point, Any]") -> "dict[Point, float]":
    """Return the values that are numbers: whole ones as they are, infinite ones and not-a-number too."""
    return {point: value for point, value in values.items() if is_finite(value) or isinstance(value, float)}


_COLOUR = {"slower": "red", "faster": "green"}
_VERDICTS = {
    "scatter": "no more than scatter",
    "too few": "too few tasks to tell",
    "none": "nothing to compare",
}


def comparison_lines(contrast: RunDiff) -> Iterator[str]:
    """Yield all of it, each part under its name; parts without a difference in one line."""
    first, second = contrast.names
    yield from columns([["", first, second], *([item.name, *both_texts(item)] for item in contrast.facts)])
    yield from _differences("hyperparameters", contrast.hyperparameters)
    yield from _differences("versions and surroundings", contrast.versions)
    if contrast.workflow:
        yield from ("", paint("stages that are not the same", bold=True))
        yield from columns(
            [[f"  {item.name}", changed_text(item, contrast.names)] for item in contrast.workflow]
        )
    if any(any(item.tasks) or any(item.cached) for item in contrast.times):
        yield from ("", paint("times by stage", bold=True))
        yield from columns([_HEAD_OF_TIMES, *map(_row_of_times, contrast.times)], right=range(1, 6))
        yield paint(f"  {CAVEAT}", dim=True)
    if contrast.results:
        yield from ("", paint("results", bold=True))
        heads = ["  output", "tasks", "differ", "mean", "then", "change", "p", "largest difference"]
        yield from columns([heads, *rows_of_results(contrast.results)], right=range(1, 7))
    if contrast.notes:
        yield from ("", *(paint(f"not compared: {printable(note)}", fg="yellow") for note in contrast.notes))


def both_texts(fact: UnequalFact) -> tuple[str, str]:
    """Return the values of both runs for people."""
    return _value(fact.first), _value(fact.second)


def _value(value: Any) -> str:
    return "–" if value is None else shown(value)


def _differences(title: str, facts: Sequence[UnequalFact]) -> Iterator[str]:
    yield ""
    if not facts:
        yield f"{title}: the same"
        return
    yield paint(title, bold=True)
    yield from columns([[f"  {printable(fact.name)}", *both_texts(fact)] for fact in facts])


def changed_text(change: UnequalFact, names: Sequence[str]) -> str:
    """Return the parts of a stage that differ, or which run alone has it."""
    if isinstance(change.first, bool):
        return f"only in {names[0] if change.first else names[1]}"
    return ", ".join(change.first)


CAVEAT = "p knows how tasks of one run scatter, not how runs do: a busy machine looks like a difference"
_HEAD_OF_TIMES = ["  stage", "tasks", "median", "then", "ratio", "p", "95 % of ratio"]


def _row_of_times(times: Times) -> list[str]:
    interval = times.interval
    verdict = paint(verdict_text(times), fg=_COLOUR.get(times.verdict))
    return [
        f"  {times.stage}",
        tasks_text(times),
        *map(seconds_text, times.median),
        "" if times.ratio is None else f"{times.ratio:.3g}",
        p_text(times.shift),
        (f"{interval[0]:.3g} to {interval[1]:.3g}: {verdict}" if interval else verdict),
    ]


def tasks_text(row: Times | OutputPair) -> str:
    """Return the tasks that were compared: `7 pairs`, or `13 and 15`, all with all."""
    return counted(row.matched, "pair") if row.matched else f"{row.tasks[0]:,} and {row.tasks[1]:,}"


def verdict_text(times: Times) -> str:
    """Return what a stage's times say, in words."""
    if times.shift is None and any(times.cached):
        return "taken from the cache"
    return _VERDICTS.get(times.verdict, times.verdict)


def seconds_text(seconds: float | None) -> str:
    """Return seconds in three digits, however few they are."""
    if seconds is None:
        return "–"
    if seconds < 1:
        return f"{seconds * 1000:.3g}ms"
    return f"{seconds:.3g}s" if seconds < 100 else f"{seconds:,.0f}s"


def p_text(shift: Shift | None) -> str:
    """Return the probability of a shift for people."""
    p = None if shift is None else shift.p
    return "" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def rows_of_results(pairs: Sequence[OutputPair]) -> list[list[str]]:
    """Return a row for each output; means and differences in digits that tell them apart."""
    digits = digits_apart((pair.largest[0] for pair in pairs if pair.largest), 4)
    means = texts([pair.mean for pair in pairs])
    return [_row_of_results(pair, mean, digits) for pair, mean in zip(pairs, means, strict=True)]


def _row_of_results(pair: OutputPair, means: Sequence[str], digits: int) -> list[str]:
    largest = ""
    if pair.largest is not None and pair.largest[0]:
        most, where = pair.largest
        largest = f"{'+' * (most > 0)}{number_text(most, digits)}{f' at {where}' if where else ''}"
    p = p_text(pair.shift) if pair.differ != 0 else ""
    differ = "" if pair.differ is None else f"{pair.differ:,}"
    differ += f", {pair.missing:,} missing in one" if pair.missing else ""
    answers = ", {} and {} answered by a model".format(*pair.answered) if any(pair.answered) else ""
    before, after = (mean or "–" for mean in means)
    head = [f"  {pair.output}", tasks_text(pair) + answers, differ, before, after]
    return [*head, change_text(*pair.mean), p, largest]


def change_text(before: float | None, after: float | None) -> str:
    """Return how far one number is from another: a share of it; a tiny one is never shown as none."""
    if before is None or after is None or before == after:
        return ""
    share = 100 * (after - before) / abs(before) if before else math.inf
    if not math.isfinite(share):
        return f"{after - before:+.3g}"
    return f"{share:+.2f}%" if abs(share) >= 0.1 else f"{share:+.2g}%"


def slower_text(contrast: RunDiff, by: float) -> str:
    """Return which stages are slower by more than a share; empty if none is."""
    slow = contrast.slower(by)
    if not slow:
        return ""
    stages = "; ".join(f"{times.stage} by {_by(times)}" for times in slow)
    where = f"slower in {contrast.names[1]} than in {contrast.names[0]}"
    return f"{counted(len(slow), 'stage')} {where}, by more than {by:.0%}: {stages}"


def _by(times: Times) -> str:
    if times.interval is None:
        return f"{(times.ratio or 1) - 1:.0%} (too few tasks for a test)"
    return f"{times.interval[0] - 1:.0%} to {times.interval[1] - 1:.0%}"


def comparison_document(contrast: RunDiff) -> dict[str, Any]:
    """Return the same as JSON."""
    return {
        "runs": list(contrast.names),
        "facts": _document(contrast.facts),
        "hyperparameters": _document(contrast.hyperparameters),
        "versions": _document(contrast.versions),
        "workflow": _document(contrast.workflow),
        "times": {row.stage: _times_document(row) for row in contrast.times},
        "results": {row.output: _result_document(row) for row in contrast.results},
        "notes": list(contrast.notes),
    }


def _document(facts: Sequence[UnequalFact]) -> dict[str, Any]:
    return {fact.name: [json_value(fact.first), json_value(fact.second)] for fact in facts}


def _times_document(times: Times) -> dict[str, Any]:
    return {
        "tasks": list(times.tasks),
        "cached": list(times.cached),
        "matched": times.matched,
        "median_s": list(times.median),
        "ratio": times.ratio,
        "interval": times.interval and list(times.interval),
        "p": None if times.shift is None else times.shift.p,
        "verdict": times.verdict,
    }


def _result_document(pair: OutputPair) -> dict[str, Any]:
    shift = pair.shift
    return {
        "tasks": list(pair.tasks),
        "matched": pair.matched,
        "differ": pair.differ,
        "missing": pair.missing,
        "mean": json_value([*pair.mean]),
        "difference": None if shift is None else shift.value,
        "interval": None if shift is None or shift.low is None else [shift.low, shift.high],
        "p": None if shift is None else shift.p,
        "largest": pair.largest and {"difference": json_value(pair.largest[0]), "at": pair.largest[1]},
    }


Part = TypeVar("Part")
Point = tuple[tuple[str, str], ...]
"""The names and values that tell a task from the others of its stage; the last pair counts repetitions."""


class EndedTask(NamedTuple):
    """Tasks of a stage that have a result."""

    seconds: dict[Point, float]
    """Of those that this run computed."""
    values: dict[str, dict[Point, Any]]
    """By output; of an artifact the digest of its content."""
    cached: int


class ComparedRun:
    """A run to compare. What cannot be read of it is empty, and `notes` say why."""

    def __init__(self, run: RunReader) -> None:
        self.run = run
        self.name = run.paths.run_id
        self.notes: list[str] = []

    def _read(self, part: Callable[[], Part], empty: Part) -> Part:
        try:
            try:
                return self._noted(part())
            except (DamagedRecord, *NOT_AS_IT_SHOULD_BE):
                if self.run.careful:
                    raise
                self.run = RunReader(self.run.paths, careful=True)
                return self._noted(part())
        except DielError as error:
            if str(error) not in self.notes:
                self.notes.append(str(error))
            return empty

    def _noted(self, part: Part) -> Part:
        self.notes += (flaw for flaw in self.run.flaws if flaw not in self.notes)
        return part

    @cached_property
    def stages(self) -> tuple[str, ...]:
        return self._read(lambda: tuple(self.run.history.stages), ())

    @cached_property
    def parts(self) -> Mapping[str, Mapping[str, str]]:
        """By stage, digests of what its tasks share."""
        return self._read(lambda: {name: stage.parts for name, stage in self.run.history.stages.items()}, {})

    def ended(self, stage: str) -> EndedTask:
        none = EndedTask({}, {}, 0)
        return none if stage not in self.stages else self._read(lambda: self._ended(stage), none)

    def _ended(self, stage: str) -> EndedTask:
        points = self._read(lambda: self._points(stage), None) or (lambda index: {"task": index})
        # By task: of two results of one the last counts.
        results = {record["index"]: record for record in self.run.results(stage)}
        if lost := self.run.damaged(stage, len(results)):
            self.notes.append(f"{self.name}: {counted(lost, 'task')} of '{stage}', damaged in the journal")
        return _gathered([(points(index), results[index]) for index in sorted(results)])

    def _points(self, stage: str) -> Callable[[int], Mapping[str, Any]]:
        """Return what tells tasks apart: points, but of a search what each trial tries, not its number."""
        run = self.run
        if stage not in run.workflow.stages:
            raise DielError(f"{self.name}: its workflow has no stage '{stage}', its journal has")
        adaptive = ((label, run.adaptive.get(label)) for label in run.workflow.stages[stage].over)
        numbers = {label for label, axis in adaptive if axis is not None and axis.axis.sets}
        if run.domain(stage) is None:
            raise DielError(f"{self.name}: the points of '{stage}' are not known")

        def point(index: int) -> Mapping[str, Any]:
            return {name: value for name, value in run.setting(stage, index).items() if name not in numbers}

        return point


def _gathered(results: list[tuple[Mapping[str, Any], Result]]) -> EndedTask:
    seconds: dict[Point, float] = {}
    values: dict[str, dict[Point, Any]] = {}
    cached = 0
    counts: Counter[Point] = Counter()
    for names, record in results:
        texts = {n: v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for n, v in names.items()}
        plain = tuple(sorted(texts.items()))
        counts[plain] += 1
        point = (*plain, ("", str(counts[plain])))
        if record["event"] == "done":
            seconds[point] = record["seconds"]
        else:
            cached += 1
        for name, value in record.get("values", {}).items():
            values.setdefault(name, {})[point] = value
        for name, artifact in record.get("artifacts", {}).items():
            values.setdefault(name, {})[point] = artifact.get("digest")
    return EndedTask(seconds, values, cached)


def point_name(point: Point) -> str:
    """Return a point for people."""
    return ", ".join(f"{name}={value_text(value)}" for name, value in point if name)


def facts_of(run: RunReader) -> dict[str, Any]:
    """By name; of each environment what its results depend on."""
    file = run.run_file
    origin = {
        "diel": file.diel,
        "Python": file.python,
        "site": file.site,
        "host": file.host,
        "user": file.user,
    }
    parts = [
        (name, *part)
        for name, environment in run.environments.items()
        for part in environment.identity.items()
    ]
    named = {f"environment {name}: {key}": value for name, key, value in parts}
    start = {"settings": " ".join(file.settings) or None, "begun at stage": file.begin_at}
    return {"workflow": file.workflow, "file": file.source, **origin, **named, **start}
