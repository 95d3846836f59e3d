"""Samples in two parts: one to train on, and one to judge the training by."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

import diel


class HeldOut(TypedDict):
    """Both parts, in the order of the samples."""

    data: NDArray[Any]
    targets: NDArray[Any]
    unseen: NDArray[Any]
    unseen_targets: NDArray[Any]


@diel.module(kind="analysis")
def held_out(
    data: NDArray[Any],
    targets: NDArray[Any],
    share: Annotated[float, Field(gt=0, lt=1)] = 0.25,
    most: Annotated[int, Field(ge=1)] | None = None,
    seed: Annotated[int, Field(ge=0, lt=4294967296)] = 0,
) -> HeldOut:
    """Hold out a share of the rows, drawn at random.

    data, targets: each of shape (rows, ...)
    share: of the rows that are held out, one at least
    most: rows to train on, the first of those drawn; all that are left where absent
    seed: of the draw; the held-out rows are the same for any `most`

    Raise ValueError where data and targets do not have as many rows, or too few.
    """
    if len(data) != len(targets) or len(data) < 2:
        counts = f"{len(data)} and {len(targets)}"
        raise ValueError(f"expected a target for each of two rows or more; found {counts}")
    order = np.random.default_rng(seed).permutation(len(data))
    count = min(max(1, round(share * len(data))), len(data) - 1)
    held, rows = np.sort(order[:count]), np.sort(order[count:][:most])
    unseen, unseen_targets = data[held], targets[held]
    return {"data": data[rows], "targets": targets[rows], "unseen": unseen, "unseen_targets": unseen_targets}
