"""The perceptron that learns from a stream."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diel
from modules.inference.screen import predict
from modules.training.online import Online, online


@dataclass(frozen=True)
class Streaming(diel.Context):
    """A task whose stream is a list."""

    items: list[Any] = field(default_factory=list)

    def stream(self, name: str) -> Any:
        assert name == "samples"
        return iter(self.items)


Learn = Callable[..., Online]


@pytest.fixture
def learn(tmp_path: Path) -> Learn:
    def call(items: Any, **options: Any) -> Online:
        context = Streaming(task_dir=tmp_path, items=items)
        return online("y", ["x"], context, **{"begin": 50, "hidden": 16, "report": 10, **options})

    return call


def bend(items: int, rows: int = 10) -> list[dict[str, Any]]:
    """Samples of a curve, in units of its own, with a little noise."""
    rng = np.random.default_rng(5)
    x = rng.uniform(-1, 1, (items, rows))
    y = 100 + 10 * np.tanh(3 * x) + rng.normal(0, 0.3, x.shape)
    return [{"x": a, "y": b} for a, b in zip(x, y, strict=True)]


def test_it_learns_the_curve_and_screen_reads_its_model(learn: Learn, context: diel.Context) -> None:
    result = learn(bend(120))
    assert result["relative_error"] < 0.1
    assert result["error"] == pytest.approx(result["relative_error"] * 8, rel=0.2)
    assert result["items"] == 120
    assert result["rows"] + result["rows_apart"] == 1200
    assert 0.08 < result["rows_apart"] / 1200 < 0.17
    x = np.linspace(-0.9, 0.9, 10)
    there = predict(result["model"], {"x": x.tolist()}, context)["prediction"]
    assert there == pytest.approx(100 + 10 * np.tanh(3 * x), abs=0.7)


def test_its_loss_is_reported_while_it_falls(learn: Learn, tmp_path: Path) -> None:
    result = learn(bend(120))
    lines = [json.loads(line) for line in (tmp_path / ".metrics.jsonl").read_text().splitlines()]
    assert [line["items"] for line in lines] == list(range(10, 121, 10))
    assert lines[-1]["loss"] < lines[0]["loss"] / 5
    assert lines[-1]["error"] == result["relative_error"]
    written = np.loadtxt(result["history"], delimiter=",", skiprows=1)
    assert (written == [[line[n] for n in ("items", "rows", "loss", "error")] for line in lines]).all()


def test_rows_kept_apart_are_not_learned_from(learn: Learn) -> None:
    rng = np.random.default_rng(3)
    heights, places = rng.choice([-1.0, 1.0], 24), rng.permutation(np.linspace(-1, 1, 24))
    noise = [{"x": x, "y": y} for x, y in zip(places, heights, strict=True)]
    often = {"hidden": 64, "begin": 8, "steps": 80, "batch": 32, "learning_rate": 0.02, "held_out": 0.3}
    result = learn(noise, activation="relu", regularisation=0.0, **often)
    # y cannot be told from x: rows that were learned from are known to 0.2, others are guessed
    assert result["relative_error"] > 1


def test_the_same_stream_teaches_the_same(learn: Learn) -> None:
    results = [learn(bend(40), seed=seed) for seed in (1, 1, 2)]
    assert results[0]["error"] == results[1]["error"] != results[2]["error"]


def test_it_says_how_much_it_had_learned_when_the_last_item_was_made(learn: Learn) -> None:
    def stamped(late: int) -> Iterator[dict[str, Any]]:
        """Items that come one by one, as they are made; the last ones were made long ago."""
        for number, item in enumerate(bend(30)):
            yield {**item, "time": time.time() if number < 30 - late else 0.0}

    assert learn(stamped(late=0))["items_before_end"] == 29
    assert learn(stamped(late=10))["items_before_end"] == 19
    assert learn([{**item, "time": 0.0} for item in bend(30)])["items_before_end"] == 0
    assert learn(bend(30))["items_before_end"] is None


def test_items_may_hold_one_number_a_column_and_more_columns_than_are_read(learn: Learn) -> None:
    rows = [{"x": float(x), "y": float(x), "name": "any"} for x in np.linspace(-1, 1, 200)]
    assert learn(rows)["rows"] > 150


def test_a_stream_longer_than_its_memory_is_learned_from_to_the_end(learn: Learn) -> None:
    result = learn(bend(120), memory=60)
    assert result["relative_error"] < 0.2
    assert result["rows"] > 900


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ([1.0, 2.0], "item 1 of the stream is no mapping of columns: list"),
        ({"x": 1.0}, "item 1 of the stream has no 'y'; it has x"),
        ({"x": [1.0, 2.0], "y": [1.0]}, "item 1 of the stream: expected columns of equal length"),
        ({"x": "a", "y": 1.0}, "item 1 of the stream: expected columns"),
        ({"x": [1.0], "y": [float("nan")]}, "item 1 of the stream: expected columns of finite numbers"),
        ({"x": [[1.0]], "y": [[1.0]]}, "item 1 of the stream: expected columns of finite numbers"),
    ],
)
def test_an_item_that_is_no_rows_is_named(item: Any, message: str, learn: Learn) -> None:
    with pytest.raises(ValueError, match=message):
        learn([{"x": 1.0, "y": 1.0}, item])


def test_a_stream_that_ends_too_soon_is_told_so(learn: Learn) -> None:
    with pytest.raises(ValueError, match=r"ended after \d+ rows to learn from .* at least 50"):
        learn(bend(3))
    with pytest.raises(ValueError, match="ended after 0 rows"):
        learn([])
