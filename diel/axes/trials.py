"""Which trials of a search are good: the best, the best few, the Pareto front."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from diel.journal.axis_history import Trial, TrialState


def ranked(trials: Iterable[Trial], small: bool) -> list[Trial]:
    """The complete trials of one objective, the best first; the earlier of two equal ones."""
    complete = [trial for trial in trials if trial.state is TrialState.COMPLETE]
    sign = 1 if small else -1
    return sorted(complete, key=lambda trial: (sign * trial.values[0], trial.number))


def front(trials: Iterable[Trial], small: Sequence[bool]) -> list[Trial]:
    """The complete trials that no other is as good as in all objectives and better than in one, by number."""
    complete = [trial for trial in trials if trial.state is TrialState.COMPLETE]
    costs = {
        trial.number: tuple(v if s else -v for v, s in zip(trial.values, small, strict=True))
        for trial in complete
    }
    kept: list[Trial] = []
    # In this order nothing is dominated by what comes later, so that only what is kept has to be compared.
    for trial in sorted(complete, key=lambda trial: (costs[trial.number], trial.number)):
        cost = costs[trial.number]
        if not any(_dominates(costs[other.number], cost) for other in kept):
            kept.append(trial)
    return sorted(kept, key=lambda trial: trial.number)


def _dominates(first: tuple[float, ...], second: tuple[float, ...]) -> bool:
    return first != second and all(a <= b for a, b in zip(first, second, strict=True))
