"""A training under way, and the checkpoint that it continues from."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import torch

from diel.context import Context
from diel.errors import Interrupted
from diel.files import replacing
from diel.pytorch.settings import Settings

HISTORY = ("epoch", "loss", "validation_loss", "learning_rate")
"""The columns of a history."""
SAVE_EVERY = 1.0
"""The fewest seconds between two checkpoints."""
SAVE_RATIO = 20.0
"""The same in units of the time that saving one takes: a twentieth of the time at most goes into it."""


@dataclass(frozen=True)
class Best:
    """The epoch with the smallest validation loss so far."""

    epoch: int
    loss: float
    validation_loss: float
    weights: dict[str, torch.Tensor]
    """The network's state, on the CPU."""


@dataclass
class Progress:
    """A training under way: its next step depends on nothing else."""

    network: torch.nn.Module
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    shuffle: torch.Tensor
    """State of the random numbers before they draw this epoch's order of the rows."""
    loss_sum: torch.Tensor
    """Over this epoch's rows so far: on the device, so that no step waits for it."""
    epoch: int = 0
    """Whole epochs so far."""
    position: int = 0
    """Rows of the epoch after these that are done."""
    best: Best | None = None
    history: list[tuple[float, ...]] = field(default_factory=list)
    """A row of HISTORY for each epoch."""
    seconds: float = 0.0
    """Seconds of training, in all attempts."""

    @classmethod
    def start(cls, network: torch.nn.Module, settings: Settings) -> Progress:
        """Begin before the first step."""
        return cls(
            network,
            settings.make_optimizer(network),
            settings.make_scaler(),
            torch.Generator().manual_seed(settings.seed).get_state(),
            torch.zeros((), dtype=torch.float64, device=settings.device),
        )

    def state(self) -> dict[str, Any]:
        """Return only tensors, numbers and texts: reading them back runs no code.

        The global random numbers are among them, for layers that draw some, such as Dropout.
        """
        best = self.best
        device = self.loss_sum.device
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "shuffle": self.shuffle,
            "random": torch.get_rng_state(),
            "random_on_gpu": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
            "loss_sum": self.loss_sum,
            "epoch": self.epoch,
            "position": self.position,
            "best": None if best is None else [best.epoch, best.loss, best.validation_loss, best.weights],
            "history": self.history,
            "seconds": self.seconds,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a result of `state`."""
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.shuffle = state["shuffle"]
        torch.set_rng_state(state["random"])
        if state["random_on_gpu"] is not None and self.loss_sum.device.type == "cuda":
            torch.cuda.set_rng_state(state["random_on_gpu"], self.loss_sum.device)
        self.loss_sum.copy_(state["loss_sum"])
        self.epoch, self.position = state["epoch"], state["position"]
        self.best = None if state["best"] is None else Best(*state["best"])
        self.history, self.seconds = state["history"], state["seconds"]


class Saver:
    """Saves the state of a training: when the task is interrupted, and in between in case of a kill."""

    def __init__(self, progress: Progress, context: Context) -> None:
        self.progress = progress
        self.context = context
        self.path = context.checkpoint_dir / "training.pt" if context.checkpoint else None
        if self.path is not None and self.path.exists():
            progress.restore(torch.load(self.path, map_location="cpu", weights_only=True))
        self._began = time.monotonic() - progress.seconds
        self._due = time.monotonic() + SAVE_EVERY

    def tick(self) -> None:
        """Bring the time up to date."""
        self.progress.seconds = time.monotonic() - self._began

    def look(self) -> None:
        """Save if due; called after every step but the last. Raise Interrupted."""
        if self.path is None:
            return
        interrupted = self.context.interrupted
        started = time.monotonic()
        if interrupted or started >= self._due:
            self.tick()
            with replacing(self.path) as file:
                torch.save(self.progress.state(), file)
            ended = time.monotonic()
            self._due = ended + max(SAVE_EVERY, SAVE_RATIO * (ended - started))
        if interrupted:
            raise Interrupted(f"{self.progress.epoch} epochs and {self.progress.position} rows are done")
