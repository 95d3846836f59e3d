"""How a network is trained, whatever network it is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch

Optimizer = Literal["adam", "adamw", "sgd"]
Schedule = Literal["constant", "cosine"]
Precision = Literal["fp32", "bf16", "fp16"]


@dataclass(frozen=True)
class Settings:
    """What `train` follows; a module takes them as its parameters."""

    learning_rate: float
    epochs: int
    """At most."""
    batch: int
    """Rows in a gradient step."""
    device: torch.device
    optimizer: Optimizer = "adam"
    momentum: float = 0.9
    """Of sgd."""
    weight_decay: float = 0.0
    schedule: Schedule = "constant"
    patience: int | None = None
    """Epochs without a smaller validation loss after which training stops; None for never."""
    precision: Precision = "fp32"
    seed: int = 0
    """Of the order of the rows."""

    def make_optimizer(self, network: torch.nn.Module) -> torch.optim.Optimizer:
        """Adam (arXiv:1412.6980), AdamW (arXiv:1711.05101) or gradient descent with momentum."""
        rate, decay = self.learning_rate, self.weight_decay
        if self.optimizer == "sgd":
            return torch.optim.SGD(network.parameters(), rate, self.momentum, weight_decay=decay)
        if self.optimizer == "adamw":
            return torch.optim.AdamW(network.parameters(), rate, weight_decay=decay)
        return torch.optim.Adam(network.parameters(), rate, weight_decay=decay)

    def make_scaler(self) -> torch.amp.GradScaler:
        """Keeps small gradients from vanishing in half precision; does nothing in the others."""
        return torch.amp.GradScaler(self.device.type, enabled=self.precision == "fp16")

    def autocast(self) -> torch.autocast:
        """In which a network computes its products in the precision asked for."""
        half = torch.float16 if self.precision == "fp16" else torch.bfloat16
        return torch.autocast(self.device.type, dtype=half, enabled=self.precision != "fp32")

    def rate(self, epoch: int) -> float:
        """The learning rate of an epoch, counted from 0; the cosine is arXiv:1608.03983, without restarts.

        It depends on the epoch alone, so that no checkpoint has to keep it.
        """
        if self.schedule == "constant":
            return self.learning_rate
        return self.learning_rate * 0.5 * (1 + math.cos(math.pi * epoch / self.epochs))
