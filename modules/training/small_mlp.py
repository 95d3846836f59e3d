"""A multi-layer perceptron for few rows, trained with scikit-learn's L-BFGS on all of them.

`training.mlp` holds rows out and stops by them. Where every row was paid for with a simulation there are
none to spare: here all are learned from, by a quasi-Newton method that takes a fraction of a second for
hundreds of rows, and a penalty on the weights keeps the curve smooth.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import numpy as np
from pydantic import Field
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor

import diel
from diel import tabular


class SmallMlp(TypedDict):
    """The network after its last iteration."""

    model: Path
    """Weights and scales as .npz, as `training.mlp` writes them: `inference.screen` reads it."""
    train_loss: float
    """Mean squared error over all rows, in units of the target's variance."""
    iterations: int
    parameters: int
    """Weights and biases of the network."""
    multiply_adds: int
    """Of one prediction: its cost on any machine, but for activations."""


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
    sites: list[list[int]] | None = None,
    period: list[int] | None = None,
) -> SmallMlp:
    """Train a perceptron on a few rows, none of them held out.

    columns: lists of equal length by name; usually gathered
    target: the column to predict
    features: columns to predict from; all others where absent
    hidden, layers: units of each hidden layer, and how many such layers
    regularisation: penalty on the squared weights
    iterations: most iterations of L-BFGS (D. C. Liu, J. Nocedal, Math. Program. 45, 503 (1989))
    seed: of the initial weights; networks that differ in it alone make a committee
    sites, period: the one feature is an arrangement of two kinds of atoms on these sites of a crystal, such
        as those of `simulation.alloy:draw`; the network sees composition and pair correlations
        (`tabular.Pairs`)

    Raise ValueError for columns that are missing, of different lengths, or not finite.
    """
    table = tabular.Table.from_columns(columns, target, features).at_least(2)
    pairs = None
    inputs = table
    if sites is not None:
        if len(table.names) != 1 or period is None:
            raise ValueError("`sites` need `period`, and one feature: the arrangement")
        pairs = tabular.Pairs.of(sites, period)
        inputs = tabular.Table(pairs.names, pairs.see(table.features[:, 0]), table.target)
    scale = tabular.Scale.of(inputs)
    x, y = scale.features(inputs.features), scale.target(table.target)
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
        network.fit(x, y)
    learned = tuple(zip(network.coefs_, network.intercepts_, strict=True))
    model = tabular.Model(table.names, target, activation, scale, learned, pairs)
    return {
        "model": model.save(context.task_dir / "model.npz"),
        "train_loss": float(np.mean((network.predict(x) - y) ** 2)),
        "iterations": int(network.n_iter_),
        "parameters": sum(array.size for array in (*network.coefs_, *network.intercepts_)),
        "multiply_adds": sum(array.size for array in network.coefs_),
    }
