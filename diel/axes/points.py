"""The points of an axis: how many there are, and what each gives.

Listed and computed axes are never written out; files and samples are read once, kept in the run's
directory, and read from there ever after, so that a run does not change when its source does.
"""

from __future__ import annotations

import csv
import io
import json
import math
import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diel.errors import DielError, UsageError, counted
from diel.files import replacing
from diel.given import read_file, reason
from diel.load import scalar
from diel.spec import Axis, Sample, SampleRange, StaticForm, Workflow

MAX_POINTS = 10**9
MAX_BYTES = 2**31


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


@dataclass(frozen=True)
class Spaced(Sequence[float]):
    """Evenly spaced numbers, both ends included, or ten to their power."""

    first: float
    last: float
    size: int
    powers: bool = False

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: Any) -> Any:
        if not 0 <= index < self.size:
            raise IndexError(index)  # what ends an iteration over a sequence
        if index == self.size - 1 and self.size > 1:
            value = self.last
        else:
            gaps = max(self.size - 1, 1)
            step = (self.last - self.first) / gaps
            if math.isinf(step):  # the ends are too far apart for their distance to be a double
                step = self.last / gaps - self.first / gaps
            value = self.first + index * step
        return 10.0**value if self.powers else float(value)


def listed_values(form: StaticForm) -> Sequence[Any]:
    """The values of one parameter: `values`, `linspace`, `logspace` or `range`."""
    if form.values is not None:
        return form.values
    if form.linspace is not None:
        return Spaced(*form.linspace)
    if form.logspace is not None:
        return Spaced(*form.logspace, powers=True)
    if form.range is not None:
        return range(form.range) if isinstance(form.range, int) else range(*form.range)
    raise AssertionError("the loader lets no axis without a form pass")


def static_points(label: str, axis: Axis, workflow: Workflow, folder: Path) -> Points:
    """The points of a static axis. `folder` is the workflow file's.

    Raises UsageError where a file cannot be read, or has no points.
    """
    if axis.zip is not None:
        columns = [listed_values(v) if isinstance(v, StaticForm) else v for v in axis.zip.values()]
        return Listed(tuple(axis.zip), tuple(columns))
    if axis.file is not None:
        return read_points(folder / axis.file.path, label, axis.file.columns)
    if axis.sample is not None:
        return _drawn(axis.sample, workflow)
    return Listed((label,), (listed_values(axis),))


def static_count(axis: Axis, points: Points | None = None) -> int:
    """How many points a static axis has, without drawing any."""
    if axis.sample is not None:
        return axis.sample.points
    if axis.zip is not None:
        first = next(iter(axis.zip.values()))
        return len(listed_values(first) if isinstance(first, StaticForm) else first)
    if points is not None:
        return len(points)
    return len(listed_values(axis))


# --- points from rows -------------------------------------------------------------------------


def read_points(path: Path, label: str, columns: Sequence[str] | None) -> Rows:
    """One point a row of a CSV (with a header) or JSONL file.

    Raises UsageError naming the file and the line.
    """
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
    reader = csv.reader(io.StringIO(text, newline=""))
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


def rows_to_points(items: Iterable[Any], label: str, columns: Sequence[str] | None, source: str) -> Rows:
    """Points from a list: mappings give a parameter a key, anything else the axis's own name.

    Raises UsageError where rows differ in their keys or lack a column.
    """
    items = list(items)
    if not items:
        return Rows(tuple(columns) if columns else (label,), [])
    if not isinstance(items[0], Mapping):
        if columns is not None and tuple(columns) != (label,):
            raise UsageError(f"axis '{label}': {source} gives plain values, no columns {', '.join(columns)}")
        return Rows((label,), [(item,) for item in items])
    names = tuple(columns) if columns is not None else tuple(items[0])
    bad = [name for name in names if not isinstance(name, str) or not name.isidentifier()]
    if bad:
        raise UsageError(f"axis '{label}': {source}: column {bad[0]!r} is no parameter name")
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
    return Rows(names, rows)


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


# --- samples ----------------------------------------------------------------------------------


def sample_ranges(sample: Sample, workflow: Workflow) -> dict[str, SampleRange]:
    """The range of each sampled parameter, from the sample or from the registry's bounds."""
    if isinstance(sample.parameters, Mapping):
        return dict(sample.parameters)
    ranges = {}
    for name in sample.parameters:
        known = workflow.hyperparameters[name]
        if known.low is None or known.high is None or known.type not in ("int", "float"):
            raise UsageError(f"sample: hyperparameter '{name}' has no bounds")
        kind = "int" if known.type == "int" else "float"
        ranges[name] = SampleRange(low=known.low, high=known.high, log=known.log, type=kind)  # type: ignore[arg-type]
    return ranges


def _drawn(sample: Sample, workflow: Workflow) -> Rows:
    ranges = sample_ranges(sample, workflow)
    unit = _unit_points(sample.method, sample.points, len(ranges), sample.seed)
    rows = [tuple(_scale(u, r) for u, r in zip(row, ranges.values(), strict=True)) for row in unit]
    return Rows(tuple(ranges), rows)


def _unit_points(method: str, count: int, dimensions: int, seed: int) -> Iterable[Sequence[float]]:
    """`count` points in the unit cube of so many dimensions."""
    if method == "uniform":
        draw = random.Random(seed)
        return ([draw.random() for _ in range(dimensions)] for _ in range(count))
    try:
        from scipy.stats import qmc  # an extra, and slow to import: only where such an axis is drawn
    except ImportError as error:
        raise DielError(
            f"sample: `{method}` needs SciPy: pip install 'diel[sample]' (`uniform` needs nothing)"
        ) from error
    if method == "lhs":
        return [list(map(float, row)) for row in qmc.LatinHypercube(d=dimensions, rng=seed).random(count)]
    power = math.ceil(math.log2(count))  # Sobol sequences keep their balance in powers of two
    drawn = qmc.Sobol(d=dimensions, rng=seed).random_base2(power)[:count]
    return [list(map(float, row)) for row in drawn]


def _scale(unit: float, bounds: SampleRange) -> float | int:
    """A value in a range from one in [0, 1); a whole number gets half a step on each side of it."""
    low, high = float(bounds.low), float(bounds.high)
    if bounds.type == "int":
        low, high = math.ceil(bounds.low) - 0.5, math.floor(bounds.high) + 0.5
    if bounds.log:
        value = math.exp(math.log(low) + unit * (math.log(high) - math.log(low)))
    elif math.isinf(high - low):  # the bounds are too far apart for their distance to be a double
        value = low * (1.0 - unit) + high * unit
    else:
        value = low + unit * (high - low)
    if bounds.type == "int":
        return max(math.ceil(bounds.low), min(math.floor(bounds.high), round(value)))
    return max(low, min(high, value))  # rounding may end a hair outside
