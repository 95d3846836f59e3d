"""A multi-layer perceptron that learns from a stream while its items are made.

Simulations put rows into the stream `samples`; this module takes them as they come, and ends when the
stream does. An item is a mapping of columns: numbers, or lists and arrays of one length, such as
`simulation.ising:walk` puts. What has come is learned from again later, mixed with what is new, for
neighbours in a stream resemble each other (L.-J. Lin, Mach. Learn. 8, 293 (1992)).
"""

from __future__ import annotations

import csv
import math
import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import numpy as np
from pydantic import Field
from sklearn.neural_network import MLPRegressor

import diel
from diel import tabular

AVERAGED = 200
"""Steps over which the mean of the weights goes back."""


class Online(TypedDict):
    """The network when the stream had ended."""

    model: Path
    """Weights and scales as .npz, as `training.mlp` writes them: `inference.screen` reads it."""
    error: float
    """Root mean square error over the rows kept apart, in the target's own units."""
    relative_error: float
    """The same by the target's deviation over these rows: 1 for a model that always predicts their mean."""
    items: int
    items_before_end: int | None
    """Items that it had learned from when the last one was made: it did not wait for the end. None where
    items have no `time`, the seconds since the epoch at which they were made."""
    rows: int
    """Rows learned from."""
    rows_apart: int
    """Rows kept apart."""
    steps: int
    """Gradient steps."""
    history: Path
    """CSV of the reports, with the columns items, rows, loss, error."""


@dataclass
class Rows:
    """Rows that have come: the features, then the target."""

    values: tabular.Floats
    """Shape (room, features + 1)."""
    count: int = 0
    """All rows that came; `values` holds the newest of them."""

    def add(self, rows: tabular.Floats) -> None:
        """Add rows, where there is no more room in the places of the oldest."""
        self.values[np.arange(self.count, self.count + len(rows)) % len(self.values)] = rows
        self.count += len(rows)

    @property
    def there(self) -> tabular.Floats:
        """The rows that are still there."""
        return self.values[: self.count]


@dataclass
class Learner:
    """A network on its way, and the mean of its weights over the last steps.

    The mean is what predicts: it is rid of the noise of single steps, and needs no schedule that would have
    to know when the stream ends (B. T. Polyak and A. B. Juditsky, SIAM J. Control Optim. 30, 838 (1992)).
    """

    network: Any
    features: tuple[str, ...]
    target: str
    scale: tabular.Scale
    mean: list[tabular.Floats] = field(default_factory=list)
    """Weights of each layer, then biases of each."""
    steps: int = 0
    squares: list[tabular.Floats] = field(default_factory=list)
    """Since the last report: squared errors of rows, each before it was learned from."""
    course: list[tuple[int, int, float, float]] = field(default_factory=list)
    """What was reported: items, rows, loss, error."""

    def learn(self, rows: tabular.Floats) -> None:
        """Take one gradient step."""
        self.network.partial_fit(self.scale.features(rows[:, :-1]), self.scale.target(rows[:, -1]))
        self.steps += 1
        weights = [*self.network.coefs_, *self.network.intercepts_]
        if not self.mean:
            self.mean = [array.copy() for array in weights]
        share = max(1 / AVERAGED, 1 / (1 + self.steps / 10))  # the first steps are soon forgotten
        for mean, now in zip(self.mean, weights, strict=True):
            mean += share * (now - mean)

    @property
    def model(self) -> tabular.Model:
        """The network with the averaged weights."""
        half = len(self.mean) // 2
        learned = tuple(zip(self.mean[:half], self.mean[half:], strict=True))
        return tabular.Model(self.features, self.target, self.network.activation, self.scale, learned)

    def error(self, held: tabular.Floats) -> float:
        """Return the root mean square error over the rows kept apart, in the target's own units."""
        return float(np.sqrt(self.errors(held).mean()))

    def errors(self, rows: tabular.Floats) -> tabular.Floats:
        """Return squared errors of rows."""
        return np.asarray((self.model.predict(rows[:, :-1]) - rows[:, -1]) ** 2)

    def report(self, context: diel.Context, items: int, rows: int, held: tabular.Floats) -> None:
        """Say how it goes. Raise ValueError where the training has diverged."""
        if not self.squares:
            return
        loss = float(np.concatenate(self.squares).mean()) / self.scale.target_scale**2
        if not math.isfinite(loss):
            raise ValueError(f"the loss is {loss} after {items} items: use a smaller learning_rate")
        error = self.error(held) / _deviation(held)
        context.report(items=items, rows=rows, loss=loss, error=error)
        self.course.append((items, rows, loss, error))
        self.squares = []


@diel.module(kind="training")
def online(
    target: str,
    features: Annotated[list[str], Field(min_length=1)],
    context: diel.Context,
    hidden: Annotated[int, Field(ge=1, le=4096)] = 32,
    layers: Annotated[int, Field(ge=1, le=10)] = 2,
    activation: Literal["tanh", "relu", "logistic"] = "tanh",
    learning_rate: Annotated[float, Field(gt=0, le=1)] = 0.005,
    regularisation: Annotated[float, Field(ge=0)] = 1e-5,
    batch: Annotated[int, Field(ge=1)] = 128,
    steps: Annotated[int, Field(ge=1)] = 4,
    begin: Annotated[int, Field(ge=2)] = 200,
    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.125,
    memory: Annotated[int, Field(ge=2)] = 100_000,
    report: Annotated[int, Field(ge=1)] = 20,
    seed: Annotated[int, Field(ge=0, lt=4294967296)] = 0,
) -> Online:
    """Train a perceptron on the items of the stream `samples`, while they are made.

    target: the column to predict
    features: the columns to predict it from
    hidden, layers: units of each hidden layer, and how many such layers
    activation: of the hidden layers
    learning_rate: step of Adam (D. P. Kingma and J. Ba, arXiv:1412.6980)
    regularisation: weight of the squared norm of the weights
    batch: rows in a gradient step
    steps: gradient steps after each item
    begin: rows to wait for before the first step; their means and deviations standardise all
    held_out: share of the rows that are kept apart as they come, and never learned from
    memory: rows to learn from again at most; the newest are kept
    report: items from one report to the next
    seed: of the first weights, of the rows kept apart, and of those learned from again

    Report `items`, `rows`, `loss` and `error` as it goes. `loss` is the mean squared error over the rows
    that came since the last report, each predicted before it was learned from, by the target's variance;
    `error` is the relative error over the rows kept apart so far. Run again on the same stream, it learns
    the same. Raise ValueError where an item lacks a column, columns differ in length, or a value is not
    finite, and where the stream ends before `begin` rows have come.
    """
    learned, held = (Rows(np.empty((memory, len(features) + 1))) for _ in range(2))
    network = MLPRegressor(
        hidden_layer_sizes=(hidden,) * layers,
        activation=activation,
        alpha=regularisation,
        batch_size=batch,
        learning_rate_init=learning_rate,
        random_state=seed,
    )
    again, split = (np.random.default_rng((seed, which)) for which in range(2))
    learner: Learner | None = None
    made_at: list[float] = []
    done: list[float] = []
    """When each item was made, and when it had been learned from: seconds since the epoch."""
    for item in context.stream("samples"):
        rows = _rows(item, [*features, target], len(made_at))
        made_at.append(float(item.get("time", math.nan)))
        apart = split.random(len(rows)) < held_out
        held.add(rows[apart])
        if learner is not None and not apart.all():
            learner.squares.append(learner.errors(rows[~apart]))
        learned.add(rows[~apart])
        if learner is None and learned.count >= begin and held.count:
            table = tabular.Table(tuple(features), learned.there[:, :-1], learned.there[:, -1])
            learner = Learner(network, table.names, target, tabular.Scale.of(table))
        if learner is not None:
            for _ in range(steps):
                learner.learn(learned.there[again.integers(len(learned.there), size=batch)])
            if len(made_at) % report == 0:
                learner.report(context, len(made_at), learned.count, held.there)
        done.append(time.time())
    if learner is None:
        raise ValueError(
            f"the stream ended after {learned.count} rows to learn from and {held.count} kept apart; "
            f"expected at least {begin} and 1"
        )
    learner.report(context, len(made_at), learned.count, held.there)
    error, history = learner.error(held.there), context.task_dir / "history.csv"
    with history.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("items", "rows", "loss", "error"), *learner.course])
    return {
        "model": learner.model.save(context.task_dir / "model.npz"),
        "error": error,
        "relative_error": error / _deviation(held.there),
        "items": len(made_at),
        "items_before_end": None if any(map(math.isnan, made_at)) else bisect_left(done, max(made_at)),
        "rows": learned.count,
        "rows_apart": held.count,
        "steps": learner.steps,
        "history": history,
    }


def _rows(item: Any, columns: Sequence[str], number: int) -> tabular.Floats:
    """Return the rows of an item: shape (rows, columns). Raise ValueError where they are none."""
    if not isinstance(item, Mapping):
        raise ValueError(f"item {number} of the stream is no mapping of columns: {type(item).__name__}")
    missing = [name for name in columns if name not in item]
    if missing:
        raise ValueError(f"item {number} of the stream has no '{missing[0]}'; it has {', '.join(item)}")
    try:
        values = [np.atleast_1d(np.asarray(item[name], dtype=np.float64)) for name in columns]
        rows = np.stack(values, axis=1)
    except (TypeError, ValueError) as error:
        wrong = f"item {number} of the stream: expected columns of equal length ({error})"
        raise ValueError(wrong) from error
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise ValueError(f"item {number} of the stream: expected columns of finite numbers")
    return rows


def _deviation(rows: tabular.Floats) -> float:
    """Return the target's deviation; 1 where it is constant."""
    return float(rows[:, -1].std()) or 1.0
