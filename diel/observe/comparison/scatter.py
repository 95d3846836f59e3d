"""Whether two samples differ by more than their scatter: rank tests, and the interval of the shift.

Pairs are tested by Wilcoxon's signed ranks, samples without pairs by the sum of ranks (F. Wilcoxon,
Biometrics Bulletin 1, 80 (1945); H. B. Mann and D. R. Whitney, Ann. Math. Stat. 18, 50 (1947)): exactly where
they are small, else by the normal approximation; values that tie share their ranks. The shift and its
interval are those of J. L. Hodges and E. L. Lehmann, Ann. Math. Stat. 34, 598 (1963). Nothing is assumed of
the values' distribution, but that the differences of pairs lie evenly around their median.
"""

import math
from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple

from diel.workflow.expressions.aggregates import AGGREGATES

LEVEL = 0.05
"""A difference counts as more than scatter below this probability; intervals hold with the rest of it."""
_NORMAL = 1.959964
"""Standard deviations that hold the rest."""
_EXACT = 25
"""Values, of both samples together, up to which all orders are counted."""
_MOST = 300
"""Values of a sample that the shift is worked out from: of a larger one that many of its quantiles."""


class Shift(NamedTuple):
    """How far a sample lies above another one."""

    value: float
    """The median of the differences."""
    low: float | None
    high: float | None
    """Its interval of 95 %; None where the samples are too small for one."""
    p: float | None
    """The probability of a difference at least as large if there were none; None for a single value."""

    @property
    def can_tell(self) -> bool:
        """Whether samples of this size could show a difference at all."""
        return self.low is not None

    @property
    def is_real(self) -> bool:
        """Whether it is more than scatter."""
        return self.can_tell and self.p is not None and self.p < LEVEL


def paired(differences: Sequence[float]) -> Shift:
    """Return the shift of pairs, from the difference of each (at least one)."""
    count = len(differences)
    thin = _thin(sorted(differences))
    size = len(thin)
    means = sorted((thin[i] + thin[j]) / 2 for i in range(size) for j in range(i, size))
    if count <= _EXACT:
        place = _below(_subset_sums([2 * rank for rank in range(1, count + 1)]), 2)
    else:
        spread = math.sqrt(count * (count + 1) * (2 * count + 1) / 24)
        place = int(count * (count + 1) / 4 - _NORMAL * spread)
    low, high = _ends(means, place, count * (count + 1) / 2)
    return Shift(median(means), low, high, _signed_ranks(differences) if count > 1 else None)


def unpaired(first: Sequence[float], second: Sequence[float]) -> Shift:
    """Return the shift of a second sample above the first (at least one value each)."""
    before, after = _thin(sorted(first)), _thin(sorted(second))
    differences = sorted(b - a for a in before for b in after)
    m, n = len(first), len(second)
    if m + n <= _EXACT:
        sums = _sized_sums([2 * rank for rank in range(1, m + n + 1)], n)
        place = _below(sums[n * (n + 1) :], 2)
    else:
        place = int(m * n / 2 - _NORMAL * math.sqrt(m * n * (m + n + 1) / 12))
    low, high = _ends(differences, place, m * n)
    return Shift(median(differences), low, high, _rank_sum(first, second) if m + n > 2 else None)


def _signed_ranks(differences: Sequence[float]) -> float:
    """Return the two-sided probability of Wilcoxon's signed ranks; differences of zero are left out."""
    moved = [difference for difference in differences if difference]
    if not moved:
        return 1.0
    ranks, ties = _double_ranks([abs(difference) for difference in moved])
    total = sum(rank for rank, difference in zip(ranks, moved, strict=True) if difference > 0)
    n = len(moved)
    if n <= _EXACT:
        return _two_sided(_subset_sums(ranks), total)
    variance = n * (n + 1) * (2 * n + 1) / 24 - ties / 48
    return _normal(total / 2 - n * (n + 1) / 4, variance)


def _rank_sum(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the two-sided probability of the rank sum."""
    m, n = len(first), len(second)
    ranks, ties = _double_ranks([*first, *second])
    total = sum(ranks[m:])
    if m + n <= _EXACT:
        return _two_sided(_sized_sums(ranks, n), total)
    size = m + n
    variance = m * n / 12 * (size + 1 - ties / (size * (size - 1)))
    return _normal(total / 2 - n * (size + 1) / 2, variance)


def _double_ranks(values: Sequence[float]) -> tuple[list[int], float]:
    """Twice the rank of each value, whole where several share one; and the sum of t³ - t over ties."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks, ties, begin = [0] * len(values), 0.0, 0
    while begin < len(order):
        end = begin
        while end < len(order) and values[order[end]] == values[order[begin]]:
            end += 1
        for place in order[begin:end]:
            ranks[place] = begin + end + 1
        ties += (end - begin) ** 3 - (end - begin)
        begin = end
    return ranks, ties


def _subset_sums(ranks: Sequence[int]) -> list[int]:
    """Return how many subsets of the ranks have each sum."""
    counts = [1] + [0] * sum(ranks)
    for rank in ranks:
        for total in range(len(counts) - 1, rank - 1, -1):
            counts[total] += counts[total - rank]
    return counts


def _sized_sums(ranks: Sequence[int], size: int) -> list[int]:
    """Return how many subsets of that size have each sum."""
    counts = [[1] + [0] * sum(ranks)] + [[0] * (sum(ranks) + 1) for _ in range(size)]
    for rank in ranks:
        for more, fewer in zip(counts[:0:-1], counts[-2::-1], strict=True):
            for total in range(len(more) - 1, rank - 1, -1):
                more[total] += fewer[total - rank]
    return counts[size]


def _two_sided(counts: Sequence[int], total: int) -> float:
    below, above = sum(counts[: total + 1]), sum(counts[total:])
    return min(1.0, 2 * min(below, above) / sum(counts))


def _normal(distance: float, variance: float) -> float:
    if variance <= 0:
        return 1.0
    z = max(0.0, abs(distance) - 0.5) / math.sqrt(variance)
    return math.erfc(z / math.sqrt(2))


def _below(counts: Sequence[int], step: int) -> int:
    """Return how many ordered differences lie outside the interval at each end; 0 without an interval."""
    whole, beyond = sum(counts), 0
    for place, count in enumerate(counts[::step]):
        beyond += count
        if 2 * beyond > LEVEL * whole:
            return place
    return 0


def _ends(ordered: Sequence[float], outside: int, whole: float) -> tuple[float | None, float | None]:
    """Return the ends of an interval; `ordered` may be a part of the whole number of differences."""
    if outside < 1:
        return None, None
    place = min(int((outside - 1) * len(ordered) / whole), len(ordered) - 1)
    return ordered[place], ordered[-1 - place]


def _thin(ordered: list[float]) -> list[float]:
    if len(ordered) <= _MOST:
        return ordered
    return [ordered[int((place + 0.5) * len(ordered) / _MOST)] for place in range(_MOST)]


def middle(values: Iterable[float]) -> float | None:
    """Return the median; None of none, and not-a-number with one of these."""
    found: float | None = AGGREGATES["median"]([*values])
    return found
