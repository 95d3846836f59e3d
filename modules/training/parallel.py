"""Trains a network with PyTorch over MPI ranks, on CPUs or GPUs: data, pipeline and tensor parallel.

Each step's batch is the same on any mesh, and so are the gradients but for rounding: the result is that of
one rank with the whole batch.
"""

from __future__ import annotations

import csv
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

import diel
from diel import pytorch
from diel.ml.pytorch import parallel as spread

if TYPE_CHECKING:  # diel reads annotations as text
    from mpi4py import MPI

MIB = 2**20


class Parallel(TypedDict):
    """The network after its last step, and the cost of a step."""

    weights: Path
    """.npz: each weight by its name in the network, as one rank has it."""
    checkpoint: Path
    """A directory from which a training on any mesh goes on, by `start`."""
    loss: float
    """Mean over the batches since the last but one report: cross-entropy in nats, or squared error."""
    test_loss: NotRequired[float]
    """Over `test`, by the weights on one rank."""
    accuracy: NotRequired[float]
    """Share of `test` whose class is found."""
    steps: int
    seconds: float
    """Of training, all attempts together."""
    step_ms: float
    """Milliseconds of a step, the median of the last attempt's."""
    peak_mib: float
    """MiB that a step holds at its peak beside weights and optimizer, on the rank that holds most:
    activations, gradients, buffers. Measured in one step."""
    sent_mib: float
    """MiB that all ranks together send in a step, with the all-reduce that sends fewest. Measured in one
    step."""
    skipped: int
    """Steps that fp16 lost by an overflow."""
    parameters: int
    parameters_of_rank: int
    """Weights on the rank that keeps most."""
    history: Path
    """CSV with the columns step, loss, learning_rate."""


@diel.module(kind="training")
def parallel(
    model: str,
    data: Path | list[Path],
    context: diel.Context,
    comm: MPI.Comm | None = None,
    targets: Path | None = None,
    test: Path | None = None,
    test_targets: Path | None = None,
    settings: dict[str, Any] | None = None,
    mesh: dict[str, Annotated[int, Field(ge=1)]] | None = None,
    sharded: bool = False,
    schedule: Literal["gpipe", "1f1b"] = "1f1b",
    microbatches: Annotated[int, Field(ge=1)] | None = None,
    precision: Literal["fp64", "fp32", "bf16", "fp16"] = "fp32",
    activations: Literal["store", "recompute"] = "store",
    optimizer: Literal["adam", "adamw", "sgd"] = "adam",
    learning_rate: Annotated[float, Field(gt=0, le=10)] = 0.001,
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9,
    weight_decay: Annotated[float, Field(ge=0, le=1)] = 0.0,
    rates: Literal["constant", "cosine"] = "constant",
    batch: Annotated[int, Field(ge=1)] = 64,
    steps: Annotated[int, Field(ge=1)] = 100,
    report_every: Annotated[int, Field(ge=1)] = 10,
    save_every: Annotated[int, Field(ge=1)] | None = None,
    start: Path | None = None,
    outputs: Annotated[int, Field(ge=1)] | None = None,
    standardise: bool = True,
    seed: Annotated[int, Field(ge=0, lt=4294967296)] = 0,
    device: Literal["auto", "cpu", "cuda"] = "auto",
) -> Parallel:
    """Train a network over the ranks of the task, spread as `mesh` says.

    model: mlp, cnn, lstm, transformer or unet, whose sizes follow from the data; or `package:Class` or
        `path/file.py:Class`, a torch.nn.Module
    data: .npy with a row for each sample; or .npz files with `inputs` and `targets`, each with as many rows,
        of which `batch` counts the files. With `shard: rank` ranks read what is theirs
    targets: .npy with as many rows: whole numbers are classes, others are to be predicted
    test, test_targets: .npy with rows to judge the trained network by
    settings: of the network: width, depth, heads, …, or what the class takes
    mesh: parts along `data`, `pipeline` and `tensor`; `data` takes the ranks that are left
    sharded: whether ranks that share the data keep a part of the weights each (FSDP, arXiv:2304.11277) in
        place of all (DDP, arXiv:2006.15704)
    schedule: of a pipeline: all forward passes first (GPipe, arXiv:1811.06965), or in turn (1F1B,
        PipeDream-Flush of arXiv:2006.09503), which holds the activations of fewer microbatches
    microbatches: of a rank's batch on their way through a pipeline; twice its length where absent
    precision: of the products, by autocast; weights and what ranks send stay in fp32. fp16 scales the loss.
        In fp64 all is double
    activations: kept for the backward pass, or computed again in it layer by layer (arXiv:1604.06174)
    optimizer: adam (arXiv:1412.6980), adamw (arXiv:1711.05101), or sgd with momentum
    learning_rate: of the first step
    momentum: of sgd
    weight_decay: pull of the weights towards zero, as the optimizer understands it
    rates: whether the learning rate stays, or falls along half a cosine over `steps` (arXiv:1608.03983)
    batch: samples in a step, over all ranks
    steps: of the optimizer, those before `start` among them
    report_every: steps from one report of `step` and `loss` to the next
    save_every: steps from one checkpoint to the next, with `checkpoint: true`; where absent, the time
        that one takes decides
    start: `checkpoint` of another training, or the checkpoint directory of one that was killed, on any mesh
    outputs: numbers that the network says of a sample: found in `targets` where absent, which of several
        files are those of the first
    standardise: whether inputs of .npy are scaled by the mean and deviation of all their numbers
    seed: of the first weights, of the order of the samples, and of what layers such as Dropout draw
    device: auto takes a GPU where the task sees one; each rank takes one

    With `checkpoint: true` a task that is interrupted or killed goes on from its last checkpoint, and ends
    with the same weights. Raise ValueError where the mesh does not fit the ranks, the network or the batch,
    and where the loss is not finite.
    """
    if (test is None) != (test_targets is None):
        raise ValueError("test and test_targets belong together")
    shape = spread.Mesh.of(mesh, 1 if comm is None else comm.Get_size())
    many = microbatches or 2 * shape.pipeline
    ways = spread.Ways(sharded, schedule, many, activations == "recompute", precision)
    on = pytorch.find_device(device, "bf16" if precision == "bf16" else "fp32")
    with pytorch.reproducible(), spread.joined(comm, shape, on) as world:
        source = spread.Samples.of(data, targets, standardise, outputs)
        if test is not None and test_targets is not None:
            source.check_test(*(np.load(path, mmap_mode="r") for path in (test, test_targets)))
        with pytorch.seeded(seed):
            network = spread.build(model, source.shape, source.outputs, settings or {})
        placed = spread.Placed(network, source.loss, ways, world)
        method = (optimizer, momentum, weight_decay, rates)
        how = pytorch.Settings(learning_rate, steps, batch, world.device, *method, seed=seed)
        share = ways.share(batch * source.rows, shape) // source.rows
        if "data" in context.shards:
            order = spread.sharded("data", context, world)
        else:
            order = spread.shuffled(source.items, seed, world)
        feed = spread.Feed(source, share, order, world, spread.type_of(precision))
        folder, scaler = context.task_dir, spread.Scaler.of(precision)
        target = folder / "checkpoint"
        training = spread.train(placed, feed, how, scaler, context, report_every, target, start, save_every)
        largest = int(world.largest(sum(tensor.numel() for tensor in placed.local_weights())))
        weights = placed.weights()
    course = training.course
    result: Parallel = {
        "weights": folder / "weights.npz",
        "checkpoint": target,
        "loss": course.history[-1][1],
        "steps": course.step,
        "seconds": course.seconds,
        "step_ms": training.step_seconds * 1e3,
        "peak_mib": training.peak / MIB,
        "sent_mib": training.sent / MIB,
        "skipped": course.scaler.skipped,
        "parameters": placed.parameters,
        "parameters_of_rank": largest,
        "history": folder / "history.csv",
    }
    if weights is None:  # a rank whose result nobody reads
        world.wait()
        return result
    arrays: dict[str, Any] = {name: tensor.numpy() for name, tensor in weights.items()}
    np.savez(result["weights"], **arrays)
    with result["history"].open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("step", "loss", "learning_rate"), *course.history])
    if test is not None and test_targets is not None:
        with pytorch.seeded(seed):
            network = spread.build(model, source.shape, source.outputs, settings or {})
        network.load_state_dict(weights)
        _judge(network, source, np.load(test), np.load(test_targets), result)
    parts = " × ".join(f"{axis} {count}" for axis, count in asdict(shape).items())
    storing = "recomputed" if ways.recompute else "stored"
    sys.stdout.write(
        f"{parts}, {precision}, activations {storing}: {result['step_ms']:.2f} ms a step, "
        f"{result['peak_mib']:.2f} MiB at its peak, {result['sent_mib']:.3f} MiB sent\n"
    )
    world.wait()
    return result


def _judge(
    network: torch.nn.Module,
    source: spread.Samples,
    inputs: NDArray[Any],
    targets: NDArray[Any],
    result: Parallel,
) -> None:
    """Add the network's loss and accuracy on rows that it was not trained on."""
    kind = next(network.parameters()).dtype
    network.eval()
    with torch.no_grad():
        parts = (inputs[at : at + 1024] for at in range(0, len(inputs), 1024))
        outputs = torch.cat([network(spread.tensor(source.scale(part), kind)) for part in parts])
    expected = spread.tensor(targets, kind)
    result["test_loss"] = float(source.loss(outputs, expected))
    if source.classes:
        result["accuracy"] = float((outputs.argmax(dim=1) == expected).double().mean())
