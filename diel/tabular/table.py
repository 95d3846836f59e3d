"""Rows to learn from: columns of numbers, one of them the target, from lists, mappings or CSV files."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diel.errors import counted

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Table:
    """Features of shape (rows, features), named, and a target of shape (rows,); all of them finite."""

    names: tuple[str, ...]
    """Names of the features."""
    features: Floats
    target: Floats

    @classmethod
    def from_columns(
        cls, columns: Mapping[str, Sequence[float]], target: str, features: Sequence[str] | None = None
    ) -> Table:
        """Return the table of lists by name, to predict the target from the features: all others if None.

        Raise ValueError where columns are missing, differ in length, or hold something that is not finite.
        """
        names = _features(list(columns), target, features)
        lengths = {name: len(columns[name]) for name in (target, *names)}
        if len(set(lengths.values())) != 1:
            listing = ", ".join(f"{name} has {length}" for name, length in lengths.items())
            raise ValueError(f"the columns differ in length: {listing}")
        numbers = {name: [_number(value) for value in columns[name]] for name in (target, *names)}
        for name, values in numbers.items():
            for row, value in enumerate(values):
                if not math.isfinite(value):
                    raise ValueError(
                        f"column '{name}' holds {columns[name][row]} in row {row}; expected a finite number"
                    )
        return cls(tuple(names), np.array([numbers[name] for name in names]).T, np.array(numbers[target]))

    @classmethod
    def from_rows(
        cls, rows: Sequence[Mapping[str, float]], target: str, features: Sequence[str] | None = None
    ) -> Table:
        """Make a table of a mapping a row. Raise ValueError as `from_columns`, or if a row lacks a column."""
        names = _features(list(rows[0]) if rows else [], target, features)
        for number, row in enumerate(rows):
            missing = [name for name in (target, *names) if name not in row]
            if missing:
                raise ValueError(f"row {number} has no '{missing[0]}'; the first row has")
        columns = {name: [row[name] for row in rows] for name in (target, *names)}
        return cls.from_columns(columns, target, names)

    @classmethod
    def from_files(cls, paths: Sequence[Path], target: str, features: Sequence[str] | None = None) -> Table:
        """Return the table of CSV files with headers, one below the other, all with the columns of the first.

        Raise ValueError without a file, for one that cannot be read, and for cells that are no numbers.
        """
        if not paths:
            raise ValueError("table: expected at least one file; found none")
        names, values = _read(paths[0], target, features)
        for path in paths[1:]:
            values += _read(path, target, names)[1]
        array = np.array(values, dtype=float).reshape(-1, len(names) + 1)
        return cls(tuple(names), array[:, 1:], array[:, 0])

    def at_least(self, rows: int, what_for: str = "") -> Table:
        """Return the same table. Raise ValueError, with `what_for`, if it has fewer rows."""
        if len(self) < rows:
            needed = f"{rows} rows, {what_for}" if what_for else f"{rows} rows"
            raise ValueError(f"expected at least {needed}; found {len(self)}")
        return self

    def take(self, rows: NDArray[np.integer[Any]]) -> Table:
        """Return some of the rows, by their places."""
        return Table(self.names, self.features[rows], self.target[rows])

    def save_predictions(self, path: Path, predicted: Floats) -> Path:
        """Write a CSV file of the features, `observed` (the target) and `predicted`; return the path."""
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*self.names, "observed", "predicted"])
            writer.writerows(np.column_stack([self.features, self.target, predicted]).tolist())
        return path

    def __len__(self) -> int:
        return len(self.target)


def _features(
    columns: Sequence[str], target: str, features: Sequence[str] | None, where: str = ""
) -> list[str]:
    """Return the features. Raise ValueError if a column is missing."""
    names = [name for name in columns if name != target] if features is None else list(features)
    for name in (target, *names):
        if name not in columns:
            raise ValueError(f"{where}there is no column '{name}'; the columns are {', '.join(columns)}")
    if not names or target in names:
        raise ValueError(f"{where}expected features other than the target '{target}'; found {names}")
    return names


def _number(value: Any) -> float:
    """Return a value as a number, NaN if it is not one."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def _read(path: Path, target: str, features: Sequence[str] | None) -> tuple[list[str], list[list[float]]]:
    """Return the features, and for each row the target and the features."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = [name.strip() for name in next(reader, [])]
            doubled = [name for name in header if header.count(name) > 1]
            if doubled:
                raise ValueError(f"table: {path.name} has the column '{doubled[0]}' twice")
            names = _features(header, target, features, f"table: {path.name}: ")
            places = [(name, header.index(name)) for name in (target, *names)]
            values = []
            for row in reader:
                if row:
                    where = f"table: {path.name}, line {reader.line_num}"
                    values.append(_row(row, places, len(header), where))
    except OSError as error:
        raise ValueError(f"table: {path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"table: {path.name} is not a CSV file in UTF-8 ({error})") from None
    return names, values


def _row(row: list[str], places: list[tuple[str, int]], width: int, where: str) -> list[float]:
    if len(row) != width:
        raise ValueError(f"{where}: expected {counted(width, 'value')}, as in the header; found {len(row)}")
    numbers = []
    for name, place in places:
        number = _number(row[place])
        if not math.isfinite(number):
            raise ValueError(f"{where}, column '{name}', holds {row[place]!r}; expected a finite number")
        numbers.append(number)
    return numbers
