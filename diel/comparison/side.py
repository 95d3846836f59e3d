"""One of the runs that are compared: what of it can be read, and what cannot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from diel.errors import DielError, counted
from diel.form import NOT_AS_IT_SHOULD_BE
from diel.journal.segment import Damaged
from diel.results import RunReader
from diel.values import value_text

if TYPE_CHECKING:
    from diel.journal.records import Result

Found = TypeVar("Found")
Point = tuple[tuple[str, str], ...]
"""The names and values that tell a task from the others of its stage; the last pair counts repetitions."""


class Ended(NamedTuple):
    """Tasks of a stage that have a result."""

    seconds: dict[Point, float]
    """Of those that this run computed."""
    values: dict[str, dict[Point, Any]]
    """By output; of an artifact the digest of its content."""
    artifacts: frozenset[str]
    cached: int


class Side:
    """A run to compare. What cannot be read of it is empty, and `notes` say why."""

    def __init__(self, run: RunReader) -> None:
        self.run = run
        self.name = run.paths.run_id
        self.notes: list[str] = []

    def _read(self, part: Callable[[], Found], empty: Found) -> Found:
        try:
            try:
                return self._noted(part())
            except (Damaged, *NOT_AS_IT_SHOULD_BE):
                if self.run.careful:
                    raise
                self.run = RunReader(self.run.paths, careful=True)
                return self._noted(part())
        except DielError as error:
            if str(error) not in self.notes:
                self.notes.append(str(error))
            return empty

    def _noted(self, found: Found) -> Found:
        self.notes += (flaw for flaw in self.run.flaws if flaw not in self.notes)
        return found

    @cached_property
    def stages(self) -> tuple[str, ...]:
        return self._read(lambda: tuple(self.run.history.stages), ())

    @cached_property
    def parts(self) -> Mapping[str, Mapping[str, str]]:
        """By stage, digests of what its tasks share."""
        return self._read(lambda: {name: one.parts for name, one in self.run.history.stages.items()}, {})

    def ended(self, stage: str) -> Ended:
        none = Ended({}, {}, frozenset(), 0)
        return none if stage not in self.stages else self._read(lambda: self._ended(stage), none)

    def _ended(self, stage: str) -> Ended:
        points = self._read(lambda: self._points(stage), None) or (lambda index: {"task": index})
        # By task: of two results of one the last counts.
        results = {record["index"]: record for record in self.run.results(stage)}
        if lost := self.run.damaged(stage, len(results)):
            self.notes.append(f"{self.name}: {counted(lost, 'task')} of '{stage}', damaged in the journal")
        return _gathered([(points(index), results[index]) for index in sorted(results)])

    def _points(self, stage: str) -> Callable[[int], Mapping[str, Any]]:
        """What tells tasks apart: points, but of a search what each trial tries, not its number."""
        run = self.run
        if stage not in run.workflow.stages:
            raise DielError(f"{self.name}: its workflow has no stage '{stage}', its journal has")
        numbers = {label for label in run.workflow.stages[stage].over if _is_searched(run, label)}
        if run.domain(stage) is None:
            raise DielError(f"{self.name}: the points of '{stage}' are not known")

        def point(index: int) -> Mapping[str, Any]:
            own = {name: value for name, value in run.point(stage, index).items() if name not in numbers}
            return own | {f"hp.{n}": value for n, value in run.hyperparameters(stage, index).items()}

        return point


def _is_searched(run: RunReader, label: str) -> bool:
    axis = run.adaptive.get(label)
    return axis is not None and bool(axis.axis.sets)


def _gathered(results: list[tuple[Mapping[str, Any], Result]]) -> Ended:
    seconds: dict[Point, float] = {}
    values: dict[str, dict[Point, Any]] = {}
    artifacts, cached = set(), 0
    seen: Counter[Point] = Counter()
    for told, record in results:
        plain = tuple((name, value_text(value)) for name, value in told.items())
        seen[plain] += 1
        point = (*plain, ("", str(seen[plain])))
        if record["event"] == "done":
            seconds[point] = record["seconds"]
        else:
            cached += 1
        for name, value in record.get("values", {}).items():
            values.setdefault(name, {})[point] = value
        for name, artifact in record.get("artifacts", {}).items():
            artifacts.add(name)
            values.setdefault(name, {})[point] = artifact.get("digest")
    return Ended(seconds, values, frozenset(artifacts), cached)


def point_name(point: Point) -> str:
    """A point for people."""
    return ", ".join(f"{name}={value}" for name, value in point if name)
