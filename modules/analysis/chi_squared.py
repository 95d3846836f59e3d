"""Simulations against known values, by χ²."""

from __future__ import annotations

import sys
from typing import Annotated, TypedDict

from pydantic import Field
from scipy.special import chdtrc

import diel


class ChiSquared(TypedDict):
    """The distance of simulations and a surrogate from known values."""

    chi2: float
    """Sum of the simulations' squared deviations, each by its standard error."""
    degrees: int
    """Of freedom: as many as values, for nothing was fitted. χ² is near it where the errors are right."""
    probability: float
    """Of a χ² as large or larger, were the errors normal and right."""
    largest_deviation: float
    """Of the simulations, relative."""
    surrogate_deviation: float | None
    """Largest relative deviation of the predictions; null without any."""


@diel.module(kind="analysis")
def chi_squared(
    states: dict[str, list[float]],
    known: Annotated[list[float], Field(min_length=1)],
    simulated: list[float],
    error: list[float],
    predicted: list[float] | None = None,
    name: str = "value",
) -> ChiSquared:
    """Compare simulations, and predictions of a surrogate, with known values, and print them side by side.

    states: what tells the states apart, as columns of equal length
    known: the right values, none of them 0
    simulated, error: one value a state, and its standard error
    predicted: one value a state
    name: of the property, for the table

    χ² as in W. H. Press et al., Numerical Recipes (3rd ed., 2007), section 15.1. Raise ValueError where
    lists differ in length, a known value is 0, or an error is not above 0.
    """
    columns = {**states, "known": known, "simulated": simulated, "error": error}
    if predicted is not None:
        columns["predicted"] = predicted
    for column, values in columns.items():
        if len(values) != len(known):
            raise ValueError(f"expected {len(known)} values of '{column}'; found {len(values)}")
    if not min(error) > 0:
        raise ValueError("expected standard errors above 0: simulate for longer, or other states")
    if not all(known):
        raise ValueError("a known value is 0: deviations are relative to it")
    chi2 = sum(((s - k) / e) ** 2 for s, k, e in zip(simulated, known, error, strict=True))
    result: ChiSquared = {
        "chi2": chi2,
        "degrees": len(known),
        "probability": float(chdtrc(len(known), chi2)),
        "largest_deviation": _deviation(simulated, known),
        "surrogate_deviation": None if predicted is None else _deviation(predicted, known),
    }
    widths = [max(len(column), 9) for column in columns]
    lines = ["  ".join(column.rjust(width) for column, width in zip(columns, widths, strict=True))]
    for row in zip(*columns.values(), strict=True):
        lines.append("  ".join(f"{value:{width}.5f}" for value, width in zip(row, widths, strict=True)))
    chance = f"(probability {result['probability']:.2g})"
    lines.append(f"{name}: χ² {chi2:.1f} for {len(known)} degrees of freedom {chance}")
    lines.append(f"largest deviation of the simulation: {result['largest_deviation']:.2%}")
    if result["surrogate_deviation"] is not None:
        lines.append(f"largest deviation of the surrogate:  {result['surrogate_deviation']:.2%}")
    sys.stdout.write("\n".join(lines) + "\n")
    return result


def _deviation(values: list[float], exact: list[float]) -> float:
    return max(abs(value / right - 1) for value, right in zip(values, exact, strict=True))
