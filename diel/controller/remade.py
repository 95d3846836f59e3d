"""What rests on results that were made again: if they are others than before, it is computed again too.

Their outputs are compared with those that readers had. Where a decision of a search or loop rests on one that
differs, which holds for the whole run, the task fails instead.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Collection, Iterator, Mapping

from diel.controller.again import Others, tell_gone
from diel.graph import StageGraph
from diel.graph.judge import references_of
from diel.journal.segment import SegmentWriter
from diel.paths import RunPaths
from diel.results import RunReader
from diel.results.suspect import reached
from diel.tasks.results import Outputs, outputs_digests

Refused = Mapping[tuple[str, int], str]
"""Tasks whose new results cannot count, and why."""
REFUSED = (
    "made again, it is another result than before ({}), and the points of {} rest on the former, which hold "
    "for the whole run; `diel run` begins another, and takes from the cache what has not changed"
)


def make_anew(paths: RunPaths, segment: SegmentWriter) -> Refused:
    """Marks what rests on results that were made again and are others, to be computed again too.

    The segment is that of the controller that takes over. Returns the tasks whose new results must not count.
    Raises DielError where the run cannot be read.
    """
    run = RunReader(paths)
    others = {name: found for name in run.history.stages if (found := _others(run, name))}
    refused: dict[tuple[str, int], str] = {}
    lost: dict[str, set[int]] = {}
    for name, tasks in others.items():
        outputs = _differing(run, name, tasks)
        if axes := [*_decided(run.graph, name, outputs)]:
            why = REFUSED.format(", ".join(sorted(outputs)), ", ".join(axes))
            refused |= {(name, index): why for index in tasks}
            lost.setdefault(name, set()).update(tasks)
            continue
        for stage, rest in _resting(run, name, tasks, outputs).items():
            lost.setdefault(stage, set()).update(rest)
    if others:
        counting = {name: made for name, made in others.items() if (name, next(iter(made))) not in refused}
        _write(run, segment, lost, counting)
    return refused


def _others(run: RunReader, name: str) -> dict[int, Outputs]:
    stage = run.history.stage(name)
    found = {}
    for index, record in run.records(name).items() if stage.made else ():
        now = outputs_digests(record)
        if index in stage.made and stage.is_good(index) and now != stage.made[index]:
            found[index] = now
    return found


def _differing(run: RunReader, name: str, tasks: Mapping[int, Outputs]) -> set[str]:
    made = run.history.stage(name).made
    pairs = ((made[index], now) for index, now in tasks.items())
    return {one for before, now in pairs for one in {*before, *now} if before.get(one) != now.get(one)}


def _readers(graph: StageGraph, name: str, outputs: Collection[str]) -> set[str]:
    """The stages that read these outputs of a stage, directly or through others, or ask services that did."""
    found: set[str] = set()
    line = [edge.downstream for edge in graph.out_of(name) if edge.output in outputs]
    while line:
        if (stage := line.pop()) not in found:
            found.add(stage)
            line += [
                edge.downstream for edge in graph.out_of(stage) if edge.output is not None or edge.service
            ]
    return found


def _decided(graph: StageGraph, name: str, outputs: Collection[str]) -> Iterator[str]:
    """The searches and loops whose decisions rest on these outputs of a stage."""
    readers = _readers(graph, name, outputs)
    for label, axis in graph.workflow.axes.items():
        judges = [reference for _, reference in references_of(label, axis)] if axis.adaptive else []
        own = any(judge[0] == name and (len(judge) < 2 or judge[1] in outputs) for judge in judges)
        if own or readers & {judge[0] for judge in judges}:
            yield label


def _resting(
    run: RunReader, name: str, tasks: Collection[int], outputs: Collection[str]
) -> dict[str, Collection[int]]:
    """Return the tasks that rest on these outputs: all of what an axis is made of, or a service has read."""
    readers, workflow = _readers(run.graph, name, outputs), run.workflow
    makers = {axis.maker for axis in workflow.axes.values() if axis.maker in {name, *readers}}
    if makers or any(workflow.stages[one].service is not None for one in readers):
        return {stage: [*run.history.stage(stage).good()] for stage in readers}
    found = reached(run, {name: tasks})
    found[name] = found[name] - {*tasks}
    return {stage: found[stage] for stage in {*readers, name} if found[stage]}


def _write(run: RunReader, segment: SegmentWriter, lost: Mapping[str, Collection[int]], made: Others) -> None:
    again: dict[str, dict[int, int]] = {}
    for name, tasks in lost.items():
        again[name] = {index: run.history.stage(name).result_attempt(index) for index in sorted(tasks)}
        for index in tasks:  # they would go on from there
            shutil.rmtree(run.paths.tasks / name / f"{index}.checkpoint", ignore_errors=True)
    for label, axis in run.workflow.axes.items():
        if axis.maker in made and any(label in run.workflow.stages[name].over for name in again):
            with contextlib.suppress(OSError):
                run.paths.axis(label).unlink()
    tell_gone(segment, [{name: tasks for name, tasks in again.items() if tasks}], made)
