"""The samples of each rank in each step: its share of the batch that a single rank would take."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from diel.ml.pytorch.parallel.placed import Ranks
from diel.worker.context import Context

Order = Callable[[int], Sequence[Any]]
"""This rank's items of an epoch: every n-th of the order that is the same for any number n of ranks."""
Read = Callable[[Sequence[Any]], tuple[NDArray[Any], NDArray[Any]]]


@dataclass(frozen=True)
class Standardiser:
    """Makes inputs about as large as 1."""

    mean: float = 0.0
    deviation: float = 1.0

    @classmethod
    def of(cls, inputs: NDArray[Any]) -> "Standardiser":
        """Scale by all numbers of an array; whole numbers that are no measurements should not be scaled.

        Raise ValueError where one is not finite.
        """
        mean, deviation = float(np.mean(inputs)), float(np.std(inputs))
        if not math.isfinite(mean + deviation):
            raise ValueError("data holds a number that is not finite")
        return cls(mean, deviation or 1.0)

    def __call__(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """Return the inputs, scaled; whole numbers stay whole where there is nothing to scale."""
        if self == Standardiser():
            return inputs
        done: NDArray[Any] = (np.asarray(inputs, dtype=np.float64) - self.mean) / self.deviation
        return done


def shuffled(items: Sequence[Any], seed: int, world: Ranks) -> Order:
    """Return this rank's share of rows or files, in a new order each epoch."""

    def order(epoch: int) -> Sequence[Any]:
        permutation = np.random.default_rng([seed, epoch]).permutation(len(items))
        return [items[place] for place in permutation[world.place.data :: world.mesh.data].tolist()]

    return order


def sharded(name: str, context: Context, world: Ranks) -> Order:
    """Return the items for `shard: rank`: ranks that share a part of the data get the same ones."""
    mine = replace(context, rank=world.place.data, ranks=world.mesh.data)
    return lambda epoch: mine.shard(name, epoch)


@dataclass(frozen=True)
class Samples:
    """Samples in files, and what a network for them looks like."""

    items: Sequence[Any]
    """That are put in order: numbers of rows, or files of several rows."""
    rows: int
    """Rows of an item."""
    shape: tuple[int, ...]
    """Shape of a sample."""
    outputs: int
    """Numbers that a network says of a sample, or of each of its sites."""
    classes: bool
    """Whether the targets are whole numbers, which name classes."""
    scale: Standardiser
    read: Read
    """Inputs and targets of some items."""

    @classmethod
    def of(
        cls, data: Path | list[Path], targets: Path | None, standardise: bool, outputs: int | None
    ) -> "Samples":
        """Open an .npy with a row for each sample and one with their targets, or .npz files with `inputs`
        and `targets`, of which the first one tells the shapes. Raise ValueError."""
        if isinstance(data, list):
            if not data or targets is not None:
                raise ValueError("data: expected one .npy beside `targets`, or .npz files that hold both")
            inputs, labels = _checked(*read_file(data[0]))
            scale = Standardiser()
            items: Sequence[Any] = data
            rows = len(inputs)
            read: Read = partial(read_files, rows=rows)
        else:
            if targets is None:
                raise ValueError("targets: expected an .npy with as many rows as data")
            inputs, labels = _checked(*(np.load(path, mmap_mode="r") for path in (data, targets)))
            if len(inputs) != len(labels):
                raise ValueError(f"data has {len(inputs)} rows, and targets {len(labels)}")
            scale = Standardiser.of(inputs) if standardise else Standardiser()
            items, rows, read = range(len(inputs)), 1, lambda some: (scale(inputs[some]), labels[some])
        classes = bool(np.issubdtype(labels.dtype, np.integer))
        shape = tuple(inputs.shape[1:])
        single = labels.ndim == 1 or (labels.ndim == 3 and labels.shape[2] > 1)  # fields without channels
        says = outputs or (int(labels.max()) + 1 if classes else 1 if single else labels.shape[1])
        return cls(items, rows, shape, says, classes, scale, read)

    def rows_of(self, items: Sequence[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return inputs and targets of some items. Raise ValueError for a class unknown to the network."""
        inputs, targets = self.read(items)
        self._check_classes("targets", targets)
        return inputs, targets

    def check_test(self, inputs: NDArray[Any], targets: NDArray[Any]) -> None:
        """Raise ValueError where the test rows differ in shape from those of the training."""
        if inputs.shape[1:] != self.shape or not len(inputs):
            raise ValueError(f"test: expected rows of shape {self.shape}, as data has, found {inputs.shape}")
        _, like = self.read(self.items[:1])
        if targets.size * len(like) != like.size * len(inputs):
            expected = (len(inputs), *like.shape[1:])
            raise ValueError(f"test_targets: expected numbers of shape {expected}, found {targets.shape}")
        self._check_classes("test_targets", targets)

    def _check_classes(self, name: str, targets: NDArray[Any]) -> None:
        whole = np.issubdtype(targets.dtype, np.integer)
        if self.classes and not (whole and 0 <= targets.min() <= targets.max() < self.outputs):
            there = f"{targets.min()} to {targets.max()}"
            raise ValueError(f"{name}: expected classes from 0 to {self.outputs - 1}, found {there}")

    def loss(self, out: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return cross-entropy in nats for classes, else the mean squared error, computed in full precision.

        Raise ValueError where the network says something of another shape than the targets have.
        """
        sites = out.shape[:1] + out.shape[2:]
        if sites != targets.shape if self.classes else out.numel() != targets.numel():
            raise ValueError(f"the network says {tuple(out.shape)}, and targets are {tuple(targets.shape)}")
        if self.classes:
            return torch.nn.functional.cross_entropy(out, targets)
        return torch.nn.functional.mse_loss(out, targets.view_as(out))


def _checked(inputs: NDArray[Any], targets: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return both, if they are numbers that a network can learn. Raise ValueError."""
    if inputs.ndim < 2 or {inputs.dtype.kind, targets.dtype.kind} - set("biuf"):
        shown = f"{inputs.dtype} of shape {inputs.shape}, targets {targets.dtype}"
        raise ValueError(f"data: expected numbers of shape (rows, ...) and their targets, found {shown}")
    return inputs, targets


def read_files(files: Sequence[Path], rows: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the rows of some files, with this number in each. Raise ValueError."""
    parts = [read_file(file) for file in files]
    if {len(inputs) for inputs, _ in parts} != {rows}:
        raise ValueError("data: the files differ in their numbers of rows, so that no step is like another")
    return np.concatenate([array for array, _ in parts]), np.concatenate([array for _, array in parts])


def read_file(path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return `inputs` and `targets` of an .npz file. Raise ValueError."""
    try:
        with np.load(path) as arrays:
            return arrays["inputs"], arrays["targets"]
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"data: expected .npz files with `inputs` and `targets`; {path}: {error}") from error


class Feed:
    """Feeds the samples of a source step by step: the same in any attempt, and in all on any mesh."""

    def __init__(self, source: Samples, batch: int, order: Order, world: Ranks, dtype: torch.dtype) -> None:
        """Read `batch` items a step on this rank, and not the rest of an epoch. Raise ValueError."""
        self._each = len(source.items) // (batch * world.mesh.data)
        if not self._each:
            there = len(source.items)
            raise ValueError(f"batch: {batch * world.mesh.data} are more than the {there} there are")
        self._source, self._batch, self._order, self._dtype = source, batch, order, dtype
        self._device = world.device
        self._epoch: tuple[int, Sequence[Any]] = (-1, ())

    def __call__(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return inputs and targets of a step, counted from 0."""
        epoch, place = divmod(step, self._each)
        if self._epoch[0] != epoch:
            self._epoch = (epoch, self._order(epoch))
        chosen = self._epoch[1][place * self._batch : (place + 1) * self._batch]
        inputs, targets = self._source.rows_of(chosen)
        return tensor(inputs, self._dtype).to(self._device), tensor(targets, self._dtype).to(self._device)


def tensor(array: NDArray[Any], dtype: torch.dtype) -> torch.Tensor:
    """Return an array for a network: whole numbers as they are."""
    converted = torch.from_numpy(np.array(array))
    return converted.to(dtype if converted.is_floating_point() else torch.int64)
