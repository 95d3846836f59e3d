"""Screening a million states, and predicting a few."""

from __future__ import annotations

import json
import math
import os
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import qmc

import diel
from diel import tabular
from modules.inference.screen import _states, _Summary, latency, merge, predict, screen


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


def everything(ranges: Any, points: int, method: str = "uniform", **more: Any) -> Any:
    """All states of a screen, of shape (states, features)."""
    network = tabular.Model.load(more.pop("model"))
    count, blocks = _states(network, ranges, None, None, points, method, 0, more["context"])
    return np.concatenate(list(blocks(0, count, 777)))


def same(result: Any) -> dict[str, Any]:
    """What two screens of the same states have in common."""
    return {name: value for name, value in result.items() if name != "summary"}


def test_a_million_states_are_screened_in_little_memory(model: Path, context: diel.Context) -> None:
    tracemalloc.start()
    result = screen(model, context, ranges=RANGES)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5 * 2**20  # all states and predictions are 24 MB
    assert sum(path.stat().st_size for path in context.task_dir.iterdir()) < 10_000  # no table
    assert result["count"] == 1_000_000
    assert result["maximum"] == pytest.approx(4, abs=0.01)
    assert result["minimum"] == pytest.approx(0, abs=0.01)
    assert result["mean"] == pytest.approx(2, abs=0.01)


@pytest.mark.parametrize("method", ["uniform", "sobol", "grid"])
def test_a_batch_is_as_large_as_a_part_at_most(method: Any, model: Path, context: diel.Context) -> None:
    options: Any = {"ranges": RANGES, "points": 1024, "method": method, "parts": 4}
    usual = screen(model, context, **options)
    assert same(screen(model, context, **options, batch=10**18)) == same(usual)


def test_a_histogram_counts_every_prediction(model: Path, context: diel.Context) -> None:
    result = screen(model, context, ranges=RANGES, points=5000, bins=32, batch=64)
    states = everything(RANGES, 5000, model=model, context=context)
    histogram, predicted = result["histogram"], 2 * states[:, 0] - states[:, 1] + 1
    assert 16 <= len(histogram["counts"]) <= 32
    edges = histogram["low"] + histogram["width"] * np.arange(len(histogram["counts"]) + 1)
    expected = np.histogram(predicted, edges)[0]
    assert sum(histogram["counts"]) == 5000
    assert np.abs(expected - histogram["counts"]).max() <= 2  # single precision moves one over an edge


@pytest.mark.parametrize("value", [0.0, 3.0, -1e30])
def test_a_histogram_of_one_value_has_one_bin(value: float, context: diel.Context) -> None:
    summary = _Summary(("a", "prediction"), "maximize", None, 3, 100)
    summary.add(np.zeros((5, 1)), np.full(5, value))
    histogram = summary.result(context.task_dir / "x.npz")["histogram"]
    assert histogram["counts"] == [5]
    assert histogram["low"] <= value < histogram["low"] + histogram["width"]


def predictions(rng: np.random.Generator) -> Any:
    """Some, of a kind that may be hard for bins: shape (states,)."""
    count = int(rng.choice([1, 2, 50]))
    scale = 10.0 ** rng.integers(-320, 300)
    drawn = rng.normal(size=count)
    hard = rng.choice([-1.0, -0.0, 0.0, 5e-324, -1e-200, 0.3, np.nextafter(0.3, 1), 1e300], count)
    kinds = (
        drawn * scale,  # of any size
        np.maximum(drawn, 0.3),  # flat in part
        np.full(count, drawn[0] * scale),  # one number
        rng.choice([0.25, 0.5, 0.75], count),  # ties, on the edges of bins
        0.3 + np.spacing(0.3) * rng.integers(0, 3, count),  # the smallest of differences
        drawn * 10.0 ** rng.integers(-300, 300, count),  # of all sizes
        hard,
    )
    predicted = kinds[rng.integers(len(kinds))]
    return np.sort(predicted) if rng.integers(2) else predicted


@pytest.mark.parametrize("seeds", [range(n, n + 100) for n in range(0, 500, 100)], ids=str)
def test_a_summary_is_the_same_by_blocks_by_parts_and_at_once(seeds: Any, context: diel.Context) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        predicted = predictions(rng)
        states = rng.integers(rng.choice([1, 8, 100]), size=(len(predicted), 1)) - 0.5  # some of them twice
        rows = np.column_stack([states, predicted])
        goal = rng.choice(["maximize", "minimize", "match"])
        match = 0.3 if goal == "match" else None
        keep, bins = int(rng.choice([1, 3, 12])), int(rng.choice([2, 3, 100]))
        settings: Any = (("a", "prediction"), str(goal), match, keep, bins)

        def summarised(*blocks: Any, settings: Any = settings) -> _Summary:
            summary = _Summary(*settings)
            for block in blocks:
                summary.add(block[:, :-1], block[:, -1])
            return summary

        def cut(whole: Any, rng: np.random.Generator = rng) -> list[Any]:
            places = np.unique(rng.integers(len(whole), size=rng.integers(6)))
            return [block for block in np.split(whole, places) if len(block)]

        merged, *rest = [summarised(*cut(part)) for part in cut(rows)]
        for other in rest:
            merged.join(other)
        once, *more = (
            summary.result(context.task_dir / "x.npz")
            for summary in (summarised(rows), summarised(*cut(rows)), merged)
        )
        histogram = once["histogram"]
        edges = histogram["low"] + histogram["width"] * np.arange(len(histogram["counts"]) + 1)
        assert histogram["counts"] == np.histogram(predicted, edges)[0].tolist(), seed
        assert len(histogram["counts"]) <= bins, seed
        costs = {"maximize": -predicted, "minimize": predicted, "match": np.abs(predicted - 0.3)}[str(goal)]
        best: dict[float, float] = {}
        for row in np.argsort(costs, kind="stable"):
            best.setdefault(states[row, 0], predicted[row])
        assert [tuple(row.values()) for row in once["best"]] == list(best.items())[:keep], seed
        for summary in more:
            assert same(summary) | {"mean": 0} == same(once) | {"mean": 0}, seed


def test_a_model_that_is_flat_at_first_has_a_right_histogram(model: Path, context: diel.Context) -> None:
    states = np.concatenate([np.full(500, 0.25), np.linspace(0.25, 1, 500)])
    np.save(context.task_dir / "states.npy", np.column_stack([states, np.zeros(1000)]))
    histogram = screen(model, context, candidates=context.task_dir / "states.npy", batch=100)["histogram"]
    assert (histogram["low"], histogram["width"], len(histogram["counts"])) == (1.5, 2**-6, 97)
    assert histogram["counts"][0] == 500 + 6
    assert set(histogram["counts"][1:]) <= {1, 5, 6}


@pytest.mark.parametrize(
    ("goal", "match", "cost"),
    [
        ("maximize", None, lambda p: -p),
        ("minimize", None, lambda p: p),
        ("match", 1.5, lambda p: np.abs(p - 1.5)),
    ],
)
@pytest.mark.parametrize("method", ["uniform", "grid", "sobol"])
def test_the_best_states_come_first(
    method: Any, goal: Any, match: float | None, cost: Any, model: Path, context: diel.Context
) -> None:
    options: Any = {"method": method, "points": 5000, "batch": 128, "goal": goal, "match": match, "keep": 7}
    result = screen(model, context, ranges=RANGES, **options)
    states = everything(RANGES, 5000, method, model=model, context=context)
    costs = np.sort(cost(tabular.Model.load(model).predict(states)))
    assert cost(np.array([state["prediction"] for state in result["best"]])) == pytest.approx(costs[:7])
    assert [list(state) for state in result["best"]] == [["a", "b", "prediction"]] * 7
    for state in result["best"]:
        assert state["prediction"] == pytest.approx(2 * state["a"] - state["b"] + 1, abs=1e-4)


def test_no_state_is_twice_among_the_best(model: Path, tmp_path: Path, context: diel.Context) -> None:
    values = {"a": [1.0, 2.0, 3.0], "b": [5.0, 5.0]}
    every: Any = ({"method": "uniform", "batch": 7}, {"method": "sobol"}, {"method": "grid"})
    for options in every:
        best = screen(model, context, values=values, points=1000, keep=5, **options)["best"]
        assert best == [{"a": a, "b": 5.0, "prediction": 2 * a - 4} for a in (3.0, 2.0, 1.0)]
    np.save(tmp_path / "states.npy", np.array([[0.0, 1.0], [-0.0, 1.0], [0.0, 1.0], [0.5, 1.0]]))
    goals: Any = {"maximize": 0.5, "minimize": 0.0}
    for goal, first in goals.items():
        best = screen(model, context, candidates=tmp_path / "states.npy", goal=goal, batch=2)["best"]
        assert [state["a"] for state in best] == [first, 0.5 - first]


@pytest.mark.parametrize("points", [1, 100, 9000])  # the last is longer than what is kept as a table
@pytest.mark.parametrize(("flat", "other"), [("a", "b"), ("b", "a")])
def test_a_range_of_no_width_is_one_value_of_a_grid(
    flat: str, other: str, points: int, model: Path, context: diel.Context
) -> None:
    ranges = {flat: [1.0, 1.0], other: [0.0, 1.0]}
    states = screen(model, context, ranges=ranges, points=points, method="grid", keep=points)["best"]
    assert {state[flat] for state in states} == {1.0}
    assert sorted(state[other] for state in states) == pytest.approx(np.linspace(0, 1, points))
    for method in ("uniform", "sobol"):
        drawn = everything(ranges, points, method, model=model, context=context)
        assert set(drawn[:, "ab".index(flat)]) == {1.0}
    ranges[other] = [2.0, 2.0]
    assert screen(model, context, ranges=ranges, points=points, method="grid")["count"] == 1


def test_fewer_states_than_asked_for_are_all_kept(model: Path, context: diel.Context) -> None:
    assert len(screen(model, context, ranges=RANGES, points=3)["best"]) == 3


@pytest.mark.parametrize("points", [100, 110])
def test_a_grid_is_evenly_spaced_and_has_no_more_points_than_asked_for(
    points: int, model: Path, context: diel.Context
) -> None:
    states = everything(RANGES, points, "grid", model=model, context=context)
    assert screen(model, context, ranges=RANGES, points=points, method="grid", batch=7)["count"] == 100
    assert np.unique(states[:, 0]) == pytest.approx(np.linspace(0, 1, 10))
    assert len(np.unique(states, axis=0)) == 100


def test_a_grid_of_values_is_the_product_of_the_axes(model: Path, context: diel.Context) -> None:
    values = {"a": [0.0, 1.0, 5.0], "b": [-3.0, 8.0]}
    result = screen(model, context, values=values, method="grid", keep=10)
    pairs = [(state["a"], state["b"]) for state in result["best"]]
    assert pairs == [(5, -3), (1, -3), (0, -3), (5, 8), (1, 8), (0, 8)]
    mixed: Any = {"ranges": {"a": [0.0, 1.0]}, "values": {"b": values["b"]}, "method": "grid"}
    assert screen(model, context, points=9, **mixed)["count"] == 8  # four of the range, both values
    large = screen(model, context, points=200_001, **mixed)  # longer than what is kept as a table
    assert large["count"] == 200_000
    assert large["best"][0] == pytest.approx({"a": 1.0, "b": -3.0, "prediction": 6.0})
    drawn = screen(model, context, values=values, points=500, keep=500)["best"]
    assert {(state["a"], state["b"]) for state in drawn} == set(pairs)


def test_sobol_points_are_those_of_scipy(model: Path, context: diel.Context) -> None:
    points = everything({"a": [0.0, 1.0], "b": [0.0, 1.0]}, 10_000, "sobol", model=model, context=context)
    engine = qmc.Sobol(2, scramble=True, rng=0, bits=30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SciPy prefers powers of two
        assert (points == engine.random(10_000)).all()


@pytest.mark.parametrize("points", [9999, 4])  # fewer than parts
@pytest.mark.parametrize("method", ["uniform", "sobol", "grid"])
def test_the_parts_of_a_screen_add_up_to_the_whole(
    method: Any, points: int, model: Path, tmp_path: Path, context: diel.Context
) -> None:
    options: Any = {"ranges": RANGES, "points": points, "method": method, "keep": 20, "batch": 500}
    whole = screen(model, context, **options)
    parts = []
    for part in range(7):
        (tmp_path / str(part)).mkdir()
        own = diel.Context(task_dir=tmp_path / str(part))
        parts.append(screen(model, own, **options, part=part, parts=7)["summary"])
    merged = merge(parts, context)
    assert merged["mean"] == pytest.approx(whole["mean"], rel=1e-12)
    assert same(merged) | {"mean": 0} == same(whole) | {"mean": 0}
    other = screen(model, context, **options | {"keep": 3})["summary"]
    with pytest.raises(ValueError, match="parts of different screens: keep is 20 and 3"):
        merge([parts[0], other], context)


def test_a_screen_that_is_stopped_goes_on_where_it_was(
    model: Path, tmp_path: Path, context: diel.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: Any = {"ranges": RANGES, "points": 20_000, "batch": 1000, "goal": "match", "match": 2.0}
    whole = screen(model, context, **options)
    (tmp_path / "0").mkdir()
    screened: list[int] = []
    predict = tabular.Model.predict

    def counted(self: tabular.Model, rows: tabular.Floats) -> tabular.Floats:
        screened.append(len(rows))
        return predict(self, rows)

    monkeypatch.setattr(tabular.Model, "predict", counted)
    stopped = diel.Context(task_dir=tmp_path / "0", checkpoint=True, interrupt_at=0.0)
    for _ in range(19):
        with pytest.raises(diel.Interrupted, match="of 20000 states are done"):
            screen(model, stopped, **options)
    again = diel.Context(task_dir=tmp_path / "0", checkpoint=True)
    assert same(screen(model, again, **options)) == same(whole)
    assert screened == [1000] * 20  # none twice


def test_a_damaged_checkpoint_is_left_out(
    model: Path, context: diel.Context, capsys: pytest.CaptureFixture[str]
) -> None:
    options: Any = {"ranges": RANGES, "points": 3000, "batch": 1000}
    whole = screen(model, context, **options)
    stopped = diel.Context(task_dir=context.task_dir / "0", checkpoint=True, interrupt_at=0.0)
    stopped.task_dir.mkdir()
    with pytest.raises(diel.Interrupted):
        screen(model, stopped, **options)
    (saved,) = stopped.checkpoint_dir.iterdir()
    written = saved.read_bytes()
    again = diel.Context(task_dir=stopped.task_dir, checkpoint=True)
    other = context.task_dir / "other.npy"
    np.save(other, np.zeros(3))
    halves = written[: len(written) // 2], written[:100] + b"?" * 100 + written[200:]
    for damaged in (b"", written[:10], *halves, model.read_bytes(), other.read_bytes()):
        saved.write_bytes(damaged)
        assert same(screen(model, again, **options)) == same(whole)
        assert f"damaged, and this part begins anew: {saved} is no summary" in capsys.readouterr().err
        with pytest.raises(ValueError, match=rf"^{saved} is no summary of inference.screen"):
            merge([whole["summary"], saved], context)
    saved.write_bytes(written)
    assert same(screen(model, again, **options)) == same(whole)
    assert capsys.readouterr().err == ""


def test_candidates_come_from_a_file(model: Path, tmp_path: Path, context: diel.Context) -> None:
    states = np.random.default_rng(1).random((300, 2))
    np.save(tmp_path / "states.npy", states)
    fields = np.array([tuple(row) for row in states[:, ::-1]], dtype=[("b", float), ("a", float)])
    np.save(tmp_path / "named.npy", fields)
    first, second = (
        screen(model, context, candidates=tmp_path / name, batch=100, keep=300)
        for name in ("states.npy", "named.npy")
    )
    assert same(first) == same(second)
    assert sorted(state["a"] for state in first["best"]) == sorted(states[:, 0])


@pytest.mark.parametrize("odd", [math.inf, -math.inf, math.nan])
def test_states_that_are_not_finite_win_no_screen(
    model: Path, tmp_path: Path, context: diel.Context, odd: float
) -> None:
    states = np.random.default_rng(1).random((300, 2))
    states[250, 1] = odd
    np.save(tmp_path / "states.npy", states)
    with pytest.raises(ValueError, match=rf"candidates: b of state 250 is {odd}; expected finite numbers"):
        screen(model, context, candidates=tmp_path / "states.npy", batch=100)
    with pytest.raises(ValueError, match="values: expected finite numbers of a"):
        screen(model, context, values={"a": [1.0, odd], "b": [1.0]}, method="grid")


def test_more_than_a_result_holds_is_refused_before_the_work(model: Path, context: diel.Context) -> None:
    full = screen(model, context, RANGES, points=6000, keep=5000)
    assert len(json.dumps(full["best"])) < 1_000_000
    for keep, bins in ((11_000, 100), (5000, 100_000)):
        with pytest.raises(ValueError, match="are more than a result holds, 1 MiB; expected"):
            screen(model, context, RANGES, points=10**12, keep=keep, bins=bins)


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
    for wrong, message in (
        ({}, "exactly one of `ranges` .* and `candidates`"),
        ({"ranges": RANGES, "part": 2, "parts": 2}, "part 2 of 2: the last one is 1"),
        ({"ranges": RANGES, "points": 2**31, "method": "sobol"}, "1073741824 Sobol points at most"),
        ({"values": {"a": [1.0], "b": [1.0, 2.0]}, "points": 1, "method": "grid"}, "has 2 states"),
        ({"ranges": {"a": [0.0, 1.0]}}, "features are a, b; ranges are given for a"),
        ({"ranges": {"a": [1.0, 0.0], "b": [0.0, 1.0]}}, "low first"),
        ({"ranges": {"a": [0.0, math.inf], "b": [0.0, 1.0]}}, "two finite numbers"),
        ({"ranges": RANGES, "goal": "match"}, "give both, or neither"),
        ({"ranges": RANGES, "match": 1.0}, "give both, or neither"),
        (
            {"ranges": RANGES, "goal": "match", "match": math.nan},
            "match: expected a finite number; found nan",
        ),
        (
            {"ranges": RANGES, "goal": "match", "match": -math.inf},
            "match: expected a finite number; found -inf",
        ),
        ({"candidates": tmp_path / "three.npy"}, r"shape \(5, 3\); expected \(states, 2\)"),
        ({"candidates": tmp_path / "named.npy"}, "fields a, c; the model needs a, b"),
        ({"candidates": tmp_path / "empty.npy"}, "holds no states"),
        ({"candidates": tmp_path / "nan.npy"}, "a of state 1 is nan; expected finite numbers"),
        ({"candidates": tmp_path / "text.npy"}, "no .npy file of numbers"),
    ):
        with pytest.raises(ValueError, match=message):
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
