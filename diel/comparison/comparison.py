"""What differs between two runs: what they were given, how long their tasks took, what these made."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from diel.comparison.environment import facts_of
from diel.comparison.scatter import Shift, middle, paired, unpaired
from diel.comparison.side import Ended, Point, Side, point_name
from diel.results import RunReader
from diel.states import RunState
from diel.terms import SIMULATED
from diel.values import clock, format_duration, is_finite

JITTER = 0.1
"""Seconds by which a single task can be late for no reason of its own, as machines that are shared are."""
_LEAST = 1e-6
"""Seconds: a shorter time is taken for this one, which has a logarithm."""


class Unequal(NamedTuple):
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
        """Whether it is slower by more than this share for certain: all of the interval is above it.

        Where too few tasks give none, medians decide that are apart by more than a machine's own delays.
        """
        if self.interval is not None:
            return self.interval[0] > 1 + by
        before, after = self.median
        return before is not None and after is not None and after > max(before * (1 + by), before + JITTER)


class OutputPair(NamedTuple):
    """What the tasks of a stage made in each run, for one output."""

    output: str
    """STAGE.OUTPUT"""
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


class Contrast(NamedTuple):
    """Two runs beside each other."""

    names: tuple[str, str]
    facts: tuple[Unequal, ...]
    """State, times and counts of both, also where they are equal."""
    hyperparameters: tuple[Unequal, ...]
    versions: tuple[Unequal, ...]
    """Also machines, settings, and what programs run in."""
    workflow: tuple[Unequal, ...]
    """By stage, the parts of its definition that differ."""
    times: tuple[Times, ...]
    results: tuple[OutputPair, ...]
    notes: tuple[str, ...]
    """What could not be compared, and why."""

    def slower(self, by: float) -> list[Times]:
        return [one for one in self.times if one.is_slower(by)]


def compare(first: RunReader, second: RunReader) -> Contrast:
    """Compares two runs. Raises UsageError where a directory holds no run."""
    one, other = Side(first), Side(second)
    names = dict.fromkeys((*one.stages, *other.stages))
    ended = {name: (one.ended(name), other.ended(name)) for name in names}
    return Contrast(
        (one.name, other.name),
        tuple(_facts(one, other)),
        tuple(_differing(first.run_file.hyperparameters, second.run_file.hyperparameters)),
        tuple(_differing(facts_of(first), facts_of(second))),
        tuple(_changed_stages(one, other)),
        tuple(_times(name, *both) for name, both in ended.items()),
        tuple(result for name, both in ended.items() for result in _results(name, *both)),
        (*one.notes, *other.notes),
    )


def _differing(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Unequal]:
    for name in dict.fromkeys((*first, *second)):
        if first.get(name) != second.get(name):
            yield Unequal(name, first.get(name), second.get(name))


def _facts(one: Side, other: Side) -> Iterator[Unequal]:
    first, second = _overview(one), _overview(other)
    yield from (Unequal(name, value, second[name]) for name, value in first.items())


def _overview(side: Side) -> dict[str, Any]:
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


def _changed_stages(one: Side, other: Side) -> Iterator[Unequal]:
    """What of a stage is not the same: `module`, `params`; or that a run has no such stage."""
    for name in dict.fromkeys((*one.parts, *other.parts)):
        first, second = one.parts.get(name), other.parts.get(name)
        if first is None or second is None:
            yield Unequal(name, first is not None, second is not None)
        elif parts := [part.name for part in _differing(first, second)]:
            yield Unequal(name, parts, parts)


# --- times ------------------------------------------------------------------------------------------


def _common(first: Mapping[Point, Any], second: Mapping[Point, Any]) -> list[Point]:
    """The points that both have; none if those are few, so that most would be left out."""
    both = [point for point in first if point in second]
    return both if 2 * len(both) >= min(len(first), len(second)) else []


def _times(stage: str, first: Ended, second: Ended) -> Times:
    tasks, cached = (len(first.seconds), len(second.seconds)), (first.cached, second.cached)
    points = _common(first.seconds, second.seconds)
    one = [first.seconds[point] for point in points] or [*first.seconds.values()]
    other = [second.seconds[point] for point in points] or [*second.seconds.values()]
    shift = None
    if one and other:
        before, after = ([math.log(max(t, _LEAST)) for t in times] for times in (one, other))
        pairs = [b - a for a, b in zip(before, after, strict=False)]
        shift = paired(pairs) if points else unpaired(before, after)
    return Times(stage, tasks, cached, len(points), (middle(one), middle(other)), shift)


# --- results ----------------------------------------------------------------------------------------


def _results(stage: str, first: Ended, second: Ended) -> Iterator[OutputPair]:
    for output in dict.fromkeys((*first.values, *second.values)):
        pair = _result(f"{stage}.{output}", first.values.get(output, {}), second.values.get(output, {}))
        yield pair._replace(answered=(_answers(first), _answers(second)))


def _answers(ended: Ended) -> int:
    return [*ended.values.get(SIMULATED, {}).values()].count(False)


def _result(output: str, first: Mapping[Point, Any], second: Mapping[Point, Any]) -> OutputPair:
    points = _common(first, second)
    differ = sum(_text(first[point]) != _text(second[point]) for point in points) if points else None
    one, other = _numbers(first), _numbers(second)
    pairs = [(point, other[point] - one[point]) for point in points if point in one and point in other]
    shift, largest = None, None
    if pairs:
        one, other = ({point: each[point] for point, _ in pairs} for each in (one, other))
        shift = paired([difference for _, difference in pairs])
        where, most = max(pairs, key=lambda pair: abs(pair[1]))
        largest = (most, point_name(where))
    elif one and other:
        shift = unpaired([*one.values()], [*other.values()])
    tasks = len(first), len(second)
    return OutputPair(output, tasks, len(points), differ, (_mean(one), _mean(other)), shift, largest)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)  # not-a-number equals itself here


def _numbers(values: Mapping[Point, Any]) -> dict[Point, float]:
    """The values, if they are finite numbers; those that are not are left out if any is."""
    found = {point: value for point, value in values.items() if is_finite(value)}
    return {point: float(value) for point, value in found.items()}


def _mean(values: Mapping[Point, float]) -> float | None:
    return math.fsum(values.values()) / len(values) if values else None
