"""What each rank reads in each step: its share of the batch that one rank alone would take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from diel.context import Context
from diel.pytorch.parallel.world import Ranks

Order = Callable[[int], Sequence[Any]]
"""This rank's items of an epoch: every n-th of the order that is the same for any number n of ranks."""


@dataclass(frozen=True)
class Standardised:
    """Makes inputs about as large as 1."""

    mean: float = 0.0
    deviation: float = 1.0

    @classmethod
    def of(cls, inputs: NDArray[Any]) -> Standardised:
        """Of all numbers of an array; whole numbers that are no measurements should not be scaled."""
        return cls(float(np.mean(inputs)), float(np.std(inputs)) or 1.0)

    def __call__(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """The inputs, scaled; whole numbers stay whole where there is nothing to scale."""
        if self == Standardised():
            return inputs
        done: NDArray[Any] = (np.asarray(inputs, dtype=np.float64) - self.mean) / self.deviation
        return done


def shuffled(items: int, seed: int, world: Ranks) -> Order:
    """The numbers of rows in a new order each epoch, this rank's share of them."""

    def order(epoch: int) -> Sequence[int]:
        found = np.random.default_rng([seed, epoch]).permutation(items)
        mine: list[int] = found[world.place.data :: world.mesh.data].tolist()
        return mine

    return order


def sharded(name: str, context: Context, world: Ranks) -> Order:
    """The items that `shard: rank` gives: ranks that share a part of the data get the same ones."""
    mine = replace(context, rank=world.place.data, ranks=world.mesh.data)
    return lambda epoch: mine.shard(name, epoch)


@dataclass(frozen=True)
class Samples:
    """Samples in files, and what a network for them looks like."""

    items: int
    """That are put in order: rows of an array, or files of several rows."""
    rows: int
    """Of an item."""
    shape: tuple[int, ...]
    """Of a sample."""
    outputs: int
    """Numbers that a network says of a sample, or of each of its sites."""
    classes: bool
    """Whether the targets are whole numbers, which name classes."""
    scale: Standardised
    read: Callable[[Sequence[Any]], tuple[NDArray[Any], NDArray[Any]]]
    """Inputs and targets of some items."""

    @classmethod
    def of(
        cls, data: Path | list[Path], targets: Path | None, standardise: bool, outputs: int | None
    ) -> Samples:
        """Of an .npy with a row for each sample and one with their targets, or of .npz files with `inputs`
        and `targets`, of which the first one tells the shapes. Raises ValueError."""
        if isinstance(data, list):
            if not data or targets is not None:
                raise ValueError("data: expected one .npy beside `targets`, or .npz files that hold both")
            inputs, wanted = read_file(data[0])
            scale = Standardised()
            items, rows = len(data), len(inputs)
            read: Callable[[Sequence[Any]], tuple[NDArray[Any], NDArray[Any]]] = read_files
        else:
            if targets is None:
                raise ValueError("targets: expected an .npy with as many rows as data")
            inputs, wanted = (np.load(path, mmap_mode="r") for path in (data, targets))
            if len(inputs) != len(wanted):
                raise ValueError(f"data has {len(inputs)} rows, and targets {len(wanted)}")
            scale = Standardised.of(inputs) if standardise else Standardised()
            items, rows, read = len(inputs), 1, _rows_of(inputs, wanted, scale)
        classes = bool(np.issubdtype(wanted.dtype, np.integer))
        shape = tuple(inputs.shape[1:]) or (1,)
        says = outputs or (int(wanted.max()) + 1 if classes else 1 if wanted.ndim == 1 else wanted.shape[1])
        return cls(items, rows, shape, says, classes, scale, read)

    def loss(self, said: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        """Cross-entropy in nats for classes; else the mean squared error. Computed in full precision."""
        if self.classes:
            return torch.nn.functional.cross_entropy(said, wanted)
        return torch.nn.functional.mse_loss(said, wanted.view_as(said))


def _rows_of(
    inputs: NDArray[Any], targets: NDArray[Any], scale: Standardised
) -> Callable[[Sequence[Any]], tuple[NDArray[Any], NDArray[Any]]]:
    return lambda rows: (scale(inputs[rows]), targets[rows])


def read_files(files: Sequence[Path]) -> tuple[NDArray[Any], NDArray[Any]]:
    """All rows of some files, each with as many. Raises ValueError."""
    parts = [read_file(file) for file in files]
    if len({len(inputs) for inputs, _ in parts}) != 1:
        raise ValueError("data: the files differ in their numbers of rows, so that no step is like another")
    return np.concatenate([one for one, _ in parts]), np.concatenate([one for _, one in parts])


def read_file(path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    """`inputs` and `targets` of an .npz file. Raises ValueError."""
    try:
        with np.load(path) as arrays:
            return arrays["inputs"], arrays["targets"]
    except (OSError, KeyError, ValueError) as error:
        raise ValueError(f"data: expected .npz files with `inputs` and `targets`; {path}: {error}") from error


class Feed:
    """Feeds the samples of a source step by step: the same in any attempt, and in all on any mesh."""

    def __init__(self, source: Samples, batch: int, order: Order, world: Ranks, dtype: torch.dtype) -> None:
        """batch: items of a step on this rank; what is left of an epoch is not read in it. Raises
        ValueError."""
        self._each = source.items // (batch * world.mesh.data)
        if not self._each:
            raise ValueError(f"batch: {batch * world.mesh.data} are more than the {source.items} there are")
        self._source, self._batch, self._order, self._dtype = source, batch, order, dtype
        self._device = world.device
        self._epoch: tuple[int, Sequence[Any]] = (-1, ())

    def __call__(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and targets of a step, counted from 0."""
        epoch, place = divmod(step, self._each)
        if self._epoch[0] != epoch:
            self._epoch = (epoch, self._order(epoch))
        inputs, targets = self._source.read(self._epoch[1][place * self._batch : (place + 1) * self._batch])
        return tensor(inputs, self._dtype).to(self._device), tensor(targets, self._dtype).to(self._device)


def tensor(array: NDArray[Any], dtype: torch.dtype) -> torch.Tensor:
    """An array for a network: whole numbers as they are."""
    found = torch.from_numpy(np.array(array))
    return found.to(dtype if found.is_floating_point() else torch.int64)
