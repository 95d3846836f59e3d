"""What a network learns from: rows of inputs and what it should say of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Rows:
    """Inputs of shape (rows, ...) and what the network should say of them, shape (rows, ...)."""

    inputs: torch.Tensor
    """Of any type of number: a batch becomes float32 on its way to the network."""
    targets: torch.Tensor

    def take(self, rows: torch.Tensor, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """Some of the rows, on the device."""
        return self.inputs[rows].to(device).float(), self.targets[rows].to(device)

    def __len__(self) -> int:
        return len(self.targets)


def split(rows: int, held_out: float, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The rows to train on and the rows held out (a share, at least one), drawn at random, in order."""
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    count = min(max(1, round(held_out * rows)), rows - 1)
    return order[count:].sort().values, order[:count].sort().values


def r2(observed: torch.Tensor, predicted: torch.Tensor) -> float:
    """Coefficient of determination: 1 less the squared errors by the squared distances from the mean.

    Where all observed values are equal it is 1 for a perfect prediction, and 0 for any other.
    """
    missed = float(torch.sum((observed - predicted) ** 2))
    spread = float(torch.sum((observed - observed.mean()) ** 2))
    return 1 - missed / spread if spread else float(missed == 0)
