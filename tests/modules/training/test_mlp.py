"""The perceptron learns, stops, and writes down what it learned."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diel
from modules.inference.screen import predict
from modules.training.mlp import mlp

X = np.linspace(-1, 1, 40)


def parabola() -> dict[str, list[float]]:
    return {"x": X.tolist(), "y": (100 + 10 * X**2).tolist()}


def losses(context: diel.Context) -> list[dict[str, float]]:
    return [json.loads(line) for line in (context.task_dir / ".metrics.jsonl").read_text().splitlines()]


def test_it_learns_a_function_in_the_targets_own_units(context: diel.Context) -> None:
    result = mlp(parabola(), "y", context, epochs=400)
    assert result["mean_absolute_error"] < 0.3
    there = predict(result["model"], {"x": [-0.5, 0.0, 0.5]}, context)
    assert there["prediction"] == pytest.approx([102.5, 100, 102.5], abs=0.5)


@pytest.mark.parametrize("activation", ["relu", "tanh", "logistic"])
def test_the_saved_model_predicts_what_training_predicted(activation: Any, context: diel.Context) -> None:
    result = mlp(parabola(), "y", context, activation=activation, epochs=50)
    with result["predictions"].open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["x", "observed", "predicted"]
    assert len(rows) == 8  # a fifth of 40
    again = predict(result["model"], {"x": [float(row["x"]) for row in rows]}, context)
    assert again["prediction"] == pytest.approx([float(row["predicted"]) for row in rows], abs=1e-4)
    errors = [abs(float(row["predicted"]) - float(row["observed"])) for row in rows]
    assert result["mean_absolute_error"] == pytest.approx(sum(errors) / 8)


def test_each_epoch_is_reported_and_the_best_one_is_returned(context: diel.Context) -> None:
    result = mlp(parabola(), "y", context, epochs=30)
    reported = losses(context)
    assert [row["epoch"] for row in reported] == list(range(1, 31))
    best = min(reported, key=lambda row: row["validation_loss"])
    assert result["validation_loss"] == best["validation_loss"]
    assert result["train_loss"] == best["train_loss"]


def test_training_stops_once_the_validation_loss_no_longer_falls(context: diel.Context) -> None:
    noise = np.random.default_rng(0).normal(size=40)
    result = mlp({"x": X.tolist(), "y": noise.tolist()}, "y", context, epochs=2000, patience=20)
    reported = losses(context)
    assert result["epochs"] == len(reported) < 2000
    best = min(reported, key=lambda row: row["validation_loss"])
    assert result["epochs"] - best["epoch"] == 20


def test_only_the_features_named_are_used(context: diel.Context) -> None:
    columns = {**parabola(), "unknown": [float("nan")] * 40}
    assert mlp(columns, "y", context, features=["x"], epochs=5)["epochs"] == 5
    with np.load(context.task_dir / "model.npz") as model:
        assert model["features"].tolist() == ["x"]


def test_the_same_seed_gives_the_same_model(context: diel.Context) -> None:
    first = mlp(parabola(), "y", context, epochs=20, seed=4)
    second = mlp(parabola(), "y", context, epochs=20, seed=4)
    assert first["validation_loss"] == second["validation_loss"]


Continued = Callable[[Callable[[diel.Context], Any]], tuple[Any, int]]


def test_a_training_that_was_interrupted_after_each_epoch_ends_as_if_it_never_was(
    continued: Continued, context: diel.Context
) -> None:
    options: dict[str, Any] = {"epochs": 60, "patience": 10, "seed": 4, "learning_rate": 0.05}
    stopped, attempts = continued(lambda context: mlp(parabola(), "y", context, **options))
    plain = mlp(parabola(), "y", context, **options)
    assert attempts == plain["epochs"] > 20
    with np.load(stopped["model"]) as ours, np.load(plain["model"]) as theirs:
        assert list(ours) == list(theirs)
        assert all((ours[name] == theirs[name]).all() for name in ours)
    assert stopped["predictions"].read_text() == plain["predictions"].read_text()
    for name in ("train_loss", "validation_loss", "mean_absolute_error", "epochs"):
        assert stopped[name] == plain[name]


def test_what_was_saved_is_read_by_another_process(root: Path, tmp_path: Path) -> None:
    """A worker loads a module by its file: what it saved must be found by the next worker all the same."""
    code = (
        "import sys, pathlib, diel\n"
        "from diel.workflow.modules.catalogue import find, load_function\n"
        "mlp = load_function(find('training.mlp', [pathlib.Path('modules')]))\n"
        "task = pathlib.Path(sys.argv[1]) / sys.argv[2]; task.mkdir()\n"
        "until = 0.0 if sys.argv[2] == '0.1' else None\n"
        "context = diel.Context(task_dir=task, checkpoint=True, interrupt_at=until)\n"
        "try: print(mlp({'x': [1., 2., 3., 4.], 'y': [1., 4., 9., 16.]}, 'y', context, epochs=3)['epochs'])\n"
        "except diel.Interrupted as stop: print(stop)\n"
    )
    predictions = [
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path), name],
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for name in ("0.1", "0.2")
    ]
    assert predictions == ["epoch 1 of at most 3 is done", "3"]
    lines = (tmp_path / "0.2" / ".metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [2, 3]


def test_a_constant_column_and_target_do_no_harm(context: diel.Context) -> None:
    columns = {"x": X.tolist(), "one": [1.0] * 40, "y": [5.0] * 40}
    result = mlp(columns, "y", context, epochs=50)
    assert result["mean_absolute_error"] < 0.5


@pytest.mark.parametrize(
    ("columns", "target", "features", "message"),
    [
        ({"x": [1.0, 2.0], "y": [1.0, 2.0]}, "z", None, "no column 'z'; the columns are x, y"),
        ({"x": [1.0, 2.0], "y": [1.0, 2.0]}, "y", ["w"], "no column 'w'"),
        ({"x": [1.0, 2.0], "y": [1.0, 2.0]}, "y", ["y"], "features other than the target"),
        ({"x": [1.0], "y": [1.0, 2.0]}, "y", None, "differ in length: y has 2, x has 1"),
        ({"x": [1.0], "y": [1.0]}, "y", None, "at least 2 rows"),
        ({"x": [1.0, float("nan")], "y": [1.0, 2.0]}, "y", None, "column 'x' holds nan in row 1"),
        ({"x": [1.0, None], "y": [1.0, 2.0]}, "y", None, "column 'x' holds None in row 1"),
    ],
)
def test_columns_that_make_no_sense_are_refused(
    columns: Any, target: str, features: list[str] | None, message: str, context: diel.Context
) -> None:
    with pytest.raises(ValueError, match=message):
        mlp(columns, target, context, features)
