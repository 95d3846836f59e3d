"""How often simulations confirm the best states of a screen, beside states that were drawn at random."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

import diel
from diel import tabular


class Confirmation(TypedDict):
    """Counts, and shares from 0 to 1."""

    found: int
    """States for which the model predicts more than 0."""
    simulated: int
    """Of them, the best ones."""
    share: float
    """Of the simulated states, above 0 in their simulation too; 0 where no state was simulated."""
    drawn: int
    """Simulations of states drawn at random."""
    base: float
    """Share of the drawn states above 0."""


@diel.module(kind="analysis")
def confirmed(
    model: Path, courses: Path, drawn: list[Path], best: list[dict[str, float]], histogram: dict[str, Any]
) -> Confirmation:
    """Hold courses of simulations against the zones of the model, and print shares.

    model: of `training.course:want`, which holds the zones
    courses: .npy of shape (states, steps), simulated for each of `best`
    drawn: .npy of simulations that were drawn at random
    best, histogram: of `inference.screen`

    Raise ValueError where the model has no zones, or where courses and best states differ in number.
    """
    network, simulated = tabular.Model.load(model).course, np.load(courses)
    if network is None or len(simulated) != len(best):
        expected = f"expected a model of training.course:want, and {len(best)} courses"
        raise ValueError(f"{expected}; found {len(simulated)}")
    right = network.margins(simulated)[[state["prediction"] > 0 for state in best]] > 0
    at_random = np.concatenate([network.margins(np.load(path)) for path in drawn]) > 0
    edges = histogram["low"] + histogram["width"] * np.arange(len(histogram["counts"]))
    hits = int(np.array(histogram["counts"])[edges >= 0].sum())  # a bin begins at 0, if there is one below
    result: Confirmation = {
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
