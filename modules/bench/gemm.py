"""How fast a node multiplies square matrices by NumPy's BLAS: the kernel of dense linear algebra."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

import numpy as np

import diel

if TYPE_CHECKING:  # diel reads annotations as text
    from pydantic import Field

LEAST = 3
"""Products that are timed at least."""


class Gemm(TypedDict):
    """What was measured."""

    gflops: float
    """10⁹ floating-point operations a second (2 size³ for a product) of the fastest one, which was disturbed
    the least."""
    median_gflops: float
    """Of the median one; far below `gflops` on a machine that is shared or throttled."""
    products: int
    """How many were timed."""
    residual: float
    """|C x - A (B x)| / |C x| for a random x: some rounding, else the machine multiplies wrongly."""


@diel.module(kind="analysis")
def gemm(
    size: Annotated[int, Field(ge=2, le=65536)] = 1024,
    precision: Literal["double", "single"] = "double",
    seconds: Annotated[float, Field(gt=0, le=3600)] = 1.0,
) -> Gemm:
    """Multiply square matrices again and again.

    size: rows and columns; small ones (256) fit a core's cache, large ones (4096) need memory
    precision: of the numbers, `double` (8 bytes) or `single` (4)
    seconds: how long products are timed, after one that is not

    On as many threads as the task has cores (OMP_NUM_THREADS, which diel sets).
    """
    draw = np.random.default_rng(0)
    kind: Any = np.float64 if precision == "double" else np.float32
    a, b = (draw.standard_normal((size, size)).astype(kind) for _ in range(2))
    c = a @ b  # starts the threads, and touches the memory
    times: list[float] = []
    until = time.perf_counter() + seconds
    while len(times) < LEAST or time.perf_counter() < until:
        began = time.perf_counter()
        np.matmul(a, b, out=c)
        times.append(time.perf_counter() - began)
    x = draw.standard_normal(size).astype(kind)
    expected = c @ x
    residual = float(np.linalg.norm(expected - a @ (b @ x)) / np.linalg.norm(expected))
    work = 2e-9 * size**3
    return {
        "gflops": work / min(times),
        "median_gflops": work / median(times),
        "products": len(times),
        "residual": residual,
    }
