"""The results of a stage as rows for plots: all of them, or of many an even choice of points."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from diel.page.chosen import POINTS
from diel.page.outcome.plot import Column, Row, kind_of, thinned
from diel.results import RunReader
from diel.states import TaskState
from diel.tasks.results import outputs_of
from diel.terms import SIMULATED
from diel.values import is_finite

if TYPE_CHECKING:
    from diel.journal.records import Made


BY = Column("by", "result of", "name")
"""Whether a result was simulated, or answered by a model."""
_LOST = (TaskState.FAILED, TaskState.CANCELLED, TaskState.SKIPPED)


class DrawnStage(NamedTuple):
    """What is drawn of a stage."""

    rows: Sequence[Row]
    """In the order of the tasks: `task`, and the columns by their keys; those without a result too."""
    axes: Mapping[str, Sequence[Column]]
    """By axis the parameters that differ; a search's trials, and what it set for them."""
    numbers: Sequence[Column]
    """The outputs that are numbers, and differ."""
    rounds: frozenset[str]
    """The axes whose points follow one another."""
    searched: frozenset[str]
    """The axes whose points a search drew."""
    rule: str
    """Which results are drawn, if not all are."""
    bare: Sequence[str]
    """Outputs with numbers of which there is no chart."""


def sample_of(run: RunReader, stage: str, records: Mapping[int, Made], rule: str = "") -> DrawnStage | None:
    """These results of a stage; None where fewer than two have a number that differs."""
    domain = run.domain(stage)
    if domain is None or domain.size < 2:
        return None
    outputs = _number_outputs(records.values())
    if len(records) < 2 or not outputs:
        return None
    indices = sorted({*records, *_holes(run, stage, len(records))})
    points = [{**run.point(stage, index), **_set(run, stage, index)} for index in indices]
    names = [name for name in dict.fromkeys(key for one in points for key in one) if _differs(points, name)]
    rows: list[dict[str, Any]] = []
    for index, point in zip(indices, points, strict=True):
        values = records.get(index, {}).get("values", {})
        made = {f"y{place}": values.get(name) for place, name in enumerate(outputs)}
        at = {f"x{place}": point.get(name) for place, name in enumerate(names)}
        drawn = {key: value for key, value in made.items() if is_drawable(value)}
        by = {BY.key: "simulation" if values[SIMULATED] else "model"} if SIMULATED in values else {}
        rows.append({"task": f"{stage}/{index}", **at, **drawn, **by})
    numbers = [
        Column(key, named_output(run, stage, name), kind_of((row.get(key) for row in rows), spaced=False))
        for place, name in enumerate(outputs)
        if _differs(rows, key := f"y{place}")
    ]
    of = {name: label for label in domain.axes for name in _parameters(run, label)}
    given = {name: _point_column(run, place, name, of[name], rows) for place, name in enumerate(names)}
    adaptive = frozenset(domain.axes) & frozenset(run.adaptive)
    rounds = frozenset(label for label in adaptive if run.adaptive[label].axis.in_turn)
    axes: dict[str, list[Column]] = {}
    for name, column in given.items():
        axes.setdefault(of[name], []).append(column)
    pairs = [item for one in records.values() for item in one.get("values", {}).items()]
    bare = sorted({name for name, value in pairs if is_finite(value)}.difference(outputs))
    drawn_stage = DrawnStage(rows, axes, numbers, rounds, adaptive - rounds, rule, bare)
    return drawn_stage if numbers and axes else None


def _holes(run: RunReader, stage: str, most: int) -> list[int]:
    """Return tasks that failed, or never ran for it: no line leads over them. Of many, an even choice."""
    history = run.history.stage(stage)
    apart = history.left_out
    lost = (i for i, state in enumerate(history.states) if state in _LOST and not any(apart[i : i + 1]))
    return thinned([*lost], max(most, POINTS))


def is_drawable(value: Any) -> bool:
    """Whether a chart has a place for it: it also computes with ratios and differences of such numbers."""
    return is_finite(value) and (value == 0 or 1e-300 < abs(value) < 1e300)


def _number_outputs(records: Any) -> list[str]:
    """The outputs that are a number for at least half of those that made them."""
    numbers: Counter[str] = Counter()
    there: Counter[str] = Counter()
    order: dict[str, None] = {}
    for record in records:
        order.update(dict.fromkeys(outputs_of(record)))
        for name, value in record.get("values", {}).items():
            there[name] += 1
            numbers[name] += is_drawable(value)
    return [name for name in order if numbers[name] >= 2 and 2 * numbers[name] >= there[name]]


def _set(run: RunReader, stage: str, index: int) -> dict[str, Any]:
    """What searches set for a task."""
    return {f"hp.{name}": value for name, value in run.hyperparameters(stage, index).items()}


def _differs(rows: Sequence[Row], key: str) -> bool:
    found = [str(row[key]) for row in rows if row.get(key) is not None]
    return len(set(found)) > 1


def _parameters(run: RunReader, label: str) -> Sequence[str]:
    points, adaptive = run.points(label), run.adaptive.get(label)
    drawn = () if adaptive is None else [f"hp.{name}" for name in adaptive.axis.sets]
    return (*(() if points is None else points.parameters), *drawn)


def _point_column(run: RunReader, place: int, name: str, axis: str, rows: Sequence[Row]) -> Column:
    """A parameter: on a logarithmic scale if its axis is spaced so, or a search draws it so."""
    key = f"x{place}"
    kind = kind_of(row.get(key) for row in rows)
    if kind == "name":
        return Column(key, name, kind)
    points = run.points(axis)
    if points is None or name not in points.parameters:
        known = run.workflow.hyperparameters[name.removeprefix("hp.")]
        return Column(key, name, "log" if known.log else "number")
    values = points.columns[points.parameters.index(name)]
    if isinstance(values, range):
        return Column(key, name, "number", counts=True)
    elif getattr(values, "powers", False):
        kind = "log"
    return Column(key, name, kind)


def named_output(run: RunReader, stage: str, name: str) -> str:
    """An output, with the units that its stage promises: `energy (eV)`."""
    given = run.workflow.stages[stage].outputs.get(name)
    units = None if given is None else given.units
    return f"{name} ({units})" if isinstance(units, str) and units != "1" else name
