"""Trains a network that is spread over a mesh, step by step, so that it can be killed at any moment."""

import json
import math
import shutil
import sys
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.checkpoint.state_dict_loader import load as read
from torch.distributed.checkpoint.state_dict_saver import save as write
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from diel.base.errors import Interrupted
from diel.base.files import put
from diel.ml.pytorch import SAVE_EVERY, SAVE_RATIO, Settings, seeded
from diel.ml.pytorch.parallel.placed import Placed, Scaler
from diel.worker.context import Context

Steps = Callable[[int], tuple[torch.Tensor, torch.Tensor]]
"""Inputs and targets of this rank in a step, counted from 0: the same in any attempt."""
_UNTIMED = 2
"""Steps of each attempt whose time says nothing: buffers are made, and one is measured."""

_KEPT = 2
"""Checkpoints of a task: should the newest be damaged, the one before it serves."""
_NAMESPACES = ("c10d", "_c10d_functional")


@dataclass
class Advance:
    """A training's state beside the weights."""

    step: int = 0
    """Steps that are done."""
    seconds: float = 0.0
    """Seconds of training, in all attempts."""
    history: list[tuple[int, float, float]] = field(default_factory=list)
    """Step, mean loss since the row before, learning rate."""
    loss_sum: float = 0.0
    """Over the steps since then, of all ranks."""
    scaler: Scaler = field(default_factory=Scaler)

    @classmethod
    def of(cls, note: Path) -> "Advance":
        """Return the advance in a checkpoint's note. Raise ValueError."""
        try:
            record = json.loads(note.read_text(encoding="utf-8"))
            rows = [(int(step), float(loss), float(rate)) for step, loss, rate in record["history"]]
            return cls(**{**record, "history": rows, "scaler": Scaler(**record["scaler"])})
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{note} is damaged: {type(error).__name__}: {error}") from error


@dataclass(frozen=True)
class Spread:
    """The result of a training on a mesh."""

    course: Advance
    step_seconds: float
    """Median of this rank's steps in the last attempt."""
    peak: int
    """Bytes that one step made, at most at a time, on the rank that made most."""
    sent: float
    """Bytes that all ranks together sent in it."""


def train(
    placed: Placed,
    feed: Steps,
    settings: Settings,
    scaler: Scaler,
    context: Context,
    every: int,
    keep: Path,
    start: Path | None = None,
    save_every: int | None = None,
) -> Spread:
    """Train until the last step; `settings` count steps where they say epochs.

    Report `step` and `loss`, the mean over the steps since the last report, each `every` steps. Go on from
    the newest whole checkpoint of the task if the stage keeps them, else from `start`. Leave the last state
    in `keep`, for another training to go on from. Raise Interrupted when the task's time is over, and
    ValueError where the loss is not finite.
    """
    run = _Run(placed, settings, context, Advance(scaler=scaler), save_every)
    run.restore(start)
    course, times, meter = run.course, [], StepMeter()
    first = course.step
    with seeded(settings.seed):
        while course.step < settings.epochs:
            began = time.perf_counter()
            measured = course.step == min(first + 1, settings.epochs - 1)
            with meter if measured else nullcontext():
                run.step(*feed(course.step))
            spent = time.perf_counter() - began
            course.seconds += spent
            times.append(spent)
            if course.step < settings.epochs:
                if course.step % every == 0:
                    run.report()
                run.look()
    if not course.history or course.history[-1][0] < course.step:
        run.report()
    run.keep(keep)
    world = placed.world
    times = times[_UNTIMED:] or times or [0.0]
    return Spread(course, median(times), int(world.largest(meter.peak)), world.total(meter.sent))


class _Run:
    """A training under way."""

    def __init__(
        self, placed: Placed, settings: Settings, context: Context, course: Advance, save_every: int | None
    ) -> None:
        self.placed, self.settings, self.context, self.course = placed, settings, context, course
        self.optimizer = settings.make_optimizer(placed.part)
        self._losses: list[torch.Tensor] = []
        self._save_every = save_every
        self._due = time.monotonic() + SAVE_EVERY

    def restore(self, start: Path | None) -> None:
        """Go on from the state of an earlier attempt, or from `start`."""
        world, part = self.placed.world, self.placed.part
        own = world.agree(complete(self.context.checkpoint_dir) if self.context.checkpoint else [])
        first = {name: tensor.detach().clone() for name, tensor in part.state_dict().items()} if own else {}
        for folder in own:
            try:
                return self._go_on(folder)
            except ValueError as error:
                part.load_state_dict(first)
                self.optimizer = self.settings.make_optimizer(part)
                if world.rank == 0:
                    sys.stderr.write(f"a checkpoint is left out: {error}\n")
        if start is not None:
            checkpoints = world.agree(complete(start))
            if not checkpoints:
                raise ValueError(f"start: no checkpoint in {start}")
            self._go_on(checkpoints[0])

    def _go_on(self, folder: Path) -> None:
        """Go on from a checkpoint. Raise ValueError."""
        course = Advance.of(folder / NOTE)
        load(folder, self.placed, self.optimizer)
        course.scaler = self.course.scaler.after(course.scaler)
        self.course = course

    def draw(self) -> None:
        """Seed what layers such as Dropout draw, by the step alone, alike where rows and layers are."""
        place, device = self.placed.world.place, self.placed.world.device
        drawn = f"{self.settings.seed} {self.course.step} {place.data} {place.pipeline}"
        seed = int.from_bytes(
            blake2b(drawn.encode(), digest_size=4).digest()
        )  # PyTorch reads 32 bits on a CPU
        torch.default_generator.manual_seed(seed)  # torch.manual_seed takes longer than some steps
        if device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def step(self, inputs: torch.Tensor, targets: torch.Tensor) -> None:
        """Step the optimizer, unless a gradient overflows."""
        placed, scaler = self.placed, self.course.scaler
        self.draw()
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.rate(self.course.step)
        self.optimizer.zero_grad()
        placed.scale = scaler.scale
        self._losses.append(placed.gradients(inputs, targets))
        if scaler.unscale(placed.local_gradients(), placed.world):
            self.optimizer.step()
        if placed.world.device.type == "cuda":
            torch.cuda.synchronize()
        self.course.step += 1

    def report(self) -> None:
        """Tell the mean loss since the last report."""
        course = self.course
        self._gather_losses()
        last = course.history[-1][0] if course.history else 0
        mean = course.loss_sum / (course.step - last)
        course.loss_sum = 0.0
        if not math.isfinite(mean):
            raise ValueError(f"the loss is {mean:g} after step {course.step}: use a smaller learning_rate")
        course.history.append((course.step, mean, self.settings.rate(course.step - 1)))
        self.context.report(step=course.step, loss=mean)

    def _gather_losses(self) -> None:
        """Add up the losses over all ranks: the last ones of a pipeline know them."""
        world = self.placed.world
        mine = float(torch.stack(self._losses).double().sum()) if self._losses else 0.0
        self._losses.clear()
        copies = world.mesh.data * world.mesh.tensor
        self.course.loss_sum += world.total(mine if self.placed.last else 0.0) / copies

    def look(self) -> None:
        """Save if it is time to, as rank 0 finds. Raise Interrupted."""
        if not self.context.checkpoint:
            return
        world, now = self.placed.world, time.monotonic()
        due = now >= self._due if self._save_every is None else self.course.step % self._save_every == 0
        interrupted, due = world.agree((self.context.interrupted, due))
        if interrupted or due:
            folder = self.context.checkpoint_dir
            self.keep(folder / f"step-{self.course.step}")
            if world.rank == 0:
                whole = [path for path in complete(folder) if steps_of(path) <= self.course.step]
                for other in set(folder.glob("step-*")) - set(whole[:_KEPT]):
                    shutil.rmtree(other, ignore_errors=True)
            ended = time.monotonic()
            self._due = ended + max(SAVE_EVERY, SAVE_RATIO * (ended - now))
        if interrupted:
            raise Interrupted(f"{self.course.step} of {self.settings.epochs} steps are done")

    def keep(self, folder: Path) -> None:
        """Save a checkpoint."""
        self._gather_losses()
        save(folder, self.placed, self.optimizer, asdict(self.course))


class StepMeter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A context that sees each operation of a step, from the outside of autograd and collectives alike.

    So it counts what the step does, and not what a formula says; the same on CPUs and GPUs. It slows the
    step that is measured, and no other.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak = 0
        """Bytes of tensors that the step made, at its peak: activations, gradients, buffers."""
        self.sent = 0.0
        """Bytes that this rank sends, if all-reduce is done in the way that needs fewest: 2 (p - 1) / p of an
        array (R. Thakur et al., Int. J. High Perform. Comput. Appl. 19, 49 (2005))."""
        self._held = 0
        self._counted: weakref.WeakSet[Any] = weakref.WeakSet()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(t not in (torch.Tensor, torch.nn.Parameter) and t.__name__ == "DTensor" for t in types):
            return NotImplemented  # its local tensors come by themselves
        if func.namespace in _NAMESPACES:
            self.sent += _sent(func._opname, args)
        output = func(*args, **(kwargs or {}))
        inputs = {_key(t) for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)}
        for t in tree_leaves(output):
            if isinstance(t, torch.Tensor) and _key(t) not in inputs:
                self._note(t.untyped_storage())
        return output

    def _note(self, storage: Any) -> None:
        if storage in self._counted or not storage.nbytes():
            return
        self._counted.add(storage)
        self._held += storage.nbytes()
        self.peak = max(self.peak, self._held)
        weakref.finalize(storage, self._drop, storage.nbytes())

    def _drop(self, size: int) -> None:
        self._held -= size


def _key(tensor: torch.Tensor) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):  # a kind of tensor without memory of its own
        return 0


def _sent(name: str, args: Any) -> float:
    """Return the bytes that a rank sends in a collective."""
    arrays = [array for array in tree_leaves(args) if isinstance(array, torch.Tensor)]
    sizes = [array.numel() * array.element_size() for array in arrays]
    if not sizes:
        return 0.0
    if name in ("send",):
        return float(sizes[0])
    if name in ("allreduce_", "all_reduce", "all_reduce_", "allreduce_coalesced_"):
        ranks = _ranks(args)
        return 2 * (ranks - 1) / ranks * sum(sizes)
    if name in ("_allgather_base_", "_reduce_scatter_base_"):
        return float(abs(sizes[0] - sizes[1]))
    if name in ("all_gather_into_tensor", "all_gather_into_tensor_out"):
        return float(sizes[0] * (_ranks(args) - 1))
    if name == "reduce_scatter_tensor":
        ranks = _ranks(args)
        return (ranks - 1) / ranks * sizes[0]
    return 0.0


def _ranks(args: Any) -> int:
    """Count the ranks of the group that a collective is among."""
    for argument in args:
        if isinstance(argument, str) and argument not in ("sum", "avg", "max", "min"):
            group: Any = getattr(dist.distributed_c10d, "_resolve_process_group")(argument)  # noqa: B009
            return int(group.size())
        if isinstance(argument, torch.ScriptObject) and "ProcessGroup" in str(argument._type()):
            return dist.ProcessGroup.unbox(argument).size()
    return dist.get_world_size()


NOTE = "training.json"
"""The common facts of all ranks: this file of a checkpoint is written last."""
_FLAT = StateDictOptions(flatten_optimizer_state_dict=True)


def save(folder: Path, placed: Placed, optimizer: torch.optim.Optimizer, note: dict[str, Any]) -> None:
    """Leave a checkpoint, which counts once its note is there. All ranks must call it."""
    world = placed.world
    if world.rank == 0:
        shutil.rmtree(folder, ignore_errors=True)  # half of one, of an attempt that was killed
        folder.mkdir(parents=True)
    world.agree(None)
    writer = FileSystemWriter(folder, sync_files=False)
    with _quiet():
        write(_state(placed, optimizer), storage_writer=writer, no_dist=world.comm is None)
    if world.rank == 0:
        put(folder / NOTE, json.dumps(note))
    world.agree(None)


def load(folder: Path, placed: Placed, optimizer: torch.optim.Optimizer) -> None:
    """Go on from a checkpoint of any mesh. All ranks must call it, and it fails on all or on none.

    Raise ValueError for a damaged one, which may leave some of its weights, and for another network's.
    """
    if flaw := placed.world.agree(_flaw_of(folder)):
        raise ValueError(flaw)
    state = _state(placed, optimizer)
    try:
        with _quiet():
            read(state, storage_reader=FileSystemReader(folder), no_dist=placed.world.comm is None)
    except (CheckpointException, ValueError, RuntimeError) as error:
        first = "".join(str(error).strip().splitlines()[-1:])
        raise ValueError(f"{folder} is damaged, or of another network or optimizer: {first}") from error
    set_model_state_dict(placed.part, state["network"])
    set_optimizer_state_dict(placed.part, optimizer, state["optimizer"], options=_FLAT)


def _flaw_of(folder: Path) -> str:
    """Return the reason why a checkpoint's list of contents cannot be read, shorter than PyTorch's own."""
    try:
        FileSystemReader(folder).read_metadata()
    except Exception as error:  # a damaged pickle can raise anything
        return f"{folder / '.metadata'} is damaged: {type(error).__name__}: {error}"
    return ""


def complete(folder: Path) -> list[Path]:
    """Return a checkpoint itself, or those in a folder of them, the one of most steps first."""
    if (folder / NOTE).is_file():
        return [folder]
    checkpoints = [path for path in folder.glob("step-*") if (path / NOTE).is_file()]
    return sorted(checkpoints, key=steps_of, reverse=True)


def steps_of(checkpoint: Path) -> int:
    """Return the steps before a checkpoint, as its name says."""
    return int(checkpoint.name.removeprefix("step-"))


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence PyTorch, which warns a single rank that it is alone."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
        yield


def _state(placed: Placed, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    return {
        "network": get_model_state_dict(placed.part),
        "optimizer": get_optimizer_state_dict(placed.part, optimizer, options=_FLAT),
    }
