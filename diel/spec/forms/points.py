"""Points: what each gives.

Points that are listed or computed are never written out; what was read, drawn or made is kept in the run's
directory, and read from there ever after, so that a run does not change when its source does.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diel.files import replacing


class Points(ABC):
    """An ordered sequence of points; each gives the same parameters a value."""

    parameters: tuple[str, ...]

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def values(self, index: int) -> tuple[Any, ...]:
        """The values of a point, in the order of `parameters`."""

    def find(self, wanted: Any) -> int | None:
        """The index of the first point with this value: a value, or a mapping of parameters."""
        single = len(self.parameters) == 1
        if not isinstance(wanted, Mapping) or (single and self.parameters[0] not in wanted):
            wanted = {self.parameters[0]: wanted} if single else None
        if wanted is None or not set(wanted) <= set(self.parameters):
            return None
        columns = [self.parameters.index(name) for name in wanted]
        targets = list(wanted.values())
        for index in range(len(self)):
            point = self.values(index)
            if all(_same(point[c], target) for c, target in zip(columns, targets, strict=True)):
                return index
        return None


def _same(found: Any, wanted: Any) -> bool:
    numbers = (int, float)
    if isinstance(found, numbers) and isinstance(wanted, numbers):
        return math.isclose(found, wanted, rel_tol=1e-9, abs_tol=0.0) or found == wanted
    return bool(found == wanted)


@dataclass(frozen=True)
class Listed(Points):
    """Values that are written down: one column a parameter, all of the same length."""

    parameters: tuple[str, ...]
    columns: tuple[Sequence[Any], ...]

    def __len__(self) -> int:
        return len(self.columns[0])

    def values(self, index: int) -> tuple[Any, ...]:
        return tuple(column[index] for column in self.columns)


@dataclass(frozen=True)
class Rows(Points):
    """Points that were read from a file or handed over by a stage: one row a point."""

    parameters: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]

    def __len__(self) -> int:
        return len(self.rows)

    def values(self, index: int) -> tuple[Any, ...]:
        return self.rows[index]


class Counted(Points):
    """Points that are numbers, counted from 0: of a search, a loop, the replicas of a service."""

    def __init__(self, label: str, size: int) -> None:
        self.parameters = (label,)
        self._size = size

    def __len__(self) -> int:
        return self._size

    def values(self, index: int) -> tuple[Any, ...]:
        return (index,)


def keep(points: Points, path: Path) -> None:
    """Writes points as JSON lines: the parameters first, then one line a point."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(json.dumps(points.parameters).encode() + b"\n")
        file.writelines(json.dumps(points.values(index)).encode() + b"\n" for index in range(len(points)))


def kept(path: Path) -> Rows | None:
    """The points that `keep` wrote, or None."""
    try:
        with open(path, encoding="utf-8") as file:
            parameters = tuple(json.loads(file.readline()))
            return Rows(parameters, [tuple(json.loads(line)) for line in file])
    except FileNotFoundError:
        return None
