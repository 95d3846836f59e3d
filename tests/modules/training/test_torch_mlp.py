"""The perceptron on PyTorch learns, reads what it is given, and goes on where it was killed."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diel
from diel.workflow.modules.catalogue import find
from modules.inference.screen import predict
from modules.training.torch_mlp import torch_mlp

X = np.linspace(-1, 1, 80)


def parabola() -> dict[str, list[float]]:
    return {"x": X.tolist(), "y": (100 + 10 * X**2).tolist()}


def bytes_of(model: Path) -> dict[str, bytes]:
    with np.load(model) as arrays:
        return {name: arrays[name].tobytes() for name in arrays}


def test_it_learns_a_function_that_a_screen_predicts_without_pytorch(context: diel.Context) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-1, 1, (2, 500))
    columns = {"x": x.tolist(), "y": y.tolist(), "z": (5 + np.sin(3 * x) * y).tolist()}
    result = torch_mlp("z", context, columns=columns, epochs=120, learning_rate=0.01, schedule="cosine")
    assert result["r2"] > 0.999
    assert result["mean_absolute_error"] < 0.02
    assert result["parameters"] == (2 + 1) * 64 + (64 + 1) * 64 + 64 + 1
    new = {"x": [-0.5, 0.0, 0.7], "y": [0.2, 0.4, -0.6]}
    expected = 5 + np.sin(3 * np.array(new["x"])) * np.array(new["y"])
    assert predict(result["model"], new, context)["prediction"] == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize("activation", ["tanh", "relu", "logistic", "silu", "gelu"])
def test_the_saved_model_predicts_what_training_predicted(activation: Any, context: diel.Context) -> None:
    result = torch_mlp("y", context, columns=parabola(), activation=activation, epochs=10, hidden=[8, 5, 3])
    with result["predictions"].open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["x", "observed", "predicted"]
    assert len(rows) == 16  # a fifth of 80
    again = predict(result["model"], {"x": [float(row["x"]) for row in rows]}, context)["prediction"]
    assert again == pytest.approx([float(row["predicted"]) for row in rows], abs=1e-4)
    errors = [abs(float(row["predicted"]) - float(row["observed"])) for row in rows]
    assert result["mean_absolute_error"] == pytest.approx(sum(errors) / 16)


def test_training_stops_once_the_validation_loss_no_longer_falls(context: diel.Context) -> None:
    noise = np.random.default_rng(0).normal(size=80)
    result = torch_mlp("y", context, columns={"x": X.tolist(), "y": noise.tolist()}, epochs=900, patience=15)
    with result["history"].open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["epoch", "loss", "validation_loss", "learning_rate"]
    assert result["epochs"] == len(rows) < 900
    best = min(rows, key=lambda row: float(row["validation_loss"]))
    assert result["epochs"] - int(best["epoch"]) == 15
    assert result["validation_loss"] == float(best["validation_loss"])
    assert result["loss"] == float(best["loss"])
    metrics = [json.loads(line) for line in (context.task_dir / ".metrics.jsonl").read_text().splitlines()]
    assert [(m["epoch"], m["loss"], m["validation_loss"]) for m in metrics] == [
        (int(row["epoch"]), float(row["loss"]), float(row["validation_loss"])) for row in rows
    ]


def test_columns_rows_and_files_say_the_same(context: diel.Context, tmp_path: Path) -> None:
    columns = parabola()
    rows = [{"x": x, "y": y} for x, y in zip(columns["x"], columns["y"], strict=True)]
    files = [tmp_path / "first.csv", tmp_path / "second.csv"]
    for path, part in zip(files, (rows[:30], rows[30:]), strict=True):
        path.write_text("y, x\n" + "".join(f"{row['y']!r}, {row['x']!r}\n" for row in part) + "\n")
    (tmp_path / "all.csv").write_text("x,y,note\n" + "".join(f"{r['x']!r},{r['y']!r},n\n" for r in rows))
    ways: list[dict[str, Any]] = [
        {"columns": columns},
        {"rows": rows},
        {"table": files},
        {"table": tmp_path / "all.csv", "features": ["x"]},
    ]
    models = [bytes_of(torch_mlp("y", context, epochs=3, **way)["model"]) for way in ways]
    assert all(model == models[0] for model in models)


def test_another_seed_gives_another_model(context: diel.Context) -> None:
    models = [
        bytes_of(torch_mlp("y", context, columns=parabola(), epochs=3, seed=s)["model"]) for s in (4, 4, 5)
    ]
    assert models[0] == models[1] != models[2]


def test_a_machine_without_pytorch_says_how_to_get_it(root: Path) -> None:
    code = (
        "import sys, pathlib\n"
        "sys.modules['torch'] = None\n"
        "from diel.workflow.modules.catalogue import find, load_function\n"
        "from diel.base.errors import ModuleError\n"
        "module = find('training.torch_mlp', [pathlib.Path('modules')])\n"
        "try: load_function(module)\n"
        "except ModuleError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert "pip install 'diel[torch]'" in done.stdout


def test_a_constant_column_and_target_do_no_harm(context: diel.Context) -> None:
    columns = {"x": X.tolist(), "one": [1.0] * 80, "y": [5.0] * 80}
    result = torch_mlp("y", context, columns=columns, epochs=5)
    assert result["mean_absolute_error"] < 0.5
    assert result["r2"] == 0


def test_bounds_are_known_before_it_runs(root: Path) -> None:
    signature = find("training.torch_mlp", [root / "modules"]).signature
    assert signature.artifacts == {"model", "history", "predictions"}
    wrong = {
        "hidden": [64, 0],
        "layers": 0,
        "learning_rate": 0,
        "momentum": 1.0,
        "optimizer": "adagrad",
        "precision": "fp64",
        "device": "gpu",
        "held_out": 1.0,
        "seed": -1,
        "columns": {"y": [1.0]},
    }
    problems = signature.check({**wrong, "target": "y"}, deferred=())
    assert {name for name, _, _ in problems} == set(wrong)
    right = {
        "target": "y",
        "hidden": [64, 32],
        "learning_rate": 1,
        "rows": [{"x": 1, "y": 2}, {"x": 2, "y": 3}],
    }
    assert signature.check(right, deferred=()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "exactly one of columns, rows and table; found none"),
        ({"columns": parabola(), "rows": []}, "found columns, rows"),
        ({"columns": {"x": [1.0, 2.0], "z": [1.0, 2.0]}}, "no column 'y'; the columns are x, z"),
        ({"columns": {"x": [1.0, 2.0], "y": [1.0, 2.0]}, "features": ["w"]}, "no column 'w'"),
        (
            {"columns": {"x": [1.0, 2.0], "y": [1.0, 2.0]}, "features": ["y"]},
            "features other than the target",
        ),
        ({"columns": {"x": [1.0], "y": [1.0, 2.0]}}, "differ in length: y has 2, x has 1"),
        ({"columns": {"x": [1.0], "y": [1.0]}}, "at least 2 rows"),
        ({"columns": {"x": [1.0, float("nan")], "y": [1.0, 2.0]}}, "column 'x' holds nan in row 1"),
        ({"columns": {"x": [1.0, None], "y": [1.0, 2.0]}}, "column 'x' holds None in row 1"),
        ({"rows": []}, "no column 'y'"),
        ({"rows": [{"x": 1.0, "y": 1.0}, {"x": 1.0}]}, "row 1 has no 'y'"),
        ({"columns": parabola(), "hidden": [3, 3], "layers": 3}, "hidden lists 2 layers, and layers says 3"),
        ({"table": []}, "at least one file"),
    ],
)
def test_data_that_make_no_sense_are_refused(options: Any, message: str, context: diel.Context) -> None:
    with pytest.raises(ValueError, match=message):
        torch_mlp("y", context, **options)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"x,y\n1,2\n3,nan\n", r"data\.csv, line 3, column 'y', holds 'nan'; expected a finite number"),
        (b"x,y\n1,2\nlow,4\n", r"data\.csv, line 3, column 'x', holds 'low'"),
        (b"x,y\n1,2\n,4\n", r"data\.csv, line 3, column 'x', holds ''"),
        (b"x,y\n1,2\n3\n", r"data\.csv:3: 1 value, but the header names 2 columns"),
        (b"x,x,y\n1,2,3\n", r"data\.csv:1: the header names 'x' twice"),
        (b"x,z\n1,2\n", r"data\.csv: there is no column 'y'; the columns are x, z"),
        (b"", r"data\.csv: empty; expected a header line"),
        (b"x,y\n\xff\xfe,1\n", r"data\.csv is not UTF-8 \(byte 4\)"),
        (b"x,y\n", "at least 2 rows"),
        (None, "cannot read .*data.csv: no such file"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_with_line_and_column(
    text: bytes | None, message: str, context: diel.Context, tmp_path: Path
) -> None:
    path = tmp_path / "data.csv"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(ValueError, match=message):
        torch_mlp("y", context, table=path)
