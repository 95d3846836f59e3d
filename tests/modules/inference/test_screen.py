"""Screening a million states, and predicting a few."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diel
from modules.inference.screen import latency, predict, screen


def write_model(path: Path) -> Path:
    """A network that computes 2 a - b + 1 exactly: relu(2a - b + 100) - 99."""
    np.savez(
        path,
        features=np.array(["a", "b"]),
        target=np.array("y"),
        activation=np.array("relu"),
        feature_mean=np.zeros(2),
        feature_scale=np.ones(2),
        target_mean=np.array(1.0),
        target_scale=np.array(1.0),
        weight_0=np.array([[2.0], [-1.0]]),
        bias_0=np.array([100.0]),
        weight_1=np.array([[1.0]]),
        bias_1=np.array([-100.0]),
    )
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model.npz")


RANGES = {"a": [0.0, 1.0], "b": [-1.0, 1.0]}


def test_a_million_states_are_screened_in_little_memory(model: Path, context: diel.Context) -> None:
    tracemalloc.start()
    result = screen(model, context, ranges=RANGES)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10 * 2**20  # all states and predictions are 24 MB
    assert result["count"] == 1_000_000
    assert result["maximum"] == pytest.approx(4, abs=0.01)
    assert result["minimum"] == pytest.approx(0, abs=0.01)
    assert result["mean"] == pytest.approx(2, abs=0.01)


def test_every_state_has_its_prediction_beside_it(model: Path, context: diel.Context) -> None:
    result = screen(model, context, ranges=RANGES, points=1000, batch=64)
    table = np.load(result["predictions"], mmap_mode="r")
    assert table.dtype.names == ("a", "b", "prediction")
    assert table.shape == (1000,)
    assert table["prediction"] == pytest.approx(2 * table["a"] - table["b"] + 1, abs=1e-4)
    assert len(np.unique(table["a"])) == 1000
    assert table["a"].min() >= 0
    assert table["b"].min() < -0.9


@pytest.mark.parametrize(
    ("goal", "match", "cost"),
    [
        ("maximize", None, lambda p: -p),
        ("minimize", None, lambda p: p),
        ("match", 1.5, lambda p: np.abs(p - 1.5)),
    ],
)
def test_the_best_states_come_first(
    goal: Any, match: float | None, cost: Any, model: Path, context: diel.Context
) -> None:
    result = screen(model, context, ranges=RANGES, points=5000, batch=128, goal=goal, match=match, keep=7)
    everything = np.sort(cost(np.load(result["predictions"])["prediction"]))
    assert cost(np.array([state["prediction"] for state in result["best"]])) == pytest.approx(everything[:7])
    assert [list(state) for state in result["best"]] == [["a", "b", "prediction"]] * 7


def test_fewer_states_than_asked_for_are_all_kept(model: Path, context: diel.Context) -> None:
    assert len(screen(model, context, ranges=RANGES, points=3)["best"]) == 3


@pytest.mark.parametrize("points", [100, 110])
def test_a_grid_is_evenly_spaced_and_has_no_more_points_than_asked_for(
    points: int, model: Path, context: diel.Context
) -> None:
    result = screen(model, context, ranges=RANGES, points=points, method="grid", batch=7)
    table = np.load(result["predictions"])
    assert result["count"] == 100
    assert np.unique(table["a"]) == pytest.approx(np.linspace(0, 1, 10))
    assert len(np.unique(table[["a", "b"]])) == 100


def test_candidates_come_from_a_file_and_a_screens_output_is_one(
    model: Path, tmp_path: Path, context: diel.Context
) -> None:
    states = np.random.default_rng(1).random((300, 2))
    np.save(tmp_path / "states.npy", states)
    result = screen(model, context, candidates=tmp_path / "states.npy", batch=100)
    first = np.load(result["predictions"])
    assert np.column_stack([first["a"], first["b"]]) == pytest.approx(states)
    other = diel.Context(task_dir=tmp_path)
    second = np.load(screen(model, other, candidates=result["predictions"])["predictions"])
    assert (first == second).all()


def test_the_model_is_loaded_once_in_a_worker_and_again_when_it_changed(
    model: Path, context: diel.Context
) -> None:
    assert predict(model, {"a": [1.0], "b": [0.0]}, context)["prediction"] == [3.0]
    version = model.stat()
    model.write_bytes(b"not read again")
    os.utime(model, ns=(version.st_atime_ns, version.st_mtime_ns))
    assert predict(model, {"a": [1.0], "b": [0.5]}, context)["prediction"] == [2.5]
    os.utime(model, ns=(version.st_atime_ns, version.st_mtime_ns + 1))
    with pytest.raises(ValueError, match=r"model.npz is not a model of training.mlp"):
        predict(model, {"a": [1.0], "b": [0.5]}, context)


def test_a_pickle_is_never_loaded(tmp_path: Path, context: diel.Context) -> None:
    np.savez(tmp_path / "evil.npz", features=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match=r"evil.npz is not a model"):
        predict(tmp_path / "evil.npz", {}, context)


def test_states_that_do_not_fit_the_model_are_refused(
    model: Path, tmp_path: Path, context: diel.Context
) -> None:
    np.save(tmp_path / "three.npy", np.zeros((5, 3)))
    np.save(tmp_path / "named.npy", np.zeros(5, dtype=[("a", float), ("c", float)]))
    np.save(tmp_path / "empty.npy", np.zeros((0, 2)))
    np.save(tmp_path / "nan.npy", np.array([[0.0, 1.0], [np.nan, 1.0]]))
    (tmp_path / "text.npy").write_text("a,b\n1,2\n")
    for wrong, said in (
        ({}, "exactly one of `ranges` and `candidates`"),
        ({"ranges": {"a": [0.0, 1.0]}}, "features are a, b; ranges are given for a"),
        ({"ranges": {"a": [1.0, 0.0], "b": [0.0, 1.0]}}, "low first"),
        ({"ranges": RANGES, "goal": "match"}, "give both, or neither"),
        ({"ranges": RANGES, "match": 1.0}, "give both, or neither"),
        ({"candidates": tmp_path / "three.npy"}, r"shape \(5, 3\); expected \(states, 2\)"),
        ({"candidates": tmp_path / "named.npy"}, "fields a, c; the model needs a, b"),
        ({"candidates": tmp_path / "empty.npy"}, "holds no states"),
        ({"candidates": tmp_path / "nan.npy"}, "prediction for state 1 is not finite"),
        ({"candidates": tmp_path / "text.npy"}, "no .npy file of numbers"),
    ):
        with pytest.raises(ValueError, match=said):
            screen(model, context, **wrong)


def test_predict_names_the_missing_column(model: Path, context: diel.Context) -> None:
    with pytest.raises(ValueError, match="needs the column 'b'; found a"):
        predict(model, {"a": [1.0]}, context)
    with pytest.raises(ValueError, match="differ in length: 1, 2"):
        predict(model, {"a": [1.0], "b": [1.0, 2.0]}, context)


def test_more_layers_take_more_time(context: diel.Context, tmp_path: Path) -> None:
    def network(width: int, path: Path) -> Path:
        shapes = [(1, width), (width, width), (width, 1)]
        layers: dict[str, Any] = {f"weight_{n}": np.full(shape, 0.1) for n, shape in enumerate(shapes)}
        layers |= {f"bias_{n}": np.zeros(shape[1]) for n, shape in enumerate(shapes)}
        scales: dict[str, Any] = {name: np.zeros(1) for name in ("feature_mean", "target_mean")}
        scales |= {name: np.ones(1) for name in ("feature_scale", "target_scale")}
        scales |= {name: np.array(scales[name][0]) for name in ("target_mean", "target_scale")}
        np.savez(path, features=np.array(["a"]), activation=np.array("tanh"), **scales, **layers)
        return path

    small, large = (
        latency(network(width, tmp_path / f"{width}.npz"), context, states=512, repeats=21)
        for width in (2, 256)
    )
    assert 0 < small["fastest"] <= small["time_per_state"]
    assert large["time_per_state"] > 3 * small["time_per_state"]
