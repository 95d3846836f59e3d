"""Sums over MPI ranks, timed."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from modules.bench.allreduce import allreduce


def test_ranks_agree_on_the_sum_and_on_what_it_took(on_ranks: Callable[[int, str], str]) -> None:
    code = (
        "import json; from mpi4py import MPI; from modules.bench.allreduce import allreduce\n"
        "found = allreduce(MPI.COMM_WORLD, size=80_000, seconds=0.02)\n"
        "every = MPI.COMM_WORLD.gather(found)\n"
        "every and print(json.dumps(every))"
    )
    first, second = json.loads(on_ranks(2, code))
    assert first == second
    assert first["bandwidth_gbs"] == pytest.approx(80_000 / first["latency_us"] / 1000)
    assert first["spread"] >= 1


def test_a_sum_that_is_wrong_is_no_measurement() -> None:
    def broken(mine: Any, total: Any) -> None:
        total[:] = np.nan

    two: Any = SimpleNamespace(Get_size=lambda: 2, Get_rank=lambda: 0, Allreduce=broken)
    with pytest.raises(ArithmeticError, match="expected the sum 3"):
        allreduce(two)


def test_a_single_rank_is_refused() -> None:
    alone: Any = SimpleNamespace(Get_size=lambda: 1)
    with pytest.raises(ValueError, match="ranks: 2"):
        allreduce(alone)
