"""Axes whose points are rows: of a CSV or JSONL file, or of a list that a stage made."""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from diel.base.cells import QUOTED, BadCell, column_values, lost_spelling, table_values
from diel.base.errors import UsageError, counted
from diel.base.files import read_file, reason
from diel.base.terms import LIBRARIES, format_of, split_place, suffix_of
from diel.base.values import read_json
from diel.workflow.models.contract import ColumnType
from diel.workflow.models.forms.axis import Axis, Points, bare
from diel.workflow.models.model import (
    RESERVED_NAMES,
    Items,
    Label,
    SpecModel,
    Text,
    filled,
    no_repeats,
    optional,
    written_as,
)


def types_of(column: Iterable[Any]) -> str:
    """Return the types of a column's values in words: `float` for whole and other numbers, `int or null`."""
    words = {"null" if value is None else type(value).__name__ for value in column}
    if "float" in words:
        words.discard("int")
    return " or ".join(sorted(words, key=lambda word: (word == "null", word))) or "nothing"


MAX_BYTES = 2**31
NO_TYPES: Mapping[str, str] = MappingProxyType({})


def read_points(
    path: Path,
    label: str,
    columns: Sequence[str] | None,
    inside: str | None = None,
    types: Mapping[str, str] = NO_TYPES,
) -> Points:
    """Read one point a row of a CSV (with a header), JSONL or other file; `types` has those of declared
    columns. Raise UsageError naming the file and the line."""
    if suffix_of(path.name) in LIBRARIES:
        from diel.base.formats.node import BadData, rows_of  # here: few axes are in such files

        try:
            rows, lost = rows_of(str(path), inside, None if columns is None else tuple(columns), types)
        except BadData as error:
            raise UsageError(f"axis '{label}': {error}") from error
        points = rows_to_points(rows, label, columns, str(path), types)
        return replace(points, lost=lost, cells=format_of(path.name) == "frames")
    text = _text(path, f"axis '{label}': ")
    if path.suffix.lower() in TEXTS[2:]:
        return rows_to_points(_jsonl(text, path), label, columns, str(path), types)
    header, rows, lines = read_csv(path, text)
    if not rows:
        return rows_to_points([], label, columns, str(path), types)
    names = tuple(columns or header)
    if missing := [name for name in names if name not in header]:
        raise UsageError(f"axis '{label}': {path}: no column '{missing[0]}'; it has: {', '.join(header)}")
    _refuse_odd(names, label, str(path))
    cells = dict(zip(header, zip(*rows, strict=True), strict=True))
    values: dict[str, list[Any]] = {}
    for name in names:
        try:
            values[name] = column_values(cells[name], types.get(name))
        except BadCell as error:
            hint = "" if name in types else "; `columns` with its type `str` takes it as text"
            raise UsageError(f"{path}:{lines[error.row]}: column '{name}': {error}{hint}") from None
    losses = ((name, lost_spelling(cells[name], values[name])) for name in names if name not in types)
    return Points(names, tuple(values.values()), {name: loss for name, loss in losses if loss}, True)


TEXTS = (".csv", ".tsv", ".json", ".jsonl", ".ndjson")
"""Suffixes of tables in texts."""


def read_table(path: Path, types: Mapping[str, str] | None) -> Any:
    """Return the columns of a CSV, or what a file of JSON holds, for a table in memory. Raise UsageError."""
    types = types or NO_TYPES
    text = _text(path)
    if path.suffix.lower() == ".json":
        return _json(text, str(path))
    if path.suffix.lower() in TEXTS[2:]:
        return _jsonl(text, path)
    header, rows, lines = read_csv(path, text, QUOTED)
    table: dict[str, list[Any]] = {}
    for name, cells in zip(header, zip(*rows, strict=True) if rows else ((),) * len(header), strict=True):
        try:
            table[name] = table_values(cells, types.get(name))
        except BadCell as error:
            raise UsageError(f"{path}:{lines[error.row]}: column '{name}': {error}") from None
    return table


def _text(path: Path, who: str = "") -> str:
    """Return the text of a table; line ends in a cell stay. Raise UsageError."""
    try:
        data = read_file(path, MAX_BYTES)
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{who}{path} is not UTF-8 (byte {error.start})") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{who}cannot read {path}: {reason(error)}") from error
    if len(data) > MAX_BYTES:
        raise UsageError(f"{who}{path} is larger than 2 GiB")
    return text


def _json(text: str, place: str, what: str = "JSON") -> Any:
    try:
        return read_json(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{place}: not {what}: {error}") from error


def _jsonl(text: str, path: Path) -> list[Any]:
    if path.suffix.lower() == ".json":
        whole = _json(text, str(path))
        if not isinstance(whole, list):
            raise UsageError(f"{path}: expected a list of points")
        return whole
    lines = enumerate(text.split("\n"), 1)  # a JSON text may hold other line separators
    return [_json(line, f"{path}:{number}", "a JSON value") for number, line in lines if line.strip()]


def read_csv(
    path: Path, text: str | None = None, quoted: str = ""
) -> tuple[list[str], list[list[str]], list[int]]:
    """Return the header, the rows, and the line of each; `quoted` for cells `""`. Raise UsageError."""
    text, comma = _text(path) if text is None else text, "\t" if path.suffix.lower() == ".tsv" else ","
    if quoted and '""' in text:  # which Python's parser takes for an empty cell
        cells = rf'(^|[{comma}\r\n])("[^"]*+(?:""[^"]*+)*+")(?=[{comma}\r\n]|$)'
        text = re.sub(cells, lambda cell: cell[1] + quoted if cell[2] == '""' else cell[0], text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=comma, strict=True)
    try:
        header = next((row for row in reader if row), None)
        if not header:
            raise UsageError(f"{path}: empty; expected a header line with the parameters' names")
        header = [name.strip().removeprefix(QUOTED) for name in header]
        twice = [name for place, name in enumerate(header) if name in header[:place]]
        if twice:
            raise UsageError(f"{path}:{reader.line_num}: the header names '{twice[0]}' twice")
        rows, lines = [], []
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                raise UsageError(
                    f"{path}:{reader.line_num}: {counted(len(row), 'value')}, "
                    f"but the header names {counted(len(header), 'column')}"
                )
            rows.append(row)
            lines.append(reader.line_num)
        return header, rows, lines
    except csv.Error as error:
        raise UsageError(f"{path}:{reader.line_num}: not CSV: {error}") from error


def _refuse_odd(names: Sequence[Any], label: str, source: str) -> None:
    """Refuse names of columns that no expression can read."""
    bad = [name for name in names if not isinstance(name, str) or not name.isidentifier()]
    clash = [name for name in names if name in RESERVED_NAMES]
    if bad or clash or not names:
        why = f"column {bad[0]!r} is not a parameter name" if bad else "point 0 gives no parameter a value"
        if clash:
            why = (
                f"column '{clash[0]}' has its own meaning in expressions; rename it, or name `columns` to use"
            )
        raise UsageError(f"axis '{label}': {source}: {why}")


def rows_to_points(
    items: Iterable[Any],
    label: str,
    columns: Sequence[str] | None,
    source: str,
    types: Mapping[str, str] = NO_TYPES,
) -> Points:
    """Make points of a list: mappings give a parameter a key, all else the axis's name. Raise UsageError
    where rows differ in their keys, lack a column, or hold a value of another type."""
    points = _points_of_rows(list(items), label, columns, source)
    for name, kind in types.items():
        column = points.columns[points.parameters.index(name)] if name in points.parameters else ()
        for number, value in enumerate(column):
            if value is not None and types_of([value]) not in (kind, "int" if kind == "float" else kind):
                message = f"point {number}: {name} is {value!r:.60}; expected {kind}"
                raise UsageError(f"axis '{label}': {source}: {message}")
    return points


def _points_of_rows(items: list[Any], label: str, columns: Sequence[str] | None, source: str) -> Points:
    own = (bare(label),)
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
    _refuse_odd(names, label, source)
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


Columns = Annotated[
    Annotated[Items[Label], Field(min_length=1), AfterValidator(no_repeats)] | dict[Label, ColumnType],
    filled(dict, "expected at least one column", "write {NAME: str, OTHER: float}"),
]
"""Names of columns, perhaps with the types of their values."""


def typed(columns: Sequence[str] | Mapping[str, str] | None) -> Mapping[str, str]:
    """Return the declared types."""
    return columns if isinstance(columns, Mapping) else NO_TYPES


class FileForm(SpecModel, Axis):
    """Points read from a CSV or JSONL file: one point in each row."""

    word: ClassVar[str] = "file"
    is_kept: ClassVar[bool] = True

    path: Text = Field(min_length=1, description="The file, relative to the workflow file.")
    columns: Columns | None = optional(
        "Columns to use, perhaps with their types: `{sample: str, dose: float}`; all if absent."
    )
    _short = written_as("a file name", "for instance `points.csv`", text="path")

    @property
    def gives(self) -> tuple[str, ...] | None:
        return None if self.columns is None else tuple(self.columns)

    def listed(self, label: str, folder: Path) -> Points:
        path, inside = split_place(self.path)
        return read_points(folder / path, label, self.gives, inside, typed(self.columns))


@dataclass(frozen=True)
class DerivedAxis(Axis):
    """The points that a STAGE.OUTPUT holds."""

    word: ClassVar[str] = "from"
    is_kept: ClassVar[bool] = True

    output: str
    columns: tuple[str, ...] | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    """The types that the axis or its maker's contract declares."""
    promised: Mapping[str, str] = field(default_factory=dict)
    """The types of its maker's contract."""

    @property
    def gives(self) -> tuple[str, ...] | None:
        return self.columns

    @property
    def source(self) -> str:
        return self.output
