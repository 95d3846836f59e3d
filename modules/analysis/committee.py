"""Active learning with a committee: networks that learned the same rows, from different initial weights.

Where they agree the data has settled the answer; where they do not, the next simulation is worth most
(H. S. Seung, M. Opper, H. Sompolinsky, COLT '92, 287: query by committee).

analysis.committee:choose     the states on which the members disagree most
analysis.committee:judge      the error of their mean on a hold-out
analysis.committee:compare    how many simulations it took, and how many another way takes
"""

from __future__ import annotations

import math
import sys
from statistics import fmean
from typing import Annotated, TypedDict

from pydantic import Field

import diel
from diel import tabular

CROWDED = 0.025
"""Distance to a known state, as a share of the range, from which on a candidate counts in full."""

Curve = dict[str, list[float]]
"""A learning curve: the columns `simulations` and `error`."""


class Choice(TypedDict):
    """The states to simulate next, the most useful first."""

    states: list[dict[str, float]]
    columns: dict[str, list[float]]
    """The same states as columns."""
    disagreement: list[float]
    """Standard deviation of the members' predictions there."""


class Judgement(TypedDict):
    """Of the committee's mean, in the target's own units."""

    error: float
    """Root mean square over the hold-out."""
    largest_error: float
    simulations: int
    """Rows that the committee learned from."""


class Comparison(TypedDict):
    """Simulations until the error fell below the bound; null where it did not."""

    active: int | None
    other: int | None
    active_at_least: int
    """Simulations that were needed at the least: more than the most, where none were enough."""
    at_least: int
    """The same of the other way."""
    ratio: float | None
    """How many times as many the other way needs, at the least."""


@diel.module(kind="analysis")
def choose(
    predicted: Annotated[list[list[float]], Field(min_length=2)],
    candidates: Annotated[dict[str, list[float]], Field(min_length=1)],
    known: dict[str, list[float]],
    count: Annotated[int, Field(ge=1)] = 1,
) -> Choice:
    """Choose the candidates on which a committee disagrees most.

    predicted: a list a member, with a prediction a candidate
    candidates: columns of equal length
    known: columns of the states that were simulated; further columns are passed over
    count: states to choose

    Each choice is the state with the largest disagreement. A candidate near a known state, or near an
    earlier choice, counts for less: simulations close to one another say the same twice, and a noisy one
    would be chosen again and again. Raise ValueError where the lists do not fit each other.
    """
    names = list(candidates)
    scales = {name: max(values) - min(values) or 1.0 for name, values in candidates.items()}
    points, occupied = (
        list(zip(*([value / scales[name] for value in table[name]] for name in names), strict=True))
        for table in (candidates, known)
    )
    spreads = tabular.mean_and_spread(predicted, len(points))[1].tolist()
    if count > len(points):
        raise ValueError(f"there are {len(points)} candidates, too few to choose {count}")
    chosen: list[int] = []
    for _ in range(count):
        scores = []
        for place, (point, spread) in enumerate(zip(points, spreads, strict=True)):
            near = min((math.dist(point, other) for other in occupied), default=math.inf)
            scores.append(-1.0 if place in chosen else spread * min(1.0, near / CROWDED))
        best = scores.index(max(scores))
        chosen.append(best)
        occupied.append(points[best])
    states = [{name: candidates[name][place] for name in names} for place in chosen]
    for state, place in zip(states, chosen, strict=True):
        text = ", ".join(f"{name} {value:.4g}" for name, value in state.items())
        sys.stdout.write(f"next: {text} (the members differ by {spreads[place]:.3g})\n")
    return {
        "states": states,
        "columns": {name: [state[name] for state in states] for name in names},
        "disagreement": [spreads[place] for place in chosen],
    }


@diel.module(kind="analysis")
def judge(
    predicted: Annotated[list[list[float]], Field(min_length=1)],
    observed: Annotated[list[float], Field(min_length=1)],
    learned: Annotated[dict[str, list[float]], Field(min_length=1)],
) -> Judgement:
    """Measure the error of a committee's mean on states that it never learned from.

    predicted: a list a member, with a prediction a state
    observed: what was simulated there
    learned: the rows that the members learned from, as columns: they are counted

    Raise ValueError where the lists differ in length.
    """
    means = tabular.mean_and_spread(predicted, len(observed))[0].tolist()
    distances = [abs(mean - value) for mean, value in zip(means, observed, strict=True)]
    error = math.sqrt(fmean(distance**2 for distance in distances))
    simulations = max(map(len, learned.values()))
    sys.stdout.write(f"{simulations} simulations: root mean square error {error:.4f}\n")
    return {"error": error, "largest_error": max(distances), "simulations": simulations}


@diel.module(kind="analysis")
def compare(
    active: Curve, other: Curve, bound: Annotated[float, Field(gt=0)], name: str = "uniform grid"
) -> Comparison:
    """Print both learning curves, and how many simulations each took to come below one error.

    active: `simulations` and `error`, round by round
    other: the same of another way to choose states: a uniform grid, or at random
    bound: the error to come below
    name: of the other way

    Of the other way the fewest simulations below the bound count, even where more of them end above it again.
    Raise ValueError where a curve is not two columns of equal length.
    """
    curves = {"chosen by the committee": _curve(active, "active"), name: _curve(other, "other")}
    fewest = [
        min((count for count, error in curve.items() if error < bound), default=None)
        for curve in curves.values()
    ]
    lines = ["  ".join(["simulations", *(f"{name:>12}" for name in curves)])]
    for count in sorted(set().union(*curves.values())):
        cells = [
            (f"{curve[count]:.4f}" if count in curve else "").rjust(max(len(name), 12))
            for name, curve in curves.items()
        ]
        lines.append("  ".join([f"{count:11d}", *cells]).rstrip())
    lines.append(f"to come below a root mean square error of {bound:g} on the hold-out:")
    width = max(map(len, curves))
    for (name, curve), needed in zip(curves.items(), fewest, strict=True):
        number = f"more than {max(curve)}" if needed is None else needed
        lines.append(f"  {name:{width}}  {number} simulations")
    sys.stdout.write("\n".join(lines) + "\n")
    least, at_least = (count or max(curve) + 1 for count, curve in zip(fewest, curves.values(), strict=True))
    return {
        "active": fewest[0],
        "other": fewest[1],
        "active_at_least": least,
        "at_least": at_least,
        "ratio": at_least / fewest[0] if fewest[0] else None,
    }


def _curve(columns: Curve, name: str) -> dict[int, float]:
    """Return errors by simulations."""
    if columns.keys() != {"simulations", "error"} or not columns["error"]:
        raise ValueError(f"{name}: expected the columns simulations and error; found {', '.join(columns)}")
    pairs = zip(columns["simulations"], columns["error"], strict=True)
    return {int(count): error for count, error in pairs}
