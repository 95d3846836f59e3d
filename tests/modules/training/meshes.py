"""Trains networks on several meshes, on MPI ranks, and compares each with what a single rank trains."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

import diel
from modules.training.parallel import Parallel, parallel

ROWS = 96
SIZES: dict[str, tuple[tuple[int, ...], dict[str, int]]] = {
    "mlp": ((6,), {"width": 8, "depth": 3}),
    "cnn": ((4, 4), {"width": 4, "depth": 2}),
    "lstm": ((3, 4), {"width": 4, "depth": 2}),
    "transformer": ((3, 4), {"width": 8, "depth": 2, "heads": 2}),
    "unet": ((4, 4), {"width": 4, "depth": 1}),
    "own.py:Tied": ((6,), {}),
    "own.py:Drop": ((6,), {}),
}
TWENTY: dict[str, Any] = {"steps": 20, "learning_rate": 0.1}
"""By momentum, so that the optimizer has a state."""
ONE: dict[str, Any] = {"steps": 1, "learning_rate": 1.0, "momentum": 0.0}
"""One step of gradient descent at the rate 1: weights less gradients."""
PIPE: dict[str, Any] = {"schedule": "gpipe", "activations": "recompute"}
ON_FOUR: dict[str, tuple[str, dict[str, Any]]] = {
    "data 4": ("mlp", {"mesh": {"data": 4}, **TWENTY}),
    "shards 4": ("mlp", {"mesh": {"data": 4}, "sharded": True, **TWENTY}),
    "data × tensor": ("mlp", {"mesh": {"data": 2, "tensor": 2}, **ONE}),
    "shards × pipeline": ("mlp", {"mesh": {"data": 2, "pipeline": 2}, "sharded": True, **ONE}),
    "pipeline × tensor": ("mlp", {"mesh": {"pipeline": 2, "tensor": 2}, **ONE}),
}
ON_TWO: dict[str, tuple[str, dict[str, Any]]] = {
    "data 2": ("mlp", {"mesh": {"data": 2}, **TWENTY}),
    "shards 2": ("mlp", {"mesh": {"data": 2}, "sharded": True, **TWENTY}),
    "tensor": ("mlp", {"mesh": {"tensor": 2}, **ONE}),
    "tensor with dropout": ("own.py:Drop", {"mesh": {"tensor": 2}, **ONE}),
    "gpipe": ("mlp", {"mesh": {"pipeline": 2}, **PIPE, **ONE}),
    "cnn": ("cnn", {"mesh": {"tensor": 2}, **ONE}),
    "lstm": ("lstm", {"mesh": {"pipeline": 2}, **ONE}),
    "transformer": ("transformer", {"mesh": {"tensor": 2}, **ONE}),
    "unet": ("unet", {"mesh": {"pipeline": 2}, **ONE}),
    "tied": ("own.py:Tied", {"mesh": {"data": 2}, "sharded": True, **TWENTY}),
    "resumed": ("mlp", {"mesh": {"pipeline": 2}, "start": Path("killed/0.checkpoint"), **TWENTY}),
}
"""The last one goes on as a pipeline where ranks with shards of the data were killed."""
CASES = {**ON_FOUR, **ON_TWO}


def samples(folder: Path, model: str) -> dict[str, Path]:
    """Samples of three classes; for the U-Net a class at each site."""
    rng = np.random.default_rng(1)
    inputs = rng.normal(size=(ROWS, *SIZES[model][0]))
    targets = (inputs > 0).astype(int) if model == "unet" else rng.integers(0, 3, ROWS)
    np.save(folder / "data.npy", inputs)
    np.save(folder / "targets.npy", targets)
    return {"data": folder / "data.npy", "targets": folder / "targets.npy"}


def train(folder: Path, model: str, comm: MPI.Comm, make: type[diel.Context], **how: Any) -> Parallel:
    """Trains one of the networks; a mesh may go on where another was killed."""
    rank = comm.Get_rank()
    meet(comm)
    if rank == 0:
        (folder / f"0.{make.__name__}").mkdir(parents=True)
    files = comm.bcast(samples(folder, model) if rank == 0 else None)
    task = files["data"].parent / f"0.{make.__name__}"
    context = make(task, rank=rank, ranks=comm.Get_size(), checkpoint="save_every" in how)
    options: dict[str, Any] = {
        "settings": SIZES[model][1],
        "precision": "fp64",
        "optimizer": "sgd",
        "batch": 32,
    }
    return parallel(model, context=context, comm=comm, **files, **options, **how)


def meet(comm: MPI.Comm) -> None:
    """Waits for the others without taking a core from them, as MPI does."""
    request = comm.Ibarrier()
    while not request.Test():
        time.sleep(0.01)


def weights(result: Parallel) -> dict[str, Any]:
    """By their names."""
    with np.load(result["weights"]) as arrays:
        return dict(arrays)


def worst(result: Parallel, expected: Parallel) -> float:
    """The largest difference of any weight."""
    arrays, other = weights(result), weights(expected)
    assert arrays.keys() == other.keys()
    return max(float(np.abs(arrays[name] - other[name]).max()) for name in other)


def compare() -> None:
    """Prints the largest difference for each case, on four ranks; those on two run beside each other.

    What a single rank trains is divided among the ranks: none waits for another while it takes a core.
    """
    world = MPI.COMM_WORLD
    rank, here = world.Get_rank(), Path.cwd()
    half = world.Split(rank // 2, rank)
    results: dict[str, Parallel] = {}
    for number, (name, (model, how)) in enumerate(CASES.items()):
        comm = world if name in ON_FOUR else half
        if comm is world or number % 2 == rank // 2:
            results[name] = train(here / name, model, comm, diel.Context, **how)
    meet(world)
    results = {
        name: result
        for part in world.allgather(results if half.Get_rank() == 0 else {})
        for name, result in part.items()
    }
    distances: dict[str, float] = {}
    for number, (name, (model, how)) in enumerate(CASES.items()):
        if number % world.Get_size() == rank:
            plain = {key: value for key, value in how.items() if key in TWENTY or key in ONE}
            alone = train(here / f"{name} alone", model, MPI.COMM_SELF, diel.Context, **plain)
            distances[name] = worst(results[name], alone)
    meet(world)
    every = world.gather(distances)
    if every:
        sys.stdout.write("\n" + json.dumps({name: result for part in every for name, result in part.items()}))


def refused() -> None:
    """Prints what is said on two ranks of networks of a user that the mesh cannot cut."""
    world, here = MPI.COMM_WORLD, Path.cwd()
    files = world.bcast(samples(here, "mlp") if world.Get_rank() == 0 else None)
    messages = []
    for model, mesh in REFUSED:
        try:
            parallel(f"own.py:{model}", context=diel.Context(here), comm=world, **files, mesh=mesh)
        except ValueError as error:
            messages.append(str(error))
    every = world.gather(messages)
    if every:
        assert every[0] == every[1]
        sys.stdout.write("\n" + json.dumps(every[0]))


REFUSED = [("Net", {"pipeline": 2}), ("Tied", {"pipeline": 2}), ("TiedMix", {"tensor": 2})]


def dropped() -> None:
    """Prints which share of the inputs two ranks with a row each have both dropped in a step."""
    world, here = MPI.COMM_WORLD, Path.cwd()
    if world.Get_rank() == 0:
        np.save(here / "x.npy", np.ones((2, 500)))
        np.save(here / "y.npy", np.ones(2))
    meet(world)
    options: dict[str, Any] = {"data": here / "x.npy", "targets": here / "y.npy", "standardise": False}
    result = parallel("own.py:Mask", context=diel.Context(here), comm=world, **options, batch=2, steps=1)
    if world.Get_rank() == 0:
        sys.stdout.write(f"\n{np.mean(weights(result)['1.weight'] == 0)}")


def damaged() -> None:
    """Trains with shards of the data, and again after one and then both of its checkpoints were damaged.

    Prints the largest difference of any weight.
    """
    world, here = MPI.COMM_WORLD, Path.cwd()
    rank = world.Get_rank()
    files = world.bcast(samples(here, "mlp") if rank == 0 else None)
    how: dict[str, Any] = {"mesh": {"data": 2}, "sharded": True, "batch": 32, "steps": 20, "save_every": 5}
    context = diel.Context(here / "0.1", rank=rank, ranks=2, checkpoint=True)
    context.task_dir.mkdir(exist_ok=True)
    trained = []
    for harmed in ((), ("step-15",), ("step-10", "step-15")):
        for name in harmed if rank == 0 else ():
            os.truncate(context.checkpoint_dir / name / "__1_0.distcp", 1000)
        meet(world)
        result = parallel("mlp", context=context, comm=world, **files, **how)
        trained.append(weights(result) if rank == 0 else {})
    first, *rest = trained
    if rank == 0:
        most = max(float(np.abs(first[name] - other[name]).max()) for other in rest for name in first)
        sys.stdout.write(f"\n{most}")


@dataclass(frozen=True)
class Doomed(diel.Context):
    """A task of which one rank is killed in the middle of its training."""

    def report(self, **metrics: float | int | str | bool) -> None:
        if metrics["step"] == 15 and self.rank == self.ranks - 1:
            os.kill(os.getpid(), signal.SIGKILL)


def killed() -> None:
    """Trains with shards of the data until a rank is killed after 15 steps; the last checkpoint has 10."""
    train(Path.cwd() / "killed", "mlp", MPI.COMM_WORLD, Doomed, mesh={"data": 2}, sharded=True, **SAVING)


SAVING: dict[str, Any] = {**TWENTY, "save_every": 10, "report_every": 5}
