"""One member of a population: a classifier goes on from another one's weights, for some epochs at one rate.

A chain of such pieces is a training whose rate follows a schedule that nobody wrote: what population-based
training searches (M. Jaderberg and others, arXiv:1711.09846). The classifier is multinomial logistic
regression with a penalty on its weights, by stochastic gradient descent: its smallest loss is known, so that
one sees how close a schedule comes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any, TypedDict

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.optimize import minimize

import diel

Rows = NDArray[np.float64]
Classes = NDArray[np.int64]
PENALTY = 0.01
"""Of the loss: half of it times the sum of squared weights."""


class Member(TypedDict):
    """The classifier after its last epoch."""

    loss: float
    """Over all rows: cross-entropy in nats, and the penalty; at most 100 where it left all bounds."""
    rates: list[float]
    """The rate of each epoch, from the first piece on."""
    weights: Path
    """To go on from."""


@diel.module(kind="training")
def member(
    data: NDArray[Any],
    targets: NDArray[Any],
    rate: Annotated[float, Field(gt=0)],
    epochs: Annotated[int, Field(ge=1)] = 1,
    batch: Annotated[int, Field(ge=1)] = 4,
    wrong: Annotated[float, Field(ge=0, le=1)] = 0.2,
    names: Annotated[int, Field(ge=0)] = 0,
    seed: Annotated[int, Field(ge=0)] = 0,
    weights: Path | None = None,
) -> Member:
    """Train at one rate, from the beginning or from where another one stopped.

    data, targets: shapes (rows, ...) and (rows,): a sample in each row, and its class 0, 1, …
    rate: length of a step along the gradient
    wrong, names: share of the rows that get a class by chance, as by people's errors, and the seed of these
    seed: of the order of the batches
    weights: what an earlier piece has made; none to begin
    """
    x, y = _rows(data, targets, wrong, names)
    at, rates = np.zeros((x.shape[1], int(targets.max()) + 1)), []
    if weights is not None:
        with np.load(weights) as file:
            at, rates = file["weights"], file["rates"].tolist()
    draw = np.random.default_rng([names, seed])
    with np.errstate(all="ignore"):  # a rate that is too large leaves all bounds: its loss says so
        for _ in range(epochs):
            order = draw.permutation(len(x))
            for start in range(0, len(x), batch):
                rows = order[start : start + batch]
                at -= rate * _slope(at, x[rows], y[rows])
        loss = float(np.nan_to_num(_loss(at, x, y), nan=100.0).clip(max=100.0))
    rates = [*rates, *[rate] * epochs]
    np.savez("weights.npz", weights=at, rates=np.array(rates))
    return {"loss": loss, "rates": rates, "weights": Path("weights.npz")}


class Least(TypedDict):
    """Where the loss is smallest."""

    loss: float


@diel.module(kind="analysis")
def least(
    data: NDArray[Any],
    targets: NDArray[Any],
    wrong: Annotated[float, Field(ge=0, le=1)] = 0.2,
    names: Annotated[int, Field(ge=0)] = 0,
) -> Least:
    """Find the smallest loss of any weights, by L-BFGS over all rows: the loss is convex.

    data, targets: shapes (rows, ...) and (rows,): a sample in each row, and its class 0, 1, …
    wrong, names: share of the rows that get a class by chance, and the seed of these classes
    """
    x, y = _rows(data, targets, wrong, names)
    shape = (x.shape[1], int(targets.max()) + 1)

    def ask(flat: Rows) -> tuple[float, Rows]:
        at = flat.reshape(shape)
        return _loss(at, x, y), _slope(at, x, y).ravel()

    minimum = minimize(ask, np.zeros(shape[0] * shape[1]), jac=True, method="L-BFGS-B", tol=1e-12)
    return {"loss": float(minimum.fun)}


def _rows(data: NDArray[Any], targets: NDArray[Any], wrong: float, names: int) -> tuple[Rows, Classes]:
    """Return rows with a 1 for the bias at their end, and their classes."""
    draw, classes = np.random.default_rng(names), targets.astype(np.int64)
    by_chance = draw.integers(0, classes.max() + 1, len(classes))
    flat = data.reshape(len(data), -1) / np.abs(data).max()
    named = np.where(draw.random(len(classes)) < wrong, by_chance, classes)
    return np.hstack([flat, np.ones((len(flat), 1))]), named


def _log_shares(at: Rows, x: Rows) -> Rows:
    """Return logarithms of the classifier's shares of the classes, shape (rows, classes)."""
    outputs: Rows = x @ at
    outputs -= outputs.max(1, keepdims=True)
    outputs -= np.log(np.exp(outputs).sum(1, keepdims=True))
    return outputs


def _loss(at: Rows, x: Rows, y: Classes) -> float:
    logs = _log_shares(at, x)[np.arange(len(y)), y]
    return float(-logs.mean() + PENALTY / 2 * (at**2).sum())


def _slope(at: Rows, x: Rows, y: Classes) -> Rows:
    """Return the gradient of the loss."""
    shares = np.exp(_log_shares(at, x))
    shares[np.arange(len(y)), y] -= 1
    slope: Rows = x.T @ shares / len(y) + PENALTY * at
    return slope


class Comparison(TypedDict):
    """By how much a loss is above the smallest one, in nats, for each seed."""

    population: list[float]
    constant: list[float]
    """The best of them."""
    ratio: float
    """Of the two, a mean over seeds."""


@diel.module(kind="analysis")
def compare(
    population: list[float],
    rates: list[list[float]],
    constant: list[float],
    constants: list[float],
    smallest: list[float],
) -> Comparison:
    """Compare populations with the best constant rate, and print the rates of both.

    population: the loss of the best member, for each seed
    rates: of the best member, epoch by epoch
    constant: the loss of each training with one rate, those of each seed one after the other
    constants: its rate
    smallest: the smallest loss there is, for each seed
    """
    many = len(constant) // len(smallest)
    best = [min(range(k * many, (k + 1) * many), key=constant.__getitem__) for k in range(len(smallest))]
    above = [value - least for value, least in zip(population, smallest, strict=True)]
    fixed = [constant[place] - least for place, least in zip(best, smallest, strict=True)]
    ratio = [value / other for value, other in zip(above, fixed, strict=True)]
    lines = [
        f"above the smallest loss, {len(smallest)} seeds, in thousandths of a nat",
        f"  population     {_spread([1000 * value for value in above])}",
        f"  best constant  {_spread([1000 * value for value in fixed])}",
        f"  ratio          {_spread(ratio)}",
        "rates of the best member, epoch by epoch; the best constant",
    ]
    for number, (course, place) in enumerate(zip(rates, best, strict=True)):
        lines.append(f"  {number}: {' '.join(f'{value:.2g}' for value in course)}; {constants[place]:.2g}")
    sys.stdout.write("\n".join(lines) + "\n")
    return {"population": above, "constant": fixed, "ratio": fmean(ratio)}


def _spread(values: list[float]) -> str:
    return f"{fmean(values):.2f} ± {stdev(values) if len(values) > 1 else 0.0:.2f}"
