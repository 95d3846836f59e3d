"""Training on PyTorch for modules: exact resume, reports for a pruner, precision, reproducible numbers.

`from diel import pytorch` in a module's file. It needs the extra `torch`; nothing else of diel imports it. A
network is trained epoch by epoch, so that it can be stopped, pruned or killed at any moment.
"""

import csv
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from diel.base.errors import Interrupted
from diel.base.files import replacing
from diel.worker.context import Context

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

    def rate(self, epoch: int) -> float:
        """Return the learning rate of an epoch, from 0; the cosine is arXiv:1608.03983, without restarts.

        It depends on the epoch alone, so that no checkpoint has to keep it.
        """
        if self.schedule == "constant":
            return self.learning_rate
        return self.learning_rate * 0.5 * (1 + math.cos(math.pi * epoch / self.epochs))


def autocast(precision: str, device: torch.device) -> torch.autocast:
    """Return the context in which a network computes its products in the chosen precision."""
    half = torch.float16 if precision == "fp16" else torch.bfloat16
    return torch.autocast(device.type, dtype=half, enabled=precision in ("bf16", "fp16"))


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
    def start(cls, network: torch.nn.Module, settings: Settings) -> "Progress":
        """Begin before the first step."""
        return cls(
            network,
            settings.make_optimizer(network),
            # keeps small gradients from vanishing in half precision; does nothing in the others
            torch.amp.GradScaler(settings.device.type, enabled=settings.precision == "fp16"),
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
    """Return a network's outputs for some rows as the model's readers get them: single, on the CPU."""
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
    with autocast(settings.precision, settings.device):
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
