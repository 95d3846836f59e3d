"""How the period of a pendulum grows with its amplitude."""

from math import pi
from typing import TypedDict

import diel


class Growth(TypedDict):
    """What the fit found."""

    coefficient: float
    """Of amplitude², relative to the period of small swings; theory says 1/16."""
    error: float
    """Its relative deviation from theory."""


@diel.module(kind="analysis")
def growth(amplitudes: list[float], periods: list[float]) -> Growth:
    """Fits period = 2π (1 + c amplitude² + d amplitude⁴) by least squares.

    Amplitudes in radians, periods in units of √(length / gravity). The exact c is 1/16
    (Landau and Lifshitz, Mechanics, §11).
    """
    squares = [amplitude**2 for amplitude in amplitudes]
    excess = [period / (2 * pi) - 1 for period in periods]
    s2 = sum(x**2 for x in squares)
    s3 = sum(x**3 for x in squares)
    s4 = sum(x**4 for x in squares)
    b1 = sum(x * y for x, y in zip(squares, excess, strict=True))
    b2 = sum(x**2 * y for x, y in zip(squares, excess, strict=True))
    coefficient = (b1 * s4 - b2 * s3) / (s2 * s4 - s3**2)
    return {"coefficient": coefficient, "error": abs(coefficient * 16 - 1)}
