"""A model is the same after it was saved, whoever trained it, and says what its layers say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from diel.tabular import ACTIVATIONS, Ensemble, Layers, Model, Scale, Table, mean_and_spread

RNG = np.random.default_rng(1)
LAYERS: Layers = tuple(
    (RNG.normal(size=shape), RNG.normal(size=shape[1])) for shape in ((2, 5), (5, 4), (4, 1))
)
MODEL = Model(("a", "b"), "y", "tanh", Scale(np.array([1.0, -2.0]), np.array([3.0, 0.5]), 7.0, 10.0), LAYERS)
ROWS = RNG.normal(size=(23, 2))


def by_hand(rows: np.ndarray) -> np.ndarray:
    values = (rows - [1.0, -2.0]) / [3.0, 0.5]
    for weight, bias in LAYERS[:-1]:
        values = np.tanh(values @ weight + bias)
    weight, bias = LAYERS[-1]
    return (values @ weight + bias)[:, 0] * 10 + 7


def test_a_model_predicts_in_the_targets_own_units() -> None:
    assert MODEL.predict(ROWS) == pytest.approx(by_hand(ROWS), rel=1e-12)


def test_a_saved_model_is_read_in_single_precision_or_in_double(tmp_path: Path) -> None:
    path = MODEL.save(tmp_path / "model.npz")
    double = Model.load(path, np.float64)
    assert (double.predict(ROWS) == MODEL.predict(ROWS)).all()
    assert (double.features, double.target, double.activation) == (("a", "b"), "y", "tanh")
    single = Model.load(path).predict(ROWS)
    assert single.dtype == np.float64
    assert 0 < np.abs(single - MODEL.predict(ROWS)).max() < 1e-4


def test_a_model_that_was_read_and_saved_is_the_same_file(tmp_path: Path) -> None:
    first = MODEL.save(tmp_path / "first.npz")
    second = Model.load(first, np.float64).save(tmp_path / "second.npz")
    assert first.read_bytes() == second.read_bytes()
    names = ["features", "target", "activation", "feature_mean", "feature_scale", "target_mean"]
    names += ["target_scale", "weight_0", "bias_0", "weight_1", "bias_1", "weight_2", "bias_2"]
    assert ZipFile(first).namelist() == [f"{name}.npy" for name in names]


@pytest.mark.parametrize("batch", [None, 1, 7, 23, 1000])
def test_batches_change_no_prediction(batch: int | None) -> None:
    assert MODEL.predict(ROWS, batch) == pytest.approx(by_hand(ROWS), rel=1e-12)
    assert MODEL.predict(ROWS[:0], batch).shape == (0,)


@pytest.mark.parametrize(
    ("name", "at_one"),
    [("relu", 1.0), ("tanh", 0.761594), ("logistic", 0.731059), ("silu", 0.731059), ("gelu", 0.841192)],
)
def test_each_activation_is_what_its_name_says(name: str, at_one: float) -> None:
    said = ACTIVATIONS[name](np.array([1.0, -1e4, 0.0]))
    assert said == pytest.approx(
        [at_one, -1.0 if name == "tanh" else 0.0, 0.5 * (name == "logistic")], abs=1e-6
    )


def test_what_is_no_model_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "thing.npz"
    MODEL.save(path)
    with np.load(path) as file:
        arrays = dict(file)
    for change, said in (
        ({"activation": np.array("swish")}, "unknown activation 'swish'"),
        ({"features": np.array([{}], dtype=object)}, "allow_pickle"),
        ({"bias_1": None}, "bias_1"),
        ({"weight_0": None, "weight_1": None, "weight_2": None}, "it has no layers"),
        ({"weight_1": np.zeros((3, 4))}, r"layer 1 has weights of shape \(3, 4\) .* and gets 5 values"),
        ({"weight_2": None}, "its last layer gives 4 values"),
        ({"bias_2": np.array([np.nan])}, "layer 2 holds a number that is not finite"),
        ({"feature_scale": np.ones(3)}, "expected the mean and the scale of 2 features"),
    ):
        np.savez(path, **{name: array for name, array in {**arrays, **change}.items() if array is not None})
        with pytest.raises(ValueError, match=f"thing.npz is not a model of training.mlp .*{said}"):
            Model.load(path)
    path.write_bytes(MODEL.save(path).read_bytes()[:-100])
    with pytest.raises(ValueError, match="thing.npz is not a model"):
        Model.load(path)


def test_rows_are_columns_in_the_models_order() -> None:
    rows = MODEL.rows({"b": [3.0, 4.0], "more": [], "a": [1.0, 2.0]})
    assert rows.tolist() == [[1.0, 3.0], [2.0, 4.0]]


def test_an_ensemble_says_the_mean_and_how_far_its_members_are_apart(tmp_path: Path) -> None:
    shifted = [
        replace(MODEL, scale=replace(MODEL.scale, target_mean=7.0 + shift)) for shift in (-1.0, 0.0, 1.0)
    ]
    paths = [model.save(tmp_path / f"{number}.npz") for number, model in enumerate(shifted)]
    mean, spread = Ensemble.load(paths, np.float64).predict(ROWS, batch=5)
    assert mean == pytest.approx(by_hand(ROWS), rel=1e-12)
    assert spread == pytest.approx(np.full(23, (2 / 3) ** 0.5), rel=1e-9)


def test_models_that_predict_different_things_are_no_ensemble() -> None:
    with pytest.raises(ValueError, match="model 0 predicts y from a, b, model 1 predicts z from a, b"):
        Ensemble((MODEL, replace(MODEL, target="z")))
    with pytest.raises(ValueError, match="at least one model"):
        Ensemble(())


def test_a_member_with_too_few_predictions_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 2 predictions of each member; found 1"):
        mean_and_spread([[1.0, 2.0], [1.0]], 2)


def test_a_scale_gives_back_what_it_was_given() -> None:
    table = Table.from_columns({"x": [1.0, 2.0, 6.0], "one": [1.0] * 3, "y": [5.0, 7.0, 9.0]}, "y")
    scale = Scale.of(table)
    scaled = scale.features(table.features)
    assert scaled.mean(axis=0) == pytest.approx([0, 0])
    assert scaled.std(axis=0) == pytest.approx([1, 0])  # a constant column does no harm
    assert scale.own_units(scale.target(table.target)) == pytest.approx([5, 7, 9])
