"""Gradient descent by a parameter server: bounded staleness, and as good as the synchronous one."""

from __future__ import annotations

import json
from collections.abc import Callable
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="diel[torch] is not installed")

from modules.training.parameter_server import Server, parameter_server

DIGITS = """
import json
import numpy as np
from mpi4py import MPI
from modules.training.parameter_server import parameter_server
draw = np.random.default_rng(0)
labels = draw.integers(3, size=300)
data = draw.normal(size=(300, 6)) + 2 * np.eye(6)[labels]
found = parameter_server(data, labels, MPI.COMM_WORLD, hidden=[8], steps=60, learning_rate=0.3, bound=1)
weights = MPI.COMM_WORLD.gather(float(np.abs(found.pop("weights")).sum()))
if weights:
    print(json.dumps({**found, "weights": weights}))
"""


def test_it_learns_as_well_as_the_synchronous_training_and_tells_how_stale_gradients_are(
    on_ranks: Callable[[int, str], str],
) -> None:
    *lines, last = on_ranks(2, DIGITS).splitlines()
    result = json.loads(last)
    for way in ("synchronous", "asynchronous"):
        assert result[way]["accuracy"] > 0.9
        assert result[way]["rows_per_second"] == pytest.approx(2 * 60 * 16 / result[way]["seconds"])
    assert result["asynchronous"]["loss"] == pytest.approx(result["synchronous"]["loss"], rel=0.2)
    assert sum(result["staleness"].values()) == 2 * 60  # every gradient of every rank
    assert result["largest_staleness"] <= (2 * 1 + 1) * 1
    assert any("not deterministic" in line for line in lines)
    assert [line.split()[0] for line in lines[1:3]] == ["synchronous", "asynchronous"]


def test_a_worker_that_is_ahead_by_more_than_the_bound_waits_for_the_slowest() -> None:
    server = Server(np.zeros(2, np.float32), rate=1.0, workers=2, bound=1, steps=9)
    gradient = np.ones(2, np.float32)
    for _ in range(2):
        assert server.take(0) is not None
        server.give(0, gradient)
    assert not server.may_go(0)
    weights: list[Any] = []
    waiting = Thread(target=lambda: weights.append(server.take(0)))
    waiting.start()
    server.take(1)
    server.give(1, gradient)
    waiting.join(timeout=60)
    assert weights[0].tolist() == [-3.0, -3.0]  # of three steps
    assert server.staleness == [0, 0, 0]


def test_a_gradient_is_as_stale_as_the_steps_that_others_took_since_its_weights() -> None:
    server = Server(np.zeros(1, np.float32), rate=1.0, workers=3, bound=5, steps=9)
    for worker in range(3):
        server.take(worker)
    for worker in range(3):
        server.give(worker, np.ones(1, np.float32))
    assert server.staleness == [0, 1, 2]


def test_a_single_rank_is_refused() -> None:
    alone: Any = SimpleNamespace(Get_size=lambda: 1, Get_rank=lambda: 0)
    with pytest.raises(ValueError, match="ranks: 2"):
        parameter_server(np.zeros((2, 2)), np.zeros(2), alone)
