"""Where the stages of a graph stand in a drawing: layers by depth, with few crossings.

After Sugiyama: an edge that passes layers gets a place in each of them; the order within a layer is that of
the mean places of the neighbours, swept forth and back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

SWEEPS = 6


class Spot(NamedTuple):
    """A place in a layer; of a stage, or of an edge that passes."""

    layer: int
    row: float


class Layout(NamedTuple):
    """Where stages stand, and through what the edges go; rows count from 0, fractions between them."""

    stages: Mapping[str, Spot]
    edges: Mapping[tuple[str, str], Sequence[Spot]]
    layers: int
    rows: float


def lay_out(depth: Mapping[str, int], edges: Sequence[tuple[str, str]]) -> Layout:
    """Places for stages of these depths and for the edges that lead to a deeper one."""
    layers: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for name, layer in depth.items():
        layers[layer].append(name)
    chains: dict[tuple[str, str], list[str]] = {}
    near: defaultdict[str, list[str]] = defaultdict(list)
    for up, down in edges:
        passed = [f"{up}\0{down}\0{layer}" for layer in range(depth[up] + 1, depth[down])]
        chain = [up, *passed, down]
        for place, dummy in enumerate(passed, depth[up] + 1):
            layers[place].append(dummy)
        for one, other in pairwise(chain):
            near[one].append(other)
            near[other].append(one)
        chains[(up, down)] = chain
    rows = _rows(layers, near)
    placed = {name: Spot(layer, rows[name]) for layer, names in enumerate(layers) for name in names}
    return Layout(
        {name: placed[name] for name in depth},
        {edge: [placed[name] for name in chain] for edge, chain in chains.items()},
        len(layers),
        max(rows.values(), default=0.0) + 1,
    )


def _rows(layers: list[list[str]], near: Mapping[str, list[str]]) -> dict[str, float]:
    """The row of each: ordered by sweeps, then each layer in the middle of the widest."""
    order = {name: float(row) for names in layers for row, name in enumerate(names)}
    for sweep in range(SWEEPS):
        for names in layers if sweep % 2 == 0 else reversed(layers):
            mean = {name: _mean(order, near.get(name, ()), order[name]) for name in names}
            names.sort(key=lambda name: mean[name])
            order.update({name: float(row) for row, name in enumerate(names)})
    widest = max((len(names) for names in layers), default=0)
    return {name: row + (widest - len(names)) / 2 for names in layers for row, name in enumerate(names)}


def _mean(order: Mapping[str, float], names: Sequence[str], own: float) -> float:
    return sum(order[name] for name in names) / len(names) if names else own
