"""How often what a screen found is so when it is simulated, beside what was drawn at random."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

import diel
from diel import tabular


class Confirmed(TypedDict):
    """Counts, and shares from 0 to 1."""

    found: int
    """States for which the model predicts more than 0."""
    simulated: int
    """Of them, the best ones."""
    share: float
    """Of these, that are above 0 in their simulation too; 0 where none was found."""
    drawn: int
    """Simulations at random, and of these ..."""
    base: float
    """... the share above 0."""


@diel.module(kind="analysis")
def confirmed(
    model: Path, courses: Path, drawn: list[Path], best: list[dict[str, float]], histogram: dict[str, Any]
) -> Confirmed:
    """Hold courses of simulations against what is wanted, and prints shares.

    model: of `training.course:want`, which says what is wanted
    courses: .npy of shape (states, steps), simulated for each of `best`
    drawn: .npy of simulations that were drawn at random
    best, histogram: of `inference.screen`

    Raise ValueError where the model wants nothing, or where there is not a course for each of the best.
    """
    network, simulated = tabular.Model.load(model).course, np.load(courses)
    if network is None or len(simulated) != len(best):
        raise ValueError(
            f"expected a model of training.course:want, and {len(best)} courses; found {len(simulated)}"
        )
    right = network.margins(simulated)[[state["prediction"] > 0 for state in best]] > 0
    at_random = np.concatenate([network.margins(np.load(path)) for path in drawn]) > 0
    edges = histogram["low"] + histogram["width"] * np.arange(len(histogram["counts"]))
    hits = int(np.array(histogram["counts"])[edges >= 0].sum())  # a bin begins at 0, if there is one below
    result: Confirmed = {
        "found": hits,
        "simulated": len(right),
        "share": float(right.mean()) if len(right) else 0.0,
        "drawn": len(at_random),
        "base": float(at_random.mean()),
    }
    sys.stdout.write(
        f"found {hits}; of the best {len(right)} simulation confirms {right.sum()} ({result['share']:.1%}); "
        f"at random {at_random.sum()} of {len(at_random)} are so ({result['base']:.3%})\n"
    )
    return result
