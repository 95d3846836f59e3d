"""A multi-layer perceptron for regression on columns of numbers, trained with PyTorch on a CPU or a GPU.

The model is a file like that of `training.mlp`: `inference.screen` reads it with numpy alone.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, pairwise
from pathlib import Path
from typing import Annotated, Literal, TypedDict

import numpy as np
import torch
from pydantic import Field

import diel
from diel import pytorch, tabular

Width = Annotated[int, Field(ge=1, le=4096)]


class TorchMlp(TypedDict):
    """The best epoch: the one with the smallest validation loss."""

    model: Path
    """Weights and scales as .npz, which `inference.screen` reads with numpy alone."""
    loss: float
    """Mean squared error over the epoch's rows while they were trained on, by the target's variance."""
    validation_loss: float
    """The same over the held-out rows, after the epoch."""
    r2: float
    """Coefficient of determination over the held-out rows."""
    mean_absolute_error: float
    """Over the held-out rows, in the target's own units."""
    epochs: int
    """Epochs trained; the best one may be earlier."""
    seconds: float
    """Of training, all attempts together."""
    parameters: int
    """Weights and biases."""
    history: Path
    """CSV with the columns epoch, loss, validation_loss, learning_rate."""
    predictions: Path
    """CSV of the held-out rows: the features, then `observed` and `predicted`."""


@diel.module(kind="training")
def torch_mlp(
    target: str,
    context: diel.Context,
    columns: Annotated[dict[str, list[float]], Field(min_length=2)] | None = None,
    rows: Annotated[list[dict[str, float]], Field(min_length=2)] | None = None,
    table: Path | list[Path] | None = None,
    features: list[str] | None = None,
    hidden: Width | Annotated[list[Width], Field(min_length=1, max_length=10)] = 64,
    layers: Annotated[int, Field(ge=1, le=10)] | None = None,
    activation: Literal["tanh", "relu", "logistic", "silu", "gelu"] = "tanh",
    optimizer: Literal["adam", "adamw", "sgd"] = "adam",
    learning_rate: Annotated[float, Field(gt=0, le=1)] = 0.003,
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9,
    weight_decay: Annotated[float, Field(ge=0, le=1)] = 0.0,
    schedule: Literal["constant", "cosine"] = "constant",
    batch: Annotated[int, Field(ge=1)] = 32,
    epochs: Annotated[int, Field(ge=1)] = 300,
    patience: Annotated[int, Field(ge=1)] = 50,
    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.2,
    seed: Annotated[int, Field(ge=0, lt=4294967296)] = 0,
    precision: Literal["fp32", "bf16", "fp16"] = "fp32",
    device: Literal["auto", "cpu", "cuda"] = "auto",
) -> TorchMlp:
    """Train a perceptron with PyTorch to predict one column from others.

    target: the column to predict
    columns: lists of equal length by name; usually gathered: `{energy: "${{ simulate.energy }}", ...}`
    rows: the same as a list of mappings, for instance `best` of a screen
    table: the same as a CSV file with a header, or several that go one below the other
    features: the columns to predict it from; all others where absent
    hidden: units of each hidden layer, or a list with those of the first, the second, ...
    layers: hidden layers of equal width; 2 where absent
    activation: of the hidden layers; silu and gelu (by its formula with tanh): arXiv:1606.08415
    optimizer: adam (arXiv:1412.6980), adamw (its weight decay apart from the gradient, arXiv:1711.05101),
        or sgd with momentum
    learning_rate: of the first epoch
    momentum: of sgd; the others have their own
    weight_decay: pull of the weights towards zero, as the optimizer understands it
    schedule: whether the learning rate stays, or falls along half a cosine over `epochs` (arXiv:1608.03983)
    batch: rows in a gradient step
    epochs: most passes over the rows
    patience: passes without a smaller validation loss after which training stops
    held_out: share of the rows that are not trained on, at least one; they choose the epoch, so judge
        the model by rows that this module never saw
    seed: of the split, the first weights and the order of the rows
    precision: of the products in training, by autocast; weights, loss and the saved model stay in fp32
    device: auto takes a GPU where the task sees one

    Give exactly one of `columns`, `rows` and `table`. With `checkpoint: true` a task that is interrupted
    or killed goes on from its last checkpoint, with the same result as if it had never stopped. It uses
    as many threads as the stage's `cores_per_rank`; on one kind of machine, with as many threads, the same
    seed gives the same model to the last bit.
    Features and target are standardised by the mean and deviation of the rows trained on. Report
    `epoch`, `loss` and `validation_loss` after each epoch. Raise ValueError where the data cannot be
    read, are too few or not finite, where there is no such device, and where the loss leaves all bounds.
    """
    data = _table(columns, rows, table, target, features)
    with pytorch.reproducible():
        place, method = pytorch.find_device(device, precision), (optimizer, momentum, weight_decay, schedule)
        settings = pytorch.Settings(learning_rate, epochs, batch, place, *method, patience, precision, seed)
        split = pytorch.split(len(data), held_out, seed)
        train, held = (data.take(chosen.numpy()) for chosen in split)
        scale = tabular.Scale.of(train)
        sizes = [len(data.names), *_widths(hidden, layers)]
        with pytorch.seeded(seed):
            pairs = [(torch.nn.Linear(a, b), ACTIVATIONS[activation]()) for a, b in pairwise(sizes)]
            last = torch.nn.Linear(sizes[-1], 1)
        network = torch.nn.Sequential(*chain.from_iterable(pairs), last).to(place)
        rows_train, rows_held = _rows(train, scale, place), _rows(held, scale, place)
        mse = torch.nn.functional.mse_loss
        trained = pytorch.train(
            network, rows_train, rows_held, lambda a, b: mse(a[:, 0], b), settings, context
        )
        outputs = pytorch.outputs(network, rows_held.inputs, batch, place)[:, 0].double()
    predicted = scale.own_units(outputs.numpy())
    arrays = [parameter.detach().cpu().numpy().T for parameter in network.parameters()]
    learned = tuple(zip(arrays[::2], arrays[1::2], strict=True))  # PyTorch keeps weights as (out, in)
    model = tabular.Model(data.names, target, activation, scale, learned)
    folder = context.task_dir
    return {
        "model": model.save(folder / "model.npz"),
        "loss": trained.best.loss,
        "validation_loss": trained.best.validation_loss,
        "r2": pytorch.r2(torch.from_numpy(held.target), torch.from_numpy(predicted)),
        "mean_absolute_error": float(np.mean(np.abs(predicted - held.target))),
        "epochs": trained.epochs,
        "seconds": trained.seconds,
        "parameters": sum(tensor.numel() for tensor in network.parameters()),
        "history": trained.save_history(folder / "history.csv"),
        "predictions": held.save_predictions(folder / "predictions.csv", predicted),
    }


def _table(
    columns: dict[str, list[float]] | None,
    rows: list[dict[str, float]] | None,
    files: Path | list[Path] | None,
    target: str,
    features: list[str] | None,
) -> tabular.Table:
    sources = {"columns": columns, "rows": rows, "table": files}
    names = ", ".join(name for name, source in sources.items() if source is not None)
    if names not in sources:
        raise ValueError(f"expected exactly one of columns, rows and table; found {names or 'none'}")
    if files is not None:
        samples = tabular.Table.from_files([files] if isinstance(files, Path) else files, target, features)
    elif rows is not None:
        samples = tabular.Table.from_rows(rows, target, features)
    else:
        assert columns is not None
        samples = tabular.Table.from_columns(columns, target, features)
    return samples.at_least(2, "one to train on and one held out")


def _rows(table: tabular.Table, scale: tabular.Scale, device: torch.device) -> pytorch.Rows:
    """Return a table as the network reads it; all of it goes to the device, where it is small."""
    features = torch.from_numpy(scale.features(table.features))
    target = torch.from_numpy(scale.target(table.target))
    return pytorch.Rows(features.float().to(device), target.float().to(device))


def _widths(hidden: int | list[int], layers: int | None) -> list[int]:
    """Return the units of each hidden layer."""
    if isinstance(hidden, int):
        return [hidden] * (2 if layers is None else layers)
    if layers is not None and layers != len(hidden):
        raise ValueError(f"hidden lists {len(hidden)} layers, and layers says {layers}: drop one of them")
    return list(hidden)


ACTIVATIONS: dict[str, Callable[[], torch.nn.Module]] = {
    "tanh": torch.nn.Tanh,
    "relu": torch.nn.ReLU,
    "logistic": torch.nn.Sigmoid,
    "silu": torch.nn.SiLU,
    "gelu": lambda: torch.nn.GELU(approximate="tanh"),
}
