"""The distance of a surrogate from simulations that it never saw."""

from __future__ import annotations

import math
import sys
from statistics import fmean
from typing import TypedDict

import diel


class SurrogateReport(TypedDict):
    """Errors in the units of the predicted property."""

    states: int
    mean_absolute_error: float
    root_mean_square_error: float
    largest_error: float
    relative_error: float
    """Mean absolute error, by the mean absolute simulated value."""


@diel.module(kind="analysis")
def surrogate_report(
    states: dict[str, list[float]],
    simulated: list[float],
    predicted: list[float],
    error: list[float] | None = None,
    name: str = "value",
) -> SurrogateReport:
    """Compare predictions with simulations of the same states, and print them side by side.

    states: what tells the states apart, as columns of equal length
    simulated, predicted: one value a state
    error: standard errors of the simulated values
    name: of the property, for the table

    Raise ValueError where the lists differ in length or are empty.
    """
    lists = {**states, "simulated": simulated, "predicted": predicted}
    if error is not None:
        lists["error"] = error
    for column, values in lists.items():
        if len(values) != len(simulated) or not values:
            raise ValueError(
                f"expected a value a state in each list, at least one; "
                f"'{column}' has {len(values)}, 'simulated' has {len(simulated)}"
            )
    distances = [abs(p - s) for p, s in zip(predicted, simulated, strict=True)]
    absolute, squared = fmean(distances), fmean(d * d for d in distances)
    size = fmean(map(abs, simulated))
    result: SurrogateReport = {
        "states": len(simulated),
        "mean_absolute_error": absolute,
        "root_mean_square_error": math.sqrt(squared),
        "largest_error": max(distances),
        "relative_error": absolute / size if size else 0.0,
    }
    widths = [max(len(column), 9) for column in lists]
    lines = ["  ".join(column.rjust(width) for column, width in zip(lists, widths, strict=True))]
    for row in zip(*lists.values(), strict=True):
        lines.append("  ".join(f"{value:{width}.4f}" for value, width in zip(row, widths, strict=True)))
    lines.append(
        f"{name} of {len(simulated)} states that the surrogate never saw: mean absolute error "
        f"{absolute:.4f} ({result['relative_error']:.2%}), largest {result['largest_error']:.4f}"
    )
    sys.stdout.write("\n".join(lines) + "\n")
    return result
