"""A multi-layer perceptron for regression on columns of numbers, trained with PyTorch on a CPU or a GPU.

The model is a file like that of `training.mlp`: `inference.screen` reads it with numpy alone.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

import diel
from diel import pytorch

Floats = NDArray[np.float64]
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


@dataclass(frozen=True)
class Table:
    """Rows to learn from: features of shape (rows, features), target of shape (rows,)."""

    names: list[str]
    features: Floats
    target: Floats

    def take(self, rows: torch.Tensor) -> Table:
        """Some of the rows."""
        return Table(self.names, self.features[rows.numpy()], self.target[rows.numpy()])


@dataclass(frozen=True)
class Scale:
    """What turns columns into numbers of mean 0 and variance 1."""

    feature_mean: Floats
    feature_scale: Floats
    target_mean: float
    target_scale: float

    def rows(self, table: Table, device: torch.device) -> pytorch.Rows:
        """A table as the network reads it; all of it goes to the device, where it is small."""
        features = torch.from_numpy((table.features - self.feature_mean) / self.feature_scale)
        target = torch.from_numpy((table.target - self.target_mean) / self.target_scale)
        return pytorch.Rows(features.float().to(device), target.float().to(device))


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
    """Trains a perceptron with PyTorch to predict one column from others.

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

    Features and target are standardised by the mean and deviation of the rows trained on. Reports
    `epoch`, `loss` and `validation_loss` after each epoch. Raises ValueError where the data cannot be
    read, are too few or not finite, where there is no such device, and where the loss leaves all bounds.
    """
    data = _table(columns, rows, table, target, features)
    widths = _widths(hidden, layers)
    with pytorch.reproducible():
        settings = pytorch.Settings(
            learning_rate=learning_rate,
            epochs=epochs,
            batch=batch,
            device=pytorch.find_device(device, precision),
            optimizer=optimizer,
            momentum=momentum,
            weight_decay=weight_decay,
            schedule=schedule,
            patience=patience,
            precision=precision,
            seed=seed,
        )
        train, held = (data.take(chosen) for chosen in pytorch.split(len(data.target), held_out, seed))
        scale = _scale(train)
        network = _network(len(data.names), widths, activation, seed).to(settings.device)
        rows_held = scale.rows(held, settings.device)
        trained = pytorch.train(
            network, scale.rows(train, settings.device), rows_held, _loss, settings, context
        )
        said = pytorch.outputs(network, rows_held.inputs, batch, settings.device)[:, 0].double()
    predicted = said.numpy() * scale.target_scale + scale.target_mean
    folder = context.task_dir
    return {
        "model": _save_model(folder / "model.npz", network, scale, data.names, target, activation),
        "loss": trained.best.loss,
        "validation_loss": trained.best.validation_loss,
        "r2": pytorch.r2(torch.from_numpy(held.target), torch.from_numpy(predicted)),
        "mean_absolute_error": float(np.mean(np.abs(predicted - held.target))),
        "epochs": trained.epochs,
        "seconds": trained.seconds,
        "parameters": sum(tensor.numel() for tensor in network.parameters()),
        "history": trained.save_history(folder / "history.csv"),
        "predictions": _save_predictions(folder / "predictions.csv", held, predicted),
    }


# ---------------------------------------------------------------- the rows


def _table(
    columns: dict[str, list[float]] | None,
    rows: list[dict[str, float]] | None,
    files: Path | list[Path] | None,
    target: str,
    features: list[str] | None,
) -> Table:
    given = [
        name for name, one in (("columns", columns), ("rows", rows), ("table", files)) if one is not None
    ]
    if len(given) != 1:
        raise ValueError(
            f"expected exactly one of columns, rows and table; found {', '.join(given) or 'none'}"
        )
    if files is not None:
        found = _from_files([files] if isinstance(files, Path) else files, target, features)
    elif rows is not None:
        found = _from_rows(rows, target, features)
    else:
        assert columns is not None
        found = _from_columns(columns, target, features)
    if len(found.target) < 2:
        raise ValueError(
            f"expected at least 2 rows, one to train on and one held out; found {len(found.target)}"
        )
    return found


def _names(known: Sequence[str], target: str, features: list[str] | None, where: str = "") -> list[str]:
    """The features. Raises ValueError where a column is missing."""
    names = [name for name in known if name != target] if features is None else features
    for name in (target, *names):
        if name not in known:
            raise ValueError(f"{where}there is no column '{name}'; the columns are {', '.join(known)}")
    if not names or target in names:
        raise ValueError(f"{where}expected features other than the target '{target}'; found {names}")
    return names


def _number(value: Any, where: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{where} holds {value!r}; expected a finite number")
    return number


def _from_columns(columns: dict[str, list[float]], target: str, features: list[str] | None) -> Table:
    names = _names(list(columns), target, features)
    lengths = {name: len(columns[name]) for name in (target, *names)}
    if len(set(lengths.values())) != 1:
        told = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ValueError(f"the columns differ in length: {told}")
    lists = {
        name: [_number(value, f"column '{name}', row {row},") for row, value in enumerate(columns[name])]
        for name in (target, *names)
    }
    return Table(names, np.array([lists[name] for name in names]).T, np.array(lists[target]))


def _from_rows(rows: list[dict[str, float]], target: str, features: list[str] | None) -> Table:
    names = _names(list(rows[0]) if rows else [], target, features)
    for number, row in enumerate(rows):
        missing = [name for name in (target, *names) if name not in row]
        if missing:
            raise ValueError(f"row {number} has no '{missing[0]}'; the first row has")
    return _from_columns({name: [row[name] for row in rows] for name in (target, *names)}, target, names)


def _from_files(paths: list[Path], target: str, features: list[str] | None) -> Table:
    if not paths:
        raise ValueError("table: expected at least one file; found none")
    values: list[list[float]] = []
    names = features
    for path in paths:
        # the first file's columns are those of all
        names, found = _from_file(path, target, names)
        values += found
    assert names is not None
    array = np.array(values, dtype=float).reshape(-1, len(names) + 1)
    return Table(names, array[:, 1:], array[:, 0])


def _from_file(path: Path, target: str, features: list[str] | None) -> tuple[list[str], list[list[float]]]:
    """The features, and for each row the target and the features."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = [name.strip() for name in next(reader, [])]
            doubled = [name for name in header if header.count(name) > 1]
            if doubled:
                raise ValueError(f"table: {path.name} has the column '{doubled[0]}' twice")
            names = _names(header, target, features, f"table: {path.name}: ")
            places = [(name, header.index(name)) for name in (target, *names)]
            values = []
            for row in reader:
                if not row:
                    continue
                where = f"table: {path.name}, line {reader.line_num}"
                if len(row) != len(header):
                    raise ValueError(
                        f"{where}: expected {len(header)} values, as the header has; found {len(row)}"
                    )
                values.append([_number(row[place], f"{where}, column '{name}',") for name, place in places])
    except OSError as error:
        raise ValueError(f"table: {path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"table: {path.name} is no CSV file in UTF-8 ({error})") from None
    return names, values


# ---------------------------------------------------------------- the network


def _widths(hidden: int | list[int], layers: int | None) -> list[int]:
    """Units of each hidden layer."""
    if isinstance(hidden, int):
        return [hidden] * (2 if layers is None else layers)
    if layers is not None and layers != len(hidden):
        raise ValueError(f"hidden lists {len(hidden)} layers, and layers says {layers}: drop one of them")
    return list(hidden)


def _network(features: int, widths: list[int], activation: str, seed: int) -> torch.nn.Sequential:
    layers: list[torch.nn.Module] = []
    with pytorch.seeded(seed):
        for width in widths:
            layers += [torch.nn.Linear(features, width), ACTIVATIONS[activation]()]
            features = width
        layers.append(torch.nn.Linear(features, 1))
    return torch.nn.Sequential(*layers)


ACTIVATIONS: dict[str, Callable[[], torch.nn.Module]] = {
    "tanh": torch.nn.Tanh,
    "relu": torch.nn.ReLU,
    "logistic": torch.nn.Sigmoid,
    "silu": torch.nn.SiLU,
    "gelu": lambda: torch.nn.GELU(approximate="tanh"),
}


def _loss(said: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.mse_loss(said[:, 0], wanted)


def _scale(train: Table) -> Scale:
    def deviation(values: Floats) -> Floats:
        spread = values.std(axis=0)
        return np.where(spread > 0, spread, 1.0)  # a constant column carries nothing, but does no harm

    return Scale(
        train.features.mean(axis=0),
        deviation(train.features),
        float(train.target.mean()),
        float(deviation(train.target)),
    )


def _save_model(
    path: Path, network: torch.nn.Module, scale: Scale, names: list[str], target: str, activation: str
) -> Path:
    """Writes the model as plain arrays: no pickle, so that reading one runs no code."""
    arrays: dict[str, Any] = {
        "features": np.array(names),
        "target": np.array(target),
        "activation": np.array(activation),
        "feature_mean": scale.feature_mean,
        "feature_scale": scale.feature_scale,
        "target_mean": np.array(scale.target_mean),
        "target_scale": np.array(scale.target_scale),
    }
    linear = [layer for layer in network.modules() if isinstance(layer, torch.nn.Linear)]
    for number, layer in enumerate(linear):
        arrays[f"weight_{number}"] = layer.weight.detach().cpu().numpy().T
        arrays[f"bias_{number}"] = layer.bias.detach().cpu().numpy()
    np.savez(path, **arrays)
    return path


def _save_predictions(path: Path, held: Table, predicted: Floats) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*held.names, "observed", "predicted"])
        writer.writerows(np.column_stack([held.features, held.target, predicted]).tolist())
    return path
