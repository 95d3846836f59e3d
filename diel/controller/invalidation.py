"""Results that a resumed run makes again: their files were removed, or what they rest on is another.

`min_success` lets a task go on while some of those that it reads have failed. If these succeed after a
resume, its result would no longer be one of what the run holds: it is outdated. So are results that rest on
one that was made again and is another than its readers had, and those that read all of a search that is given
more trials than its run began with (`diel resume RUN --trials 40`). A run's file has the new numbers first:
every later controller finds from them what is left to do.
"""

import contextlib
import os
import shutil
import socket
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing

from diel.base.errors import UsageError, did_you_mean
from diel.base.paths import RunPaths
from diel.base.states import FINAL
from diel.observe.results import RunReader
from diel.observe.results.rows import reached, suspects
from diel.store.artifacts import differences, files_of, text_of
from diel.store.journal.records import Result
from diel.store.journal.segment import SegmentWriter, worker_segment_name
from diel.tasks.artifact_gc import Place, Readers, ended_well, reading
from diel.tasks.link import Link
from diel.tasks.points.adaptive import Adaptive, SearchAxis
from diel.tasks.points.domain import Group
from diel.tasks.results import Outputs, artifact_home, outputs_digests
from diel.tasks.service import Turn, turns_of
from diel.tasks.stage_run import StageRun
from diel.workflow.graph import StageGraph
from diel.workflow.graph.judge import deciding, references_of
from diel.workflow.graph.stage_graph import reach
from diel.workflow.models.model import MAX_POINTS

Again = Mapping[str, dict[int, int]]
"""By stage, the tasks that must run again, and the last attempt whose result is gone."""
Others = Mapping[str, dict[int, Outputs]]
"""By stage, tasks that are made again, or were, with the digests of their outputs."""


def find_missing(run: RunReader) -> tuple[Again, Others, list[str]]:
    """Return the tasks whose files are gone or others by now, and still to be read, with what they had made,
    and what is wrong with a file of each. They have no result any more in `view`."""
    digests: dict[str, dict[int, Outputs]] = {}
    readers = Readers(link for link in reading(run.links) if _may_be_file(run, link))
    axes = {(link.edge.upstream, str(link.edge.output)) for link in run.links if _is_read_anew(run, link)}
    missing: dict[str, dict[int, int]] = {}
    texts: list[str] = []
    for name in reversed(run.graph.order):  # readers first: one that runs again needs its own inputs
        stage, found = run.stages[name], _lost(run, readers, axes, name)
        if found:
            digests[name] = {index: outputs_digests(record) for index, (record, _) in found.items()}
        missing |= _lose(run, {name: found})
        texts += [text for _, text in found.values()]
        readers.count_ended(stage)
    return missing, digests, texts


def _is_read_anew(run: RunReader, link: Link) -> bool:
    """Return whether each controller reads it: it makes an axis, or a service reads it that is asked."""
    if link.edge.axis is not None:
        return True
    asks = (asking.down for asking in run.links if asking.edge.service and asking.up is link.down)
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


def _lost(run: RunReader, readers: Readers, axes: set[Place], name: str) -> dict[int, tuple[Result, str]]:
    """Return the latest records of tasks of which a file is not as it was made, and what is wrong with it."""
    outputs = [place[1] for place in {*readers.links, *axes} if place[0] == name]
    missing: dict[int, tuple[Result, str]] = {}
    for record in run.results(name, b'"artifacts":{') if outputs else ():
        index, home = record["index"], artifact_home(record, run.paths.root)
        needed = (
            file
            for output in outputs
            if output in record["artifacts"]
            and ((name, output) in axes or not readers.done_with((name, output), index))
            for file in files_of(record["artifacts"][output])
        )
        missing.pop(index, None)
        for file in needed:
            if changes := differences(f"{home}/{file['path']}", file["digest"], file.get("identity", "")):
                place = f"{os.path.basename(home)}/{file['path']}"
                missing[index] = record, f"{place} of {name}/{index}: {text_of(changes)}"
                break
    return dict(sorted(missing.items()))


def find_suspect(run: RunReader) -> tuple[Again, Again]:
    """Return the tasks whose result is a suspect answer or read one, and those that stay because decisions or
    an axis rest on them. The first have no result any more in `view`."""
    decided = {*deciding(run.graph)}
    answers = {name: stage.history.suspect() for name, stage in run.stages.items()}
    again = reached(run, answers, without=decided)
    every = suspects(run)
    stays = _made(run, {name: every.get(name, set()) - again[name] for name in decided})
    return _lose(run, again), stays


def _made(run: RunReader, tasks: Mapping[str, Collection[int]]) -> dict[str, dict[int, int]]:
    attempts = {name: run.history.stage(name).result_attempt for name in tasks}
    return {
        name: {index: attempts[name](index) for index in sorted(tasks[name])} for name in tasks if tasks[name]
    }


def _lose(run: RunReader, tasks: Mapping[str, Collection[int]]) -> dict[str, dict[int, int]]:
    """Return tasks with their last attempts, whose results no longer count in `run`."""
    made = _made(run, tasks)
    for name, attempts in made.items():
        for index, attempt in attempts.items():
            run.history.stage(name).lose(index, attempt)
    return made


def find_outdated(run: RunReader, remade: Again) -> tuple[Again, Others]:
    """Return the tasks whose results no longer count after `resume`, by stage, with their attempts, and what
    those had made on which decisions or the points of an axis rest. Those to be `remade` are among them: then
    tasks of searches and loops, and of axes, stay. They have no result any more in `run`."""
    turns = turns_of(run.graph, run.links)
    if not remade and not turns and all(link.edge.min_success == 1 for link in run.links):
        return {}, {}
    outdated = _Outdated(run, remade, turns)
    while outdated.grows() and turns:
        pass  # what a round makes answers the next one
    return outdated.again, outdated.outputs


class _Outdated:
    def __init__(self, run: RunReader, remade: Again, turns: list[Turn]) -> None:
        self._view, self._remade, self._turns = run, remade, turns
        self._lasting = {link.edge.upstream for link in run.links if link.edge.axis is not None}
        self._changes = {name: set(remade.get(name, ())) for name in run.stages}
        """The tasks that are tried again, or made again."""
        self._known: dict[tuple[int, Group], tuple[bool, bool]] = {}
        self._stays = bool(remade)
        self.again = {name: dict(tasks) for name, tasks in remade.items()}
        self.outputs: dict[str, dict[int, Outputs]] = {}

    def grows(self) -> bool:
        """Look at all stages, and return whether any task has come."""
        before = sum(map(len, self._changes.values()))
        self._known.clear()
        for name in self._view.graph.order:
            self._look_at(self._view.stages[name])
        return before != sum(map(len, self._changes.values()))

    def _look_at(self, stage: StageRun) -> None:
        turns = [turn for turn in self._turns if stage.name in turn.consumers]
        links = [link for link in self._view.into(stage.name) if self._view.graph.decides(link.edge)]
        links = [link for link in links if not (link.edge.chosen or link.edge.stream)]  # nobody picks these
        decides = bool(stage.adaptive) or stage.name in self._lasting
        stays = stage.spec.service is not None or (decides and self._stays)
        outdated = []
        for index in range(stage.size):
            if not stage.history.state(index).good:
                if self._is_tried_again(stage, index, links):
                    self._changes[stage.name].add(index)
            elif (not stays and any(self._look(link, index)[0] for link in links)) or any(
                self._is_answered_anew(turn, stage, index) for turn in turns
            ):
                self._changes[stage.name].add(index)
                outdated.append(index)
        if not outdated:
            return
        if decides:
            records = self._view.records(stage.name)
            self.outputs[stage.name] = {index: outputs_digests(records[index]) for index in outdated}
        lost = _lose(self._view, {stage.name: outdated})
        self.again.setdefault(stage.name, {}).update(lost[stage.name])

    def _is_tried_again(self, stage: StageRun, index: int, links: list[Link]) -> bool:
        history = stage.history
        if index in stage.omitted:
            return any(self._look(link, index)[0] for link in links)
        if index in history.tolerated or index in history.gone:
            return False
        return all(link.edge.min_success < 1 or not self._look(link, index)[1] for link in links)

    def _is_answered_anew(self, turn: Turn, stage: StageRun, index: int) -> bool:
        """Return whether a later round would answer than did: it gets its result after `resume` only. What
        was simulated needs no answer, but for an audit, which is of what answered."""
        past, up, asks = stage.history.surrogate, turn.link.up, turn.link.down.name in stage.spec.services
        if not asks and past and index not in past.errors and not any(past.answers[index : index + 1]):
            return False
        group, rounds = turn.place(stage, index)
        again = self._changes[up.name].difference(self._remade.get(up.name, ()))
        for number in reversed(range(rounds)):
            made = [*turn.tasks(up, group, number)]
            if not again.isdisjoint(made) or all(map(up.history.is_good, made)):
                return not again.isdisjoint(made)
        return False

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


def write_again(
    paths: RunPaths,
    epoch: int,
    again: Iterable[Again],
    stays: Again | None = None,
    remade: Others | None = None,
) -> None:
    """Record which results stay, then which no longer count, and what readers had (`remade`)."""
    name = worker_segment_name(epoch, socket.gethostname(), os.getpid())
    with closing(SegmentWriter(paths.journal / name)) as segment:
        for stage, tasks in (stays or {}).items():
            segment.append({"event": "doubted", "stage": stage, "tasks": list(map(list, tasks.items()))})
        tell_gone(segment, again, remade or {})


def tell_gone(segment: SegmentWriter, again: Iterable[Again], remade: Others) -> None:
    """Record in a segment that these results no longer count, and what readers of results had."""
    for stage, tasks in (item for by_stage in again for item in by_stage.items()):
        segment.append({"event": "gone", "stage": stage, "tasks": list(map(list, tasks.items()))})
    for stage, outputs in remade.items():
        digests = [(index, dict(by_output)) for index, by_output in outputs.items()]
        segment.append({"event": "gone", "stage": stage, "tasks": [], "made": digests})


Refused = Mapping[tuple[str, int], str]
"""Tasks whose new results cannot count, and why."""
REFUSED = (
    "made again, it is another result than before ({}), and the points of {} rest on the former, which hold "
    f"{FINAL} begins another, and takes from the cache what has not changed"
)


def make_anew(paths: RunPaths, segment: SegmentWriter) -> Refused:
    """Mark what rests on results that were made again and are others, to be computed again too. Where a
    decision of a search or loop rests on one that differs, which holds for the whole run, the task fails
    instead: return these tasks. The segment is of the controller that takes over. Raise DielError."""
    run = RunReader(paths)
    by_stage = {name: differing for name in run.history.stages if (differing := _others(run, name))}
    refused: dict[tuple[str, int], str] = {}
    lost: dict[str, set[int]] = {}
    for name, tasks in by_stage.items():
        outputs = _differing(run, name, tasks)
        if axes := [*_decided(run.graph, name, outputs)]:
            why = REFUSED.format(", ".join(sorted(outputs)), ", ".join(axes))
            refused |= {(name, index): why for index in tasks}
            lost.setdefault(name, set()).update(tasks)
            continue
        for stage, rest in _resting(run, name, tasks, outputs).items():
            lost.setdefault(stage, set()).update(rest)
    if by_stage:
        counting = {
            name: remade for name, remade in by_stage.items() if (name, next(iter(remade))) not in refused
        }
        _write(run, segment, lost, counting)
    return refused


def _others(run: RunReader, name: str) -> dict[int, Outputs]:
    stage = run.history.stage(name)
    differing = {}
    for index, record in run.records(name).items() if stage.made else ():
        now = outputs_digests(record)
        if index in stage.made and stage.is_good(index) and now != stage.made[index]:
            differing[index] = now
    return differing


def _differing(run: RunReader, name: str, tasks: Mapping[int, Outputs]) -> set[str]:
    before_of = run.history.stage(name).made
    pairs = ((before_of[index], now) for index, now in tasks.items())
    return {
        output for before, now in pairs for output in {*before, *now} if before.get(output) != now.get(output)
    }


def _readers(graph: StageGraph, name: str, outputs: Collection[str]) -> set[str]:
    """Return the stages that read these outputs, directly or through others, or ask services that did."""
    line = [edge.downstream for edge in graph.out_of(name) if edge.output in outputs]

    def step(stage: str) -> Iterator[str]:
        return (edge.downstream for edge in graph.out_of(stage) if edge.service or graph.decides(edge))

    return {*reach(line, step)}


def _decided(graph: StageGraph, name: str, outputs: Collection[str]) -> Iterator[str]:
    """Yield the searches and loops whose decisions rest on these outputs of a stage."""
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
    if makers or any(workflow.stages[reader].service is not None for reader in readers):
        return {stage: [*run.history.stage(stage).good()] for stage in readers}
    tasks_by_stage = reached(run, {name: tasks})
    tasks_by_stage[name] = tasks_by_stage[name] - {*tasks}
    return {stage: tasks_by_stage[stage] for stage in {*readers, name} if tasks_by_stage[stage]}


def _write(
    run: RunReader, segment: SegmentWriter, lost: Mapping[str, Collection[int]], remade: Others
) -> None:
    for name, tasks in lost.items():
        for index in tasks:  # they would go on from there
            shutil.rmtree(run.paths.tasks / name / f"{index}.checkpoint", ignore_errors=True)
    for label, axis in run.workflow.axes.items():
        if axis.maker in remade and any(label in run.workflow.stages[name].over for name in lost):
            with contextlib.suppress(OSError):
                run.paths.axis(label).unlink()
    tell_gone(segment, [_made(run, lost)], remade)


def read_trials(run: RunReader, words: Iterable[str]) -> dict[str, int]:
    """Return how many trials searches are to have: `40` for the only one, `AXIS=40` for one of several. Raise
    UsageError for what is not there, or cannot have so many."""
    searches = {label: axis for label, axis in run.adaptive.items() if isinstance(axis, SearchAxis)}
    trials: dict[str, int] = {}
    for word in words:
        label, _, number = word.rpartition("=")
        if not label and len(searches) == 1:
            label = next(iter(searches))
        if label not in searches:
            there = (
                f"its searches: {', '.join(searches)}" if searches else "no axis of its workflow is a search"
            )
            hint = did_you_mean(label, searches) or there
            wrong = f"no search '{label}'" if label else "write --trials AXIS=N" if searches else "no search"
            raise UsageError(f"--trials {word}: {run.paths.run_id}: {wrong}; {hint}")
        if not number.isdecimal() or not 0 < int(number) <= MAX_POINTS:
            raise UsageError(f"--trials {word}: expected a number of trials, such as --trials 40")
        if label in trials:
            raise UsageError(f"--trials {word}: how many '{label}' is to have is said twice")
        if why := _refusal(run, searches[label], int(number)):
            raise UsageError(f"--trials {word}: {run.paths.run_id}: {why}")
        trials[label] = int(number)
    return trials


def _refusal(run: RunReader, axis: SearchAxis, trials: int) -> str:
    """Return why a search cannot have so many trials; empty if it can."""
    label, courses = axis.label, axis.history.courses.values()
    stages, axes = run.workflow.stages, run.workflow.axes
    if axis.axis.trials is None:
        return f"the grid of '{label}' has been tried as a whole"
    if trials < axis.size:
        return f"'{label}' has {axis.size} trials: give it more"
    if courses and all(course.over and not course.failed and course.reason != "trials" for course in courses):
        why = next(course.reason for course in courses)
        ends = {"until": "its `until` held", "timeout": "its time was over", "core_hours": "they were spent"}
        hint = "run the workflow again with more `trials`, and what is done comes from the cache"
        return f"'{label}' has ended for another reason than its trials: {ends.get(why, why)}; {hint}"
    for name in sorted(_after(run, {label})):
        decides = [one for one in stages[name].over if axes[one].adaptive]
        makes = [one for one, made in axes.items() if made.maker == name]
        if decides or makes:
            return f"what '{label}' found has decided on '{(decides + makes)[0]}': run the workflow again"
    return ""


def find_extended(view: RunReader) -> Again:
    """Return the tasks that read all that a search found which goes on; in `view` they have no result now."""
    labels = {label for label, axis in view.adaptive.items() if _goes_on(axis)}
    stages = [view.stages[name] for name in sorted(_after(view, labels))] if labels else []
    state = {stage.name: stage.history.state for stage in stages}
    return _lose(view, {s.name: [i for i in range(s.size) if state[s.name](i).good] for s in stages})


def is_extended(run: RunReader) -> bool:
    """Return whether a search has been given trials that nobody has begun."""
    return any(_goes_on(axis) for axis in run.adaptive.values())


def _goes_on(axis: Adaptive) -> bool:
    courses = axis.history.courses.values()
    return isinstance(axis, SearchAxis) and any(axis.is_extended(course) for course in courses)


def _after(run: RunReader, labels: Iterable[str]) -> set[str]:
    """Return the stages that read what searches found, and all that depend on them."""
    stages_after: set[str] = set()
    for edge in run.graph.edges:
        inside, whole = run.workflow.stages[edge.downstream].over, {*edge.gathered, *edge.chosen}
        reads = edge.output is not None or edge.hyperparameter is not None or edge.axis is not None
        if reads and any(label in whole and label not in inside for label in labels):
            stages_after |= run.graph.after(edge.downstream)
    return stages_after
