"""A model is the same after it was saved, whoever trained it, and says what its layers say."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from diel import tabular
from diel.ml.tabular import ACTIVATIONS, Ensemble, Layers, Lstm, Model, Pairs, Scale, Table, mean_and_spread

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


CUBE = [[x, y, z] for x in range(2) for y in range(2) for z in range(2)]


def test_correlations_are_means_over_pairs_of_atoms() -> None:
    ring = Pairs.of([[n, 0, 0] for n in range(6)], [6, 1, 1])
    assert ring.names == ("share", "pair_1", "pair_2", "pair_3")
    alternating, half, none = 0b010101, 0b000111, 0
    seen = ring.see(np.array([alternating, half, none], float))
    assert seen == pytest.approx(
        np.array([[0.5, -1, 1, -1], [0.5, 1 / 3, -1 / 3, -1], [0, 1, 1, 1]]), abs=1e-6
    )


def test_arrangements_that_a_symmetry_makes_equal_look_equal() -> None:
    cube = Pairs.of(CUBE, [2, 2, 2])
    corners = cube.see(np.array([1 << n for n in range(8)], float))
    assert np.ptp(corners, axis=0).max() < 1e-6


@pytest.mark.parametrize(
    ("sites", "said"),
    [([[0, 0, 0]], "2 to 52 sites"), ([[0, 0, 0], [1, 0, 0], [3, 0, 0]], "different surroundings")],
)
def test_what_is_no_crystal_is_refused(sites: list[list[int]], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Pairs.of(sites, [8, 1, 1])


def test_a_model_of_arrangements_comes_back_from_its_file(tmp_path: Path) -> None:
    pairs = Pairs.of(CUBE, [2, 2, 2])
    wide = len(pairs.names)
    layers = ((np.eye(wide)[:, :1], np.zeros(1)),)
    model = Model(("site",), "y", "tanh", Scale(np.zeros(wide), np.ones(wide), 0.0, 1.0), layers, pairs)
    loaded = tabular.Model.load(model.save(tmp_path / "model.npz"))
    rows = np.array([[0.0], [255.0], [15.0], [128.0]])
    assert loaded.predict(rows) == pytest.approx([0, 1, 0.5, 0.125], abs=1e-6)  # the share of ones


COLUMNS = {"a": [1.0, 2.0, 3.0], "y": [4.0, 5.0, 6.0], "b": [7.0, 8.0, 9.0]}


def written(path: Path, columns: dict[str, list[float]]) -> Path:
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(columns)
        rows.writerows(zip(*columns.values(), strict=True))
    return path


def test_lists_mappings_and_files_make_the_same_table(tmp_path: Path) -> None:
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
    top = written(tmp_path / "top.csv", {name: values[:1] for name, values in COLUMNS.items()})
    rest = written(tmp_path / "rest.csv", {name: COLUMNS[name][1:] for name in ("y", "b", "a")})
    for table in (
        Table.from_columns(COLUMNS, "y"),
        Table.from_rows(rows, "y"),
        Table.from_files([top, rest], "y"),
    ):
        assert table.names == ("a", "b")
        assert table.features.tolist() == [[1.0, 7.0], [2.0, 8.0], [3.0, 9.0]]
        assert table.target.tolist() == [4.0, 5.0, 6.0]


def test_the_features_asked_for_keep_their_order() -> None:
    assert Table.from_columns(COLUMNS, "a", ["b", "y"]).features.tolist()[0] == [7.0, 4.0]


def test_too_few_rows_are_refused_with_what_they_are_for() -> None:
    table = Table.from_columns(COLUMNS, "y")
    assert table.at_least(3) is table
    with pytest.raises(ValueError, match="at least 4 rows, two of them held out; found 3"):
        table.at_least(4, "two of them held out")


def test_predictions_stand_beside_what_was_observed(tmp_path: Path) -> None:
    some = Table.from_columns(COLUMNS, "y").take(np.array([2, 0]))
    path = some.save_predictions(tmp_path / "said.csv", np.array([6.5, 4.5]))
    assert path.read_text().splitlines() == ["a,b,observed,predicted", "3.0,9.0,6.0,6.5", "1.0,7.0,4.0,4.5"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a,b\n1_000,2\n", "line 2, column 'a', holds '1_000'; expected a finite number"),
        ("a,b\n1,2\n\n3\n", "t.csv:4: 1 value, but the header names 2 columns"),
        ("a,a\n1,2\n", "t.csv:1: the header names 'a' twice"),
        ("", "t.csv: empty; expected a header line"),
    ],
)
def test_a_file_is_read_as_axes_read_it(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(ValueError, match=told):
        Table.from_files([tmp_path / "t.csv"], "b")


DRAW = np.random.default_rng(0)
STEPS, HIDDEN = 6, 3
LOW = np.where(np.arange(STEPS) == 2, 0.1, -np.inf)
COURSE = Lstm(
    inner=DRAW.normal(size=(HIDDEN, 4 * HIDDEN)),
    places=DRAW.normal(size=(STEPS, 4 * HIDDEN)),
    outer=DRAW.normal(size=HIDDEN + 1),
    low=LOW,
    high=np.full(STEPS, 2.0),
)
LSTM = Model(
    ("a", "b"),
    "margin",
    "silu",
    Scale(np.zeros(2), np.ones(2), 0.0, 1.0),
    ((DRAW.normal(size=(2, 2 * HIDDEN)), DRAW.normal(size=2 * HIDDEN)),),
    course=COURSE,
)
COURSES = DRAW.normal(size=(700, 2))


def course_by_hand(begun: np.ndarray) -> list[float]:
    """One course, gate by gate, as Hochreiter, Schmidhuber and Gers wrote it."""
    state, cell, told = np.tanh(begun[:HIDDEN]), begun[HIDDEN:], []
    for place in COURSE.places:
        let_in, keep, new, out = np.split(state @ COURSE.inner + place, 4)
        sigmoid = [1 / (1 + np.exp(-gate)) for gate in (let_in, keep, out)]
        cell = sigmoid[1] * cell + sigmoid[0] * np.tanh(new)
        state = sigmoid[2] * np.tanh(cell)
        told.append(float(state @ COURSE.outer[:-1] + COURSE.outer[-1]))
    return told


def test_a_course_is_what_the_gates_make_of_it_and_its_margin_that_of_its_worst_place(tmp_path: Path) -> None:
    weight, bias = LSTM.layers[0]
    expected = np.array([course_by_hand(row @ weight + bias) for row in COURSES])
    assert COURSE.follow(COURSES @ weight + bias) == pytest.approx(expected, abs=1e-12)
    margins = np.minimum(expected[:, 2] - 0.1, (2 - expected).min(axis=1))
    assert LSTM.predict(COURSES) == pytest.approx(margins, abs=1e-12)
    read = Model.load(LSTM.save(tmp_path / "model.npz"))
    assert read.predict(COURSES) == pytest.approx(margins, abs=1e-5)


def test_arrays_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a course's low: expected numbers of shape \(6,\), found \(5,\)"):
        replace(COURSE, low=LOW[1:])
    narrow = replace(LSTM, layers=((np.ones((2, 1)), np.ones(1)),)).save(tmp_path / "narrow.npz")
    with pytest.raises(ValueError, match="its last layer gives 1 values for a row, not 6"):
        Model.load(narrow)
