"""The panel of the graph: stages by their state, and how data moves between them."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

from diel.drawing import rule_words
from diel.graph import Edge
from diel.page.panel import Grid, Part, Sketch, Text
from diel.page.run_view import RunView
from diel.states import TaskState
from diel.status.stage import StageStatus

WIDE, HIGH, GAP, ROW, EDGE = 172, 52, 78, 78, 14
"""Pixels: a stage, the gap between layers, a row, the margin."""
WIDEST = 1500
STAGES, LINES = 200, 600
"""The most that are drawn."""
_RANKS = {"gather": 0, "match": 1, "broadcast": 2, "order": 9}
"""From the kind that says most about how much data comes together."""
_FLAGS = ("share", "optional", "renewed", "begun", "outer", "branch")
"""What an edge says besides: its other flags are the ways of data that moves while tasks run."""


def parts(view: RunView) -> Iterator[Part]:
    graph = view.run.graph
    rows = [
        [link.upstream, link.downstream, link.output or "", kind_of(link), rule_words(graph, link)]
        for link in graph.edges[:LINES]
    ]
    more = max(0, len(graph.edges) - LINES)
    table = Grid("What stages read of others", ("from", "to", "output", "kind", "rule"), rows, more)
    if more or len(graph.order) > STAGES:
        many = (
            f"{len(graph.order):,} stages with {len(graph.edges):,} lines between them are too many to draw"
        )
        yield Text(f"{many}: `diel graph` prints them.", "note")
        yield table
        return
    stages = {stage.name: stage for stage in view.status.stages}
    pairs = dict.fromkeys((edge.upstream, edge.downstream) for edge in graph.edges)
    depth = {name: graph.depth[name] for name in graph.order}
    # Edges that read the previous round lead back.
    layout = lay_out(depth, [(up, down) for up, down in pairs if depth[up] < depth[down]])
    kinds = _kinds(graph.edges)
    used = sorted(set(kinds.values()), key=_rank)
    svg = _svg(layout, stages, kinds, used, view.status.state.live)
    yield Sketch("Stages, coloured by state; lines by the way that data takes", svg, table)


def kind_of(edge: Edge) -> str:
    flags = [name for name in edge._fields if getattr(edge, name) is True and name not in _FLAGS]
    if flags:
        return flags[0]
    if edge.output is None and edge.hyperparameter is None:
        return "order"
    return (
        "gather" if edge.gathered else "match" if edge.matched or edge.picked or edge.chosen else "broadcast"
    )


def waits(edge: Edge) -> bool:
    """Return whether a downstream task begins when its upstream ones have ended, in the same round."""
    return kind_of(edge) in _RANKS and not edge.follows


def _rank(kind: str) -> int:
    return _RANKS.get(kind, 5)


def _kinds(edges: Sequence[Edge]) -> dict[tuple[str, str], str]:
    kinds: dict[tuple[str, str], str] = {}
    for edge in edges:
        pair, kind = (edge.upstream, edge.downstream), kind_of(edge)
        earlier = kinds.get(pair)
        kinds[pair] = kind if earlier is None or _rank(kind) < _rank(earlier) else earlier
    return kinds


def _svg(
    layout: "Layout",
    stages: Mapping[str, StageStatus],
    kinds: Mapping[tuple[str, str], str],
    used: Sequence[str],
    live: bool,
) -> str:
    back = [pair for pair in kinds if pair not in layout.edges and {*pair} <= {*layout.stages}]
    legend = 34 if used else 0
    wide = 2 * EDGE + layout.layers * (WIDE + GAP) - GAP
    wide = max(wide, 2 * EDGE + 120 * len(used))
    high = 2 * EDGE + layout.rows * ROW - (ROW - HIGH) + legend + (26 if back else 0)
    lines = [_edge(layout.edges[pair], kinds[pair], pair) for pair in layout.edges]
    lines += [_back(layout, pair, kinds[pair], high - legend - EDGE) for pair in back]
    nodes = [_node(stages.get(name), name, place, live) for name, place in layout.stages.items()]
    keys = [_key(kind, EDGE + 120 * n, high - 16) for n, kind in enumerate(used)]
    names = ", ".join(layout.stages)
    scrolls = ' class="wide"' if wide > WIDEST else ""  # instead of being made small
    head = f'<svg{scrolls} viewBox="0 0 {wide:g} {high:g}" width="{wide:g}" height="{high:g}" role="img"'
    return f'{head} aria-label="Graph of the stages {escape(names)}">{"".join((*lines, *nodes, *keys))}</svg>'


def _x(place: "Spot") -> float:
    return EDGE + place.layer * (WIDE + GAP)


def _y(place: "Spot") -> float:
    return EDGE + place.row * ROW + HIGH / 2


def _edge(chain: "Sequence[Spot]", kind: str, pair: tuple[str, str]) -> str:
    points = [(_x(chain[0]) + WIDE, _y(chain[0]))]
    for place in chain[1:-1]:
        points += [(_x(place), _y(place)), (_x(place) + WIDE, _y(place))]
    points.append((_x(chain[-1]) - 7, _y(chain[-1])))
    path = f"M{points[0][0]:g} {points[0][1]:g}"
    for (x, y), (to_x, to_y) in pairwise(points):
        half = (x + to_x) / 2
        path += f"C{half:g} {y:g} {half:g} {to_y:g} {to_x:g} {to_y:g}"
    head = f"M{points[-1][0] - 1:g} {points[-1][1] - 4:g}l8 4 -8 4z"
    return _arrow(path, head, kind, f"{pair[1]} reads {pair[0]}: {kind}")


def _back(layout: "Layout", pair: tuple[str, str], kind: str, low: float) -> str:
    up, down = layout.stages[pair[0]], layout.stages[pair[1]]
    x, y, to_x, to_y = _x(up) + WIDE / 2, _y(up) + HIGH / 2, _x(down) + WIDE / 2 - 24, _y(down) + HIGH / 2
    if pair[0] == pair[1]:
        x += 24
    path = f"M{x:g} {y:g}C{x:g} {low:g} {to_x:g} {low:g} {to_x:g} {to_y + 7:g}"
    head = f"M{to_x - 4:g} {to_y + 8:g}l4 -8 4 8z"
    return _arrow(path, head, kind, f"{pair[1]} reads the previous round of {pair[0]}")


def _arrow(path: str, head: str, kind: str, title: str) -> str:
    line = f'<path class="{kind}" d="{path}"></path><path class="head" d="{head}"></path>'
    return f'<g class="edge"><title>{escape(title)}</title>{line}</g>'


def _node(stage: StageStatus | None, name: str, place: "Spot", live: bool) -> str:
    state = state_of(stage, live=live)
    x, y = _x(place), _y(place) - HIGH / 2
    total = "?" if stage is None else stage.total_text
    done = "0" if stage is None else f"{stage.good:,}"
    done = done if done == total else f"{done} of {total}"
    title = f"<title>{escape(name)}: {state}, {done} tasks with a result</title>"
    share = 0.0 if stage is None or not stage.total else stage.good / stage.total
    short = name if len(name) <= 18 else f"{name[:9]}…{name[-8:]}"
    long = (WIDE - 24) * share
    return (
        f'<g class="node s-{state}">{title}'
        f'<rect x="{x:g}" y="{y:g}" width="{WIDE}" height="{HIGH}" rx="7"></rect>'
        f'<path class="mark" d="M{x + 12:g} {y + HIGH - 9:g}h{long:.1f}v3h-{long:.1f}z"></path>'
        f'<text x="{x + 12:g}" y="{y + 20:g}">{escape(short)}</text>'
        f'<text class="sub" x="{x + 12:g}" y="{y + 35:g}">{escape(f"{state} · {done}")}</text></g>'
    )


def _key(kind: str, x: float, y: float) -> str:
    return (
        f'<g class="edge"><path class="{kind}" d="M{x:g} {y:g}h34"></path>'
        f'<text x="{x + 42:g}" y="{y + 4:g}">{kind}</text></g>'
    )


def state_of(stage: StageStatus | None, *, live: bool = True) -> str:
    """Return the state of a stage, by those of its tasks."""
    if stage is None or stage.total is None:
        return "skipped" if stage is not None and stage.void else "waiting"
    if stage[TaskState.FAILED] > stage.tolerated:
        return "failed"
    if stage[TaskState.RUNNING] or stage[TaskState.QUEUED]:
        return "running"
    if not stage.total and not live:
        return "skipped"
    left_out = stage[TaskState.SKIPPED] + stage[TaskState.CANCELLED]
    if not stage.total or stage.good + left_out + stage.tolerated < stage.total:
        return "running" if stage.good and live else "waiting"
    if stage.good and not stage[TaskState.CANCELLED] and not stage.hindered:
        return "cached" if stage[TaskState.CACHED] == stage.good else "done"
    return "cancelled" if stage[TaskState.CANCELLED] else "skipped" if left_out else "failed"


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
    """Return places for stages of these depths, and for the edges that lead to a deeper stage."""
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
        for upper, other in pairwise(chain):
            near[upper].append(other)
            near[other].append(upper)
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
    """Return the row of each: ordered by sweeps, then each layer in the middle of the widest."""
    order = {name: float(row) for names in layers for row, name in enumerate(names)}
    for sweep in range(SWEEPS):
        for names in layers if sweep % 2 == 0 else reversed(layers):
            mean = {
                name: fmean([order[other] for other in near.get(name, ())] or [order[name]]) for name in names
            }
            names.sort(key=lambda name: mean[name])
            order.update({name: float(row) for row, name in enumerate(names)})
    widest = max((len(names) for names in layers), default=0)
    return {name: row + (widest - len(names)) / 2 for names in layers for row, name in enumerate(names)}
