"""What one step of a training takes: the memory at its peak, and the bytes that a rank sends."""

from __future__ import annotations

import weakref
from typing import Any

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_NAMESPACES = ("c10d", "_c10d_functional")


class Measured(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A context that sees each operation of a step, from the outside of autograd and collectives alike.

    So it counts what the step does, and not what a formula says; the same on CPUs and GPUs. It slows the
    step that is measured, and no other.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak = 0
        """Bytes of tensors that the step made, while it held most of them: activations, gradients,
        buffers."""
        self.sent = 0.0
        """Bytes that this rank sends, if all-reduce is done in the way that needs fewest: 2 (p - 1) / p of an
        array (R. Thakur et al., Int. J. High Perform. Comput. Appl. 19, 49 (2005))."""
        self._held = 0
        self._seen: weakref.WeakSet[Any] = weakref.WeakSet()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(one not in (torch.Tensor, torch.nn.Parameter) and one.__name__ == "DTensor" for one in types):
            return NotImplemented  # what it stands for comes by itself
        if func.namespace in _NAMESPACES:
            self.sent += _sent(func._opname, args)
        made = func(*args, **(kwargs or {}))
        given = {_key(one) for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)}
        for one in tree_leaves(made):
            if isinstance(one, torch.Tensor) and _key(one) not in given:
                self._note(one.untyped_storage())
        return made

    def _note(self, storage: Any) -> None:
        if storage in self._seen or not storage.nbytes():
            return
        self._seen.add(storage)
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
    """Bytes that a rank sends in a collective."""
    arrays = [one for one in tree_leaves(args) if isinstance(one, torch.Tensor)]
    sizes = [one.numel() * one.element_size() for one in arrays]
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
    """Of the group that a collective is among."""
    for one in args:
        if isinstance(one, str) and one not in ("sum", "avg", "max", "min"):
            found: Any = getattr(dist.distributed_c10d, "_resolve_process_group")(one)  # noqa: B009
            return int(found.size())
        if isinstance(one, torch.ScriptObject) and "ProcessGroup" in str(one._type()):
            return dist.ProcessGroup.unbox(one).size()
    return dist.get_world_size()
