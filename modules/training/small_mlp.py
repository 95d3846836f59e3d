"""A multi-layer perceptron for few rows, trained with scikit-learn's L-BFGS on all of them.

`training.mlp` holds rows out and stops by them. Where every row was paid for with a simulation there are
none to spare: here all are learned from, by a quasi-Newton method that takes a fraction of a second for
hundreds of rows, and a penalty on the weights keeps the curve smooth.
"""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor

import diel

Floats = NDArray[np.float64]


class SmallMlp(TypedDict):
    """The network after its last iteration."""

    model: Path
    """Weights and scales as .npz, as `training.mlp` writes them: `inference.screen` reads it."""
    train_loss: float
    """Mean squared error over all rows, in units of the target's variance."""
    iterations: int
    parameters: int
    """Weights and biases of the network."""


@diel.module(kind="training")
def small_mlp(
    columns: Annotated[dict[str, list[float]], Field(min_length=2)],
    target: str,
    context: diel.Context,
    features: list[str] | None = None,
    hidden: Annotated[int, Field(ge=1, le=1024)] = 16,
    layers: Annotated[int, Field(ge=1, le=10)] = 2,
    activation: Literal["tanh", "relu", "logistic"] = "tanh",
    regularisation: Annotated[float, Field(ge=0)] = 1e-4,
    iterations: Annotated[int, Field(ge=1)] = 400,
    seed: Annotated[int, Field(ge=0, lt=4294967296)] = 0,
) -> SmallMlp:
    """Trains a perceptron on a few rows, none of them held out.

    columns: lists of equal length by name; usually gathered
    target: the column to predict
    features: columns to predict from; all others where absent
    hidden: units of each hidden layer
    layers: hidden layers
    regularisation: penalty on the squared weights
    iterations: most iterations of L-BFGS (D. C. Liu, J. Nocedal, Math. Program. 45, 503 (1989))
    seed: of the initial weights; networks that differ in it alone make a committee

    Raises ValueError for columns that are missing, of different lengths, or not finite.
    """
    names, x, y = _table(columns, target, features)
    mean, scale = x.mean(axis=0), _deviation(x)
    middle, spread = float(y.mean()), float(_deviation(y))
    network: Any = MLPRegressor(
        hidden_layer_sizes=(hidden,) * layers,
        activation=activation,
        solver="lbfgs",
        alpha=regularisation,
        max_iter=iterations,
        max_fun=100 * iterations,
        random_state=seed,
    )
    with warnings.catch_warnings():
        # to stop after `iterations` is what was asked for
        warnings.simplefilter("ignore", ConvergenceWarning)
        network.fit((x - mean) / scale, (y - middle) / spread)
    predicted = network.predict((x - mean) / scale)
    arrays: dict[str, Any] = {
        "features": np.array(names),
        "target": np.array(target),
        "activation": np.array(activation),
        "feature_mean": mean,
        "feature_scale": scale,
        "target_mean": np.array(middle),
        "target_scale": np.array(spread),
    }
    for number, (weight, bias) in enumerate(zip(network.coefs_, network.intercepts_, strict=True)):
        arrays[f"weight_{number}"] = weight
        arrays[f"bias_{number}"] = bias
    path = context.task_dir / "model.npz"
    np.savez(path, **arrays)
    return {
        "model": path,
        "train_loss": float(np.mean((predicted - (y - middle) / spread) ** 2)),
        "iterations": int(network.n_iter_),
        "parameters": sum(array.size for array in (*network.coefs_, *network.intercepts_)),
    }


def _table(
    columns: dict[str, list[float]], target: str, features: list[str] | None
) -> tuple[list[str], Floats, Floats]:
    """The features' names, their values of shape (rows, features), and the target of shape (rows,)."""
    names = [name for name in columns if name != target] if features is None else features
    for name in (target, *names):
        if name not in columns:
            raise ValueError(f"no column '{name}'; the columns are {', '.join(columns)}")
    if not names or target in names:
        raise ValueError(f"expected features other than the target '{target}'; found {names}")
    used = {name: columns[name] for name in (*names, target)}
    for name, values in used.items():
        if len(values) != len(columns[target]):
            raise ValueError(
                f"the columns differ in length: '{name}' has {len(values)}, "
                f"'{target}' has {len(columns[target])}"
            )
        for row, value in enumerate(values):
            if not isinstance(value, int | float) or not math.isfinite(value):
                raise ValueError(f"column '{name}' holds {value} in row {row}; expected a finite number")
    if len(columns[target]) < 2:
        raise ValueError(f"expected at least 2 rows; found {len(columns[target])}")
    x = np.array([used[name] for name in names], dtype=float).T
    return names, x, np.array(used[target], dtype=float)


def _deviation(values: Floats) -> Floats:
    """Standard deviations of the columns; 1 for a constant one, which carries nothing but does no harm."""
    spread = values.std(axis=0)
    return np.where(spread > 0, spread, 1.0)
