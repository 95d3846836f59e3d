"""Trains a network, epoch by epoch, so that it can be stopped, pruned or killed at any moment."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from diel.context import Context
from diel.pytorch.progress import HISTORY, Best, Progress, Saver
from diel.pytorch.settings import Settings, seeded

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Mean loss over some rows, from the network's outputs of shape (rows, ...) and the targets."""


@dataclass(frozen=True)
class Rows:
    """Inputs of shape (rows, ...) and what the network should predict, shape (rows, ...)."""

    inputs: torch.Tensor
    """Of any type of number: a batch becomes float32 on its way to the network."""
    targets: torch.Tensor

    def take(self, rows: torch.Tensor, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """Return some of the rows, on the device."""
        return self.inputs[rows].to(device).float(), self.targets[rows].to(device)

    def __len__(self) -> int:
        return len(self.targets)


def split(rows: int, held_out: float, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the rows to train on and the rows held out (a share, at least one), drawn at random."""
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    count = min(max(1, round(held_out * rows)), rows - 1)
    return order[count:].sort().values, order[:count].sort().values


def classes(targets: Any, rows: int) -> torch.Tensor:
    """Return the class of each row, counted from 0. Raise ValueError for anything else."""
    kind = f"{targets.dtype} of shape {targets.shape}"
    if targets.dtype.kind in "biuf" and targets.shape == (rows,):
        numbers = torch.tensor(targets, dtype=torch.float64)
        whole = numbers.long()
        if torch.equal(whole.double(), numbers) and bool((whole >= 0).all()):
            return whole
        kind += f" from {targets.min():g} to {targets.max():g}"
    raise ValueError(
        f"targets: expected a class for each of {rows} rows, whole numbers from 0 on; found {kind}"
    )


def r2(observed: torch.Tensor, predicted: torch.Tensor) -> float:
    """Return the coefficient of determination: 1 - squared errors / squared distances from the mean.

    Where all observed values are equal it is 1 for a perfect prediction, and 0 for any other.
    """
    missed = float(torch.sum((observed - predicted) ** 2))
    spread = float(torch.sum((observed - observed.mean()) ** 2))
    return 1 - missed / spread if spread else float(missed == 0)


@dataclass(frozen=True)
class Trained:
    """The result of a training; the network has the best epoch's weights."""

    best: Best
    epochs: int
    """Epochs trained; the best one may be earlier."""
    seconds: float
    """Seconds of training, all attempts together."""
    history: list[tuple[float, ...]]
    """A row of HISTORY for each epoch."""

    def save_history(self, path: Path) -> Path:
        """Write the history as CSV."""
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(HISTORY)
            writer.writerows(self.history)
        return path


def train(
    network: torch.nn.Module, rows: Rows, held_out: Rows, loss: Loss, settings: Settings, context: Context
) -> Trained:
    """Train a network that is on the device already, until the last epoch or the end of patience.

    Report `epoch`, `loss` (mean over the epoch's rows while they were trained on) and `validation_loss`
    (over the held-out rows, after the epoch) after each epoch. Where the stage keeps checkpoints, go on
    from where an earlier attempt at the task was, and end with the very numbers of an undisturbed one.
    Raise Interrupted when the task's time is over, and ValueError where the loss is not finite.
    """
    progress = Progress.start(network, settings)
    with seeded(settings.seed):
        saver = Saver(progress, context)
        while True:
            mean = _epoch(progress, rows, loss, settings, saver)
            best = _judge(progress, mean, held_out, loss, settings)
            context.report(epoch=progress.epoch, loss=mean, validation_loss=progress.history[-1][2])
            stale = settings.patience is not None and progress.epoch - best.epoch >= settings.patience
            if stale or progress.epoch >= settings.epochs:
                break
            saver.look()
    saver.tick()
    network.load_state_dict(best.weights)
    return Trained(best, progress.epoch, progress.seconds, progress.history)


def outputs(network: torch.nn.Module, inputs: torch.Tensor, batch: int, device: torch.device) -> torch.Tensor:
    """Return a network's outputs for some rows, in single precision on the CPU, as the model's readers get
    them."""
    network.eval()
    with torch.no_grad():
        return torch.cat([network(part.to(device).float()).cpu() for part in torch.split(inputs, batch)])


def _epoch(progress: Progress, rows: Rows, loss: Loss, settings: Settings, saver: Saver) -> float:
    """Train the rest of an epoch, without the rows of an earlier attempt; return its mean loss."""
    generator = torch.Generator()
    generator.set_state(progress.shuffle)
    order = torch.randperm(len(rows), generator=generator)
    for group in progress.optimizer.param_groups:
        group["lr"] = settings.rate(progress.epoch)
    progress.network.train()
    while progress.position < len(rows):
        chosen = order[progress.position : progress.position + settings.batch]
        _step(progress, *rows.take(chosen, settings.device), loss, settings)
        progress.position += len(chosen)
        if progress.position < len(rows):
            saver.look()
    mean = float(progress.loss_sum) / len(rows)
    progress.loss_sum.zero_()
    progress.shuffle = generator.get_state()
    progress.epoch, progress.position = progress.epoch + 1, 0
    return mean


def _step(
    progress: Progress, inputs: torch.Tensor, targets: torch.Tensor, loss: Loss, settings: Settings
) -> None:
    with settings.autocast():
        predictions = progress.network(inputs)
    lost = loss(predictions.float(), targets)  # in single precision: squares soon leave the range of fp16
    progress.optimizer.zero_grad()
    progress.scaler.scale(lost).backward()  # type: ignore[no-untyped-call]
    progress.scaler.step(progress.optimizer)
    progress.scaler.update()
    progress.loss_sum += lost.detach().double() * len(targets)


def _judge(progress: Progress, mean: float, held_out: Rows, loss: Loss, settings: Settings) -> Best:
    """Return the best epoch, after the validation of the last one. Raise ValueError."""
    predictions = outputs(progress.network, held_out.inputs, settings.batch, settings.device)
    validation_loss = float(loss(predictions, held_out.targets.cpu()))
    if not math.isfinite(mean) or not math.isfinite(validation_loss):
        other = "" if settings.precision == "fp32" else ", or precision: fp32"
        raise ValueError(
            f"the loss is {mean:g}, in validation {validation_loss:g}, after epoch {progress.epoch}: "
            f"use a smaller learning_rate{other}"
        )
    rate = settings.rate(progress.epoch - 1)
    progress.history.append((progress.epoch, mean, validation_loss, rate))
    if progress.best is None or validation_loss < progress.best.validation_loss:
        weights = {name: tensor.cpu().clone() for name, tensor in progress.network.state_dict().items()}
        progress.best = Best(progress.epoch, mean, validation_loss, weights)
    return progress.best
