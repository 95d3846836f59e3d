"""Results that a resumed run makes again: those whose files were removed, and outdated ones.

`min_success` lets a task go on while some of those that it reads have failed. If these succeed after a
resume, its result would no longer be one of what the run holds: it is outdated.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing

from diel.artifacts import files_of, is_same
from diel.axes.domain import Group
from diel.graph.judge import deciding
from diel.journal.segment import SegmentWriter, worker_segment_name
from diel.paths import RunPaths
from diel.results import RunReader
from diel.results.suspect import reached, suspect_tasks
from diel.tasks.keeping import Place, Readers, ended_well, reading
from diel.tasks.link import Link
from diel.tasks.results import Outputs, artifact_home, outputs_digests
from diel.tasks.stage_run import StageRun

Again = Mapping[str, dict[int, int]]
"""By stage, the tasks that must run again, and the last attempt whose result is gone."""
Others = Mapping[str, dict[int, Outputs]]
"""By stage, tasks that are made again, or were, with the digests of their outputs."""


def find_missing(run: RunReader) -> tuple[Again, Others]:
    """Return the tasks whose files are gone or others by now, and still to be read, with what they had made.
    They have no result any more in `view`."""
    made: dict[str, dict[int, Outputs]] = {}
    readers = Readers(link for link in reading(run.links) if _may_be_file(run, link))
    axes = {(link.edge.upstream, str(link.edge.output)) for link in run.links if _is_read_anew(run, link)}
    found: dict[str, dict[int, int]] = {}
    for name in reversed(run.graph.order):  # readers first: one that runs again needs its own inputs
        stage = run.stages[name]
        outputs = _lost(run, readers, axes, name)
        lost = {index: stage.history.result_attempt(index) for index in outputs}
        for index, attempt in lost.items():
            stage.history.lose(index, attempt)
        if lost:
            found[name], made[name] = lost, outputs
        readers.count_ended(stage)
    return found, made


def _is_read_anew(run: RunReader, link: Link) -> bool:
    """Whether each controller reads it: what an axis is made of, what a service reads that is still asked."""
    if link.edge.axis is not None:
        return True
    asks = (one.down for one in run.links if one.edge.service and one.up is link.down)
    return link.edge.output is not None and any(
        not ended_well(stage, index) for stage in asks for index in range(stage.size)
    )


def _may_be_file(run: RunReader, link: Link) -> bool:
    output = link.up.spec.outputs.get(str(link.edge.output))
    if output is not None and output.form is not None:
        return output.form in ("path", "glob")
    module = run.module(link.up.name)
    returns = None if module is None else module.signature.returns
    return module is None or returns is None or link.edge.output in module.signature.artifacts


def _lost(run: RunReader, readers: Readers, axes: set[Place], name: str) -> dict[int, Outputs]:
    outputs = [place[1] for place in {*readers.links, *axes} if place[0] == name]
    found: dict[int, Outputs] = {}
    for record in run.results(name, b'"artifacts":{') if outputs else ():
        index = record["index"]
        needed = (
            file
            for output in outputs
            if output in record["artifacts"]
            and ((name, output) in axes or not readers.done_with((name, output), index))
            for file in files_of(record["artifacts"][output])
        )
        home = artifact_home(record, run.paths.root)
        if not all(is_same(f"{home}/{file['path']}", file) for file in needed):
            found[index] = outputs_digests(record)
        else:
            found.pop(index, None)
    return dict(sorted(found.items()))


def find_suspect(run: RunReader) -> tuple[Again, Again]:
    """Return the tasks whose result is a suspect answer or read one, and those that stay because decisions or
    an axis rest on them. The first have no result any more in `view`."""
    decided = {*deciding(run.graph)}
    answers = {name: stage.history.suspect() for name, stage in run.stages.items()}
    again = reached(run, answers, without=decided)
    every = suspect_tasks(run)
    stays = _made(run, {name: every[name] - again[name] for name in decided})
    found = _made(run, again)
    for name, tasks in found.items():
        for index, attempt in tasks.items():
            run.stages[name].history.lose(index, attempt)
    return found, stays


def _made(run: RunReader, tasks: Mapping[str, Collection[int]]) -> Again:
    made = {name: run.stages[name].history.result_attempt for name in tasks}
    return {
        name: {index: made[name](index) for index in sorted(tasks[name])} for name in tasks if tasks[name]
    }


def find_outdated(run: RunReader, remade: Again) -> Again:
    """The tasks whose results no longer count once the run is resumed, by stage, with their attempts: those
    to be `remade` are among them.

    They have no result any more in `view`. Left as they are: the tasks of searches and loops, whose decisions
    hold for the whole run, and those of which an axis is made, whose points do.
    """
    if not remade and all(link.edge.min_success == 1 for link in run.links):
        return {}
    outdated = _Outdated(run, remade)
    for name in run.graph.order:
        outdated.look_at(run.stages[name])
    return outdated.found


class _Outdated:
    def __init__(self, run: RunReader, remade: Again) -> None:
        self._view = run
        self._lasting = {link.edge.upstream for link in run.links if link.edge.axis is not None}
        self._changes = {name: set(remade.get(name, ())) for name in run.stages}
        """The tasks that are tried again, or made again."""
        self._known: dict[tuple[int, Group], tuple[bool, bool]] = {}
        self.found = {name: dict(tasks) for name, tasks in remade.items()}

    def look_at(self, stage: StageRun) -> None:
        links = [link for link in self._view.into(stage.name) if _reads(link)]
        lasts = bool(stage.adaptive) or stage.name in self._lasting or stage.spec.service is not None
        for index in range(stage.size):
            state = stage.history.state(index)
            if not state.good:
                if self._is_tried_again(stage, index, links):
                    self._changes[stage.name].add(index)
            elif not lasts and any(self._look(link, index)[0] for link in links):
                self._changes[stage.name].add(index)
                attempt = stage.history.result_attempt(index)
                self.found.setdefault(stage.name, {})[index] = attempt
                stage.history.lose(index, attempt)

    def _is_tried_again(self, stage: StageRun, index: int, links: list[Link]) -> bool:
        history = stage.history
        if index in stage.omitted or index in history.tolerated or index in history.gone:
            return False
        return all(link.edge.min_success < 1 or not self._look(link, index)[1] for link in links)

    def _look(self, link: Link, index: int) -> tuple[bool, bool]:
        """Return whether any input of a task changes, and whether any stays without a result."""
        if not link.up.known:
            return False, False
        group = link.group_of_downstream(index)
        place = (id(link), group)
        if place not in self._known:
            changes, good = self._changes[link.up.name], link.up.history.is_good
            changed = lacks = False
            for member in link.members(group):
                changed |= member in changes
                lacks |= not (good(member) or member in changes or member in link.up.omitted)
            self._known[place] = changed, lacks
        return self._known[place]


def _reads(link: Link) -> bool:
    """Whether tasks read results along a link that are not picked."""
    edge = link.edge
    reads = edge.output is not None or edge.hyperparameter is not None
    return reads and not (edge.chosen or edge.stream or edge.published)


def write_again(
    paths: RunPaths,
    epoch: int,
    again: Iterable[Again],
    stays: Again | None = None,
    made: Others | None = None,
) -> None:
    """Record which results stay, then which no longer count, and what readers had (`made`)."""
    name = worker_segment_name(epoch, socket.gethostname(), os.getpid())
    with closing(SegmentWriter(paths.journal / name)) as segment:
        for stage, tasks in (stays or {}).items():
            segment.append({"event": "doubted", "stage": stage, "tasks": list(map(list, tasks.items()))})
        tell_gone(segment, again, made or {})


def tell_gone(segment: SegmentWriter, again: Iterable[Again], made: Others) -> None:
    """Record in a segment that these results no longer count, and what readers of results had."""
    for stage, tasks in (item for found in again for item in found.items()):
        segment.append({"event": "gone", "stage": stage, "tasks": list(map(list, tasks.items()))})
    for stage, outputs in made.items():
        digests = [(index, dict(each)) for index, each in outputs.items()]
        segment.append({"event": "gone", "stage": stage, "tasks": [], "made": digests})
