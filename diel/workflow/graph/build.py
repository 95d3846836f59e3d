"""Builds the stage graph of a workflow, and finds all that is wrong with it."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from diel.base.errors import MAX_PROBLEMS, did_you_mean
from diel.workflow.graph.gang import check_beside, check_gangs, check_stream, check_streams
from diel.workflow.graph.judge import check_adaptive, check_waits
from diel.workflow.graph.service import check_service, check_services, is_renewed, nearest_service
from diel.workflow.graph.stage_graph import Edge, PublishedHyperparameter, StageGraph
from diel.workflow.graph.uses import hyperparameter_reads, uses
from diel.workflow.models import Axis, Loop, Search, Stage, Violation, Workflow
from diel.workflow.models.forms.axis import bare, clashes
from diel.workflow.models.model import Key


def build(workflow: Workflow) -> tuple[StageGraph, list[Violation]]:
    """Return the graph of a workflow, and its first flaws."""
    flaws: list[Violation] = []
    edges: list[Edge] = []

    def add(uses: Iterator[Edge]) -> None:
        for use in uses:
            edge = _resolved(workflow, use, flaws)
            if edge is not None:
                edges.append(edge)
            if len(flaws) > MAX_PROBLEMS:
                return

    for name, stage in workflow.stages.items():
        flaws += islice(_axis_flaws(workflow, name, stage), MAX_PROBLEMS + 1)
        add(uses(workflow, name, flaws))
        if len(flaws) > MAX_PROBLEMS:
            return StageGraph(workflow, tuple(edges)), flaws
    graph = StageGraph(workflow, tuple(edges))
    cycles = [_cycle_flaw(graph, names) for names in islice(graph.cycles(), MAX_PROBLEMS + 1)]
    flaws += cycles
    if workflow.adaptive:
        flaws += islice(check_adaptive(workflow), MAX_PROBLEMS + 1)
    if workflow.any_stage(lambda stage: stage.beside):
        flaws += islice(check_beside(workflow), MAX_PROBLEMS + 1)
    if cycles:
        return graph, flaws
    if workflow.any_stage(lambda stage: stage.publishes):
        flaws += islice(_check_publishers(graph), MAX_PROBLEMS + 1)
        add(_published_uses(graph, flaws))
        graph = StageGraph(workflow, tuple(edges))
    return graph, [*flaws, *_whole_flaws(graph)]


def _whole_flaws(graph: StageGraph) -> Iterator[Violation]:
    workflow = graph.workflow
    if workflow.adaptive:
        yield from check_waits(graph)
    if workflow.any_stage(lambda stage: stage.joined):
        yield from (*check_streams(graph), *check_gangs(graph))
    if workflow.any_stage(lambda stage: stage.service is not None or stage.services):
        yield from check_services(graph)


def _resolved(workflow: Workflow, use: Edge, flaws: list[Violation]) -> Edge | None:
    """Return the edge of a mention, with the axes along which data moves; None for an impossible one."""
    name, other = use.downstream, use.upstream
    if other not in workflow.stages:
        hint = did_you_mean(other, workflow.stages) or f"stages: {', '.join(workflow.stages)}"
        hint = nearest_service(workflow, other) if use.service else hint
        flaws.append(Violation(f"no stage '{other}'", hint, use.key))
        return None
    at, axes = use.picked, workflow.axes
    chosen = {a: choice for a in at if a in axes and (choice := axes[a].choice(at[a])) is not None}
    use = use._replace(chosen=chosen) if chosen else use
    if other == name and not use.follows:
        hint = "in a loop, `at: {AXIS: previous}` reads the previous round"
        hint = "a service is asked by other stages" if use.service else hint
        itself = Violation(f"the stage depends on itself: {name} -> {name}", hint, use.key)
        flaws += [*_at_flaws(workflow, use)] or [itself]
        return None
    source, reader = workflow.stages[other], workflow.stages[name]
    flaws += _at_flaws(workflow, use)
    stream = (declared := source.outputs.get(use.output or "")) is not None and declared.stream is not None
    if stream or use.share:
        flaws += check_stream(use, stream=stream)
    if source.service is not None or use.service or use.begun:
        flaws += check_service(workflow, use)
    rest = [a for a in source.over if a not in at]
    several = [a for a, choice in chosen.items() if choice.several]
    edge = use._replace(
        picked={a: point for a, point in at.items() if a not in chosen},
        matched=tuple(a for a in rest if a in reader.over),
        gathered=tuple(a for a in axes if a in {*rest, *several} and (a not in reader.over or a in several)),
        stream=stream and use.name is not None,
        renewed=reader.service is not None and is_renewed(reader, use),
    )
    wrong = (
        ()
        if edge.gathered or use.name is None
        else (*("min_success",) * (use.min_success < 1), *("missing",) * use.outer)
    )
    for word in wrong:
        message = f"nothing is gathered here: '{other}' gives one result for each task"
        flaws.append(Violation(message, "", (*use.key, word)))
    return edge


def _at_flaws(workflow: Workflow, use: Edge) -> Iterator[Violation]:
    upstream, downstream = workflow.stages[use.upstream].over, workflow.stages[use.downstream].over
    for label, point in use.picked.items():
        key = (*use.key, "at", label)
        axis = workflow.axes.get(label)
        if label not in upstream:
            hint = did_you_mean(label, upstream) or f"its axes: {', '.join(upstream) or 'none'}"
            yield Violation(f"'{use.upstream}' does not run over an axis '{label}'", hint, key)
        elif axis is not None:
            strange = strange_word(label, axis, point)
            if not strange:
                yield from (
                    Violation(*flaw, key) for flaw in axis.pick_flaws(label, point, label in downstream)
                )
            elif not axis.named or use.upstream == use.downstream:
                yield Violation(strange, axis.pick_hint, key)
            elif axis.source is not None and point in Loop.picks:
                hint = f"for a point of that name write {{{label}: {{PARAMETER: {point}}}}}"
                yield Violation(strange, hint, key)
            if point == "previous" and axis.adaptive and not use.begun:
                reference = f"{use.upstream}.{use.output}"
                hint = f"for instance {{from: {reference}, at: {{{label}: previous}}, initially: 0}}"
                yield Violation("`previous` needs `initially:`, the value in the first round", hint, use.key)


def strange_word(label: str, axis: Axis, point: Any) -> str:
    """Say that a pick is a word of another form of axis; empty if not, or if a point may have that name."""
    word = "top" if isinstance(point, dict) and "top" in point else point
    kind: type[Axis] | None = next((kind for kind in (Search, Loop) if word in kind.picks), None)
    if kind is None or axis.choice(word) is not None or word in axis.picks:
        return ""
    return f"`{word}` picks a {kind.point} of a {kind.word}, and '{label}' is not a {kind.word}"


def _axis_flaws(workflow: Workflow, name: str, stage: Stage) -> Iterator[Violation]:
    brought: dict[str, Sequence[str]] = {}
    for number, label in enumerate(stage.over):
        key: Key = ("stages", name, "over", number)
        if label not in workflow.axes:
            owner = next((a for a, own in workflow.axes.items() if label in (own.parameters_of(a) or ())), "")
            fallback = did_you_mean(label, workflow.axes) or f"axes: {', '.join(workflow.axes) or 'none'}"
            hint = f"it is a parameter of axis '{owner}': write over: [{owner}]" if owner else fallback
            yield Violation(f"no axis '{label}'", hint, key)
            continue
        brought[label] = workflow.axes[label].parameters_of(label) or (bare(label),)
    for label, message in clashes(brought, ()):
        yield Violation(message, "rename one of them", ("stages", name, "over", stage.over.index(label)))


def _cycle_flaw(graph: StageGraph, names: list[str]) -> Violation:
    last, first = names[-1], names[0]
    guilty = next(e for e in graph.into(first) if e.upstream == last and not e.follows)
    return Violation(
        f"the stages wait for each other: {' -> '.join([*names, first])}",
        "remove one of these edges, or make it a loop axis with `at: {AXIS: previous}`",
        guilty.key,
    )


def _check_publishers(graph: StageGraph) -> Iterator[Violation]:
    """Yield the flaws of `publishes`, except those of outputs, which depend on modules."""
    workflow = graph.workflow
    for name, stage in workflow.stages.items():
        for published in stage.publishes:
            key: Key = ("stages", name, "publishes", published)
            if published not in workflow.hyperparameters:
                names = ", ".join(workflow.hyperparameters) or "none"
                hint = did_you_mean(published, workflow.hyperparameters) or f"hyperparameters: {names}"
                yield Violation(f"no hyperparameter '{published}'", hint, key)
                continue
            for label in _searches(workflow, name, published):
                hint = (
                    f"let a stage without '{label}' publish it, that reads "
                    f"{{from: hp.{published}, at: {{{label}: best}}}}"
                )
                message = f"'{name}' runs over '{label}', a search that sets '{published}' itself"
                yield Violation(message, hint, key)
    yield from _check_order(graph)


def _searches(workflow: Workflow, name: str, hyperparameter: str) -> list[str]:
    return [
        label
        for label in workflow.stages[name].over
        if label in workflow.axes and hyperparameter in workflow.axes[label].sets
    ]


def _check_order(graph: StageGraph) -> Iterator[Violation]:
    """Check that of two stages that publish the same name, one depends on the other."""
    for published, names in _publishers(graph).items():
        for place, name in enumerate(names):
            for other in names[:place]:
                if name not in graph.after(other):
                    yield Violation(
                        f"'{other}' publishes '{published}' too, and neither depends on the other",
                        f"make one later, for instance by `after: [{other}]`, or drop one",
                        ("stages", name, "publishes", published),
                    )


def _publishers(graph: StageGraph) -> dict[str, list[str]]:
    """Return the stages that publish each hyperparameter, in the order in which they run."""
    makers: dict[str, list[str]] = {}
    for name in graph.order:
        for published in graph.workflow.stages[name].publishes:
            if published in graph.workflow.hyperparameters:
                makers.setdefault(published, []).append(name)
    return makers


def _published_uses(graph: StageGraph, flaws: list[Violation]) -> Iterator[Edge]:
    """Yield an edge from the stage that publishes a value to each stage that reads it, and depends on it
    anyway, so that no cycle closes. Where several publish a name, the last is read."""
    workflow = graph.workflow
    publishers = _publishers(graph)
    after = {name: graph.after(name) - {name} for names in publishers.values() for name in names}
    for name, stage in workflow.stages.items():
        for read, key in hyperparameter_reads(name, stage, picked=False).items():
            makers = [maker for maker in publishers.get(read, ()) if name in after[maker]]
            if not makers or _searches(workflow, name, read):
                continue
            maker = makers[-1]
            source = workflow.stages[maker]
            several = [label for label in source.over if label not in stage.over]
            if several:
                axes = ", ".join(several)
                message = f"'{maker}' publishes '{read}' once for each {axes}, and '{name}' lacks {axes}"
                flaws.append(
                    Violation(message, "add the axis, or let a stage without it publish one value", key)
                )
                continue
            declared = PublishedHyperparameter(read, workflow.hyperparameters[read])
            over = [] if source.when is None else [axis for axis in source.over if axis in workflow.axes]
            # `when` may leave out some rounds of a loop: the last in which the stage ran is read.
            picked = {label: "last" for label in over if workflow.axes[label].in_turn}
            yield Edge(key, maker, name, source.publishes[read], picked=picked, published=declared)
