"""Training with large batches: rates that follow the batch, and optimizers with a rate for each layer.

With a batch k times as large there are k times fewer steps. Linear scaling makes each k times as long
(P. Goyal and others, arXiv:1706.02677), after a warm-up from the rate of a small batch; that ends where a
step is too long for some layer. LARS, LARC and LAMB measure each layer's step by its weights. SOAP is of
second order.
"""

from __future__ import annotations

import csv
import math
import sys
from itertools import chain, pairwise
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any, Literal, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from pytorch_optimizer import LARS, SOAP, Lamb

import diel
from diel import pytorch

Name = Literal["sgd", "lars", "larc", "lamb", "soap"]


class LargeBatch(TypedDict):
    """The network after its last epoch."""

    accuracy: float
    """Share of the held-out rows whose class is found; 0.1 by guessing among ten."""
    loss: float
    """Over the rows trained on: cross-entropy in nats; null where it left all bounds."""
    steps: int
    """Of gradient descent."""
    steps_to_loss: int
    """Steps after which `loss_to_reach` was reached first, as seen after each epoch; 0 where it was not."""
    rows_to_loss: int
    """Rows seen by then."""
    peak_rate: float
    """The largest learning rate."""


@diel.module(kind="training")
def large_batch(
    data: NDArray[Any],
    targets: NDArray[Any],
    context: diel.Context,
    optimizer: Name = "sgd",
    batch: Annotated[int, Field(ge=1)] = 32,
    learning_rate: Annotated[float, Field(gt=0)] = 0.1,
    reference: Annotated[int, Field(ge=1)] = 32,
    scaling: Literal["none", "linear", "root"] = "linear",
    warm_up: Annotated[float, Field(ge=0, le=1)] = 0.15,
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9,
    weight_decay: Annotated[float, Field(ge=0, le=1)] = 1e-4,
    trust: Annotated[float, Field(gt=0, le=1)] = 0.01,
    hidden: Annotated[list[int], Field(min_length=1)] | None = None,
    epochs: Annotated[int, Field(ge=1)] = 40,
    loss_to_reach: Annotated[float, Field(gt=0)] = 0.1,
    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.3,
    seed: Annotated[int, Field(ge=0, lt=4294967296)] = 0,
) -> LargeBatch:
    """Train a perceptron for a fixed number of epochs, whatever the batch.

    data, targets: shapes (rows, ...) and (rows,): a sample in each row, and its class, from 0
    optimizer: sgd with momentum; lars (Y. You and others, arXiv:1708.03888), larc (the same with a layer's
        rate at most that of sgd), lamb (arXiv:1904.00962), soap (second order: Adam in the eigenbases of
        Shampoo's preconditioner, arXiv:2409.11321)
    batch: rows of a step
    learning_rate: at `reference` rows a batch
    scaling: how the rate grows with the batch: linear, with its root, or none
    warm_up: the part of the steps in which the rate grows from that of `reference`; it then falls along half
        a cosine
    momentum: of sgd, lars and larc; lamb and soap have their own
    weight_decay: pull of the weights towards zero
    trust: of lars and larc: the part of a layer's weights by which a step at rate 1 changes them
    hidden: units of each hidden layer; three of 64 where absent
    epochs: passes over the rows that are trained on
    loss_to_reach: for `steps_to_loss`
    held_out: share of the rows that are not trained on, the same ones for each seed
    seed: of the first weights and the order of the rows

    A loss that leaves all bounds is a result here: its accuracy is that of the last finite weights. Report
    `epoch`, `loss` and `accuracy` after each epoch. Raise ValueError for rows that do not fit each other.
    """
    flat = np.asarray(data, dtype=np.float32).reshape(len(data), -1)
    if not np.isfinite(flat).all():
        raise ValueError("the rows hold a value that is not finite")
    inputs = torch.from_numpy((flat - flat.mean()) / (flat.std() or 1))
    labels = pytorch.classes(targets, len(data))
    train, held = pytorch.split(len(labels), held_out, 0)
    x, y = inputs[train], labels[train]
    batch = min(batch, len(y))
    every = len(y) // batch
    steps = epochs * every
    factor = batch / reference
    peak = learning_rate * {"none": 1.0, "linear": factor, "root": math.sqrt(factor)}[scaling]
    reached, step, accuracy, loss = 0, 0, 0.0, math.inf
    with pytorch.reproducible(), pytorch.seeded(seed):
        sizes = [x.shape[1], *(hidden or [64] * 3)]
        pairs = [(torch.nn.Linear(a, b), torch.nn.ReLU()) for a, b in pairwise(sizes)]
        last = torch.nn.Linear(sizes[-1], int(labels.max()) + 1)
        network = torch.nn.Sequential(*chain.from_iterable(pairs), last)
        descent = make_optimizer(optimizer, network, peak, momentum, weight_decay, trust)
        for epoch in range(epochs):
            order = torch.randperm(len(y))
            for part in torch.split(order[: every * batch], batch):
                rate = rate_of(step / steps, warm_up, min(learning_rate, peak), peak)
                for group in descent.param_groups:
                    group["lr"] = rate
                lost = torch.nn.functional.cross_entropy(network(x[part]), y[part])
                descent.zero_grad()
                lost.backward()  # type: ignore[no-untyped-call]
                descent.step()
                step += 1
            with torch.no_grad():
                loss = float(torch.nn.functional.cross_entropy(network(x), y))
                accuracy = float((network(inputs[held]).argmax(dim=1) == labels[held]).double().mean())
            if not math.isfinite(loss):
                break
            context.report(epoch=epoch + 1, loss=loss, accuracy=accuracy)
            if loss <= loss_to_reach and not reached:
                reached = step
    return {
        "accuracy": accuracy,
        "loss": loss,
        "steps": step,
        "steps_to_loss": reached,
        "rows_to_loss": reached * batch,
        "peak_rate": peak,
    }


def rate_of(done: float, warm_up: float, first: float, peak: float) -> float:
    """Return the learning rate after a part of the steps: up along a line, down along half a cosine."""
    if done < warm_up:
        return first + (peak - first) * done / warm_up
    return peak * 0.5 * (1 + math.cos(math.pi * (done - warm_up) / (1 - warm_up)))


def make_optimizer(
    name: Name, network: torch.nn.Module, rate: float, momentum: float, decay: float, trust: float
) -> torch.optim.Optimizer:
    """Make pytorch_optimizer's LARS, LAMB or SOAP, PyTorch's SGD, or LARC, which is SGD after a clip."""
    weights = list(network.parameters())
    descent: torch.optim.Optimizer
    if name == "lars":
        descent = LARS(weights, rate, decay, momentum, trust_coefficient=trust)
    elif name in ("lamb", "soap"):
        descent = (Lamb if name == "lamb" else SOAP)(weights, rate, weight_decay=decay)
    else:
        descent = torch.optim.SGD(weights, rate, momentum, weight_decay=decay if name == "sgd" else 0)
    if name == "larc":
        descent.register_step_pre_hook(lambda optimizer, *_: _clip(optimizer, decay, trust))
    return descent


@torch.no_grad()
def _clip(descent: torch.optim.Optimizer, decay: float, trust: float) -> None:
    """Clip a layer's rate to that of LARS (arXiv:1708.03888, equation 6), as LARC does."""
    for group in descent.param_groups:
        for weights in group["params"]:
            if weights.ndim < 2:  # a bias has the global rate, as in LARS
                continue
            size, slope = float(weights.norm()), float(weights.grad.norm())
            local = trust * size / (slope + decay * size) if size and slope else group["lr"]
            weights.grad.add_(weights, alpha=decay).mul_(min(1.0, local / group["lr"]))


class Comparison(TypedDict):
    """Accuracies by optimizer and batch."""

    rows: list[dict[str, Any]]
    """An optimizer, a batch, the mean accuracy over the seeds, its standard deviation, the mean steps to the
    loss (null where a seed did not reach it)."""
    table: Path
    """The same as CSV."""


@diel.module(kind="analysis")
def compare(
    context: diel.Context,
    optimizer: list[str],
    scaling: list[str],
    batch: list[int],
    accuracy: list[float],
    steps_to_loss: list[int],
) -> Comparison:
    """Print mean and scatter of the accuracy over seeds, an optimizer a line and a batch a column.

    All are lists of equal length, an entry for each training.
    """
    trainings: dict[tuple[str, int], list[tuple[float, int]]] = {}
    columns = (optimizer, scaling, batch, accuracy, steps_to_loss)
    for name, how, size, right, reached in zip(*columns, strict=True):
        trainings.setdefault((f"{name}, {how}", size), []).append((right, reached))
    rows: list[dict[str, Any]] = []
    for (name, size), many in trainings.items():
        rights, reaches = zip(*many, strict=True)
        row = {"optimizer": name, "batch": size, "mean": fmean(rights)}
        row["deviation"] = stdev(rights) if len(rights) > 1 else 0.0
        rows.append({**row, "steps_to_loss": fmean(reaches) if all(reaches) else None})
    sizes = sorted({row["batch"] for row in rows})
    lines = [f"{'accuracy':16}" + "".join(f"{f'batch {size}':>16}" for size in sizes)]
    for name in dict.fromkeys(row["optimizer"] for row in rows):
        mine = {row["batch"]: row for row in rows if row["optimizer"] == name}
        cells = [f"{mine[size]['mean']:.3f} ± {mine[size]['deviation']:.3f}" for size in sizes]
        lines.append(f"{name:16}" + "".join(f"{cell:>16}" for cell in cells))
    sys.stdout.write("\n".join(lines) + "\n")
    table = context.task_dir / "large_batch.csv"
    with table.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([rows[0], *(row.values() for row in rows)])
    return {"rows": rows, "table": table}
