"""A convolutional network for images and lattices, trained with PyTorch on a CPU or a GPU.

training.torch_cnn            regression and classification, for instance the phase of spin configurations
training.torch_cnn:predict    what such a network says of further images
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

import diel
from diel import pytorch

Images = NDArray[Any]
"""Shape (images, channels, height, width): int8, uint8 or float32."""
SIDES = "(channels, height, width)"


class TorchCnn(TypedDict):
    """The best epoch: the one with the smallest validation loss."""

    model: Path
    """Weights, scales and shape of the network as .npz, which `training.torch_cnn:predict` reads."""
    loss: float
    """Over the epoch's images while they were trained on: cross-entropy in nats for classes, else mean
    squared error by the targets' variance."""
    validation_loss: float
    """The same over the held-out images, after the epoch."""
    accuracy: NotRequired[float]
    """Share of the held-out images whose class is found; for classification."""
    r2: NotRequired[float]
    """Coefficient of determination over the held-out images; for regression."""
    mean_absolute_error: NotRequired[float]
    """Over the held-out images, in the targets' own units; for regression."""
    epochs: int
    """Epochs trained; the best one may be earlier."""
    seconds: float
    """Of training, all attempts together."""
    parameters: int
    """Weights and biases."""
    history: Path
    """CSV with the columns epoch, loss, validation_loss, learning_rate."""


class Prediction(TypedDict):
    """What the network says of each image, in the images' order."""

    predictions: Path
    """.npy, float64: values of shape (images,), or probabilities of shape (images, classes)."""
    count: int
    classes: list[str]
    """In the order of the columns; empty for a regression."""


@dataclass(frozen=True)
class Shape:
    """All that tells a network's layers."""

    inputs: int
    """Channels of an image."""
    outputs: int
    channels: int
    blocks: int
    kernel: int
    hidden: int
    activation: str
    periodic: bool


@dataclass(frozen=True)
class Scale:
    """Of the numbers that a network was trained on; classes have none."""

    mean: float = 0.0
    deviation: float = 1.0


class Targets(NamedTuple):
    """What the network should say of each image: shape (images,)."""

    values: NDArray[Any]
    """Places in `classes`, int64; or numbers, float64."""
    classes: list[str] | None
    """None for a regression."""


@diel.module(kind="training")
def torch_cnn(
    images: Path | list[Path],
    context: diel.Context,
    targets: Annotated[list[float] | list[str], Field(min_length=1)] | None = None,
    targets_file: Path | None = None,
    task: Literal["classification", "regression"] = "classification",
    threshold: float | None = None,
    periodic: bool = False,
    channels: Annotated[int, Field(ge=1, le=1024)] = 16,
    blocks: Annotated[int, Field(ge=1, le=6)] = 2,
    kernel: Literal[3, 5, 7] = 3,
    hidden: Annotated[int, Field(ge=1, le=4096)] = 32,
    activation: Literal["relu", "tanh", "silu", "gelu"] = "relu",
    optimizer: Literal["adam", "adamw", "sgd"] = "adam",
    learning_rate: Annotated[float, Field(gt=0, le=1)] = 0.002,
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9,
    weight_decay: Annotated[float, Field(ge=0, le=1)] = 0.0,
    schedule: Literal["constant", "cosine"] = "constant",
    batch: Annotated[int, Field(ge=1)] = 32,
    epochs: Annotated[int, Field(ge=1)] = 50,
    patience: Annotated[int, Field(ge=1)] = 10,
    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.2,
    seed: Annotated[int, Field(ge=0, lt=4294967296)] = 0,
    precision: Literal["fp32", "bf16", "fp16"] = "fp32",
    device: Literal["auto", "cpu", "cuda"] = "auto",
) -> TorchCnn:
    """Train a convolutional network with PyTorch to tell a class or a number from an image or a lattice.

    images: .npy of shape (images, height, width) or (images, channels, height, width), or several that
        go one after the other, such as the gathered `configuration` of `simulation.ising`
    targets: a number or a class for each image; or for each file of `images`, and all that it holds
    targets_file: the same as .npy, of shape (images,)
    task: classes, or numbers
    threshold: with classification, makes two classes of numbers: `below`, and `above` or equal
    periodic: whether the images have no edge, like a lattice with periodic boundaries
    channels: of the first block; each further one has twice as many
    blocks: each a convolution, an activation and means over 2 × 2 sites
    kernel: sites along a side of a convolution
    hidden: units between the mean over all sites and the output
    activation: of all layers but the last; silu and gelu (by its formula with tanh): arXiv:1606.08415
    optimizer: adam (arXiv:1412.6980), adamw (its weight decay apart from the gradient, arXiv:1711.05101),
        or sgd with momentum
    learning_rate: of the first epoch
    momentum: of sgd; the others have their own
    weight_decay: pull of the weights towards zero, as the optimizer understands it
    schedule: whether the learning rate stays, or falls along half a cosine over `epochs` (arXiv:1608.03983)
    batch: images in a gradient step
    epochs: most passes over the images
    patience: passes without a smaller validation loss after which training stops
    held_out: share of the images that are not trained on, at least one; they choose the epoch, so judge
        the model by images that this module never saw
    seed: of the split, the first weights and the order of the images
    precision: of the products in training, by autocast; weights, loss and the saved model stay in fp32
    device: auto takes a GPU where the task sees one

    With `checkpoint: true` a task that is interrupted or killed goes on from its last checkpoint, with the
    same result as if it had never stopped. It uses as many threads as the stage's `cores_per_rank`; on one
    kind of machine, with as many threads, the same seed gives the same model to the last bit.
    Each channel, and the targets of a regression, are standardised by the mean and deviation of the images
    trained on. Report `epoch`, `loss` and `validation_loss` after each epoch. Raise ValueError where the
    data cannot be read, do not fit each other, are too few or not finite, where there is no such device, and
    where the loss leaves all bounds.
    """
    data, counts = _images(images)
    labels = _targets(targets, targets_file, task, threshold, counts)
    outputs = 1 if labels.classes is None else len(labels.classes)
    shape = Shape(data.shape[1], outputs, channels, blocks, kernel, hidden, activation, periodic)
    _check_sides(data.shape[2:], shape)
    with pytorch.reproducible():
        place, method = pytorch.find_device(device, precision), (optimizer, momentum, weight_decay, schedule)
        settings = pytorch.Settings(learning_rate, epochs, batch, place, *method, patience, precision, seed)
        train, held = (chosen.numpy() for chosen in pytorch.split(len(data), held_out, seed))
        scale, sample = Scale(), labels.values[train]
        if labels.classes is None:
            scale = Scale(float(sample.mean()), float(sample.std()) or 1.0)
        with pytorch.seeded(seed):
            network = Cnn(shape)
        network.standardise.measure(data[train])
        network.to(place)
        loss = _square if labels.classes is None else torch.nn.functional.cross_entropy
        rows, rows_held = (_rows(data, labels, chosen, scale) for chosen in (train, held))
        trained = pytorch.train(network, rows, rows_held, loss, settings, context)
        answers = pytorch.outputs(network, rows_held.inputs, batch, place).double()
    folder = context.task_dir
    result: TorchCnn = {
        "model": _save_model(folder / "model.npz", network, shape, labels.classes, scale),
        "loss": trained.best.loss,
        "validation_loss": trained.best.validation_loss,
        "epochs": trained.epochs,
        "seconds": trained.seconds,
        "parameters": sum(tensor.numel() for tensor in network.parameters()),
        "history": trained.save_history(folder / "history.csv"),
    }
    observed = torch.from_numpy(labels.values[held])
    if labels.classes is not None:
        result["accuracy"] = float((answers.argmax(dim=1) == observed).double().mean())
    else:
        predicted = answers[:, 0] * scale.deviation + scale.mean
        result["r2"] = pytorch.r2(observed, predicted)
        result["mean_absolute_error"] = float((predicted - observed).abs().mean())
    return result


@diel.module(kind="inference")
def predict(
    model: Path,
    images: Path | list[Path],
    context: diel.Context,
    batch: Annotated[int, Field(ge=1)] = 256,
    device: Literal["auto", "cpu", "cuda"] = "auto",
) -> Prediction:
    """Say a class or a number of each image, by a network of `training.torch_cnn`.

    model: .npz written by `training.torch_cnn`; loaded once in a worker
    images: as for the training; height and width may differ from those that it saw
    batch: images in memory at a time, as the network sees them
    device: auto takes a GPU where the task sees one

    Raise ValueError where the model is none, or the images do not fit it.
    """
    version = model.stat().st_mtime_ns
    loaded = context.cached(("training.torch_cnn", str(model), version), lambda: _read_model(model))
    network, shape, classes, scale = loaded
    data, _ = _images(images)
    if data.shape[1] != shape.inputs:
        raise ValueError(f"the model reads {shape.inputs} channels; the images have {data.shape[1]}")
    _check_sides(data.shape[2:], shape)
    with pytorch.reproducible():
        place = pytorch.find_device(device)
        outputs = pytorch.outputs(network.to(place), torch.from_numpy(data), batch, place).double()
    answers = outputs.softmax(dim=1) if classes else outputs[:, 0] * scale.deviation + scale.mean
    path = context.task_dir / "predictions.npy"
    np.save(path, answers.numpy())
    return {"predictions": path, "count": len(answers), "classes": classes}


def _images(files: Path | list[Path]) -> tuple[Images, list[int]]:
    """Return all images, and how many each file holds. Raise ValueError."""
    paths = [files] if isinstance(files, Path) else files
    if not paths:
        raise ValueError("images: expected at least one file; found none")
    arrays = [_images_of(path) for path in paths]
    for path, array in zip(paths, arrays, strict=True):
        if array.shape[1:] != arrays[0].shape[1:]:
            size, other = (" × ".join(map(str, images.shape[1:])) for images in (array, arrays[0]))
            what = f"{path} holds images of {size} {SIDES}, and {paths[0]} of {other} {SIDES}"
            raise ValueError(f"images: {what}; expected one size")
    counts = [len(array) for array in arrays]
    if len({array.dtype for array in arrays}) > 1:
        arrays = [array.astype(np.float32) for array in arrays]
    return np.concatenate(arrays), counts


def _images_of(path: Path) -> Images:
    array = _array("images", path)
    if array.ndim not in (3, 4) or not array.size:
        raise ValueError(
            f"images: {path} has the shape {array.shape}; "
            "expected (images, height, width) or (images, channels, height, width), and at least one image"
        )
    if array.dtype not in (np.int8, np.uint8):
        with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused
            array = array.astype(np.float32)
        _check_finite(f"images: {path}", array)
    return array[:, np.newaxis] if array.ndim == 3 else array


def _array(what: str, path: Path, text: bool = False) -> NDArray[Any]:
    try:
        array = np.load(path, allow_pickle=False)
    except OSError as error:
        raise ValueError(f"{what}: {path} cannot be read: {error.strerror or error}") from None
    except (ValueError, EOFError) as error:
        raise ValueError(f"{what}: {path} is no .npy file of numbers ({error})") from None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in ("biufU" if text else "biuf"):
        kind = array.dtype if isinstance(array, np.ndarray) else "several arrays"
        raise ValueError(f"{what}: {path} holds {kind}; expected one array of numbers")
    return array


def _check_finite(what: str, array: NDArray[Any]) -> None:
    # a sum is quicker than looking at each number, and finite only where all are
    with np.errstate(over="ignore", invalid="ignore"):
        total = array.sum(dtype=np.float64)
    if not np.isfinite(total):
        wrong = np.argwhere(~np.isfinite(array))
        if len(wrong):
            place = tuple(int(number) for number in wrong[0])
            where = place[0] if len(place) == 1 else place
            raise ValueError(f"{what}: found {array[place]} at {where}; expected finite numbers")


def _check_sides(sides: Sequence[int], shape: Shape) -> None:
    """Raise ValueError where blocks halve the sides to nothing, or a periodic one reaches around twice."""
    last = min(sides) >> (shape.blocks - 1)
    least = max(2, shape.kernel // 2)
    if last < least:
        raise ValueError(
            f"blocks: {shape.blocks} of them with kernel {shape.kernel} need images of at least "
            f"{least << (shape.blocks - 1)} sites a side; these have {' × '.join(map(str, sides))}"
        )


def _targets(
    column: list[float] | list[str] | None,
    file: Path | None,
    task: str,
    threshold: float | None,
    counts: list[int],
) -> Targets:
    if (column is None) == (file is None):
        raise ValueError("expected exactly one of `targets` and `targets_file`")
    if file is None:
        what, values = "targets", _one_each("targets", np.array(column), counts)
    else:
        what = f"targets_file: {file}"
        values = _one_each(what, _array("targets_file", file, text=True), counts)
    number = values.dtype.kind in "biuf"
    if number:
        values = values.astype(np.float64)
        _check_finite(what, values)
    elif task == "regression" or threshold is not None:
        raise ValueError(f"{what}: expected numbers; found {str(values[0])!r}")
    if task == "regression":
        if threshold is not None:
            raise ValueError("threshold: makes classes of numbers; drop it, or write task: classification")
        return Targets(values, None)
    if threshold is not None:
        values = np.where(values < threshold, "below", "above")
    elif number:  # names of classes
        broken = values[np.mod(values, 1) != 0]
        if len(broken):
            hint = "write task: regression, or give a threshold between two"
            raise ValueError(f"{what}: {broken[0]:g} is no class; {hint}")
        values = values.astype(np.int64)
    names, places = np.unique(values, return_inverse=True)
    if len(names) < 2:
        raise ValueError(f"{what}: expected two classes or more; all images are of '{names[0]}'")
    return Targets(places.astype(np.int64), [str(name) for name in names])


def _one_each(what: str, values: NDArray[Any], counts: list[int]) -> NDArray[Any]:
    """Return a value for each image, where one for each file is given too. Raise ValueError."""
    if values.ndim == 1 and len(values) == len(counts):
        values = np.repeat(values, counts)
    if values.shape != (sum(counts),):
        files = f", or {len(counts)}, one for each file" if len(counts) > 1 else ""
        extent = len(values) if values.ndim == 1 else f"the shape {values.shape}"
        raise ValueError(f"{what}: expected {sum(counts)} of them, one for each image{files}; found {extent}")
    if len(values) < 2:
        raise ValueError("images: expected at least 2, one to train on and one held out; found 1")
    return values


def _rows(data: Images, targets: Targets, chosen: NDArray[np.intp], scale: Scale) -> pytorch.Rows:
    """Return some of the images, of their type in the file, so that spins stay small in memory."""
    values = targets.values[chosen]
    if targets.classes is None:
        values = ((values - scale.mean) / scale.deviation).astype(np.float32)
    return pytorch.Rows(torch.from_numpy(data[chosen]), torch.from_numpy(values))


class Standardisation(torch.nn.Module):
    """Gives each channel mean 0 and variance 1 over the images trained on; a part of the model."""

    mean: torch.Tensor
    deviation: torch.Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(channels, 1, 1))
        self.register_buffer("deviation", torch.ones(channels, 1, 1))

    def measure(self, images: Images) -> None:
        mean = images.mean(axis=(0, 2, 3), dtype=np.float64)
        spread = images.std(axis=(0, 2, 3), dtype=np.float64)
        self.mean.copy_(torch.from_numpy(mean)[:, None, None])
        self.deviation.copy_(torch.from_numpy(np.where(spread > 0, spread, 1.0))[:, None, None])

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return (images - self.mean) / self.deviation


class Cnn(torch.nn.Module):
    """Blocks of convolutions, the mean over all sites, and two layers on these means.

    By the mean, height and width of the images make no difference to the weights.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.standardise = Standardisation(shape.inputs)
        edge: Literal["circular", "zeros"] = "circular" if shape.periodic else "zeros"
        layers: list[torch.nn.Module] = []
        channels = shape.inputs
        for block in range(shape.blocks):
            wide = shape.channels << block
            layers += [
                torch.nn.Conv2d(channels, wide, shape.kernel, padding=shape.kernel // 2, padding_mode=edge),
                ACTIVATIONS[shape.activation](),
                torch.nn.AvgPool2d(2),
            ]
            channels = wide
        self.blocks = torch.nn.Sequential(*layers)
        self.head = torch.nn.Sequential(
            torch.nn.Linear(channels, shape.hidden),
            ACTIVATIONS[shape.activation](),
            torch.nn.Linear(shape.hidden, shape.outputs),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        answers: torch.Tensor = self.head(self.blocks(self.standardise(images)).mean(dim=(2, 3)))
        return answers


ACTIVATIONS: dict[str, Callable[[], torch.nn.Module]] = {
    "tanh": torch.nn.Tanh,
    "relu": torch.nn.ReLU,
    "silu": torch.nn.SiLU,
    "gelu": lambda: torch.nn.GELU(approximate="tanh"),
}


def _square(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.mse_loss(outputs[:, 0], targets)


def _save_model(path: Path, network: Cnn, shape: Shape, classes: list[str] | None, scale: Scale) -> Path:
    """Write the model as plain arrays: no pickle, so that reading one runs no code."""
    arrays: dict[str, Any] = {
        "classes": np.array(classes or [], dtype=np.str_),
        **{f"shape.{name}": np.array(value) for name, value in asdict(shape).items()},
        **{f"scale.{name}": np.array(value) for name, value in asdict(scale).items()},
        **{f"weights.{name}": tensor.cpu().numpy() for name, tensor in network.state_dict().items()},
    }
    np.savez(path, **arrays)
    return path


def _read_model(path: Path) -> tuple[Cnn, Shape, list[str], Scale]:
    """Return a network, its shape, classes (none for a regression) and scale. Raise ValueError."""
    groups: dict[str, dict[str, Any]] = {"shape": {}, "scale": {}, "weights": {}, "classes": {}}
    try:
        with np.load(path, allow_pickle=False) as file:
            for key in file:
                group, _, name = key.partition(".")
                groups[group][name] = file[key]
        shape = Shape(**{name: value.item() for name, value in groups["shape"].items()})
        scale = Scale(**{name: value.item() for name, value in groups["scale"].items()})
        network = Cnn(shape)
        network.load_state_dict({name: torch.from_numpy(value) for name, value in groups["weights"].items()})
        return network, shape, groups["classes"][""].tolist(), scale
    except (OSError, KeyError, ValueError, TypeError, AttributeError, EOFError, RuntimeError) as error:
        raise ValueError(f"{path.name} is no model of training.torch_cnn ({error})") from error
