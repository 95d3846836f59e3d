"""The tasks of a stage at a point of its axes, or picked by a search or loop."""

import contextlib
import heapq
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Any

import yaml

from diel.axes.adaptive import Adaptive
from diel.errors import UsageError, did_you_mean
from diel.load.nodes import Unreadable, compose, content
from diel.results.reader import RunReader
from diel.spec import Choice
from diel.spec.forms.axis import Points, alike, near, same
from diel.values import scalar, value_text

_WHOLE = re.compile(r"([-+]?(?:0|[1-9][0-9]*))(?:\.0*)?")
"""A whole number, as `1` or `1.0`, and no id such as `007`."""
LEAST_DIGITS = 3
"""A number with fewer digits means itself alone."""
LOOKED_AT = 100_000
"""Values of a column among which the nearest are looked for, for a message."""


class Typed(str):
    """A value as somebody typed it: `2.5` is a number, or the text `2.5`."""

    @property
    def meanings(self) -> Iterator[Any]:
        """The meanings of a typed text, the plainest first."""
        if self:
            yield scalar(self)
        yield str(self)
        if self[:1] in ("[", "{"):
            with contextlib.suppress(Unreadable, yaml.YAMLError):
                node, complaints = compose(str(self))
                if node is not None and not complaints:
                    yield content(node, False, complaints)

    @property
    def digits(self) -> int:
        """How many digits of a float were typed, those that only place the point apart; 0 of other values."""
        match = re.fullmatch(r"[-+]?0*\.?0*([0-9.]*?)(?:[eE][-+]?[0-9]+)?", self)
        digits = "" if match is None or "." not in self else match[1].replace(".", "")
        return len(digits) if isinstance(scalar(self), float) else 0


def picked_tasks(run: RunReader, stage: str, indices: Collection[int], at: Mapping[str, Any]) -> list[int]:
    """Return the tasks of a stage that are `at` a point; the best of a search, the last of a loop.

    `at` has axis parameters by name; that of a search may be `best`, `pareto` or `{"top": 5}`, that of a loop
    `last`: picked once for each combination of the other axes, of what there is so far. Floats agree to nine
    digits, as in a workflow. `hp.NAME` is what a search set. Raise UsageError for what is no parameter of
    the stage.
    """
    names = [_parameter(run, stage, name) for name in at]
    if twice := [
        f"{name}={value}" for name, value in at.items() if names.count(_parameter(run, stage, name)) > 1
    ]:
        raise UsageError(f"{' and '.join(twice)} exclude each other: leave one of them out")
    at = dict(zip(names, at.values(), strict=True))
    choices = {name: choice for name, text in at.items() if (choice := _choice(run, name, text))}
    points = {name: value for name, value in at.items() if name not in choices and "." not in name}
    tasks = [i for i in all_at(run, stage, points) if i in indices] if points else sorted(indices)
    for name in at.keys() - choices.keys() - points.keys():
        meanings = _meanings(at[name])
        set_ = ((index, run.hyperparameters(stage, index).get(name.removeprefix("hp."))) for index in tasks)
        tasks = [index for index, value in set_ if any(same(value, meaning) for meaning in meanings)]
    ranks = {name: sum(name in run.adaptive[of].judge.context for of in choices) for name in choices}
    for label, choice in sorted(choices.items(), key=lambda item: -ranks[item[0]]):  # contexts choose first
        tasks = _chosen(run, stage, run.adaptive[label], choice, tasks)
    return tasks


def tasks_at(run: RunReader, stage: str, indices: Collection[int], at: Mapping[str, Any]) -> list[int]:
    """Return the tasks at a point. Raise UsageError where there are none, with the nearest values."""
    tasks = picked_tasks(run, stage, indices, at)
    if not tasks:
        raise UsageError(f"{run.paths.run_id}: {_nothing_at(run, stage, at)}")
    return tasks


def _parameter(run: RunReader, stage: str, name: str) -> str:
    """Return a parameter of a stage's axes, also as `AXIS.PARAMETER`. Raise UsageError without it."""
    names = run.setting_names(stage)
    axis, _, inner = name.partition(".")
    points = run.points(axis) if axis in run.workflow.stages[stage].over else None
    if points is not None and inner in points.parameters:
        return inner
    if name not in names:
        hint = did_you_mean(name, names) or f"it has: {', '.join(names) or 'none'}"
        raise UsageError(f"'{stage}' has no axis parameter '{name}'; {hint}")
    return name


def _meanings(value: Any) -> Sequence[Any]:
    return [*value.meanings] if isinstance(value, Typed) else (value,)


def all_at(run: RunReader, stage: str, point: Mapping[str, Any]) -> list[int]:
    """Return the tasks at these values, in order: found from the points of each axis, not one by one."""
    domain = run.domain(stage)
    places: dict[str, Collection[int]] = {}
    for axis in domain.axes if domain is not None else ():
        points = run.points(axis)
        for name in points.parameters if points is not None else ():
            if points is not None and name in point:
                matches = _places(points, name, point[name])
                places[axis] = matches.intersection(places.get(axis, matches))
    rows = (dict(zip(places, row, strict=True)) for row in product(*places.values()))
    return domain.in_order(i for row in rows for i in domain.matching(row)) if domain is not None else []


def _places(points: Points, name: str, value: Any) -> set[int]:
    """Return the points at which a parameter has a value; if none has, those that round to what was typed."""
    places = {place for meaning in _meanings(value) for place in points.places(name, meaning)}
    column = points.columns[points.parameters.index(name)]
    if len(places) > 1:  # `007` is the text before it is the number 7, and `[1, 2]` before it is `[1.0, 2]`
        exact = {p for p in places if isinstance(value, Typed) and value_text(column[p]) == value}
        exact = exact or {p for p in places if any(alike(column[p], meaning) for meaning in _meanings(value))}
        return exact or places
    if not places and isinstance(value, Typed) and (whole := _WHOLE.fullmatch(value)):
        texts = () if isinstance(column, range) or hasattr(column, "place_of") else enumerate(column)
        cells = [(p, _WHOLE.fullmatch(text)) for p, text in texts if isinstance(text, str)]
        matches = {p for p, cell in cells if cell is not None and cell[1] == whole[1]}
        return matches if len(matches) == 1 else set()
    if places or not (isinstance(value, Typed) and value.digits >= LEAST_DIGITS):
        return places
    number = float(value)
    floats = ((place, column[place]) for place in near(column, number))
    return {p for p, v in floats if isinstance(v, float) and float(f"{v:.{value.digits}g}") == number}


def _nothing_at(run: RunReader, stage: str, at: Mapping[str, Any]) -> str:
    for name, value in at.items():
        points = next(
            (p for a in run.workflow.stages[stage].over if (p := run.points(a)) and name in p.parameters),
            None,
        )
        if points is not None and not _places(points, name, value):
            column = points.columns[points.parameters.index(name)]
            nearest = ", ".join(f"{name}={value_text(n)}" for n in _nearest(column, _meanings(value)[0]))
            return f"no task of '{stage}' has {name}={value}; the nearest: {nearest}"
    return f"no task of '{stage}' has {' and '.join(f'{name}={value}' for name, value in at.items())}"


def _nearest(column: Sequence[Any], value: Any, most: int = 3) -> list[Any]:
    places = near(column, value)
    encoded = list(dict.fromkeys(map(json.dumps, (column[i] for i in islice(places, LOOKED_AT)))))
    values = [json.loads(text) for text in encoded]
    if isinstance(value, int | float):
        numbers = [number for number in values if isinstance(number, int | float)]
        return sorted(heapq.nsmallest(most, numbers, key=lambda number: abs(number - value))) or values[:most]
    from difflib import get_close_matches  # only where a word is wrong

    texts = [text for text in values[:500] if isinstance(text, str)]
    return get_close_matches(str(value), texts, n=most, cutoff=0.4) or values[:most]


def _choice(run: RunReader, name: str, value: Any) -> Choice | None:
    axis = run.adaptive.get(name)
    if axis is None:
        return None
    choice = axis.axis.choice(value)
    if choice is None or choice.word not in axis.axis.picks or choice.word == "previous":
        return None
    if (message := axis.axis.refusal(name, choice.word)) is not None:
        raise UsageError(f"{message}: pick {'best' if choice.word == 'pareto' else 'pareto'}")
    return choice


def _chosen(run: RunReader, stage: str, axis: Adaptive, choice: Choice, indices: Sequence[int]) -> list[int]:
    """Return the tasks at the points that a choice picks; the best first, where it picks the best few."""
    domain = run.domain(stage)
    assert domain is not None, "a stage with results has axes that are known"
    places = {index: domain.coordinates(index) for index in indices}
    if choice.word == "last":
        last: dict[tuple[int, ...], int] = {}
        for index, place in places.items():  # in the order of rounds: the last one with a result stays
            last[tuple(at for label, at in place.items() if label != axis.label)] = index
        return sorted(last.values())
    tasks: list[tuple[int, int]] = []
    for index, place in places.items():
        picked = axis.chosen(place, choice)
        if place[axis.label] in picked:
            tasks.append((picked.index(place[axis.label]), index))
    return [index for _, index in sorted(tasks)] if choice.word == "top" else [index for _, index in tasks]
