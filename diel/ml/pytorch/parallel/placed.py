"""MPI ranks become PyTorch processes that know each other, without a fixed address or port; a network is
spread over their mesh: its part on this rank, the gradients of a step, and its weights as a whole; the
numbers in which it computes, and a scale that keeps small gradients in half precision."""

import os
import socket
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.utils.checkpoint import checkpoint

from diel.ml.pytorch import autocast
from diel.ml.pytorch.parallel.networks import Chain

if TYPE_CHECKING:
    from mpi4py import MPI
    from torch.distributed.device_mesh import DeviceMesh

_AXES = ("pipeline", "data", "tensor")
"""From the axis whose neighbours exchange least to that of consecutive ranks, which exchange most."""


@dataclass(frozen=True)
class Mesh:
    """A number of parts along each axis; their product is the number of ranks."""

    data: int = 1
    """Parts of each batch."""
    pipeline: int = 1
    """Groups of layers that follow each other."""
    tensor: int = 1
    """Parts of the layers that have a `tensor_plan`."""

    @classmethod
    def of(cls, written: Mapping[str, int] | None, ranks: int) -> "Mesh":
        """Return the mesh that a user wrote, for so many ranks; `data` takes what the others leave.

        Raise ValueError for an axis that does not exist, and where the product is not the number of ranks.
        """
        written = written or {}
        unknown = sorted(written.keys() - set(_AXES))
        if unknown:
            raise ValueError(f"mesh: expected data, pipeline and tensor; found {', '.join(unknown)}")
        if any(isinstance(parts, bool) or parts < 1 for parts in written.values()):
            raise ValueError(f"mesh: expected whole numbers from 1 on; found {dict(written)}")
        rest = written.get("pipeline", 1) * written.get("tensor", 1)
        mesh = cls(**{"data": max(1, ranks // rest), **written})
        if mesh.ranks != ranks:
            product = " × ".join(f"{axis} {parts}" for axis, parts in asdict(mesh).items())
            raise ValueError(
                f"mesh: {product} are {mesh.ranks} ranks, but the task has {ranks}: "
                f"write `resources: {{ranks: {mesh.ranks}}}`, or another mesh"
            )
        return mesh

    @property
    def ranks(self) -> int:
        """All of them."""
        return self.data * self.pipeline * self.tensor

    @property
    def shape(self) -> tuple[int, int, int]:
        """In the order of AXES."""
        return self.pipeline, self.data, self.tensor

    def place(self, rank: int) -> "Mesh":
        """Return the place of a rank: its number along each axis, from 0."""
        rest, tensor = divmod(rank, self.tensor)
        pipeline, data = divmod(rest, self.data)
        return Mesh(data, pipeline, tensor)


_INTERFACE = "GLOO_SOCKET_IFNAME"


@dataclass(frozen=True)
class Ranks:
    """The ranks of a training, and the place of this one."""

    mesh: Mesh
    place: Mesh
    """This rank's number along each axis."""
    device: torch.device
    comm: "MPI.Comm | None" = None
    """None for a single rank."""
    devices: "DeviceMesh | None" = None
    """PyTorch's view of the mesh; None for a single rank."""

    @property
    def rank(self) -> int:
        """Of all."""
        return 0 if self.comm is None else self.comm.Get_rank()

    def along(self, axis: str) -> "DeviceMesh":
        """Return the ranks that differ from this one only along an axis, this one included."""
        assert self.devices is not None
        return self.devices[axis]

    def group(self, axis: str) -> dist.ProcessGroup:
        """Return the same ranks, for collectives."""
        return self.along(axis).get_group()

    def agree(self, value: Any) -> Any:
        """Return rank 0's answer, on every rank."""
        return value if self.comm is None else self.comm.bcast(value)

    def total(self, value: float) -> float:
        """Return the sum over all ranks."""
        return value if self.comm is None else self.comm.allreduce(value)

    def gather(self, value: Any) -> list[Any]:
        """Return each rank's part, in their order, on rank 0; an empty list elsewhere."""
        return [value] if self.comm is None else self.comm.gather(value) or []

    def wait(self) -> None:
        """Wait for all ranks. A thread of gloo that frees sent data needs Python, and aborts at its end."""
        if self.comm is not None:
            self.comm.Barrier()

    def largest(self, value: float) -> float:
        """Return the largest over all ranks."""
        return value if self.comm is None else max(self.comm.allgather(value))


@contextmanager
def joined(comm: "MPI.Comm | None", mesh: Mesh, device: torch.device) -> Iterator[Ranks]:
    """Join the ranks of a communicator as PyTorch's processes: NCCL between GPUs, gloo between CPUs.

    Rank 0 takes any port that is free and tells the others by MPI. On one node all of it stays on the
    loopback interface; across nodes it is as open as the cluster's network (decision 065). With several GPUs
    in sight a rank takes the one with its number on the node.
    """
    if comm is None or comm.Get_size() == 1:
        yield Ranks(mesh, mesh.place(0), device)
        return
    from mpi4py import MPI  # starts MPI, so only where there are ranks

    local = comm.Split_type(MPI.COMM_TYPE_SHARED)
    alone = local.Get_size() == comm.Get_size()
    if device.type == "cuda":
        device = torch.device("cuda", local.Get_rank() % torch.cuda.device_count())
        torch.cuda.set_device(device)
    local.Free()
    before = os.environ.get(_INTERFACE)
    loopback = next((name for _, name in socket.if_nameindex() if name in ("lo", "lo0")), None)
    if alone and loopback and before is None:
        os.environ[_INTERFACE] = loopback
    try:
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo",
            store=_meet(comm, "127.0.0.1" if alone else socket.gethostname()),
            rank=comm.Get_rank(),
            world_size=comm.Get_size(),
        )
        from torch.distributed.device_mesh import init_device_mesh  # a second, which a single rank saves

        devices = init_device_mesh(device.type, mesh.shape, mesh_dim_names=_AXES)
        yield Ranks(mesh, mesh.place(comm.Get_rank()), device, comm, devices)
    finally:
        if before is None:
            os.environ.pop(_INTERFACE, None)
        if dist.is_initialized():
            dist.destroy_process_group()


def _meet(comm: "MPI.Comm", host: str) -> TCPStore:
    """Return where all ranks find each other's addresses, at a port that rank 0's kernel chooses."""
    if comm.Get_rank() == 0:
        store = TCPStore(host, 0, comm.Get_size(), is_master=True, wait_for_workers=False)
        comm.bcast((host, store.port))
        return store
    host, port = comm.bcast(None)
    return TCPStore(host, port, comm.Get_size(), is_master=False)


Precision = Literal["fp64", "fp32", "bf16", "fp16"]
_FIRST = 2.0**16
_GROW_AFTER = 200
"""Steps without an overflow after which the loss is scaled by twice as much."""


def type_of(precision: Precision) -> torch.dtype:
    """Return the type of weights, and of all that ranks exchange: half precision is for products alone."""
    return torch.float64 if precision == "fp64" else torch.float32


@dataclass
class Scaler:
    """Multiplies the loss, and divides the gradients by the same, so that those of fp16 stay above its
    smallest number, 6e-8 (P. Micikevicius et al., arXiv:1710.03740, section 3.2).

    Where a gradient of any rank overflows all of them skip the step: `torch.amp.GradScaler` looks only at the
    gradients of its own rank, and those of a mesh are not the same.
    """

    scale: float = 1.0
    good: int = 0
    """Steps since the last overflow or growth."""
    skipped: int = 0
    """Steps of the whole training, in whatever precision it began."""
    active: bool = False
    """Whether it scales at all."""

    @classmethod
    def of(cls, precision: Precision) -> "Scaler":
        """Scale in fp16, and leave all else as it is."""
        return cls(_FIRST, active=True) if precision == "fp16" else cls()

    def after(self, other: "Scaler") -> "Scaler":
        """Return the scaler that goes on from another's scale, unless only one of the two scales."""
        return other if other.active == self.active else replace(self, skipped=other.skipped)

    def unscale(self, gradients: Iterable[torch.Tensor], world: Ranks) -> bool:
        """Divide the gradients in place; return whether they are all finite, on all ranks."""
        if not self.active:
            return True
        bad = 0.0
        for gradient in gradients:
            gradient.mul_(1 / self.scale)
            bad += float(not torch.isfinite(gradient).all())
        if world.largest(bad):
            self.scale, self.good, self.skipped = max(1.0, self.scale / 2), 0, self.skipped + 1
            return False
        self.good += 1
        if self.good == _GROW_AFTER:
            self.scale, self.good = 2 * self.scale, 0
        return True


Loss = Callable[[Tensor, Tensor], Tensor]
"""Mean over the rows of a batch."""


@dataclass(frozen=True)
class Ways:
    """How a network is spread, beside the mesh."""

    sharded: bool = False
    """Whether ranks that share the data each keep a part of the weights (FSDP) in place of all (DDP)."""
    schedule: Literal["gpipe", "1f1b"] = "1f1b"
    microbatches: int = 1
    """Of a rank's batch; a pipeline has as many on their way."""
    recompute: bool = False
    """Whether activations are computed again in the backward pass in place of being stored."""
    precision: Precision = "fp32"

    def share(self, batch: int, mesh: Mesh) -> int:
        """Return the rows of a batch for each rank. Raise ValueError where equal shares are impossible."""
        if mesh.pipeline > self.microbatches:
            raise ValueError(
                f"microbatches: a pipeline of {mesh.pipeline} needs as many at least, not {self.microbatches}"
            )
        parts = mesh.data * (self.microbatches if mesh.pipeline > 1 else 1)
        if batch % parts:
            near = max(parts, batch // parts * parts)
            raise ValueError(f"batch: {batch} samples cannot be shared out among {parts}; {near} can")
        return batch // mesh.data


class OnRank(nn.Module):
    """The layers of a chain that are on this rank, by their number in the whole chain.

    So that a weight has the same name on any mesh.
    """

    def __init__(self, layers: dict[str, nn.Module], ways: Ways, device: torch.device) -> None:
        super().__init__()
        self.layers = nn.ModuleDict(layers)
        self.ways = ways
        self.device = device

    def forward(self, *x: Tensor) -> Any:
        x = tuple(_Sent.apply(tensor) if tensor.requires_grad else tensor for tensor in x)  # type: ignore[no-untyped-call]
        with autocast(self.ways.precision, self.device):
            for layer in self.layers.values():
                again = self.ways.recompute and torch.is_grad_enabled()
                y = checkpoint(layer, *x, use_reentrant=False) if again else layer(*x)
                x = y if isinstance(y, tuple) else (y,)
        kind = type_of(self.ways.precision)
        out = tuple((tensor.to(kind) if tensor.is_floating_point() else tensor).contiguous() for tensor in x)
        return out[0] if len(out) == 1 else out


class _Sent(torch.autograd.Function):
    """What came from another rank: the gradient that goes back must lie in one piece, for gloo to send it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0].contiguous()


class Placed:
    """A network on the ranks of a world, which all have made it with the same weights."""

    def __init__(self, network: nn.Module, loss: Loss, ways: Ways, world: Ranks) -> None:
        """Raise ValueError for a network that the mesh cannot cut."""
        chain, self._prefix = _chain(network, world.mesh)
        self.world, self.ways, self._loss = world, ways, loss
        self.parameters = sum(weight.numel() for weight in network.parameters())
        mesh, place = world.mesh, world.place
        cuts = _cuts([sum(w.numel() for w in layer.parameters()) for layer in chain], mesh.pipeline)
        _check_ties(chain, cuts)
        mine = range(cuts[place.pipeline], cuts[place.pipeline + 1])
        part = OnRank({str(number): chain[number] for number in mine}, ways, world.device)
        self.part = part.to(world.device, type_of(ways.precision))
        self.first, self.last = place.pipeline == 0, place.pipeline == mesh.pipeline - 1
        if mesh.tensor > 1:
            _split(chain, self.part, world)
        self._whole = _spread(self.part, ways, world)
        self.scale = 1.0
        """The factor of the loss before the gradients are computed."""
        self._pipeline = None if mesh.pipeline == 1 else _pipeline(self._whole, self._scaled, ways, world)

    def gradients(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Leave each weight's gradient of the mean loss over all ranks' batches; return this rank's share.

        The first ranks of a pipeline read the inputs, the last ones the targets. The share is the mean loss
        over this rank's rows, and 0 where a later rank knows it.
        """
        if self._pipeline is not None:
            losses: list[Tensor] = []
            batch = (inputs,) if self.first else ()
            options = {"target": targets, "losses": losses} if self.last else {}
            self._pipeline.step(*batch, **options)
            loss = torch.stack(losses).mean() if losses else torch.zeros((), device=self.world.device)
        else:
            loss = self._scaled(self._whole(inputs), targets)
            loss.backward()  # type: ignore[no-untyped-call]
        if self.world.mesh.data > 1 and self.world.mesh.tensor > 1 and not self.ways.sharded:
            self._average()
        return loss.detach() / self.scale

    def local_gradients(self) -> Iterator[Tensor]:
        """Yield the gradients of this rank's share of the weights."""
        return (_local(weight.grad) for weight in self.part.parameters() if weight.grad is not None)

    def local_weights(self) -> Iterator[Tensor]:
        """Return the weights that this rank keeps."""
        return (_local(weight) for weight in self.part.parameters())

    def weights(self) -> dict[str, Tensor] | None:
        """Return all weights by their names in the network, on rank 0's CPU alone. All ranks must call it."""
        mine = {
            name.removeprefix(self._prefix): (
                value.full_tensor() if hasattr(value, "full_tensor") else value
            ).cpu()
            for name, value in self.part.state_dict().items()
        }
        place = self.world.place
        shares = self.world.gather(mine if place.data == place.tensor == 0 else None)
        if self.world.rank:
            return None
        return {name: value for part in shares if part for name, value in part.items()}

    def _scaled(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self._loss(outputs, targets) * self.scale

    def _average(self) -> None:
        """Average the gradients of split weights as DDP would, which does not take such weights."""
        gradients = list(self.local_gradients())
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        torch.distributed.all_reduce(flat, group=self.world.group("data"))
        flat /= self.world.mesh.data
        at = 0
        for gradient in gradients:
            gradient.copy_(flat[at : at + gradient.numel()].view_as(gradient))
            at += gradient.numel()


def _local(tensor: Tensor) -> Tensor:
    local: Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return local


def _chain(network: nn.Module, mesh: Mesh) -> tuple[list[nn.Module], str]:
    """Return the layers of a network, and the prefix of their names on a rank.

    A module with a `forward` of its own is one layer, whatever it is made of.
    """
    if isinstance(network, nn.Sequential) and type(network).forward in (nn.Sequential.forward, Chain.forward):
        return list(network), "layers."
    if mesh.pipeline > 1:
        raise ValueError(
            "mesh: a pipeline takes a torch.nn.Sequential, whose layers follow each other, and "
            f"{type(network).__name__} has a `forward` of its own"
        )
    return [network], "layers.0."


def _cuts(sizes: list[int], parts: int) -> list[int]:
    """Return the cuts of a chain into parts of about as many weights each, and one layer at least."""
    if len(sizes) < parts:
        raise ValueError(
            f"mesh: a pipeline of {parts} needs as many layers, and the network has {len(sizes)}"
        )
    before = [0, *accumulate(size + 1 for size in sizes)]
    cuts = [0]
    for part in range(1, parts):
        free = range(cuts[-1] + 1, len(sizes) - (parts - part) + 1)
        cuts.append(min(free, key=lambda place: abs(before[place] - before[-1] * part / parts)))
    return [*cuts, len(sizes)]


def _check_ties(chain: list[nn.Module], cuts: list[int]) -> None:
    """Raise ValueError where parts of a pipeline share a weight: each would train its own."""
    held: dict[nn.Parameter, int] = {}
    for number, layer in enumerate(chain):
        for weight in layer.parameters():
            other = held.setdefault(weight, number)
            if bisect(cuts, other) != bisect(cuts, number):
                raise ValueError(
                    f"mesh: layers {other} and {number} share a weight, and a pipeline of {len(cuts) - 1} "
                    "would put them on different ranks"
                )


def _split(chain: list[nn.Module], part: OnRank, world: Ranks) -> None:
    """Split the layers that have a `tensor_plan` over the ranks of the tensor axis."""
    # a second that only those who split pay
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    parts = world.mesh.tensor
    planned: list[Any] = [
        module for layer in chain for module in layer.modules() if hasattr(module, "tensor_plan")
    ]
    if not planned:
        raise ValueError("mesh: tensor splits layers with a `tensor_plan`, and the network has none")
    held = Counter(p for module in nn.ModuleList(chain).modules() for p in _of(module))
    for module in planned:
        kind = type(module).__name__
        for linear in map(module.get_submodule, module.tensor_plan):
            if any(held[p] > 1 for p in (linear, *_of(linear))):
                raise ValueError(
                    f"mesh: tensor cannot split a {kind} that shares a weight with another layer"
                )
        if module.tensor_units % parts:
            raise ValueError(
                f"mesh: tensor {parts} does not divide the {module.tensor_units} units of a {kind}"
            )
    styles = {"columns": ColwiseParallel, "rows": RowwiseParallel}
    plan = {
        f"{name}.{linear}": styles[how]()
        for name, module in part.named_modules()
        for linear, how in getattr(module, "tensor_plan", {}).items()
    }
    if plan:
        parallelize_module(part, world.along("tensor"), plan)


def _of(module: nn.Module) -> Iterator[nn.Module | nn.Parameter]:
    """Yield the modules in a module, and the weights beside them."""
    yield from module.children()
    yield from module.parameters(recurse=False)


def _spread(part: OnRank, ways: Ways, world: Ranks) -> nn.Module:
    """Average the gradients over the ranks that share the data."""
    if world.mesh.data == 1:
        return part
    if ways.sharded:
        from torch.distributed.fsdp import fully_shard  # half a second that only those who shard pay

        held = Counter(weight for layer in part.layers.values() for weight in layer.parameters())
        for layer in part.layers.values():
            # layers that share a weight must be in one group, which is then that of the whole part
            if any(True for _ in layer.parameters()) and all(held[p] == 1 for p in layer.parameters()):
                fully_shard(layer, mesh=world.along("data"))
        fully_shard(part, mesh=world.along("data"))
        return part
    if world.mesh.tensor > 1 or not any(True for _ in part.parameters()):
        return part
    devices = [world.device] if world.device.type == "cuda" else None
    return nn.parallel.DistributedDataParallel(part, device_ids=devices, process_group=world.group("data"))


def _pipeline(part: nn.Module, loss: Loss, ways: Ways, world: Ranks) -> Any:
    # half a second that only those with a pipeline pay
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    place, mesh = world.place, world.mesh
    stage = PipelineStage(part, place.pipeline, mesh.pipeline, world.device, group=world.group("pipeline"))
    kind = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}[ways.schedule]
    return kind(stage, ways.microbatches, loss_fn=loss)
