"""The settings of a training: optimizer, device, threads, and the same numbers each time."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
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
    """Momentum of sgd."""
    weight_decay: float = 0.0
    schedule: Schedule = "constant"
    patience: int | None = None
    """Epochs without a smaller validation loss after which training stops; None for never."""
    precision: Precision = "fp32"
    seed: int = 0
    """Seed of the order of the rows, and of draws of layers such as Dropout."""

    def make_optimizer(self, network: torch.nn.Module) -> torch.optim.Optimizer:
        """Make Adam (arXiv:1412.6980), AdamW (arXiv:1711.05101) or gradient descent with momentum."""
        rate, decay = self.learning_rate, self.weight_decay
        if self.optimizer == "sgd":
            return torch.optim.SGD(network.parameters(), rate, self.momentum, weight_decay=decay)
        if self.optimizer == "adamw":
            return torch.optim.AdamW(network.parameters(), rate, weight_decay=decay)
        return torch.optim.Adam(network.parameters(), rate, weight_decay=decay)

    def make_scaler(self) -> torch.amp.GradScaler:
        """Keep small gradients from vanishing in half precision; do nothing in the others."""
        return torch.amp.GradScaler(self.device.type, enabled=self.precision == "fp16")

    def autocast(self) -> torch.autocast:
        """Return the context in which a network computes its products in the chosen precision."""
        half = torch.float16 if self.precision == "fp16" else torch.bfloat16
        return torch.autocast(self.device.type, dtype=half, enabled=self.precision != "fp32")

    def rate(self, epoch: int) -> float:
        """Return the learning rate of an epoch, from 0; the cosine is arXiv:1608.03983, without restarts.

        It depends on the epoch alone, so that no checkpoint has to keep it.
        """
        if self.schedule == "constant":
            return self.learning_rate
        return self.learning_rate * 0.5 * (1 + math.cos(math.pi * epoch / self.epochs))


def find_device(name: str, precision: str = "fp32") -> torch.device:
    """Return the device for `auto`, `cpu` or `cuda`; auto is a GPU if the task sees one.

    Raise ValueError where there is no such device, or where it cannot compute in this precision.
    """
    has_cuda = torch.cuda.is_available()
    if name == "cuda" and not has_cuda:
        raise ValueError(
            f"device: cuda, but PyTorch {torch.__version__} sees no GPU here; ask for one by "
            "`resources: {gpus_per_rank: 1}`, or write device: auto"
        )
    device = torch.device("cuda" if has_cuda and name != "cpu" else "cpu")
    if precision == "bf16" and device.type == "cuda" and not torch.cuda.is_bf16_supported(False):
        raise ValueError(f"precision: bf16 is beyond {torch.cuda.get_device_name()}; write fp16 or fp32")
    return device


@contextmanager
def reproducible() -> Iterator[None]:
    """Compute on the task's own cores, and the same numbers each time.

    The task's cores are what OMP_NUM_THREADS says, else one. Afterwards all is as before, for a worker's
    next task. Operations that PyTorch has in no deterministic form raise RuntimeError.
    """
    threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    cores = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    # read by cuBLAS when it is first used; PyTorch's notes on reproducibility ask for it
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_num_threads(int(cores) if cores.isdecimal() and int(cores) else 1)
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(strict)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the first weights of layers made here; the worker's own random numbers stay as they were."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
