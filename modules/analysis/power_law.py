"""A power law between two quantities, fitted on logarithmic scales and tested on the largest points."""

from __future__ import annotations

import sys
from typing import TypedDict

import numpy as np

import diel


class PowerLaw(TypedDict):
    """y = factor × x ** exponent."""

    exponent: float
    exponent_scatter: float
    """Standard deviation of the exponents of single series; 0 where there is one."""
    factor: float
    predicted: float
    """At the largest x, which is not fitted: geometric mean over the series."""
    measured: float
    """At the largest x, likewise."""


@diel.module(kind="analysis")
def power_law(x: list[float], y: list[float], series: list[int]) -> PowerLaw:
    """Fit y = a x ** b for each series by least squares of logarithms, without the points of the largest x.

    x, y: above 0
    series: which points belong together, such as those of one seed

    Raise ValueError where a series has fewer than three values of x, or a number is not above 0.
    """
    if min(*x, *y) <= 0:
        raise ValueError("expected numbers above 0, whose logarithms are fitted")
    largest = max(x)
    fits, ends = [], []
    for number in dict.fromkeys(series):
        points = [(a, b) for a, b, which in zip(x, y, series, strict=True) if which == number]
        fitted = np.log([point for point in points if point[0] < largest])
        if len(fitted) < 2 or len(fitted) == len(points):
            raise ValueError(f"series {number}: expected three values of x or more, up to {largest:g}")
        fits.append(np.polyfit(fitted[:, 0], fitted[:, 1], 1))
        ends += [b for a, b in points if a == largest]
    exponent, offset = np.mean(fits, axis=0)
    predicted = float(np.exp(offset) * largest**exponent)
    measured = float(np.exp(np.mean(np.log(ends))))
    scatter = float(np.std([fit[0] for fit in fits], ddof=1)) if len(fits) > 1 else 0.0
    sys.stdout.write(
        f"exponent {exponent:.3f} ± {scatter:.3f}; at {largest:g} predicted {predicted:.4g}, "
        f"measured {measured:.4g}\n"
    )
    return {
        "exponent": float(exponent),
        "exponent_scatter": scatter,
        "factor": float(np.exp(offset)),
        "predicted": predicted,
        "measured": measured,
    }
