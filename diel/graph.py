"""The stage graph: one node a stage, one edge a use of another stage's result.

Nothing here knows how many points an axis has, so ten points and ten million cost the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import networkx

from diel.errors import did_you_mean
from diel.expressions import ExpressionError, parse_expression, walk
from diel.spec import Axis, Input, Stage, Workflow

Key = tuple[str | int, ...]


@dataclass(frozen=True)
class Flaw:
    """Something wrong in the graph: the key's path, the message, a hint."""

    key: Key
    message: str
    hint: str = ""


@dataclass(frozen=True)
class Edge:
    """A stage's use of another stage: along which axes data moves.

    With A the upstream axes and B the downstream ones: axes in both are matched, axes only in A
    and not picked by `at` are gathered, axes only in B are broadcast over.
    """

    key: Key
    upstream: str
    downstream: str
    output: str | None = None
    """The output that is read; None for an order without data."""
    name: str | None = None
    """The input's name; None for `after`, expressions and derived axes."""
    axis: str | None = None
    """The derived axis that the edge makes known."""
    picked: Mapping[str, Any] = field(default_factory=dict)
    matched: tuple[str, ...] = ()
    gathered: tuple[str, ...] = ()
    min_success: float = 1.0

    @property
    def follows(self) -> bool:
        """Whether the edge reads the round before, and so closes no cycle."""
        return "previous" in self.picked.values()


@dataclass(frozen=True)
class StageGraph:
    """Stages and their edges, in the order in which they can run."""

    workflow: Workflow
    edges: tuple[Edge, ...]

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The stages, each after all that it depends on; ties keep the file's order."""
        position = {name: number for number, name in enumerate(self.workflow.stages)}
        graph = _digraph(self.workflow, self.edges)
        return tuple(networkx.lexicographical_topological_sort(graph, key=position.__getitem__))

    @cached_property
    def depth(self) -> dict[str, int]:
        """How many stages come before each on its longest path."""
        depth: dict[str, int] = {}
        for stage in self.order:
            before = [depth[edge.upstream] + 1 for edge in self.into(stage) if not edge.follows]
            depth[stage] = max(before, default=0)
        return depth

    @cached_property
    def _into(self) -> dict[str, tuple[Edge, ...]]:
        return {s: tuple(e for e in self.edges if e.downstream == s) for s in self.workflow.stages}

    @cached_property
    def _out_of(self) -> dict[str, tuple[Edge, ...]]:
        return {s: tuple(e for e in self.edges if e.upstream == s) for s in self.workflow.stages}

    def into(self, stage: str) -> tuple[Edge, ...]:
        """The edges that a stage waits for."""
        return self._into[stage]

    def out_of(self, stage: str) -> tuple[Edge, ...]:
        """The edges that wait for a stage."""
        return self._out_of[stage]

    def after(self, stage: str) -> frozenset[str]:
        """A stage and all that depends on it."""
        graph = _digraph(self.workflow, self.edges)
        return frozenset(networkx.descendants(graph, stage)) | {stage}

    def critical_path(self, seconds: Mapping[str, float]) -> tuple[str, ...]:
        """The longest chain of stages, given how long one task of each takes, in seconds."""
        graph = networkx.DiGraph()
        graph.add_nodes_from(self.order)
        for edge in self.edges:
            if not edge.follows:
                graph.add_edge(edge.upstream, edge.downstream, weight=max(seconds[edge.upstream], 1e-9))
        end = "\0end"  # so that the last stage's own time counts too
        for stage in self.order:
            graph.add_edge(stage, end, weight=max(seconds[stage], 1e-9))
        return tuple(networkx.dag_longest_path(graph)[:-1])


def build(workflow: Workflow) -> tuple[StageGraph, list[Flaw]]:
    """The graph of a workflow, and all that is wrong with it."""
    flaws: list[Flaw] = []
    edges: list[Edge] = []
    for name, stage in workflow.stages.items():
        flaws += _check_axes(workflow, name, stage)
        for use in _uses(workflow, name, stage, flaws):
            edge, wrong = _edge(workflow, name, use)
            flaws += wrong
            if edge is not None:
                edges.append(edge)
    graph = StageGraph(workflow, tuple(edges))
    flaws += _check_cycles(workflow, edges)
    flaws += _check_adaptive(workflow)
    return graph, flaws


@dataclass(frozen=True)
class _Use:
    """One mention of another stage, before it is known to be right."""

    key: Key
    stage: str
    output: str | None
    name: str | None = None
    axis: str | None = None
    at: Mapping[str, Any] = field(default_factory=dict)
    min_success: float = 1.0
    initially: Any = None


def _uses(workflow: Workflow, name: str, stage: Stage, flaws: list[Flaw]) -> Iterator[_Use]:
    """Every mention of another stage: inputs, after, derived axes, expressions."""
    here: Key = ("stages", name)
    for label, given in stage.inputs.items():
        use = _input_use((*here, "inputs", label), label, given, workflow, flaws)
        if use is not None:
            yield use
    for number, other in enumerate(stage.after):
        yield _Use((*here, "after", number), other, None)
    for label in stage.over:
        axis = workflow.axes.get(label)
        if axis is not None and axis.source is not None:
            source = _split(axis.source)
            if source is None:
                flaws.append(_not_a_reference(("axes", label, "from"), axis.source))
            else:
                yield _Use(("axes", label, "from"), *source, axis=label)
    yield from _expression_uses(workflow, here, stage)


def _input_use(key: Key, label: str, given: Input, workflow: Workflow, flaws: list[Flaw]) -> _Use | None:
    source = _split(given.source)
    if source is None:
        flaws.append(_not_a_reference(key, given.source))
        return None
    if source[0] == "hp":
        if source[1] not in workflow.hyperparameters:
            hint = did_you_mean(source[1], workflow.hyperparameters)
            flaws.append(Flaw(key, f"no hyperparameter '{source[1]}'", hint))
        return None
    return _Use(
        key, *source, name=label, at=given.at, min_success=given.min_success, initially=given.initially
    )


def _split(reference: str) -> tuple[str, str] | None:
    stage, dot, output = reference.partition(".")
    good = dot and stage.isidentifier() and output.isidentifier()
    return (stage, output) if good else None


def _not_a_reference(key: Key, found: str) -> Flaw:
    return Flaw(key, f"expected STAGE.OUTPUT, found {found!r}", "for instance `simulate.energy`")


def _expression_uses(workflow: Workflow, here: Key, stage: Stage) -> Iterator[_Use]:
    seen: set[tuple[str, str]] = set()
    for key, reference in expression_references(here, stage):
        if reference[0] in workflow.stages and len(reference) > 1 and reference[:2] not in seen:
            seen.add((reference[0], reference[1]))
            yield _Use(key, reference[0], reference[1])


def expression_references(here: Key, stage: Stage) -> Iterator[tuple[Key, tuple[str, ...]]]:
    """Each dotted name that a stage's expressions read, with the key that holds it.

    Expressions that do not parse are left out: the checker reports them.
    """
    for place in ("command", "params", "env"):
        for path, template in walk(_plain(getattr(stage, place))):
            if not isinstance(template, ExpressionError):
                for reference in sorted(template.references):
                    yield (*here, place, *path), reference
    for label, output in stage.outputs.items():
        for _, template in walk(output.path):
            if not isinstance(template, ExpressionError):
                for reference in sorted(template.references):
                    yield (*here, "outputs", label), reference
    if isinstance(stage.when, str):
        try:
            condition = parse_expression(stage.when)
        except ExpressionError:
            return
        for reference in sorted(condition.references):
            yield (*here, "when"), reference


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _edge(workflow: Workflow, name: str, use: _Use) -> tuple[Edge | None, list[Flaw]]:
    if use.stage not in workflow.stages:
        hint = did_you_mean(use.stage, workflow.stages) or f"stages: {', '.join(workflow.stages)}"
        return None, [Flaw(use.key, f"no stage '{use.stage}'", hint)]
    if use.stage == name and "previous" not in use.at.values():
        return None, [Flaw(use.key, f"the stage depends on itself: {name} -> {name}")]
    upstream = workflow.stages[use.stage].over
    downstream = workflow.stages[name].over
    flaws = _check_at(workflow, use, upstream)
    matched = tuple(a for a in upstream if a in downstream and a not in use.at)
    gathered = tuple(a for a in upstream if a not in downstream and a not in use.at)
    if use.min_success < 1 and not gathered:
        message = f"nothing is gathered here: '{use.stage}' gives one result a task"
        flaws.append(Flaw((*use.key, "min_success"), message))
    edge = Edge(
        use.key,
        use.stage,
        name,
        use.output,
        use.name,
        use.axis,
        dict(use.at),
        matched,
        gathered,
        use.min_success,
    )
    return edge, flaws


def _check_at(workflow: Workflow, use: _Use, upstream: tuple[str, ...]) -> list[Flaw]:
    flaws = []
    for label, point in use.at.items():
        key = (*use.key, "at", label)
        if label not in upstream:
            hint = did_you_mean(label, upstream) or f"its axes: {', '.join(upstream) or 'none'}"
            flaws.append(Flaw(key, f"'{use.stage}' does not run over an axis '{label}'", hint))
            continue
        axis = workflow.axes.get(label)
        if axis is None:
            continue
        if point in ("last", "previous") and axis.loop is None:
            flaws.append(Flaw(key, f"`{point}` picks a round of a loop, and '{label}' is no loop"))
        if point in ("best", "pareto") and axis.search is None:
            flaws.append(Flaw(key, f"`{point}` picks a trial of a search, and '{label}' is no search"))
        if point == "previous" and use.initially is None:
            flaws.append(Flaw(use.key, "`previous` needs `initially:`, the value in the first round"))
    return flaws


def _check_axes(workflow: Workflow, name: str, stage: Stage) -> list[Flaw]:
    flaws = []
    owners: dict[str, str] = {}
    for number, label in enumerate(stage.over):
        key: Key = ("stages", name, "over", number)
        if label not in workflow.axes:
            hint = did_you_mean(label, workflow.axes) or f"axes: {', '.join(workflow.axes) or 'none'}"
            flaws.append(Flaw(key, f"no axis '{label}'", hint))
            continue
        for parameter in parameters_of(workflow, label) or (label,):
            if parameter in owners and owners[parameter] != label:
                message = f"axes '{owners[parameter]}' and '{label}' both give the parameter '{parameter}'"
                flaws.append(Flaw(key, message, "rename one of them"))
            owners.setdefault(parameter, label)
    return flaws


def parameters_of(workflow: Workflow, label: str) -> tuple[str, ...] | None:
    """The parameters that an axis gives, or None where they are known only with its points."""
    axis = workflow.axes[label]
    if axis.zip is not None:
        return tuple(axis.zip)
    if axis.sample is not None:
        return tuple(axis.sample.parameters)
    if axis.file is not None:
        return axis.file.columns
    if axis.source is not None:
        return axis.columns
    return (label,)


def _digraph(workflow: Workflow, edges: tuple[Edge, ...] | list[Edge]) -> networkx.DiGraph:
    graph = networkx.DiGraph()
    graph.add_nodes_from(workflow.stages)
    graph.add_edges_from((e.upstream, e.downstream) for e in edges if not e.follows)
    return graph


def _check_cycles(workflow: Workflow, edges: list[Edge]) -> list[Flaw]:
    flaws = []
    graph = _digraph(workflow, edges)
    for component in networkx.strongly_connected_components(graph):
        if len(component) == 1:
            continue
        first = next(stage for stage in workflow.stages if stage in component)
        cycle = networkx.find_cycle(graph.subgraph(component), first)
        names = [edge[0] for edge in cycle]
        turn = names.index(min(names, key=list(workflow.stages).index))
        names = names[turn:] + names[:turn]
        guilty = next(
            e for e in edges if e.upstream == names[-1] and e.downstream == names[0] and not e.follows
        )
        flaws.append(
            Flaw(
                guilty.key,
                f"the stages wait for each other: {' -> '.join([*names, names[0]])}",
                "take one of these edges out, or make it a loop axis with `at: {AXIS: previous}`",
            )
        )
    return flaws


def _check_adaptive(workflow: Workflow) -> list[Flaw]:
    """A search or loop runs once a combination of the other axes of the stage that it is told by."""
    flaws: list[Flaw] = []
    for label, axis in workflow.axes.items():
        for key, reference in _metrics(label, axis):
            stage = workflow.stages.get(reference[0])
            if stage is None:
                hint = did_you_mean(reference[0], workflow.stages)
                flaws.append(Flaw(key, f"no stage '{reference[0]}'", hint))
            elif label not in stage.over:
                message = f"'{reference[0]}' does not run over '{label}', so it cannot judge it"
                flaws.append(Flaw(key, message))
            else:
                flaws += _check_context(workflow, label, reference[0], stage)
    return flaws


def _check_context(workflow: Workflow, label: str, judge: str, stage: Stage) -> list[Flaw]:
    others = [axis for axis in stage.over if axis != label]
    return [
        Flaw(
            ("stages", name, "over"),
            f"'{label}' runs once for each {', '.join(missing)} (the axes of '{judge}'), "
            f"and '{name}' lacks {', '.join(missing)}",
            "add the axis, or judge by a stage without it",
        )
        for name, other in workflow.stages.items()
        if label in other.over and (missing := [axis for axis in others if axis not in other.over])
    ]


def _metrics(label: str, axis: Axis) -> Iterator[tuple[Key, tuple[str, ...]]]:
    if axis.search is not None:
        for word in ("minimize", "maximize"):
            given = getattr(axis.search, word)
            for reference in [given] if isinstance(given, str) else given or []:
                yield ("axes", label, "search", word), tuple(reference.split("."))
    until = axis.loop.until if axis.loop is not None else None
    if until is not None:
        try:
            references = parse_expression(until).references
        except ExpressionError:
            return
        for name in sorted(references):
            if len(name) > 1 and name[0] not in ("hp", "run"):
                yield ("axes", label, "loop", "until"), name
