"""Fields as means over blocks, stored in few bytes with a bound on their error."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import numpy as np

import diel

if TYPE_CHECKING:
    from pydantic import Field


class Coarsened(TypedDict):
    """The stored fields, and how much smaller they are."""

    stored: Path
    """.npz, deflated: `places`, whole numbers of shape (states, rows, columns), the `bound` and the `factor`.
    A mean is places × 2 × bound, and off by the bound at most."""
    bytes: int
    """Of that file."""
    raw_bytes: int
    """Of the fields in single precision."""
    fine_bytes: int
    """Of the whole fields, stored in the same way with the same bound at each point."""


@diel.module(kind="analysis")
def coarsened(
    fields: Path,
    bound: Annotated[float, Field(gt=0)],
    context: diel.Context,
    factor: Annotated[int, Field(ge=2)] = 4,
) -> Coarsened:
    """Take means over blocks, and round them to multiples of twice the bound.

    fields: .npy of shape (states, rows, columns)
    bound: on the error of a mean, in the fields' units
    factor: points along a side of a block

    Raise ValueError where blocks do not fill the fields.
    """
    fine = np.load(fields)
    count, rows, columns = fine.shape
    if rows % factor or columns % factor:
        raise ValueError(f"blocks of {factor} × {factor} do not fill fields of {rows} × {columns}")
    blocks = fine.astype(float).reshape(count, rows // factor, factor, columns // factor, factor)
    stored, whole = context.task_dir / "stored.npz", context.task_dir / "whole.npz"
    sizes = []
    for path, values in ((stored, blocks.mean(axis=(2, 4))), (whole, fine)):
        places = np.rint(values / (2 * bound)).astype(np.int32)
        np.savez_compressed(path, places=places, bound=bound, factor=factor)
        sizes.append(path.stat().st_size)
    whole.unlink()
    small, large = sizes
    raw = fine.astype(np.float32).nbytes
    return {"stored": stored, "bytes": small, "raw_bytes": raw, "fine_bytes": large}
