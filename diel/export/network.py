"""Graphs as networkx has them: the stages of a workflow or of a run, and the tasks of a run.

networkx takes a tenth of a second to import: functions that need it do.
"""

import json
from collections.abc import Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Any

from diel.base.values import json_value
from diel.export import TaskOutcome, ran, read_by
from diel.observe.results import RunReader
from diel.workflow.drawing import Drawing, Node, axis_text, make_drawing

if TYPE_CHECKING:
    from networkx import DiGraph

FORMATS = ("graphml", "gexf", "json")
"""What `diel graph` writes of a stage graph for other programs."""

_BESIDES_DONE = ("failed", "skipped", "cancelled", "running")


def draw_run(run: RunReader) -> Drawing:
    """Return the drawing of a run's stages, with the states of their tasks."""
    nodes = {}
    for name, stage in run.workflow.stages.items():
        history = run.history.stage(name)
        counts = history.counts()
        axes = tuple(axis_text(label, run.workflow.axes[label]) for label in stage.over)
        nodes[name] = Node(name, history.kind, axes, _standing(counts), _state(counts, history.expected))
    return make_drawing(run.graph, nodes)


def _standing(counts: Mapping[str, int]) -> str:
    done = f"{counts['done'] + counts['cached']:,}/{sum(counts.values()):,} done"
    others = (f"{counts[state]:,} {state}" for state in _BESIDES_DONE if counts[state])
    return ", ".join([done, *others])


def _state(counts: Mapping[str, int], total: int) -> str:
    if counts["failed"]:
        return "failed"
    if counts["running"] or counts["queued"]:
        return "running"
    good = counts["done"] + counts["cached"]
    if total and good + counts["skipped"] + counts["cancelled"] == total:
        return "done" if good else "skipped" if counts["skipped"] else "cancelled"
    return "running" if good else "waiting"


def stage_network(drawing: Drawing, facts: Mapping[str, Mapping[str, Any]] | None = None) -> "DiGraph[str]":
    """Return the stages as nodes, and as edges what each reads of another.

    Nodes have `kind`, `axes`, `tasks` and, of a run, `state`, besides their `facts`; edges have `outputs`,
    `rule`, and `previous`, true where the round before is read. All are texts, numbers or truth values.
    """
    import networkx  # slow to load

    network: DiGraph[str] = networkx.DiGraph(name=drawing.name)
    for node in drawing.nodes:
        state = {"state": node.state} if node.state else {}
        more = (facts or {}).get(node.name, {})
        network.add_node(
            node.name, kind=node.kind, axes=", ".join(node.axes), tasks=node.tasks, **state, **more
        )
    for arrow in drawing.arrows:
        before = network.get_edge_data(arrow.upstream, arrow.downstream, {})
        outputs = [*filter(None, before.get("outputs", "").split(", ")), *arrow.outputs]
        rules = filter(None, (before.get("rule", ""), arrow.rule))
        network.add_edge(
            arrow.upstream,
            arrow.downstream,
            outputs=", ".join(dict.fromkeys(outputs)),
            rule="; ".join(dict.fromkeys(rules)),
            previous=arrow.back and before.get("previous", True),
        )
    return network


def stage_facts(run: RunReader) -> dict[str, dict[str, Any]]:
    """Return how many tasks of each stage are in each state, and the times of those that ended.

    `began` and `ended` are seconds since the epoch, `seconds` is the sum over its tasks.
    """
    by_stage: dict[str, list[TaskOutcome]] = {stage: [] for stage in run.workflow.stages}
    for task in ran(run).values():
        by_stage[task.stage].append(task)
    facts: dict[str, dict[str, Any]] = {}
    for stage, tasks in by_stage.items():
        began = [task.began for task in tasks if task.began is not None]
        ended = [task.ended for task in tasks if task.ended is not None]
        facts[stage] = {state: count for state, count in run.history.stage(stage).counts().items() if count}
        if began:
            facts[stage] |= {"began": min(began), "ended": max(ended)}
        facts[stage]["seconds"] = round(sum(task.seconds or 0.0 for task in tasks), 6)
    return facts


def task_network(run: RunReader) -> "DiGraph[str]":
    """Return the tasks that ended as nodes `STAGE/INDEX`, and as edges what each read of another.

    Nodes have `stage`, `index`, `label` with the task's point, `state` and, as far as known, `began` and
    `ended` in seconds since the epoch, `seconds`, `host` and `attempt`; edges have `outputs`.
    """
    import networkx  # slow to load

    network: DiGraph[str] = networkx.DiGraph(name=run.paths.run_id)
    tasks = ran(run)
    for task in tasks.values():
        facts = {
            "began": task.began,
            "ended": task.ended,
            "seconds": task.seconds,
            "host": task.host or None,
            "attempt": task.attempt or None,
        }
        measured = {name: value for name, value in facts.items() if value is not None}
        label = run.named(task.task)
        network.add_node(
            task.task, stage=task.stage, index=task.number, label=label, state=task.state.label, **measured
        )
    for key, task in tasks.items():
        for parent, outputs in read_by(run, key, tasks).items():
            network.add_edge(tasks[parent].task, task.task, outputs=", ".join(outputs))
    return network


def write_network(network: "DiGraph[str]", form: str) -> str:
    """Write a graph in one of `FORMATS`: GraphML, GEXF, or JSON as networkx's `node_link_graph` reads it."""
    import networkx  # slow to load

    if form == "json":
        return json.dumps(json_value(networkx.node_link_data(network)), indent=1, ensure_ascii=False)
    file = BytesIO()
    (networkx.write_graphml if form == "graphml" else networkx.write_gexf)(network, file)
    return file.getvalue().decode("utf-8")
