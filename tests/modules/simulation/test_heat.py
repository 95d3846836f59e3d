"""The heat equation, whole and in strips."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diel
from diel.base.errors import ModuleError
from modules.simulation.heat import heat, part, start


@dataclass
class Table:
    """A tuple space in memory."""

    tuples: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def put(self, key: Sequence[Any], value: Any) -> None:
        with self.changed:
            assert tuple(key) not in self.tuples
            self.tuples[tuple(key)] = np.array(value)
            self.changed.notify_all()

    def take(self, key: Sequence[Any], timeout: float) -> tuple[tuple[Any, ...], Any]:
        with self.changed:
            assert self.changed.wait_for(lambda: tuple(key) in self.tuples, min(timeout, 20))
            return tuple(key), self.tuples.pop(tuple(key))


@dataclass(frozen=True)
class Beside(diel.Context):
    """A task whose tuple space is in memory."""

    table: Any = None

    @property
    def space(self) -> Any:
        return self.table


def test_a_step_is_one_of_the_five_point_scheme() -> None:
    rows, columns, rate = 7, 9, 0.2
    down, along = (np.diag(np.ones(n - 1), 1) + np.diag(np.ones(n - 1), -1) for n in (rows, columns))
    inner = np.zeros((rows, columns))
    inner[1:-1, 1:-1] = 1
    neighbours = np.kron(down, np.eye(columns)) + np.kron(np.eye(rows), along)
    matrix = np.eye(rows * columns) + rate * inner.ravel()[:, None] * (
        neighbours - 4 * np.eye(rows * columns)
    )
    expected = np.linalg.matrix_power(matrix, 30) @ start(rows, columns).ravel()
    result = heat(rows, columns, 30, rate)
    assert result["field"].ravel() == pytest.approx(expected, abs=1e-13)
    assert result["heat"] == pytest.approx(expected.sum())


def test_in_the_end_the_plate_is_as_its_edges_make_it() -> None:
    field = heat(12, 16, 3000)["field"]
    middle = field[1:-1, 1:-1]
    around = (field[:-2, 1:-1] + field[2:, 1:-1] + field[1:-1, :-2] + field[1:-1, 2:]) / 4
    assert middle == pytest.approx(around, abs=1e-9)  # Laplace's equation
    assert (np.diff(field[1:-1], axis=1) < 0).all()  # colder the further from the hot edge


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_strips_put_together_equal_the_plate_in_every_bit(parts: int, tmp_path: Path) -> None:
    table = Table()
    context = Beside(task_dir=tmp_path, table=table)
    with ThreadPoolExecutor(parts) as threads:
        strips = list(
            threads.map(lambda number: part(context, number, parts, 10, 14, 60, 0.25), range(parts))
        )
    whole = heat(10, 14, 60, 0.25)["field"]
    assert (np.concatenate([strip["field"] for strip in strips], axis=1) == whole).all()
    assert [strip["first"] for strip in strips] == [number * 14 // parts for number in range(parts)]
    assert sum(strip["exchanged"] for strip in strips) == 60 * 2 * (parts - 1)
    assert not table.tuples  # each edge was for one neighbour, who took it


def test_a_strip_that_cannot_be_is_refused(context: diel.Context) -> None:
    with pytest.raises(ValueError, match="a number below 2 of at most 64 strips; found 2"):
        part(context, 2)
    with pytest.raises(ModuleError, match="beside"):
        part(context, 0)
