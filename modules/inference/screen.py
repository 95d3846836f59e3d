"""Inference with a model of `training.mlp` or `training.torch_mlp`, by numpy alone: a screen of millions of
states, or a few.

inference.screen            a grid, a random sample or a file of states, in batches
inference.screen:predict    lists of values, for instance those of another stage
inference.screen:latency    how long a prediction takes
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Annotated, Literal, TypedDict

import numpy as np
from pydantic import Field

import diel
from diel import tabular


class Screen(TypedDict):
    """What the model says of all states."""

    predictions: Path
    """Structured .npy with a field a feature and the field `prediction`: shape (count,), float64.
    Open it by `numpy.load(path, mmap_mode="r")`."""
    count: int
    minimum: float
    maximum: float
    mean: float
    best: list[dict[str, float]]
    """The best states, the best one first: their features and `prediction`."""


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
    ranges: dict[str, Annotated[list[float], Field(min_length=2, max_length=2)]] | None = None,
    candidates: Path | None = None,
    points: Annotated[int, Field(ge=1, le=1_000_000_000)] = 1_000_000,
    method: Literal["uniform", "grid"] = "uniform",
    goal: Literal["maximize", "minimize", "match"] = "maximize",
    match: float | None = None,
    keep: Annotated[int, Field(ge=1, le=10_000)] = 10,
    batch: Annotated[int, Field(ge=1)] = 16384,
    seed: Annotated[int, Field(ge=0)] = 0,
) -> Screen:
    """Predicts a property of many states, and keeps the best of them.

    model: .npz written by `training.mlp` or `training.torch_mlp`; loaded once in a worker
    ranges: [low, high] by feature; states are drawn between them
    candidates: states instead of ranges: a .npy of shape (states, features), in the model's order, or a
        structured one with a field a feature, such as `predictions` of another screen
    points: states to draw; a grid has as many a side as do not exceed them in all
    method: `uniform` draws independently, `grid` spaces evenly with both ends included
    goal: which states are best: largest, smallest, or closest to `match`
    match: the prediction wanted, with `goal: match`
    keep: best states to return; an axis `{from: screen.best}` then runs a stage over them
    batch: states in memory at a time
    seed: of the uniform draw

    Memory is bounded by `batch`, whatever `points` is: states are read from and written to
    memory-mapped files. Raises ValueError where states and model do not fit each other.
    """
    network = load_model(model, context)
    if (goal == "match") != (match is not None):
        raise ValueError("`match` is the prediction wanted with `goal: match`: give both, or neither")
    count, states = _states(network, ranges, candidates, points, method, batch, seed)
    path = context.task_dir / "predictions.npy"
    names = (*network.features, "prediction")
    fields = np.dtype([(name, np.float64) for name in names])
    table = np.lib.format.open_memmap(path, mode="w+", dtype=fields, shape=(count,))
    best: tabular.Floats = np.empty((0, len(names)))
    low, high, total, start = math.inf, -math.inf, 0.0, 0
    for block in states:
        predicted = network.predict(block)
        if not np.isfinite(predicted).all():
            row = start + int(np.argmin(np.isfinite(predicted)))
            raise ValueError(
                f"the prediction for state {row} is not finite; look at that state and at the model"
            )
        rows = np.column_stack([block, predicted])
        table[start : start + len(rows)] = rows.view(fields)[:, 0]
        best = _best(np.concatenate([best, rows]), goal, match, keep)
        low, high = min(low, float(predicted.min())), max(high, float(predicted.max()))
        total += float(predicted.sum())
        start += len(rows)
    table.flush()
    return {
        "predictions": path,
        "count": count,
        "minimum": low,
        "maximum": high,
        "mean": total / count,
        "best": [dict(zip(names, row, strict=True)) for row in best.tolist()],
    }


@diel.module(kind="inference")
def predict(model: Path, columns: dict[str, list[float]], context: diel.Context) -> Prediction:
    """Predicts a property of a few states, given as lists.

    model: .npz written by `training.mlp` or `training.torch_mlp`; loaded once in a worker
    columns: lists of equal length by feature; further columns are passed over

    Raises ValueError where a feature is missing or the lists differ in length.
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
    """Measures how long a model takes to predict a state.

    model: .npz written by `training.mlp`
    states: states of one prediction, drawn around those that the model was trained on
    repeats: predictions that are timed, one by one

    The median is not moved by the repeats in which another process had the core; a few predictions
    before the first are not timed, for memory and caches to be as they will stay. Give the stage
    `cores_per_rank: 1` (the default), so that models are compared on one core each.
    """
    network = load_model(model, context)
    draw = np.random.default_rng(0).normal(size=(states, len(network.features)))
    given = draw * network.scale.feature_scale + network.scale.feature_mean
    times = []
    for repeat in range(-5, repeats):
        began = perf_counter()
        network.predict(given)
        if repeat >= 0:
            times.append((perf_counter() - began) / states * 1e6)
    return {"time_per_state": median(times), "fastest": min(times)}


def load_model(path: Path, context: diel.Context) -> tabular.Model:
    """The model in a file, read at most once in a worker process. Raises ValueError where it is none."""
    version = path.stat().st_mtime_ns
    return context.cached(("inference.screen", str(path), version), lambda: tabular.Model.load(path))


# ---------------------------------------------------------------- the states


def _states(
    model: tabular.Model,
    ranges: dict[str, list[float]] | None,
    candidates: Path | None,
    points: int,
    method: str,
    batch: int,
    seed: int,
) -> tuple[int, Iterator[tabular.Floats]]:
    """How many states there are, and the states in batches of shape (batch, features)."""
    if (ranges is None) == (candidates is None):
        raise ValueError("expected exactly one of `ranges` and `candidates`")
    if candidates is not None:
        return _from_file(model, candidates, batch)
    assert ranges is not None
    if set(ranges) != set(model.features):
        raise ValueError(
            f"the model's features are {', '.join(model.features)}; ranges are given for {', '.join(ranges)}"
        )
    bounds = np.array([ranges[name] for name in model.features], dtype=float)
    if bounds.ndim != 2 or bounds.shape[1] != 2 or not (bounds[:, 0] <= bounds[:, 1]).all():
        raise ValueError(f"expected [low, high] for each range, low first; found {ranges}")
    if method == "grid":
        return _grid(bounds, points, batch)
    return points, _uniform(bounds, points, batch, seed)


def _uniform(bounds: tabular.Floats, points: int, batch: int, seed: int) -> Iterator[tabular.Floats]:
    rng = np.random.default_rng(seed)
    for start in range(0, points, batch):
        yield rng.uniform(bounds[:, 0], bounds[:, 1], (min(batch, points - start), len(bounds)))


def _grid(bounds: tabular.Floats, points: int, batch: int) -> tuple[int, Iterator[tabular.Floats]]:
    side = int(points ** (1 / len(bounds)))
    if (side + 1) ** len(bounds) <= points:  # the root may be rounded down
        side += 1
    axes = [np.linspace(low, high, side) for low, high in bounds]
    count = side ** len(bounds)

    def blocks() -> Iterator[tabular.Floats]:
        for start in range(0, count, batch):
            places = np.unravel_index(np.arange(start, min(start + batch, count)), (side,) * len(bounds))
            yield np.column_stack([axis[place] for axis, place in zip(axes, places, strict=True)])

    return count, blocks()


def _from_file(model: tabular.Model, path: Path, batch: int) -> tuple[int, Iterator[tabular.Floats]]:
    try:
        states = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"candidates: {path.name} is no .npy file of numbers ({error})") from error
    names, needed = states.dtype.names, ", ".join(model.features)
    if names is not None and not set(model.features) <= set(names):
        raise ValueError(
            f"candidates: {path.name} has the fields {', '.join(names)}; the model needs {needed}"
        )
    if names is None and (states.ndim != 2 or states.shape[1] != len(model.features)):
        raise ValueError(
            f"candidates: {path.name} has the shape {states.shape}; "
            f"expected (states, {len(model.features)}), a column for each of {needed}"
        )
    if not len(states):
        raise ValueError(f"candidates: {path.name} holds no states")

    def blocks() -> Iterator[tabular.Floats]:
        for start in range(0, len(states), batch):
            block = states[start : start + batch]
            if names is not None:
                block = np.column_stack([block[name] for name in model.features])
            yield np.asarray(block, dtype=float)

    return len(states), blocks()


def _best(rows: tabular.Floats, goal: str, match: float | None, keep: int) -> tabular.Floats:
    """The best rows, the best one first; the prediction is the last column."""
    predicted = rows[:, -1]
    cost = {"maximize": -predicted, "minimize": predicted}.get(goal)
    if cost is None:
        assert match is not None
        cost = np.abs(predicted - match)
    if len(rows) > keep:
        chosen = np.argpartition(cost, keep - 1)[:keep]
        rows, cost = rows[chosen], cost[chosen]
    return rows[np.argsort(cost, kind="stable")]
