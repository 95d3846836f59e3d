"""How many times larger one thing is than another, from pairs measured side by side, with an interval."""

from __future__ import annotations

import math
import sys
from statistics import fmean, stdev
from typing import TypedDict

from scipy.special import stdtrit

import diel


class PairedDifference(TypedDict):
    """The ratio of pairs, as a geometric mean."""

    ratio: float
    low: float
    """Of its 95 % interval, as `high`; with one pair 0, and `high` is 10³⁰⁴."""
    high: float
    pairs: int


@diel.module(kind="analysis")
def paired(first: list[float], second: list[float], name: str = "second / first") -> PairedDifference:
    """Print how many times larger the second of each pair is: a disturbance of both alike drops out.

    first, second: above 0, in the same order
    name: what the ratio is called

    The interval is that of the mean logarithm, mean ± t(0.975, n − 1) s/√n (Student, Biometrika 6, 1 (1908)).
    Raise ValueError where the lists differ in length, are empty, or hold a number that is not above 0.
    """
    if len(first) != len(second) or not first or not min(*first, *second) > 0:
        raise ValueError("expected two lists of one length, of numbers above 0")
    ratios = [math.log(b / a) for a, b in zip(first, second, strict=True)]
    mean, count = fmean(ratios), len(ratios)
    # with one pair nothing is known of the scatter
    half = stdtrit(count - 1, 0.975) * stdev(ratios) / math.sqrt(count) if count > 1 else math.inf
    ratio, low, high = math.exp(mean), math.exp(mean - half), math.exp(min(mean + half, 700.0))
    sys.stdout.write(f"{name}: {ratio:.4g}, 95 % interval {low:.4g} to {high:.4g} ({count} pairs)\n")
    return {"ratio": ratio, "low": low, "high": high, "pairs": count}
