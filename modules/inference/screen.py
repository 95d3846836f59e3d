"""Inference by a model of `training.mlp`, `training.torch_mlp`, `training.small_mlp` or `training.course`,
by numpy alone: a screen of millions of states, or a few.

inference.screen            a grid, a random or Sobol sample, or a file of states, as a stream of blocks
inference.screen:merge      several parts of such a stream, as if they had been one
inference.screen:predict    lists of values, for instance those of another stage
inference.screen:latency    how long a prediction takes
"""

from __future__ import annotations

import math
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Annotated, Literal, TypedDict
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

import diel
from diel import tabular

Range = Annotated[list[float], Field(min_length=2, max_length=2)]
SAVE_EVERY = 5.0
"""Seconds between two checkpoints, where the stage keeps them."""
TABLE = 8192
"""States of the last axes of a grid that are kept as a table."""
RESULT = 1_000_000
"""Bytes of a result, with room for the rest of it."""
SOBOL = 30
"""Bits of SciPy's Sobol points: 2^30 of them differ."""


class Histogram(TypedDict):
    """How the predictions are distributed."""

    low: float
    """Where the first bin begins."""
    width: float
    """Of a bin: a power of two."""
    counts: list[int]


class Screen(TypedDict):
    """What the model says of all states."""

    summary: Path
    """All of this, for `inference.screen:merge`."""
    count: int
    """0 in some parts where `parts` are more than states."""
    minimum: float
    """Of no states infinite, as `maximum`; their `mean` is not a number."""
    maximum: float
    mean: float
    best: list[dict[str, float]]
    """The best states, the best one first: their features and `prediction`."""
    histogram: Histogram


class Prediction(TypedDict):
    """Predictions in the order of the rows."""

    prediction: list[float]


class Latency(TypedDict):
    """Times in microseconds."""

    time_per_state: float
    """Median over the repeats."""
    fastest: float
    """Of a state, in the fastest repeat."""


@diel.module(kind="inference")
def screen(
    model: Path,
    context: diel.Context,
    ranges: dict[str, Range] | None = None,
    values: dict[str, Annotated[list[float], Field(min_length=1)]] | None = None,
    candidates: Path | None = None,
    points: Annotated[int, Field(ge=1, le=1_000_000_000_000)] = 1_000_000,
    method: Literal["uniform", "sobol", "grid"] = "uniform",
    goal: Literal["maximize", "minimize", "match"] = "maximize",
    match: float | None = None,
    keep: Annotated[int, Field(ge=1, le=5_000)] = 10,
    bins: Annotated[int, Field(ge=2, le=100_000)] = 100,
    batch: Annotated[int, Field(ge=1)] = 8192,
    seed: Annotated[int, Field(ge=0)] = 0,
    part: Annotated[int, Field(ge=0)] = 0,
    parts: Annotated[int, Field(ge=1, le=1_000_000)] = 1,
) -> Screen:
    """Predict a property of many states, and keep the best of them and a histogram.

    model: .npz written by `training.mlp`, `training.torch_mlp`, `training.small_mlp` or
        `training.course:want`; loaded once in a worker
    ranges: [low, high] by feature; states are drawn between them
    values: the numbers that a feature may have, instead of its range
    candidates: states instead of these: a .npy of shape (states, features), in the model's order, or a
        structured one with a field a feature
    points: states to draw; a grid has no more in all
    method: `uniform` draws independently, `sobol` draws evenly (I. M. Sobol, 1967; scrambled; at most 2^30
        points), `grid` is the product of the axes: all values, and evenly spaced numbers of each range, as
        many a side as `points` allows, both ends included; a range of no width is one value
    goal: which states are best: largest, smallest, or closest to `match`
    match: the prediction wanted, with `goal: match`
    keep: best states to return, no state twice, and no more than a result can hold; an axis
        `{from: screen.best}` then runs a stage over them
    bins: of the histogram, at most
    batch: states in memory at a time
    seed: of the draw
    part, parts: screens only this part of the same states, the first one being 0. A stage over an axis
        `part: {range: 64}` uses all cores, and `inference.screen:merge` puts its parts together.

    No state is written: memory is bounded by `batch`, whatever `points` is. With `checkpoint: true` a task
    that was stopped or killed goes on where it was, and ends with the same numbers. Raise ValueError where
    states and model do not fit each other.
    """
    network = load_model(model, context)
    if (goal == "match") != (match is not None):
        raise ValueError("`match` is the prediction wanted with `goal: match`: give both, or neither")
    if match is not None and not math.isfinite(match):
        raise ValueError(f"match: expected a finite number; found {match}")
    if part >= parts:
        raise ValueError(f"part {part} of {parts}: the last one is {parts - 1}")
    names = (*network.features, "prediction")
    # refuse now what would be too large for a result after the work: numbers take 26 characters
    most = (RESULT - bins * (len(str(points // bins)) + 3)) // sum(len(name) + 30 for name in names)
    if keep > most:
        raise ValueError(
            f"keep: {keep} states of {len(names) - 1} features and {bins} bins are more than a result holds, "
            f"1 MiB; expected {max(most, 0)} states at most, or fewer bins"
        )
    count, blocks = _states(network, ranges, values, candidates, points, method, seed, context)
    start, stop = (count * n // parts for n in (part, part + 1))
    saved = context.checkpoint_dir / "summary.npz" if context.checkpoint else None
    summary = _Summary(names, goal, match, keep, bins)
    if saved is not None and saved.exists():  # by an earlier attempt at this task
        try:
            summary = _Summary.load(saved)
        except ValueError as error:
            sys.stderr.write(f"the checkpoint is damaged, and this part begins anew: {error}\n")
    last = time.monotonic()
    for block in blocks(start + summary.count, stop, max(1, min(batch, stop - start))):
        summary.add(block, network.predict(block), start)
        if saved is None:
            continue
        interrupted = context.interrupted and start + summary.count < stop
        if interrupted or time.monotonic() - last > SAVE_EVERY:
            summary.save(saved)
            context.report(states=summary.count)
            last = time.monotonic()
        if interrupted:
            raise diel.Interrupted(f"{summary.count} of {stop - start} states are done")
    return summary.result(context.task_dir / "summary.npz")


@diel.module(kind="inference")
def merge(parts: list[Path], context: diel.Context) -> Screen:
    """Put the parts of a screen together, as if it had been one.

    parts: `summary` of each, in order: `inputs: {parts: screen.summary}`

    Raise ValueError where they are not parts of one screen.
    """
    if not parts:
        raise ValueError("expected at least one part; found none")
    whole, *rest = map(_Summary.load, parts)
    for other in rest:
        whole.join(other)
    return whole.result(context.task_dir / "summary.npz")


@diel.module(kind="inference")
def predict(model: Path, columns: dict[str, list[float]], context: diel.Context) -> Prediction:
    """Predict a property of a few states, given as lists.

    model: .npz written by `training.mlp` or `training.torch_mlp`; loaded once in a worker
    columns: lists of equal length by feature; further columns are passed over

    Raise ValueError where a feature is missing or the lists differ in length.
    """
    network = load_model(model, context)
    return {"prediction": network.predict(network.rows(columns)).tolist()}


@diel.module(kind="inference")
def latency(
    model: Path,
    context: diel.Context,
    states: Annotated[int, Field(ge=1)] = 1024,
    repeats: Annotated[int, Field(ge=1)] = 201,
) -> Latency:
    """Measure how long a model takes to predict a state.

    model: .npz written by `training.mlp`
    states: states of one prediction, drawn around those that the model was trained on
    repeats: predictions that are timed, one by one

    The median is not moved by the repeats in which another process had the core; a few predictions
    before the first are not timed, for memory and caches to be as they will stay. Give the stage
    `cores_per_rank: 1` (the default), so that models are compared on one core each.
    """
    network = load_model(model, context)
    draw = np.random.default_rng(0).normal(size=(states, len(network.features)))
    inputs = draw * network.scale.feature_scale + network.scale.feature_mean
    times = []
    for repeat in range(-5, repeats):
        began = perf_counter()
        network.predict(inputs)
        if repeat >= 0:
            times.append((perf_counter() - began) / states * 1e6)
    return {"time_per_state": median(times), "fastest": min(times)}


def load_model(path: Path, context: diel.Context) -> tabular.Model:
    """Return a file's model, read at most once in a worker process. Raise ValueError where it is none."""
    version = path.stat().st_mtime_ns
    return context.cached(("inference.screen", str(path), version), lambda: tabular.Model.load(path))


@dataclass
class _Summary:
    """The best of a stream of states, and how its predictions are distributed; grows block by block."""

    names: tuple[str, ...]
    """The features, and `prediction`."""
    goal: str
    match: float | None
    keep: int
    bins: int
    count: int = 0
    total: float = 0.0
    low: float = math.inf
    high: float = -math.inf
    exponent: int = 0
    """Bins are 2^exponent wide, and begin at multiples of that: the narrowest that reach from low to high. So
    they depend on no order, are merged in pairs as the range of predictions grows, and parts merge exactly.
    """
    first: int = 0
    """The first bin begins at first × 2^exponent."""
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    best: tabular.Floats = field(default_factory=lambda: np.empty((0, 0)))
    """Shape (states, names), the best first, none twice; of equals the earlier. Rows after the first `keep`
    are better than the last of these, and wait for `_sort`."""

    def __post_init__(self) -> None:
        self.best = self.best.reshape(-1, len(self.names))

    def add(self, states: tabular.Floats, predicted: tabular.Floats, start: int = 0) -> None:
        """Take a block in. Raise ValueError where a prediction is not finite."""
        low, high = float(predicted.min()) + 0.0, float(predicted.max()) + 0.0  # + 0.0: -0.0 is 0.0
        if not (math.isfinite(low) and math.isfinite(high)):
            row = start + self.count + int(np.argmin(np.isfinite(predicted)))
            hint = "look at that state and at the model"
            raise ValueError(f"the prediction for state {row} is not finite; {hint}")
        self._select(states, predicted, low, high)
        self._widen(low, high)
        places = _places(predicted, self.exponent)
        places -= self.first
        self.counts += np.bincount(places, minlength=len(self.counts))
        self.total += float(predicted.sum())
        self.count += len(predicted)

    def join(self, other: _Summary) -> None:
        """Take in the summary of later states."""
        for name in ("names", "goal", "match", "keep", "bins"):
            mine, its = getattr(self, name), getattr(other, name)
            if mine != its:
                raise ValueError(f"these are parts of different screens: {name} is {mine} and {its}")
        if not other.count:
            return
        self._widen(other.low, other.high)
        self._pour(other.exponent, other.first, other.counts)
        self._put(other.best)
        self._sort()
        self.total += other.total
        self.count += other.count

    def _cost(self, predicted: tabular.Floats) -> tabular.Floats:
        if self.goal == "match":
            assert self.match is not None
            return np.asarray(np.abs(predicted - self.match))
        return predicted if self.goal == "minimize" else -predicted

    def _select(self, states: tabular.Floats, predicted: tabular.Floats, low: float, high: float) -> None:
        """Keep states better than the worst kept one: hardly any, after the first blocks."""
        if len(self.best) < self.keep and len(predicted) > (few := 8 * self.keep):
            self._select(states[:few], predicted[:few], low, high)  # most others are no better than these
            states, predicted = states[few:], predicted[few:]
        if len(self.best) >= self.keep:
            worst = float(self._cost(self.best[self.keep - 1, -1:])[0])
            if (self.goal == "minimize" and low >= worst) or (self.goal == "maximize" and -high >= worst):
                return
            better = np.flatnonzero(self._cost(predicted) < worst)
            states, predicted = states[better], predicted[better]
        if len(predicted):
            self._put(np.column_stack([states, predicted]))

    def _put(self, rows: tabular.Floats) -> None:
        """Add rows; they wait until they are as many as are kept, as sorting many for each block is slow."""
        full = len(self.best) >= self.keep
        self.best = np.concatenate([self.best, rows])
        if not full or len(self.best) >= 2 * self.keep:
            self._sort()

    def _sort(self) -> None:
        """Keep the best states, each once: a state that is drawn again tells nothing new."""
        rows = self.best[np.argsort(self._cost(self.best[:, -1]), kind="stable")]
        copies = (rows[1:] == rows[:-1]).all(axis=1)  # most of them, quickly
        rows = np.concatenate([rows[:1], rows[1:][~copies]])
        firsts: dict[tuple[float, ...], int] = {}
        for begin in range(0, len(rows), 2 * self.keep):
            states = map(tuple, rows[begin : begin + 2 * self.keep, :-1].tolist())
            for place, state in enumerate(states, begin):
                firsts.setdefault(state, place)
            if len(firsts) >= self.keep:
                break
        self.best = rows[list(firsts.values())[: self.keep]]

    def _widen(self, low: float, high: float) -> None:
        """Make the bins reach from low to high too."""
        low, high = min(low, self.low), max(high, self.high)
        if (low, high) == (self.low, self.high):
            return
        before = self.exponent, self.first, self.counts
        self.low, self.high = low, high
        self.exponent, self.first, last = _reach(low, high, self.bins)
        self.counts = np.zeros(last - self.first + 1, np.int64)
        self._pour(*before)

    def _pour(self, exponent: int, first: int, counts: NDArray[np.int64]) -> None:
        """Add counts of bins of the same width, or of narrower ones."""
        places = (np.arange(len(counts)) + first) >> (self.exponent - exponent)
        np.add.at(self.counts, places - self.first, counts)

    def save(self, path: Path) -> Path:
        """Write all of it, in one step."""
        self._sort()
        part = path.with_suffix(".part")
        arrays = {**vars(self), "match": np.nan if self.match is None else self.match}
        with part.open("wb") as file:
            np.savez(file, **arrays)
        part.replace(path)
        return path

    @classmethod
    def load(cls, path: Path) -> _Summary:
        """Return a summary that `save` wrote. Raise ValueError where the file holds none."""
        try:
            with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                arrays = {entry.name: file[entry.name] for entry in fields(cls)}
        except (KeyError, ValueError, TypeError, EOFError, BadZipFile, zlib.error) as error:
            raise ValueError(f"{path} is no summary of inference.screen ({error})") from error
        values = {name: array if array.ndim else array.item() for name, array in arrays.items()}
        values["names"] = tuple(map(str, arrays["names"]))
        return cls(**values | {"match": None if math.isnan(values["match"]) else values["match"]})

    def result(self, path: Path) -> Screen:
        """Return the outputs of the stage, and write the summary to the path."""
        width = 2.0**self.exponent
        return {
            "summary": self.save(path),
            "count": self.count,
            "minimum": self.low,
            "maximum": self.high,
            "mean": self.total / self.count if self.count else math.nan,
            "best": [dict(zip(self.names, row, strict=True)) for row in self.best.tolist()],
            "histogram": {"low": self.first * width, "width": width, "counts": self.counts.tolist()},
        }


def _places(values: tabular.Floats, exponent: int) -> NDArray[np.int64]:
    """Return the bins, 2^exponent wide, that values lie in; the one from zero on is number 0."""
    places = values * 2.0**-exponent
    np.floor(places, out=places)
    if exponent > 0:  # a product that is rounded to zero
        places[(places == 0) & (values < 0)] = -1
    return places.astype(np.int64)


def _reach(low: float, high: float, bins: int) -> tuple[int, int, int]:
    """Find the narrowest bins, `bins` at most, from low to high: exponent, number of the first and the last.

    At their narrowest they tell apart all numbers as large as the larger end (down to 2^-1000). So equal
    numbers have the narrowest bin of all, and any wider range has bins that it fits into.
    """
    exponent = max(math.frexp(math.ulp(max(-low, high)))[1] - 1, -1000)
    first, last = _places(np.array([low, high]), exponent).tolist()
    while last - first >= bins:
        first, last, exponent = first >> 1, last >> 1, exponent + 1
    return exponent, first, last


Blocks = Iterator[tabular.Floats]


_Stream = tuple[int, Callable[[int, int, int], Blocks]]
"""How many states there are, and a function of start, stop and batch that makes blocks (states, features).

A feature's numbers lie side by side: NumPy is slow where it has to begin anew after each two or three."""


def _states(
    model: tabular.Model,
    ranges: dict[str, list[float]] | None,
    values: dict[str, list[float]] | None,
    candidates: Path | None,
    points: int,
    method: str,
    seed: int,
    context: diel.Context,
) -> _Stream:
    if (candidates is None) == (not ranges and not values):
        raise ValueError("expected exactly one of `ranges` (with `values`) and `candidates`")
    if candidates is not None:
        return _from_file(model, candidates)
    ranges, values = ranges or {}, values or {}
    names = [*ranges, *values]
    if sorted(names) != sorted(model.features):
        features = ", ".join(model.features)
        raise ValueError(f"the model's features are {features}; ranges are given for {', '.join(names)}")
    for name, (low, high) in ranges.items():
        if not (low <= high and math.isfinite(high - low)):
            raise ValueError(
                f"ranges: expected [low, high] of {name}, two finite numbers, low first; found {[low, high]}"
            )
    for name in (name for name, numbers in values.items() if not np.isfinite(numbers).all()):
        raise ValueError(f"values: expected finite numbers of {name}; found {values[name]}")
    values = values | {name: [low] for name, (low, high) in ranges.items() if low == high}
    choices = [np.array(values[name], float) if name in values else None for name in model.features]
    pairs = [[0, len(values[name])] if name in values else ranges[name] for name in model.features]
    bounds = np.array(pairs, float)
    if method == "grid":
        return _grid(bounds, choices, points)
    cube = _uniform(len(bounds), seed) if method == "uniform" else _sobol(len(bounds), points, seed, context)

    def blocks(start: int, stop: int, batch: int) -> Blocks:
        low, width = bounds[:, 0], bounds[:, 1] - bounds[:, 0]
        for block in cube(start, stop, batch):
            for column, numbers in enumerate(choices):
                block[column] *= width[column]
                block[column] += low[column]
                if numbers is not None:
                    block[column] = numbers[block[column].astype(np.intp)]
            yield block.T

    return points, blocks


def _uniform(wide: int, seed: int) -> Callable[[int, int, int], Blocks]:
    """Draw numbers from 0 to 1, shape (features, states): those of a seed, wherever a part begins."""

    def blocks(start: int, stop: int, batch: int) -> Blocks:
        bits = np.random.PCG64(seed)
        rng = np.random.Generator(bits.advance(start * wide))
        for begin in range(start, stop, batch):
            yield np.ascontiguousarray(rng.random((min(batch, stop - begin), wide)).T)

    return blocks


def _sobol(wide: int, points: int, seed: int, context: diel.Context) -> Callable[[int, int, int], Blocks]:
    """Make scrambled Sobol points, SciPy's own, from any place on.

    x(n) is linear in the bits of n, by exclusive or, as Gray's code is (I. A. Antonov, V. M. Saleev, 1979):
    any block of 2^m points is the first one, changed by one number for each dimension.
    """
    if points > 2**SOBOL:
        raise ValueError(f"there are {2**SOBOL} Sobol points at most; found points: {points}")
    high = max(1, (points - 1).bit_length())
    key = ("inference.screen:sobol", wide, high, seed)
    table, corners = context.cached(key, lambda: _sobol_table(wide, high, seed))
    size = table.shape[1]

    def blocks(start: int, stop: int, batch: int) -> Blocks:
        step = min(size, 1 << (batch.bit_length() - 1))
        begin = start
        while begin < stop:
            end = min(stop, begin - begin % step + step)
            base = begin - begin % size
            offset = np.zeros(wide, np.uint32)
            for bit, corner in corners.items():
                if base >> bit & 1:
                    offset ^= corner
            yield (table[:, begin - base : end - base] ^ offset[:, None]) * 2.0**-SOBOL
            begin = end

    return blocks


def _sobol_table(wide: int, high: int, seed: int) -> tuple[NDArray[np.uint32], dict[int, NDArray[np.uint32]]]:
    """Return the first points, times 2^30, and by bit the change of a point that has this bit too."""
    from scipy.stats import qmc  # only here: it takes long to import, and grids do without

    def whole(points: tabular.Floats) -> NDArray[np.uint32]:
        return np.ascontiguousarray((points * 2**SOBOL).T, np.uint32)

    engine = qmc.Sobol(wide, scramble=True, rng=seed, bits=SOBOL)
    bits = min(high, 12)
    table = whole(engine.random(2**bits))
    corners, done = {}, 2**bits
    for bit in range(bits, high):
        engine.fast_forward(2**bit - done)
        corners[bit] = whole(engine.random(1))[:, 0] ^ table[:, 0]
        done = 2**bit + 1
    return table, corners


def _grid(bounds: tabular.Floats, choices: list[tabular.Floats | None], points: int) -> _Stream:
    """Make the product of all axes; the last one changes from state to state."""
    lengths = [len(choice) for choice in choices if choice is not None]
    free, fixed = len(choices) - len(lengths), math.prod(lengths)
    side = int((points / fixed) ** (1 / free)) if free else 0
    if free and (side + 1) ** free * fixed <= points:  # the root may be rounded down
        side += 1
    sides = [side if choice is None else len(choice) for choice in choices]
    if not 1 <= math.prod(sides) <= points:
        raise ValueError(f"the product of `values` has {fixed} states; `points` allows {points}")

    def numbers(axis: int, places: NDArray[np.int64]) -> tabular.Floats:
        chosen = choices[axis]
        if chosen is not None:
            return chosen[places]
        low, high = bounds[axis]
        return np.asarray(low + places * ((high - low) / max(1, sides[axis] - 1)))

    inner, cycle = len(sides), 1  # the last axes, whose product is kept as a table
    while inner and cycle * sides[inner - 1] <= TABLE:
        inner -= 1
        cycle *= sides[inner]

    def product(axes: range, places: NDArray[np.int64]) -> tabular.Floats:
        columns = np.empty((len(axes), len(places)))
        for axis in reversed(axes):
            places, place = np.divmod(places, sides[axis])
            columns[axis - axes.start] = numbers(axis, place)
        return columns

    def blocks(start: int, stop: int, batch: int) -> Blocks:
        turns = np.repeat(np.arange(2 + batch // cycle), cycle)  # a block begins anywhere in a turn
        table = np.tile(product(range(inner, len(sides)), np.arange(cycle)), 2 + batch // cycle)
        for begin in range(start, stop, batch):
            end = min(begin + batch, stop)
            first = begin // cycle
            outer = product(range(inner), np.arange(first, (end - 1) // cycle + 1))
            if inner == len(sides):
                yield outer.T
                continue
            places = slice(begin - first * cycle, end - first * cycle)
            yield np.concatenate([outer.take(turns[places], axis=1), table[:, places]]).T

    return math.prod(sides), blocks


def _from_file(model: tabular.Model, path: Path) -> _Stream:
    try:
        states = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"candidates: {path.name} is no .npy file of numbers ({error})") from error
    names, needed = states.dtype.names, ", ".join(model.features)
    if names is not None and not set(model.features) <= set(names):
        fields_there = ", ".join(names)
        raise ValueError(f"candidates: {path.name} has the fields {fields_there}; the model needs {needed}")
    if names is None and (states.ndim != 2 or states.shape[1] != len(model.features)):
        raise ValueError(
            f"candidates: {path.name} has the shape {states.shape}; "
            f"expected (states, {len(model.features)}), a column for each of {needed}"
        )
    if not len(states):
        raise ValueError(f"candidates: {path.name} holds no states")

    def blocks(start: int, stop: int, batch: int) -> Blocks:
        for begin in range(start, stop, batch):
            block = states[begin : min(begin + batch, stop)]
            if names is not None:
                block = np.column_stack([block[name] for name in model.features])
            rows = np.asarray(block, dtype=float)
            if not (good := np.isfinite(rows)).all():
                row, column = np.argwhere(~good)[0].tolist()
                what = f"{model.features[column]} of state {begin + row} is {rows[row, column]}"
                raise ValueError(f"candidates: {what}; expected finite numbers")
            yield rows

    return len(states), blocks
