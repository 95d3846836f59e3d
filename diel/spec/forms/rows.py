"""Axes whose points are rows: of a CSV or JSONL file, or of a list that a stage made."""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from diel.errors import UsageError, counted
from diel.files import read_file, reason
from diel.spec.forms.axis import Axis, Points, bare
from diel.spec.model import Items, Label, SpecModel, Text, no_repeats, optional, written_as
from diel.terms import LIBRARIES, split_place, suffix_of
from diel.values import scalar

MAX_BYTES = 2**31


def read_points(path: Path, label: str, columns: Sequence[str] | None, inside: str | None = None) -> Points:
    """Reads one point from each row of a CSV (with a header) or JSONL file, a table or an array of other
    files.

    Raises UsageError naming the file and the line.
    """
    if suffix_of(path.name) in LIBRARIES:
        from diel.formats.node import BadData, rows_of  # here: few axes are in such files

        try:
            rows = rows_of(str(path), inside, None if columns is None else tuple(columns))
        except BadData as error:
            raise UsageError(f"axis '{label}': {error}") from error
        return rows_to_points(rows, label, columns, str(path))
    try:
        data = read_file(path, MAX_BYTES)
        text = data.decode("utf-8-sig")  # line ends in a cell stay as they are
    except (OSError, ValueError) as error:
        if isinstance(error, UnicodeDecodeError):
            raise UsageError(f"axis '{label}': {path} is not UTF-8 (byte {error.start})") from error
        raise UsageError(f"axis '{label}': cannot read {path}: {reason(error)}") from error
    if len(data) > MAX_BYTES:
        raise UsageError(f"axis '{label}': {path} is larger than 2 GiB")
    items = _jsonl(text, path) if path.suffix in (".jsonl", ".ndjson", ".json") else _csv(text, path)
    return rows_to_points(items, label, columns, str(path))


def _jsonl(text: str, path: Path) -> list[Any]:
    if path.suffix == ".json":
        try:
            whole = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{path}: not JSON: {error}") from error
        if not isinstance(whole, list):
            raise UsageError(f"{path}: expected a list of points")
        return whole
    items = []
    for number, line in enumerate(text.split("\n"), 1):  # a JSON text may hold other line separators
        if line.strip():
            try:
                items.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise UsageError(f"{path}:{number}: not a JSON value: {error}") from error
    return items


def _csv(text: str, path: Path) -> list[Any]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter="\t" if path.suffix == ".tsv" else ",")
    try:
        header = next(reader, None)
        if not header:
            raise UsageError(f"{path}: empty; expected a header line with the parameters' names")
        header = [name.strip() for name in header]
        twice = [name for place, name in enumerate(header) if name in header[:place]]
        if twice:
            raise UsageError(f"{path}:1: the header names '{twice[0]}' twice")
        items = []
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                raise UsageError(
                    f"{path}:{reader.line_num}: {counted(len(row), 'value')}, "
                    f"but the header names {counted(len(header), 'column')}"
                )
            items.append({name: scalar(text) for name, text in zip(header, row, strict=True)})
        return items
    except csv.Error as error:
        raise UsageError(f"{path}:{reader.line_num}: not CSV: {error}") from error


def rows_to_points(items: Iterable[Any], label: str, columns: Sequence[str] | None, source: str) -> Points:
    """Points from a list: mappings give a parameter for each key, anything else the axis's own name.

    Raises UsageError where rows differ in their keys or lack a column.
    """
    items, own = list(items), (bare(label),)
    if not items:
        return Points(tuple(columns or own), ((),) * len(columns or own))
    if columns is not None and isinstance(items[0], list) and tuple(columns) != own:
        fits = (isinstance(item, list) and len(item) == len(columns) for item in items)
        if (odd := next((place for place, good in enumerate(fits) if not good), None)) is not None:
            expected = f"expected {counted(len(columns), 'item')}, for {', '.join(columns)}"
            raise UsageError(f"axis '{label}': {source}: point {odd} is {items[odd]!r:.60}; {expected}")
        return Points.of_rows(tuple(columns), [tuple(item) for item in items])
    if not isinstance(items[0], Mapping):
        if columns is not None and len(columns) > 1:
            raise UsageError(f"axis '{label}': {source} gives plain values, not columns {', '.join(columns)}")
        return Points(tuple(columns or own), (items,))
    names = tuple(columns) if columns is not None else tuple(items[0])
    bad = [name for name in names if not isinstance(name, str) or not name.isidentifier()]
    if bad or not names:
        why = f"column {bad[0]!r} is not a parameter name" if bad else "point 0 gives no parameter a value"
        raise UsageError(f"axis '{label}': {source}: {why}")
    rows = []
    for number, item in enumerate(items):
        missing = [n for n in names if not isinstance(item, Mapping) or n not in item]
        if missing:
            raise UsageError(
                f"axis '{label}': {source}: point {number} has no '{missing[0]}'; "
                f"it has: {', '.join(map(str, item)) if isinstance(item, Mapping) else repr(item)}"
            )
        more = [key for key in item if columns is None and key not in names]
        if more:
            raise UsageError(
                f"axis '{label}': {source}: point {number} has '{more[0]}', and the first one has not; "
                f"name the `columns` to use"
            )
        rows.append(tuple(item[name] for name in names))
    return Points.of_rows(names, rows)


Columns = Annotated[Items[Label], Field(min_length=1), AfterValidator(no_repeats)]


class FileForm(SpecModel, Axis):
    """Points read from a CSV or JSONL file: one point in each row."""

    word: ClassVar[str] = "file"
    kept: ClassVar[bool] = True

    path: Text = Field(min_length=1, description="The file, relative to the workflow file.")
    columns: Columns | None = optional("Columns to use; all if absent.")
    _short = written_as("a file name", "for instance `points.csv`", text="path")

    @property
    def gives(self) -> tuple[str, ...] | None:
        return self.columns

    def listed(self, label: str, folder: Path) -> Points:
        path, inside = split_place(self.path)
        return read_points(folder / path, label, self.columns, inside)


@dataclass(frozen=True)
class Derived(Axis):
    """The points that a STAGE.OUTPUT holds."""

    word: ClassVar[str] = "from"
    kept: ClassVar[bool] = True

    output: str
    columns: tuple[str, ...] | None = None

    @property
    def gives(self) -> tuple[str, ...] | None:
        return self.columns

    @property
    def source(self) -> str:
        return self.output
