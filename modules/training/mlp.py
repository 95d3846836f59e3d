"""A multi-layer perceptron for regression, trained with scikit-learn on columns of numbers."""

from __future__ import annotations

import math
import pickle
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import numpy as np
from pydantic import Field
from sklearn.neural_network import MLPRegressor

import diel
from diel import tabular

SAVE_EVERY = 30.0
"""Seconds between two checkpoints, where the stage keeps them."""

Weights = list[tabular.Floats]


class Mlp(TypedDict):
    """The best epoch: the one with the smallest validation loss."""

    model: Path
    """Weights and scales as .npz, which `inference.screen` reads with numpy alone."""
    train_loss: float
    """Mean squared error over the rows trained on, in units of the target's variance."""
    validation_loss: float
    """The same over the held-out rows."""
    mean_absolute_error: float
    """Over the held-out rows, in the target's own units."""
    epochs: int
    """Epochs trained; the best one may be earlier."""
    predictions: Path
    """CSV of the held-out rows: the features, then `observed` and `predicted`."""


@dataclass(frozen=True)
class Best:
    """The epoch with the smallest validation loss so far."""

    epoch: int
    train_loss: float
    validation_loss: float
    weights: Weights
    biases: Weights
    predicted: tabular.Floats
    """Of the held-out rows, in the target's own units."""


@diel.module(kind="training")
def mlp(
    columns: Annotated[dict[str, list[float]], Field(min_length=2)],
    target: str,
    context: diel.Context,
    features: list[str] | None = None,
    hidden: Annotated[int, Field(ge=1, le=4096)] = 32,
    layers: Annotated[int, Field(ge=1, le=10)] = 2,
    activation: Literal["tanh", "relu", "logistic"] = "tanh",
    learning_rate: Annotated[float, Field(gt=0, le=1)] = 0.005,
    regularisation: Annotated[float, Field(ge=0)] = 1e-4,
    batch: Annotated[int, Field(ge=1)] = 16,
    epochs: Annotated[int, Field(ge=1)] = 500,
    patience: Annotated[int, Field(ge=1)] = 100,
    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.2,
    seed: Annotated[int, Field(ge=0, lt=4294967296)] = 0,
) -> Mlp:
    """Train a perceptron to predict one column from others.

    columns: lists of equal length by name; usually gathered: `{energy: "${{ simulate.energy }}", ...}`
    target: the column to predict
    features: the columns to predict it from; all others where absent
    hidden, layers: units of each hidden layer, and how many such layers
    activation: of the hidden layers
    learning_rate: first step of Adam (D. P. Kingma and J. Ba, arXiv:1412.6980)
    regularisation: weight of the squared norm of the weights
    batch: rows in a gradient step
    epochs: most passes over the rows
    patience: passes without a smaller validation loss after which training stops
    held_out: share of the rows that are not trained on, at least one; they choose the epoch, so judge
        the model by rows that this module never saw
    seed: of the split, the first weights and the order of the rows

    With `checkpoint: true` a task that is interrupted goes on from its last epoch, with the same result as if
    it had never stopped. Features and target are standardised by the mean and deviation of the rows trained
    on. Report `epoch`, `train_loss` and `validation_loss` after each epoch. Raise ValueError where columns
    are missing, differ in length, are too short or hold something that is not finite.
    """
    table = tabular.Table.from_columns(columns, target, features)
    table.at_least(2, "one to train on and one held out")
    order = np.random.default_rng(seed).permutation(len(table))
    count = min(max(1, round(held_out * len(table))), len(table) - 1)
    train, validation = table.take(np.sort(order[count:])), table.take(np.sort(order[:count]))
    scale = tabular.Scale.of(train)
    network: Any = MLPRegressor(
        hidden_layer_sizes=(hidden,) * layers,
        activation=activation,
        solver="adam",
        alpha=regularisation,
        batch_size=min(batch, len(train)),
        learning_rate_init=learning_rate,
        random_state=seed,
    )
    x, y = scale.features(train.features), scale.target(train.target)
    x_held, y_held = scale.features(validation.features), scale.target(validation.target)
    path, best, done = context.checkpoint_dir / "training.pickle" if context.checkpoint else None, None, 0
    if path is not None and path.exists():
        # with the state of Adam and of the random numbers
        network, done, best = pickle.loads(path.read_bytes())  # noqa: S301 - from this task's own directory
    saved = time.monotonic()
    for epoch in range(done + 1, epochs + 1):
        network.partial_fit(x, y)  # one pass over the rows
        predicted = network.predict(x_held)
        train_loss = float(np.mean((network.predict(x) - y) ** 2))
        validation_loss = float(np.mean((predicted - y_held) ** 2))
        context.report(epoch=epoch, train_loss=train_loss, validation_loss=validation_loss)
        if not math.isfinite(validation_loss):
            wrong = f"the loss is {validation_loss} after epoch {epoch}"
            raise ValueError(f"{wrong}: use a smaller learning_rate")
        if best is None or validation_loss < best.validation_loss:
            weights, biases = ([a.copy() for a in arrays] for arrays in (network.coefs_, network.intercepts_))
            best = Best(epoch, train_loss, validation_loss, weights, biases, scale.own_units(predicted))
        elif epoch - best.epoch >= patience:
            break
        if path is None or epoch == epochs:
            continue
        interrupted = context.interrupted
        if interrupted or time.monotonic() - saved > SAVE_EVERY:
            part = path.with_suffix(".part")
            part.write_bytes(pickle.dumps((network, epoch, best)))
            part.replace(path)
            saved = time.monotonic()
        if interrupted:
            raise diel.Interrupted(f"epoch {epoch} of at most {epochs} is done")
    assert best is not None
    learned = tuple(zip(best.weights, best.biases, strict=True))
    model = tabular.Model(table.names, target, activation, scale, learned)
    return {
        "model": model.save(context.task_dir / "model.npz"),
        "train_loss": best.train_loss,
        "validation_loss": best.validation_loss,
        "mean_absolute_error": float(np.mean(np.abs(best.predicted - validation.target))),
        "epochs": epoch,
        "predictions": validation.save_predictions(context.task_dir / "predictions.csv", best.predicted),
    }
