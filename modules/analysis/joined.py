"""A check that parts which were computed separately equal the whole."""

from __future__ import annotations

import sys
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

import diel

Field = NDArray[Any]
"""Numbers, of one or more dimensions."""


class JoinedRows(TypedDict):
    """Parts beside the whole."""

    largest_difference: float
    """Of any two values at the same place; 0 where parts and whole are equal in every bit."""
    values: int
    """Places that were compared."""


@diel.module(kind="analysis")
def joined(parts: list[Field], whole: Field, axis: int = -1) -> JoinedRows:
    """Put parts together, compare them with the whole, and print the largest difference.

    parts: arrays, in their order along `axis`
    axis: the dimension along which the whole was cut; the last one by default

    Raise ValueError where the parts do not make an array of the whole's shape, or a value is not finite.
    """
    together = np.concatenate(parts, axis=axis)
    if together.shape != whole.shape:
        raise ValueError(f"the parts make an array of shape {together.shape}; the whole has {whole.shape}")
    for name, field in (("the parts", together), ("the whole", whole)):
        if not np.isfinite(field).all():
            raise ValueError(f"{name} hold a value that is not finite")
    difference = float(np.abs(together - whole).max(initial=0.0))
    counts = f"{len(parts)} parts, {whole.size} values"
    sys.stdout.write(f"{counts}: the largest difference from the whole is {difference:g}\n")
    return {"largest_difference": difference, "values": int(whole.size)}
