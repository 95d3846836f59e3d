"""What tasks do not get of gathers that meet in them: the points that one edge lacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from diel.journal.history import History
from diel.values import point_text

Left = Sequence[Mapping[str, Any]]
"""The points that are left out of one task, by the edge that lacks them."""
SHOWN = 3
"""The most points of an edge, and tasks of a stage, that are named; the rest are counted."""


def left_text(left: Left) -> str:
    """Return the points that a task is without: `x=1, which a.v lacks; x=2 and x=3, which b.v lacks`."""
    return "; ".join(
        f"{_points(one['points'], one['number'])}, which {_listed(one['edges'])} "
        f"lack{'s' * (len(one['edges']) == 1)}"
        for one in left
    )


def _points(points: Sequence[Mapping[str, Any]], number: int) -> str:
    more = number - SHOWN
    texts = [f"({point_text(one)})" if len(one) > 1 else point_text(one) for one in points[:SHOWN]]
    return _listed([*texts, f"{more:,} more"] if more > 0 else texts)


def _listed(texts: Sequence[str]) -> str:
    return " and ".join([", ".join(texts[:-1]), texts[-1]]) if len(texts) > 1 else texts[0]


def joined_lines(stages: Iterable[tuple[str, Mapping[int, Left]]], most: int = SHOWN) -> list[str]:
    """Return a line for each task that lacks points, of many for the first ones of each stage."""
    lines = []
    for name, joined in stages:
        first = islice(sorted(joined.items()), most)
        lines += [f"{name}/{index} was joined without {left_text(left)}" for index, left in first]
        if (more := len(joined) - most) > 0:
            lines.append(f"{name}: {more:,} more tasks were joined without some points")
    return lines


def joined_of(history: History) -> list[tuple[str, Mapping[int, Left]]]:
    """Return the stages whose tasks lack points."""
    return [(name, stage.joined) for name, stage in history.stages.items() if stage.joined]
