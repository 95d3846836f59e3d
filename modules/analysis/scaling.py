"""Strong and weak scaling: efficiency beside the laws of Amdahl and Gustafson, from measured times."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

import diel


class Scaling(TypedDict):
    """The measured times, and the fits to them."""

    table: Path
    """CSV with a row for each kind (strong or weak), size and number of ranks: times in seconds, speedup,
    efficiency, and the speedup of the fitted law."""
    amdahl: list[float]
    """Serial fraction of the work by size, fitted to strong scaling."""
    gustafson: list[float]
    """Serial fraction of the time by size, fitted to weak scaling."""


@diel.module(kind="analysis")
def scaling(
    context: diel.Context, size: list[int], ranks: list[int], strong: list[float], weak: list[float]
) -> Scaling:
    """Compare times on several numbers of ranks, and print them beside the fitted laws.

    size: problem size of each measurement
    ranks: its MPI ranks; each size has a measurement on the fewest ranks, to compare with
    strong: its seconds for the same work on any number of ranks
    weak: its seconds for work that grows with the ranks

    Raise ValueError where the lists differ in length.
    """
    if not len(size) == len(ranks) == len(strong) == len(weak):
        lengths = f"{len(ranks)}, {len(strong)} and {len(weak)}"
        raise ValueError(f"expected lists of {len(size)} values; found {lengths}")
    rows: list[tuple[str, int, int, float, float, float, float]] = []
    result: Scaling = {"table": context.task_dir / "scaling.csv", "amdahl": [], "gustafson": []}
    for extent in sorted({*size}):
        places = sorted((place for place, other in enumerate(size) if other == extent), key=ranks.__getitem__)
        counts = [ranks[place] for place in places]
        for kind, times, fits in (("strong", strong, result["amdahl"]), ("weak", weak, result["gustafson"])):
            seconds = [times[place] for place in places]
            steps = [count / counts[0] for count in counts]
            work = [1.0] * len(steps) if kind == "strong" else steps
            speedups = [share * seconds[0] / time for share, time in zip(work, seconds, strict=True)]
            serial = amdahl(steps, speedups) if kind == "strong" else gustafson(steps, speedups)
            fits.append(serial)
            for count, step, time, speedup in zip(counts, steps, seconds, speedups, strict=True):
                law = 1 / (serial + (1 - serial) / step) if kind == "strong" else step + (1 - step) * serial
                rows.append((kind, extent, count, time, speedup, speedup / step, law))
    heads = ("kind", "size", "ranks", "seconds", "speedup", "efficiency", "law")
    with open(result["table"], "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([heads, *rows])
    lines = ["kind     size  ranks   seconds  speedup  efficiency  law"]
    lines += [f"{k:6} {n:6d} {r:6d} {t:9.4f} {s:8.2f} {e:10.0%} {w:6.2f}" for k, n, r, t, s, e, w in rows]
    laws = (result["amdahl"], result["gustafson"])
    strongly, weakly = (", ".join(f"{share:.1%}" for share in shares) for shares in laws)
    lines.append(f"serial fraction by size: Amdahl {strongly}, Gustafson {weakly}")
    sys.stdout.write("\n".join(lines) + "\n")
    return result


def amdahl(steps: Sequence[float], speedups: Sequence[float]) -> float:
    """Return the serial fraction f of Amdahl's law, S(n) = 1 / (f + (1 - f) / n), by least squares in 1 / S.

    n are the ranks over the fewest, S the speedups. With y = 1 / S, y - 1/n = f (1 - 1/n): linear in f.
    Source: G. M. Amdahl, AFIPS Conference Proceedings 30, 483 (1967). Clipped to 0…1; 0 with one measurement.
    """
    return _slope([(1 - 1 / n, 1 / s - 1 / n) for n, s in zip(steps, speedups, strict=True)])


def gustafson(steps: Sequence[float], speedups: Sequence[float]) -> float:
    """Return the serial fraction s of Gustafson's law, S(n) = n + (1 - n) s, by least squares.

    n are the ranks over the fewest, S the scaled speedups. Source: J. L. Gustafson, Communications of the
    ACM 31, 532 (1988). Clipped to 0…1; 0 with one measurement.
    """
    return _slope([(n - 1, n - s) for n, s in zip(steps, speedups, strict=True)])


def _slope(pairs: Sequence[tuple[float, float]]) -> float:
    """Return the a of y = a x that fits best, between 0 and 1."""
    square = sum(x * x for x, _ in pairs)
    return min(1.0, max(0.0, sum(x * y for x, y in pairs) / square)) if square else 0.0
