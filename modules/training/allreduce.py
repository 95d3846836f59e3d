"""Sums over MPI ranks, written out, and their cost: the collective of data-parallel training.

training.allreduce              measures sums, fits α, β and γ, predicts sizes and ranks that were not fitted
training.allreduce:predict      what a sum takes on any number of ranks
training.allreduce:step         the same for a whole step of training
training.allreduce:efficiency   on paper, for any number of ranks: computational times statistical

A sum of n bytes over p ranks by recursive halving and doubling takes (R. Thakur, R. Rabenseifner, W. Gropp,
Int. J. High Perform. Comput. Appl. 19, 49 (2005), section 4.5)

    T(p) = 2 α log₂ p + 2 (n/β) (p−1)/p + (n/γ) (p−1)/p

with the latency α, the bandwidth β and the speed γ of adding up. Ranks beyond a power of two hand all they
have to another one first, and take the sum from there: 2 α + 2 n/β + n/γ more, with the p of that power. No
machine has one α and one β for all sizes: short messages travel otherwise than long ones, and long ones leave
the caches. So they hold for a range of message sizes, as many ranges as the fitted measurements ask for
(P.-N. Clauss and others, IPDPS 2011, fit SimGrid's MPI so).
"""

from __future__ import annotations

import csv
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, pairwise
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

import diel

if TYPE_CHECKING:  # diel reads annotations as text
    from mpi4py import MPI
    from pydantic import Field

Array = NDArray[np.float64]
Algorithm = Literal["library", "ring", "doubling"]
Sum = Callable[[Any, Array, Array], None]
"""Adds an array up over a communicator's ranks, in place, with another one of its size to work in."""
GROUP = 1e-3
"""Seconds of calls that are timed one after the other."""
Measured = tuple[str, int, int]
"""An algorithm or `adding`, a number of ranks, and bytes."""
ALLOWED = 0.05
"""A relative error of the fitted measurements above which a range of sizes is cut in two."""
CLOSE = 0.2
"""A relative error of a prediction that is called close."""


def library(comm: MPI.Comm, array: Array, space: Array) -> None:
    """Sum by the MPI library, which chooses an algorithm by size and ranks."""
    from mpi4py import MPI  # here so that the predictions need no MPI

    comm.Allreduce(MPI.IN_PLACE, array)


def ring(comm: MPI.Comm, array: Array, space: Array) -> None:
    """Pass p-th parts to a neighbour: p−1 times to add them up, p−1 times to spread the sums.

    Source: P. Patarasuk, X. Yuan, J. Parallel Distrib. Comput. 69, 117 (2009).
    """
    ranks, rank = comm.Get_size(), comm.Get_rank()
    cuts = [len(array) * place // ranks for place in range(ranks + 1)]
    parts = [array[cuts[place] : cuts[place + 1]] for place in range(ranks)]
    right, previous = (rank + 1) % ranks, (rank - 1) % ranks
    for step in range(ranks - 1):
        part = parts[(rank - step - 1) % ranks]
        came = space[: len(part)]
        comm.Sendrecv(parts[(rank - step) % ranks], right, 0, came, previous, 0)
        part += came
    for step in range(ranks - 1):
        comm.Sendrecv(parts[(rank + 1 - step) % ranks], right, 0, parts[(rank - step) % ranks], previous, 0)


def doubling(comm: MPI.Comm, array: Array, space: Array) -> None:
    """Exchange all in pairs, at distances 1, 2, 4, …; ranks beyond a power of two first add theirs to
    another's, and take the sum from there. Source: Thakur and others, as above, section 4.5.
    """
    ranks, rank = comm.Get_size(), comm.Get_rank()
    most = 1 << (ranks.bit_length() - 1)
    if rank >= most:
        comm.Send(array, rank - most)
        comm.Recv(array, rank - most)
        return
    beyond = rank + most if rank + most < ranks else None
    if beyond is not None:
        comm.Recv(space, beyond)
        array += space
    distance = 1
    while distance < most:
        comm.Sendrecv(array, rank ^ distance, 0, space, rank ^ distance, 0)
        array += space
        distance *= 2
    if beyond is not None:
        comm.Send(array, beyond)


SUMS: dict[Algorithm, Sum] = {"library": library, "ring": ring, "doubling": doubling}


class Terms(NamedTuple):
    """What a rank does one after the other in a sum: how often, and the bytes of each time."""

    messages: list[tuple[int, float]]
    """Each message costs α, and each of its bytes 1/β."""
    added: list[tuple[int, float]]
    """Each byte costs 1/γ."""
    at_once: int
    """Ranks that work at the same time."""


def terms(algorithm: Algorithm, size: float, ranks: int) -> Terms:
    """Return the terms of a sum of `size` bytes over two ranks or more; the library halves and doubles."""
    if algorithm == "ring":
        return Terms([(2 * (ranks - 1), size / ranks)], [(ranks - 1, size / ranks)], ranks)
    whole = ranks.bit_length() - 1
    parts = [size] * whole if algorithm == "doubling" else [size / 2 ** (step + 1) for step in range(whole)]
    there = 1 if algorithm == "doubling" else 2  # and back
    beyond = [size] if ranks != 1 << whole else []
    messages = [*((there, part) for part in parts), *((2, part) for part in beyond)]
    return Terms(messages, [(1, part) for part in (*parts, *beyond)], 1 << whole)


class Piece(TypedDict):
    """A straight line for messages up to some size."""

    up_to: float | None
    """Bytes of a message; None for the last piece."""
    fixed: float
    """α: seconds of each message."""
    per_byte: float
    """1/β, or 1/γ: seconds of each byte."""


class Cost(TypedDict):
    """What was fitted: everything that a prediction needs."""

    sums: dict[str, list[Piece]]
    """α and β by algorithm."""
    adding: list[Piece]
    """γ."""
    cores: int
    """Of a node: more ranks than that take turns, so that each byte takes longer."""


def seconds_of(cost: Mapping[str, Any], algorithm: Algorithm, size: float, ranks: int, here: int) -> float:
    """Return T(p) of a sum of `size` bytes over `ranks`, `here` of them on one node."""
    if ranks < 2:
        return 0.0
    work = terms(algorithm, size, ranks)
    turns = max(1.0, min(here, work.at_once) / cost["cores"])
    lines = [(count, part, _piece(cost["sums"][algorithm], part)) for count, part in work.messages]
    sent = sum(count * (line["fixed"] + turns * part * line["per_byte"]) for count, part, line in lines)
    return float(sent + turns * _adding(cost["adding"], work))


def _adding(pieces: Sequence[Piece], work: Terms) -> float:
    """Return seconds of a rank that has its core for itself."""
    return float(sum(count * part * _piece(pieces, part)["per_byte"] for count, part in work.added))


def _piece(pieces: Sequence[Piece], message: float) -> Piece:
    fitting = (piece for piece in pieces if piece["up_to"] is None or message <= piece["up_to"])
    return next(fitting, pieces[-1])


class Point(NamedTuple):
    """One measurement that is fitted: seconds = steps α + sent/β + fixed."""

    message: float
    steps: float
    sent: float
    fixed: float
    seconds: float


def fit(points: Sequence[Point]) -> list[Piece]:
    """Fit straight lines by least squares of relative errors: as many as it takes to be near each point.

    A range is cut where the lines on both sides come nearest; each keeps at least two sizes.
    """
    ordered = sorted(points)
    line, worst = _line(ordered)
    sizes = sorted({point.message for point in ordered})
    if worst <= ALLOWED or len(sizes) < 4:
        return [line]

    def halves(place: int) -> tuple[list[Point], list[Point]]:
        low = [point for point in ordered if point.message < sizes[place]]
        return low, ordered[len(low) :]

    cuts = range(2, len(sizes) - 1)
    cut = min(cuts, key=lambda place: max(_line(half)[1] for half in halves(place)))
    below, above = map(fit, halves(cut))
    below[-1]["up_to"] = (sizes[cut - 1] + sizes[cut]) / 2
    return [*below, *above]


def _line(points: Sequence[Point]) -> tuple[Piece, float]:
    """Return the line, and its largest relative error; neither α nor 1/β is negative."""
    rows = np.array([[point.steps / point.seconds, point.sent / point.seconds] for point in points])
    targets = np.array([(point.seconds - point.fixed) / point.seconds for point in points])
    solution: Any = np.linalg.lstsq(rows, targets)[0]
    if solution.min() < 0:
        alone = [np.array([row @ targets / (row @ row) if row.any() else 0.0]) for row in rows.T]
        tries = [np.array([max(0.0, alone[0][0]), 0.0]), np.array([0.0, max(0.0, alone[1][0])])]
        solution = min(tries, key=lambda guess: float(np.abs(rows @ guess - targets).max()))
    worst = float(np.abs(rows @ solution - targets).max())
    return {"up_to": None, "fixed": float(solution[0]), "per_byte": float(solution[1])}, worst


def measure(
    comm: MPI.Comm, counts: Sequence[int], sizes: Sequence[int], seconds: float
) -> dict[Measured, float]:
    """Return seconds of a call by algorithm, ranks and bytes; and of `adding`, on all ranks at once.

    All are timed in turn, again and again, so that whatever else the machine does meets all of them. Of the
    rounds the lower decile is taken: others only ever make a sum slower, and the fastest one was lucky.
    """
    most = max(sizes) // 8
    array, space = np.zeros(most), np.zeros(most)
    calls: dict[Measured, int] = {}
    times: dict[Measured, list[float]] = {}
    until, going = time.perf_counter() + seconds, True
    while going:
        for ranks in counts:
            with _first(comm, ranks) as group:
                if group is None:
                    continue
                for size in sizes:
                    for name, call in (*SUMS.items(), ("adding", _add)):
                        key = (name, ranks, size)
                        views = array[: size // 8], space[: size // 8]
                        if key not in calls:
                            _timed(group, call, views, 1)  # memory and connections as they will stay
                            once = _timed(group, call, views, 3)
                            calls[key] = max(3, min(100, math.ceil(GROUP / once)))
                        times.setdefault(key, []).append(_timed(group, call, views, calls[key]))
        going = comm.bcast(time.perf_counter() < until)
    deciles = {key: float(np.quantile(samples, 0.1)) for key, samples in times.items()}
    return dict(comm.bcast(deciles))


def _timed(comm: MPI.Comm, call: Sum, views: tuple[Array, Array], calls: int) -> float:
    """Return seconds of the median call on the slowest rank, which the others wait for; the same on all.

    Each call is timed for itself, so that one in which another process had the core is one of many.
    """
    comm.Barrier()
    ticks = [time.perf_counter()]
    for _ in range(calls):
        call(comm, *views)
        ticks.append(time.perf_counter())
    usual = median(after - before for before, after in pairwise(ticks))
    return float(max(comm.allgather(usual)))


def _add(comm: MPI.Comm, array: Array, space: Array) -> None:
    array += space


@contextmanager
def _first(comm: MPI.Comm, ranks: int) -> Iterator[MPI.Comm | None]:
    """Yield a communicator of the first ranks; None to the others, which sleep until the first are done."""
    from mpi4py import MPI  # here so that the predictions need no MPI

    group = comm.Split(0 if comm.Get_rank() < ranks else MPI.UNDEFINED, comm.Get_rank())
    try:
        yield group if comm.Get_rank() < ranks else None
    finally:
        if comm.Get_rank() < ranks:
            group.Free()
        waiting = comm.Ibarrier()
        while not waiting.Test():
            time.sleep(0.001)  # not spinning: they may share a core with those who measure


def fit_cost(measured: Mapping[Measured, float], sizes: Sequence[int], ranks: int, cores: int) -> Cost:
    """Fit α, β and γ to measurements of some sizes on one number of ranks, which share `cores` on a node."""
    turns = max(1.0, ranks / cores)
    alone = [Point(size, 1, size * turns, 0.0, measured["adding", ranks, size]) for size in sizes]
    cost: Cost = {"sums": {}, "adding": fit(alone), "cores": cores}
    for name in SUMS:
        points = []
        for size in sizes:
            work = terms(name, size, ranks)
            turns = max(1.0, min(ranks, work.at_once) / cores)
            steps, sent = sum(n for n, _ in work.messages), sum(n * part for n, part in work.messages)
            adding = turns * _adding(cost["adding"], work)
            points.append(Point(sent / steps, steps, sent * turns, adding, measured[name, ranks, size]))
        cost["sums"][name] = fit(points)
    return cost


def cores_here(comm: MPI.Comm) -> tuple[int, int]:
    """Return the cores of this node that its ranks may use, and the ranks on the fullest node."""
    from mpi4py import MPI  # here so that the predictions need no MPI

    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    cores: set[int] = set().union(*node.allgather(os.sched_getaffinity(0)))
    ranks = node.Get_size()
    node.Free()
    return comm.allreduce(len(cores), MPI.MIN), comm.allreduce(ranks, MPI.MAX)


class Allreduce(TypedDict):
    """Measured and predicted sums."""

    cost: Cost
    """What was fitted, for `predict`, `step` and `efficiency`."""
    table: Path
    """CSV with a row for each algorithm, number of ranks and size: seconds measured and predicted, and
    whether they were fitted."""
    close: float
    """The share of predictions within 20 % of the measurement; fitted sums do not count."""
    median_error: float
    """The median of their relative errors."""
    largest_error: float


@diel.module(kind="analysis")
def allreduce(
    comm: MPI.Comm,
    context: diel.Context,
    least: Annotated[int, Field(ge=16, le=2**30, multiple_of=8)] = 4096,
    doublings: Annotated[int, Field(ge=1, le=30)] = 10,
    ranks: list[int] | None = None,
    fitted_ranks: Annotated[int, Field(ge=2)] = 2,
    seconds: Annotated[float, Field(gt=0, le=3600)] = 20.0,
) -> Allreduce:
    """Measure sums of arrays over MPI ranks, fit their cost, and predict the other measurements.

    least: bytes of the smallest array
    doublings: how often it is doubled; these sizes are fitted, and those halfway between them are predicted
    ranks: numbers of ranks to measure; powers of two and all of them where absent
    fitted_ranks: the number of ranks that is fitted; all sizes on the others are predicted
    seconds: how long is measured

    Sums by the MPI library, around a ring, and by recursive doubling are fitted each for itself. Where a
    node has fewer cores than ranks they take turns, which the prediction counts; let MPI sleep while it waits
    then (MPIR_CVAR_ENABLE_HEAVY_YIELD=1 of MPICH), else a rank waits for the time slice of another.
    Raise ValueError on a single rank and for ranks that are not there, ArithmeticError where a sum is wrong.
    """
    every = comm.Get_size()
    if every < 2:
        raise ValueError("a single rank exchanges nothing: give the stage `resources: {ranks: 2}`, or more")
    powers = {1 << power for power in range(1, every.bit_length())}
    counts = sorted({fitted_ranks, *(ranks or (*powers, every))})
    if counts[0] < 2 or counts[-1] > every:
        raise ValueError(f"expected from 2 to {every} ranks, found {', '.join(map(str, counts))}")
    expected = np.arange(10.0) * every + every * (every - 1) / 2
    for name, call in SUMS.items():
        mine = np.arange(10.0) + comm.Get_rank()
        call(comm, mine, np.empty_like(mine))
        if not np.array_equal(mine, expected):
            raise ArithmeticError(f"{name}: expected the sum {expected}, found {mine}")
    fitted = [least << power for power in range(doublings + 1)]
    between = [size * 3 // 2 // 8 * 8 for size in fitted[:-1]]
    cores, here = cores_here(comm)
    measured = measure(comm, counts, sorted(fitted + between), seconds)
    cost = fit_cost(measured, fitted, fitted_ranks, cores)
    rows = [
        (name, count, size, count == fitted_ranks and size in fitted, measured[name, count, size],
         seconds_of(cost, name, size, count, min(count, here)))
        for name in SUMS for count in counts for size in sorted(fitted + between)
    ]  # fmt: skip
    errors = [abs(predicted / took - 1) for _, _, _, is_fitted, took, predicted in rows if not is_fitted]
    heads = ("algorithm", "ranks", "bytes", "fitted", "measured_s", "predicted_s")
    table = context.task_dir / "allreduce.csv"
    if comm.Get_rank() == 0:
        with table.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([heads, *rows])
        sys.stdout.write("\n".join(_lines(cost, rows, cores, here)) + "\n")
    return {
        "cost": cost,
        "table": table,
        "close": sum(error <= CLOSE for error in errors) / len(errors),
        "median_error": median(errors),
        "largest_error": max(errors),
    }


Row = tuple[Algorithm, int, int, bool, float, float]


def _lines(cost: Cost, rows: Sequence[Row], cores: int, here: int) -> Iterator[str]:
    """Yield the fit, in the units of networks, predictions beside measurements, and how close they are."""
    yield "fitted    messages      latency α  bandwidth β"
    for name, pieces in (*cost["sums"].items(), ("adding (γ)", cost["adding"])):
        for piece in pieces:
            up_to = "larger" if piece["up_to"] is None else f"≤ {piece['up_to'] / 1024:.0f} KiB"
            rate = f"{1e-9 / piece['per_byte']:.2f} GB/s" if piece["per_byte"] else "any"
            yield f"{name:10} {up_to:>10} {piece['fixed'] * 1e6:8.1f} µs {rate:>12}"
    yield "algorithm  ranks      bytes   measured  predicted   error"
    for name, ranks, size, is_fitted, took, predicted in rows:
        if not is_fitted:
            line = f"{name:9} {ranks:6} {size:10} {took * 1e6:7.0f} µs {predicted * 1e6:7.0f} µs"
            yield f"{line} {predicted / took - 1:+7.0%}"
    for name, ranks in dict.fromkeys((row[0], row[1]) for row in rows):
        errors = [row[5] / row[4] - 1 for row in rows if row[:2] == (name, ranks) and not row[3]]
        close = sum(abs(error) <= CLOSE for error in errors)
        turns = f"; on {cores} cores they take turns" if min(ranks, here) > cores else ""
        yield (
            f"{name} on {ranks} ranks: {close} of {len(errors)} predictions within {CLOSE:.0%}, "
            f"median error {median(map(abs, errors)):.0%}, largest {max(errors, key=abs):+.0%}{turns}"
        )


class PredictedCost(TypedDict):
    """Predicted sums."""

    seconds: list[float]
    """T(p) of each number of ranks."""


@diel.module(kind="analysis")
def predict(
    cost: dict[str, Any],
    size: Annotated[int, Field(ge=1)],
    ranks: list[int],
    ranks_per_node: Annotated[int, Field(ge=1)] = 1,
    algorithm: Algorithm = "library",
) -> PredictedCost:
    """Predict a sum's seconds on any number of ranks, from the fit of `training.allreduce`.

    cost: as `training.allreduce` returned it
    size: bytes of the array: four for each weight in single precision
    ranks: numbers of ranks
    ranks_per_node: where that is more than a node's cores, ranks take turns
    algorithm: of the sum
    """
    here = [min(count, ranks_per_node) for count in ranks]
    return {"seconds": [seconds_of(cost, algorithm, size, p, n) for p, n in zip(ranks, here, strict=True)]}


class Step(TypedDict):
    """Steps of training, measured and predicted."""

    fixed_s: float
    """Seconds of a gradient, whatever its rows."""
    row_s: float
    """Seconds of each row."""
    size: int
    """Bytes of a gradient."""
    close: float
    """The share of predicted steps within 20 % of the measurement."""
    largest_error: float
    table: Path
    """CSV with a row for each number of ranks and rows: seconds measured and predicted."""


@diel.module(kind="analysis")
def step(
    data: NDArray[Any],
    targets: NDArray[Any],
    cost: dict[str, Any],
    comm: MPI.Comm,
    context: diel.Context,
    hidden: Annotated[list[int], Field(min_length=1)] | None = None,
    fitted: Annotated[list[int], Field(min_length=2)] | None = None,
    predicted: Annotated[list[int], Field(min_length=1)] | None = None,
    seconds: Annotated[float, Field(gt=0, le=3600)] = 10.0,
) -> Step:
    """Measure steps of data-parallel training, and predict them: a + b rows, and T(p) of the gradient.

    data, targets: shapes (rows, ...) and (rows,): a sample in each row, and its class, from 0
    cost: as `training.allreduce` returned it
    hidden: units of each hidden layer of the perceptron; 512 and 512 where absent
    fitted: rows of a rank's gradient; a and b are fitted to these, without a sum
    predicted: rows of a rank's gradient for the steps that are predicted
    seconds: how long is measured

    All ranks compute at once, as they do in training. Raise ValueError on a single rank.
    """
    from diel import pytorch

    ranks = comm.Get_size()
    if ranks < 2:
        raise ValueError("a single rank exchanges nothing: give the stage `resources: {ranks: 2}`, or more")
    alone, whole = fitted or [32, 128, 512], predicted or [48, 96, 192, 384]
    with pytorch.reproducible():
        gradient, size = _gradient(data, targets, hidden or [512, 512])
        measured = _steps(comm, gradient, size, alone, whole, seconds)
    alone_s, _ = _line([Point(rows, 1, rows, 0.0, measured[False, rows]) for rows in alone])
    fixed, row = alone_s["fixed"], alone_s["per_byte"]
    here = cores_here(comm)[1]
    expected = {rows: fixed + row * rows + seconds_of(cost, "library", size, ranks, here) for rows in whole}
    errors = {rows: expected[rows] / measured[True, rows] - 1 for rows in whole}
    table = context.task_dir / "steps.csv"
    if comm.Get_rank() == 0:
        with table.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(
                [("ranks", "rows", "measured_s", "predicted_s")]
                + [(ranks, rows, measured[True, rows], expected[rows]) for rows in whole]
            )
        sum_s = seconds_of(cost, "library", size, ranks, here)
        sys.stdout.write(
            f"a gradient of {size / 2**20:.2f} MiB takes {fixed * 1e3:.2f} ms + {row * 1e6:.1f} µs a row, "
            f"its sum {sum_s * 1e3:.2f} ms\n ranks  rows a rank   measured  predicted   error\n"
        )
        for rows in whole:
            line = f"{ranks:6} {rows:12} {measured[True, rows] * 1e3:7.2f} ms {expected[rows] * 1e3:7.2f} ms"
            sys.stdout.write(f"{line} {errors[rows]:+7.0%}\n")
    return {
        "fixed_s": fixed,
        "row_s": row,
        "size": size,
        "close": sum(abs(error) <= CLOSE for error in errors.values()) / len(errors),
        "largest_error": max(map(abs, errors.values())),
        "table": table,
    }


def _gradient(
    data: NDArray[Any], targets: NDArray[Any], hidden: Sequence[int]
) -> tuple[Callable[[int], NDArray[np.float32]], int]:
    """Return a function that makes the gradient of so many rows as one array, and the array's bytes."""
    import torch  # here and in `step`, so that the sums start without it
    from torch.nn.utils import parameters_to_vector

    from diel import pytorch

    inputs = torch.from_numpy(np.array(data, dtype=np.float32).reshape(len(data), -1))
    labels = pytorch.classes(targets, len(data))
    sizes = [inputs.shape[1], *hidden]
    pairs = [(torch.nn.Linear(a, b), torch.nn.Tanh()) for a, b in pairwise(sizes)]
    last = torch.nn.Linear(sizes[-1], int(labels.max()) + 1)
    network = torch.nn.Sequential(*chain.from_iterable(pairs), last)
    weights = list(network.parameters())

    def gradient(rows: int) -> NDArray[np.float32]:
        chosen = torch.arange(rows) % len(inputs)
        loss = torch.nn.functional.cross_entropy(network(inputs[chosen]), labels[chosen])
        return np.asarray(parameters_to_vector(torch.autograd.grad(loss, weights)).numpy())

    return gradient, sum(tensor.numel() * tensor.element_size() for tensor in weights)


def _steps(
    comm: MPI.Comm,
    gradient: Callable[[int], NDArray[np.float32]],
    size: int,
    alone: Sequence[int],
    whole: Sequence[int],
    seconds: float,
) -> dict[tuple[bool, int], float]:
    """Return seconds of a gradient alone, and of one with its sum, by rows; in turn, as in `measure`."""
    from mpi4py import MPI  # here so that the predictions need no MPI

    total = np.empty(size // 4, np.float32)
    times: dict[tuple[bool, int], list[float]] = {}
    until, going = time.perf_counter() + seconds, True
    while going:
        for summed, rows in [*((False, count) for count in alone), *((True, count) for count in whole)]:
            comm.Barrier()
            began = time.perf_counter()
            mine = gradient(rows)
            if summed:
                comm.Allreduce(mine, total, MPI.SUM)
            took = comm.allreduce(time.perf_counter() - began, MPI.MAX)
            times.setdefault((summed, rows), []).append(took)
        going = comm.bcast(time.perf_counter() < until)
    return {key: float(np.quantile(samples[1:] or samples, 0.1)) for key, samples in times.items()}


class Efficiency(TypedDict):
    """What training on many ranks would yield, on paper."""

    table: Path
    """CSV with a row for each number of ranks: computational efficiency (at least, at most), statistical
    efficiency, their product; the last two are empty where they are unknown."""
    rows: list[dict[str, Any]]


@diel.module(kind="analysis")
def efficiency(
    context: diel.Context,
    cost: dict[str, Any],
    fixed_s: float,
    row_s: float,
    size: int,
    batch: list[int],
    steps: list[float],
    ranks: list[int] | None = None,
    ranks_per_node: Annotated[int, Field(ge=1)] = 1,
    error: Annotated[float, Field(ge=0, lt=1)] = 0.2,
) -> Efficiency:
    """Work out the yield of data-parallel training on 2 to 1,024 ranks, on paper: two factors, their product.

    cost: as `training.allreduce` returned it
    fixed_s, row_s, size: as `training.allreduce:step` returned them
    batch: rows of a whole batch: the smallest is that of one rank, and each rank keeps it
    steps: to the same loss with each of these; 0 where it was not reached. Of several trainings with one
        batch the mean counts, if all reached it
    ranks: numbers of ranks; 2, 4, …, 1024 where absent
    ranks_per_node: where that is more than the cores of a node, ranks take turns
    error: of a predicted sum, for the bounds

    **Computational** efficiency is the time of a step on one rank by that on p ranks, with as many rows on
    each: at least that of a sum after the gradient which takes longer than predicted, at most that of one
    that goes on while the gradient is computed, and is faster. **Statistical** efficiency is the rows that
    one rank needs to reach the loss, by those that p ranks need with a batch p times as large (S. McCandlish
    and others, arXiv:1812.06162): counted where one rank, and a batch of that size, reached it, else unknown.
    """
    smallest = min(batch)
    own = fixed_s + row_s * smallest
    tries: dict[int, list[float]] = {}
    for count, many in zip(batch, steps, strict=True):
        tries.setdefault(count, []).append(many or 0.0)
    rows = {count: count * fmean(counts) if all(counts) else 0.0 for count, counts in tries.items()}
    needed = {
        count // smallest: rows[smallest] / spent if rows[smallest] and spent else None
        for count, spent in rows.items()
        if count % smallest == 0
    }
    entries: list[dict[str, Any]] = []
    for p in ranks or [2**power for power in range(1, 11)]:
        took = seconds_of(cost, "library", size, p, min(p, ranks_per_node))
        turns = max(1.0, min(p, ranks_per_node) / cost["cores"])
        usual = own / (own * turns + took)
        least = own / (own * turns + took * (1 + error))
        most = own / max(own * turns, took * (1 - error))
        counted = needed.get(p)
        both = None if counted is None else usual * counted
        entries.append(
            {"ranks": p, "sum_s": took, "computational": usual, "at_least": least, "at_most": most,
             "statistical": counted, "product": both}
        )  # fmt: skip
    table = context.task_dir / "efficiency.csv"
    with table.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([entries[0], *(entry.values() for entry in entries)])
    lines = [
        f"{smallest} rows a rank: {own * 1e3:.2f} ms for a gradient of {size / 2**20:.2f} MiB",
        "ranks    sum ms  computational (bounds)  statistical  product",
    ]
    for entry in entries:
        bounds = f"({entry['at_least']:.0%} to {entry['at_most']:.0%})"
        if entry["statistical"] is not None:
            shares = f"{entry['statistical']:12.0%} {entry['product']:8.0%}"
        else:
            shares = "   not reached" if entry["ranks"] in needed else "     not tried"
        line = f"{entry['ranks']:5} {entry['sum_s'] * 1e3:9.2f} {entry['computational']:8.0%}"
        lines.append(f"{line} {bounds:15}{shares}")
    sys.stdout.write("\n".join(lines) + "\n")
    return {"table": table, "rows": entries}
