"""The perceptron for few rows learns all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diel
from modules.inference.screen import predict
from modules.training.small_mlp import small_mlp

X = np.linspace(-1, 1, 13)


def bend() -> dict[str, list[float]]:
    """A curve with a narrow bend, in units of its own."""
    return {"x": X.tolist(), "y": (100 + 10 * np.tanh(6 * X)).tolist()}


@pytest.mark.parametrize("activation", ["tanh", "relu", "logistic"])
def test_it_goes_through_the_rows_and_screen_reads_its_model(activation: Any, context: diel.Context) -> None:
    columns = bend()
    result = small_mlp(columns, "y", context, activation=activation, regularisation=1e-6)
    assert result["train_loss"] < 1e-3
    there = predict(result["model"], columns, context)["prediction"]
    assert there == pytest.approx(columns["y"], abs=1)


def test_between_the_rows_it_is_as_smooth_as_the_curve(context: diel.Context) -> None:
    result = small_mlp(bend(), "y", context)
    between = np.linspace(-0.95, 0.95, 20)
    there = predict(result["model"], {"x": between.tolist()}, context)["prediction"]
    assert np.abs(np.array(there) - 100 - 10 * np.tanh(6 * between)).max() < 1


def test_members_differ_by_their_seed_alone(context: diel.Context) -> None:
    losses = [small_mlp(bend(), "y", context, seed=seed)["train_loss"] for seed in (1, 1, 2)]
    assert losses[0] == losses[1] != losses[2]


def test_its_shape_is_counted(context: diel.Context) -> None:
    result = small_mlp(bend(), "y", context, hidden=5, layers=3, iterations=2)
    assert result["parameters"] == (1 * 5 + 5) + 2 * (5 * 5 + 5) + (5 + 1)
    assert result["iterations"] <= 2


def test_it_learns_from_the_features_named_and_bears_a_constant_one(context: diel.Context) -> None:
    columns = {**bend(), "one": [1.0] * 13, "unknown": [float("nan")] * 13}
    result = small_mlp(columns, "y", context, features=["one", "x"])
    with np.load(result["model"]) as model:
        assert model["features"].tolist() == ["one", "x"]
    assert result["train_loss"] < 1e-3


@pytest.mark.parametrize(
    ("columns", "target", "features", "message"),
    [
        ({"x": [1.0, 2.0], "y": [1.0, 2.0]}, "z", None, "no column 'z'; the columns are x, y"),
        ({"x": [1.0, 2.0], "y": [1.0, 2.0]}, "y", ["w"], "no column 'w'"),
        ({"x": [1.0, 2.0], "y": [1.0, 2.0]}, "y", ["y"], "features other than the target"),
        ({"x": [1.0], "y": [1.0, 2.0]}, "y", None, "differ in length: y has 2, x has 1"),
        ({"x": [1.0], "y": [1.0]}, "y", None, "at least 2 rows"),
        ({"x": [1.0, float("inf")], "y": [1.0, 2.0]}, "y", None, "column 'x' holds inf in row 1"),
        ({"x": [1.0, 2.0], "y": [None, 2.0]}, "y", None, "column 'y' holds None in row 0"),
    ],
)
def test_columns_that_make_no_sense_are_refused(
    columns: Any, target: str, features: list[str] | None, message: str, context: diel.Context
) -> None:
    with pytest.raises(ValueError, match=message):
        small_mlp(columns, target, context, features)
