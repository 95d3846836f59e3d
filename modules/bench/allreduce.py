"""How fast MPI ranks add up arrays, so that all have the sum: the collective of solvers and of training."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Annotated, TypedDict

import numpy as np

import diel

if TYPE_CHECKING:  # diel reads annotations as text
    from mpi4py import MPI
    from pydantic import Field

ROUNDS = 20
"""Groups of calls, each timed as a whole: a single call is too short for a clock."""


class Allreduce(TypedDict):
    """What was measured."""

    latency_us: float
    """Microseconds of a call on the slowest rank, of the median group: with 8 bytes the network's latency."""
    bandwidth_gbs: float
    """10⁹ bytes a second: 2 (ranks - 1) / ranks of the array in a call, which each rank must send. With large
    arrays it can be compared over numbers of ranks, and with a link's bandwidth."""
    spread: float
    """The slowest group over the fastest one: far above 1 on a network that is shared."""


@diel.module(kind="analysis")
def allreduce(
    comm: MPI.Comm,
    size: Annotated[int, Field(ge=8, le=2**34, multiple_of=8)] = 8,
    seconds: Annotated[float, Field(gt=0, le=3600)] = 1.0,
) -> Allreduce:
    """Add up arrays of double numbers over all ranks, again and again.

    size: bytes of each rank's array: 8 for the latency, 16 MiB and more for the bandwidth
    seconds: how long calls are timed, after some that are not

    Raise ValueError on a single rank, which has nobody to exchange with, and ArithmeticError where a sum is
    wrong.
    """
    ranks = comm.Get_size()
    if ranks < 2:
        raise ValueError("a single rank exchanges nothing: give the stage `resources: {ranks: 2}`, or more")
    mine = np.full(size // 8, float(comm.Get_rank() + 1))
    total = np.empty_like(mine)
    began = time.perf_counter()
    for _ in range(3):
        comm.Allreduce(mine, total)
    call_seconds = (time.perf_counter() - began) / 3
    if not (total == ranks * (ranks + 1) / 2).all():
        raise ArithmeticError(f"expected the sum {ranks * (ranks + 1) / 2} everywhere, found {total.min()}")
    calls = comm.bcast(max(1, round(seconds / ROUNDS / call_seconds)), root=0)
    times: list[float] = []
    for _ in range(ROUNDS):
        comm.Barrier()
        began = time.perf_counter()
        for _ in range(calls):
            comm.Allreduce(mine, total)
        # the slowest rank's, which the others wait for
        times.append(max(comm.allgather((time.perf_counter() - began) / calls)))
    usual = median(times)
    return {
        "latency_us": usual * 1e6,
        "bandwidth_gbs": 2 * (ranks - 1) / ranks * size / usual / 1e9,
        "spread": max(times) / min(times),
    }
