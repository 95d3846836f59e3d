"""MPI ranks become PyTorch processes that know each other, without a fixed address or port."""

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]

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


if TYPE_CHECKING:
    from mpi4py import MPI
    from torch.distributed.device_mesh import DeviceMesh

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
