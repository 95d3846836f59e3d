"""Where and how PyTorch computes: device, threads, and the same numbers each time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def find_device(asked: str, precision: str = "fp32") -> torch.device:
    """The device for `auto`, `cpu` or `cuda`; auto is a GPU where the task sees one.

    Raises ValueError where there is no such device, or where it cannot compute in this precision.
    """
    found = torch.cuda.is_available()
    if asked == "cuda" and not found:
        raise ValueError(
            f"device: cuda, but PyTorch {torch.__version__} sees no GPU here; ask for one by "
            "`resources: {gpus_per_rank: 1}`, or write device: auto"
        )
    device = torch.device("cuda" if found and asked != "cpu" else "cpu")
    if precision == "bf16" and device.type == "cuda" and not torch.cuda.is_bf16_supported(False):
        raise ValueError(f"precision: bf16 is beyond {torch.cuda.get_device_name()}; write fp16 or fp32")
    return device


@contextmanager
def reproducible() -> Iterator[None]:
    """Computes on the task's own cores, and the same numbers each time.

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
    """The first weights of layers made here follow from the seed; the worker's own random numbers stay."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
