"""Results whose files somebody removed: where tasks that have yet to run need them, they are made again."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping

from diel.artifacts import files_of
from diel.explain.view import View
from diel.journal.segment import SegmentWriter, worker_segment_name
from diel.paths import RunPaths
from diel.results import Recorded
from diel.tasks.keeping import Place, Readers, ended_well, reading
from diel.tasks.link import Link
from diel.tasks.results import artifact_path

Again = Mapping[str, dict[int, int]]
"""By stage, the tasks that must run again, and up to which attempt what they made is gone."""


def find_missing(view: View) -> Again:
    """The tasks with a result that lost files which a task reads that has not ended well, or of which an
    axis is made: every controller reads these.

    They have no result any more in `view`.
    """
    run = view.run
    readers = Readers(link for link in reading(view.links) if _may_be_file(view, link))
    axes = {(link.edge.upstream, str(link.edge.output)) for link in view.links if link.edge.axis is not None}
    found: dict[str, dict[int, int]] = {}
    for name in reversed(run.graph.order):  # readers first: one that runs again needs its own inputs
        stage = view.stages[name]
        lost = {index: stage.history.result_attempt(index) for index in _lost(run, readers, axes, name)}
        for index, attempt in lost.items():
            stage.history.lose(index, attempt)
        if lost:
            found[name] = lost
        if readers.reads(name) and stage.domain is not None:
            for index in range(stage.size):
                if ended_well(stage, index):
                    readers.count(stage, index)
    return found


def _may_be_file(view: View, link: Link) -> bool:
    """Whether what a link reads may be a file, as far as can be told without looking."""
    output = link.up.spec.outputs.get(str(link.edge.output))
    if output is not None and output.form is not None:
        return output.form in ("path", "glob")
    module = view.module(link.up.name)
    returns = None if module is None else module.signature.returns
    return module is None or returns is None or link.edge.output in module.signature.artifacts


def _lost(run: Recorded, readers: Readers, axes: set[Place], name: str) -> list[int]:
    """The tasks of a stage of which a file is not there that is still needed."""
    outputs = [place[1] for place in {*readers.links, *axes} if place[0] == name]
    found: set[int] = set()
    for record in run.results(name, b'"artifacts":{') if outputs else ():
        index = record["index"]
        needed = (
            file["path"]
            for output in outputs
            if output in record["artifacts"]
            and ((name, output) in axes or not readers.done_with((name, output), index))
            for file in files_of(record["artifacts"][output])
        )
        if not all(os.path.exists(artifact_path(record, path, run.paths.root)) for path in needed):
            found.add(index)
        else:
            found.discard(index)
    return sorted(found)


def write_again(paths: RunPaths, epoch: int, again: Iterable[Again]) -> None:
    """Writes into the journal, in one more segment, that these results count no more."""
    segment = SegmentWriter(paths.journal / worker_segment_name(epoch, socket.gethostname(), os.getpid()))
    try:
        for stage, tasks in (item for found in again for item in found.items()):
            segment.append({"event": "gone", "stage": stage, "tasks": list(map(list, tasks.items()))})
    finally:
        segment.close()
