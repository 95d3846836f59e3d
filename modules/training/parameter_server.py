"""A parameter server: gradient descent in which ranks wait only for another one that is far behind.

Each worker takes the weights, computes a gradient, and hands it to the server, which takes a step with it at
once. Meanwhile others have taken theirs: the gradient is stale. How far a worker may run ahead of the slowest
one is bounded (Q. Ho and others, Advances in Neural Information Processing Systems 26 (2013)).

Rank 0 is a worker too, and has the server in a thread, so that two ranks are two workers. Which gradient
comes first is up to the machine: **the same seed does not give the same weights**.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import chain, pairwise
from statistics import fmean
from threading import Condition, Thread
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import diel
from diel import pytorch

if TYPE_CHECKING:  # diel reads annotations as text
    from mpi4py import MPI

Rows = pytorch.Rows
Array = NDArray[np.float32]
Gradient = Callable[[Array, int], Array]
"""Of the loss at some weights, on this rank's rows of a step."""
PAUSE = 5e-5
"""Seconds between two looks of the server for gradients: a thread that spins would take a core."""


class Way(TypedDict):
    """One of the two trainings."""

    loss: float
    """Over all rows after the last step: cross-entropy in nats."""
    accuracy: float
    """Over the rows of `test`, or all where there are none."""
    seconds: float
    rows_per_second: float
    sent_bytes: int
    """By all ranks together."""


class ParameterServer(TypedDict):
    """Both trainings, of as many gradients each."""

    asynchronous: Way
    synchronous: Way
    staleness: dict[str, int]
    """Gradients by the number of steps that others took between their weights and them."""
    mean_staleness: float
    largest_staleness: int
    weights: NDArray[Any]
    """Of the asynchronous training, in the order of the network's parameters."""


class Server:
    """The weights, and who may have them."""

    def __init__(self, weights: Array, rate: float, workers: int, bound: int, steps: int) -> None:
        self.weights = weights.copy()
        self.staleness: list[int] = []
        self._rate, self._bound, self._steps = rate, bound, steps
        self._taken = [0] * workers
        """The number of steps in the weights that each worker has."""
        self._done = [0] * workers
        """Gradients that each handed in."""
        self._changed = Condition()

    def may_go(self, worker: int) -> bool:
        """Return whether a worker is within the bound of the slowest one."""
        return self._done[worker] - min(self._done) <= self._bound

    def take(self, worker: int) -> Array:
        """Return the weights, as soon as the worker may have them."""
        with self._changed:
            self._changed.wait_for(lambda: self.may_go(worker))
            self._taken[worker] = len(self.staleness)
            return self.weights.copy()

    def give(self, worker: int, gradient: Array) -> None:
        """Take a step."""
        with self._changed:
            self.weights -= np.float32(self._rate) * gradient
            self.staleness.append(len(self.staleness) - self._taken[worker])
            self._done[worker] += 1
            self._changed.notify_all()

    def is_over(self, worker: int) -> bool:
        """Return whether a worker has handed in all its gradients."""
        return self._done[worker] >= self._steps

    def serve(self, comm: MPI.Comm) -> None:
        """Answer the other ranks, until they are done. The only thread of rank 0 that speaks MPI."""
        came = np.empty_like(self.weights)
        waiting = [*range(1, comm.Get_size())]
        open_ = set(waiting)
        while open_:
            for worker in sorted(open_ - {*waiting}):
                if comm.Iprobe(worker):
                    comm.Recv(came, worker)
                    self.give(worker, came)
                    if self.is_over(worker):
                        open_.remove(worker)
                    else:
                        waiting.append(worker)
            going = [worker for worker in waiting if self.may_go(worker)]
            for worker in going:
                waiting.remove(worker)
                comm.Send(self.take(worker), worker)
            if not going:
                time.sleep(PAUSE)


def run_asynchronous(
    comm: MPI.Comm, weights: Array, gradient: Gradient, rate: float, steps: int, bound: int
) -> tuple[Array, list[int]]:
    """Descend by a server; return the weights and each gradient's staleness, on rank 0.

    Each rank hands in `steps` gradients. On the other ranks the weights are those that it had last.
    """
    if comm.Get_rank():
        mine = np.empty_like(weights)
        for step in range(steps):
            comm.Recv(mine, 0)
            comm.Send(gradient(mine, step), 0)
        return mine, []
    server = Server(weights, rate, comm.Get_size(), bound, steps)
    thread = Thread(target=server.serve, args=(comm,), daemon=True)
    thread.start()
    for step in range(steps):
        server.give(0, gradient(server.take(0), step))
    thread.join()
    return server.weights, server.staleness


def run_synchronous(comm: MPI.Comm, weights: Array, gradient: Gradient, rate: float, steps: int) -> Array:
    """Descend by the sum of all ranks' gradients in each step."""
    weights = weights.copy()
    total = np.empty_like(weights)
    for step in range(steps):
        comm.Allreduce(gradient(weights, step), total)
        weights -= np.float32(rate) * total
    return weights


@diel.module(kind="training")
def parameter_server(
    data: NDArray[Any],
    targets: NDArray[Any],
    comm: MPI.Comm,
    test: NDArray[Any] | None = None,
    test_targets: NDArray[Any] | None = None,
    hidden: Annotated[list[int], Field(min_length=1)] | None = None,
    batch: Annotated[int, Field(ge=1)] = 16,
    steps: Annotated[int, Field(ge=1)] = 500,
    learning_rate: Annotated[float, Field(gt=0, le=10)] = 0.1,
    bound: Annotated[int, Field(ge=0)] = 4,
    jitter_ms: Annotated[float, Field(ge=0, le=1000)] = 0.0,
    seed: Annotated[int, Field(ge=0, lt=4294967296)] = 0,
) -> ParameterServer:
    """Train a perceptron asynchronously by a parameter server, and synchronously beside it, and compares.

    data, targets: shapes (rows, ...) and (rows,): a sample in each row, and its class, from 0
    test, test_targets: rows to judge by; those trained on where absent
    hidden: units of each hidden layer; 64 and 64 where absent
    batch: rows of each gradient
    steps: gradients of each rank, in both trainings
    learning_rate: of a step with the mean gradient of all ranks; the server's steps have that by the number
        of ranks, so that as many gradients move the weights as far
    bound: steps that a worker may be ahead of the slowest one
    jitter_ms: mean of a random pause in each gradient, exponentially distributed, as on a shared machine: a
        synchronous step waits for the longest of all ranks, the server for none
    seed: of the first weights and of the rows of each gradient

    Both trainings see the same rows, and start from the same weights. The synchronous one is the same each
    time; the asynchronous one is not, nor could it be. No gradient is staler than (2 bound + 1) (ranks - 1).
    Raise ValueError for rows that do not fit each other, on a single rank, where the MPI takes no threads,
    and where the loss is not finite.
    """
    ranks, rank = comm.Get_size(), comm.Get_rank()
    if ranks < 2:
        hint = "give the stage `resources: {ranks: 2}`, or more"
        raise ValueError(f"a single rank has nobody to be ahead of: {hint}")
    from mpi4py import MPI  # here so that the server can be had without MPI

    if MPI.Query_thread() < MPI.THREAD_SERIALIZED:
        raise ValueError("this MPI allows one thread a process, and the server is another one of rank 0")
    rows = _rows(data, targets)
    unseen = rows if test is None or test_targets is None else _rows(test, test_targets)
    with pytorch.reproducible():
        with pytorch.seeded(seed):
            sizes = [rows.inputs.shape[1], *(hidden or [64, 64])]
            pairs = [(torch.nn.Linear(a, b), torch.nn.Tanh()) for a, b in pairwise(sizes)]
            last = torch.nn.Linear(sizes[-1], int(rows.targets.max()) + 1)
            network = torch.nn.Sequential(*chain.from_iterable(pairs), last)
        first = parameters_to_vector(network.parameters()).detach().numpy().copy()

        def gradient(weights: Array, step: int) -> Array:
            draw = np.random.default_rng([seed, rank, step])
            chosen = draw.integers(len(rows.targets), size=batch)
            if jitter_ms:
                time.sleep(draw.exponential(jitter_ms / 1000))
            return gradient_of(network, weights, rows.inputs[chosen], rows.targets[chosen])

        def timed(call: Callable[[], Any]) -> tuple[Any, float]:
            comm.Barrier()
            began = time.perf_counter()
            outcome = call()
            comm.Barrier()
            return outcome, time.perf_counter() - began

        gradient(first, 0)  # the first one takes longer
        rate = learning_rate / ranks
        together, together_s = timed(lambda: run_synchronous(comm, first, gradient, rate, steps))
        (apart, stale), apart_s = timed(lambda: run_asynchronous(comm, first, gradient, rate, steps, bound))
        # rows, and bytes in a ring or by halving; as many go to the server and back
        work = steps * ranks * batch, 2 * (ranks - 1) * first.nbytes * steps
        result: ParameterServer = {
            "synchronous": _way(network, together, rows, unseen, together_s, *work),
            "asynchronous": _way(network, apart, rows, unseen, apart_s, *work),
            "staleness": {str(steps_): count for steps_, count in sorted(Counter(stale).items())},
            "mean_staleness": fmean(stale) if stale else 0.0,
            "largest_staleness": max(stale, default=0),
            "weights": apart,
        }
    if rank == 0:
        _print(result, bound, ranks)
    return result


def gradient_of(network: torch.nn.Module, weights: Array, rows: torch.Tensor, labels: torch.Tensor) -> Array:
    """Return the gradient of the rows' mean cross-entropy, in the order of the network's parameters."""
    vector_to_parameters(torch.from_numpy(weights), network.parameters())
    loss = torch.nn.functional.cross_entropy(network(rows), labels)
    gradients = torch.autograd.grad(loss, list(network.parameters()))
    flat: Array = torch.cat([part.reshape(-1) for part in gradients]).numpy()
    return flat


def _rows(data: NDArray[Any], targets: NDArray[Any]) -> Rows:
    flat = np.asarray(data, dtype=np.float32).reshape(len(data), -1)
    if not np.isfinite(flat).all():
        raise ValueError("the rows hold a value that is not finite")
    scaled = (flat - flat.mean()) / (flat.std() or 1)
    return Rows(torch.from_numpy(scaled), pytorch.classes(targets, len(data)))


def _way(
    network: torch.nn.Module, weights: Array, rows: Rows, unseen: Rows, seconds: float, count: int, sent: int
) -> Way:
    vector_to_parameters(torch.from_numpy(weights), network.parameters())
    with torch.no_grad():
        loss = float(torch.nn.functional.cross_entropy(network(rows.inputs), rows.targets))
        hits = network(unseen.inputs).argmax(dim=1) == unseen.targets
    if not np.isfinite(loss):
        raise ValueError(f"the loss is {loss:g}: use a smaller learning_rate")
    return {
        "loss": loss,
        "accuracy": float(hits.double().mean()),
        "seconds": seconds,
        "rows_per_second": count / seconds,
        "sent_bytes": sent,
    }


def _print(result: ParameterServer, bound: int, ranks: int) -> None:
    lines = ["              seconds    rows/s      loss  accuracy  MiB sent"]
    for name in ("synchronous", "asynchronous"):
        way: Way = result[name]
        lines.append(
            f"{name:12} {way['seconds']:8.2f} {way['rows_per_second']:9.0f} {way['loss']:9.4f} "
            f"{way['accuracy']:9.2%} {way['sent_bytes'] / 2**20:9.1f}"
        )
    counts = ", ".join(f"{steps}: {count}" for steps, count in result["staleness"].items())
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.write(
        f"staleness: {result['mean_staleness']:.2f} on average, {result['largest_staleness']} at most "
        f"(a bound of {bound} allows {(2 * bound + 1) * (ranks - 1)}); gradients by it: {counts}\n"
        "The asynchronous training is not deterministic: another run with this seed gives other weights.\n"
    )
