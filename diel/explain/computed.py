"""Why a task was computed and not taken from the cache: which part of its key is another than before.

A result's key covers what all tasks of its stage share (the family: module, command, params, files,
env) and what is the task's own (its values, its inputs). The journal keeps a digest of each part, so
that two runs can be compared part by part; workflow.yaml and run.json tell what stood behind it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from diel.artifacts import Artifact, files_of
from diel.controller.link import Link
from diel.controller.recipe import Resolved
from diel.controller.results import artifact_path
from diel.controller.scope import Scope
from diel.controller.service_link import ServiceLink
from diel.errors import DielError, counted
from diel.explain.change import Change, mapping_changes, plain
from diel.explain.family import family_changes, file_changes
from diel.explain.gang import gang_of
from diel.explain.view import View
from diel.journal.segment import Record
from diel.results import Recorded
from diel.states import TaskState
from diel.table import shown

MAX_DEPTH = 5
"""How far a change is followed upstream."""


@dataclass(frozen=True)
class Comparison:
    """A task beside the one at the same point of the nearest earlier run that has its result."""

    note: str
    """The reason in a sentence, where it is no change of a part."""
    earlier: str = ""
    """The earlier task, as `melt-3/train/0`; empty where there is none."""
    changes: tuple[Change, ...] = ()
    again: bool = True
    """Whether an earlier run might have had the result: False for the first run of a workflow."""

    def sentences(self) -> list[str]:
        """The reasons, each in a sentence."""
        return [change.text for change in self.changes] or [self.note]


def why_computed(view: View, stage: str, index: int, depth: int = 0) -> Comparison:
    """Why the cache had no result for a task."""
    run_file = view.run.run_file
    if view.stages[stage].spec.service is not None:
        return Comparison("it is a service, and starts anew in each run that asks it")
    if not run_file.use_cache:
        return Comparison("`--no-cache` said to use no earlier result")
    if gang_of(view, stage) is not None:
        return Comparison("it runs beside others, and what comes through a stream is in no key")
    begin_at = run_file.begin_at
    if begin_at is not None and stage in view.run.graph.after(begin_at):
        return Comparison(f"`--from {begin_at}` said to compute it anew")
    earlier, note = _earlier(view, stage, index)
    if earlier is None:
        return Comparison(note or f"no earlier run of '{run_file.workflow}'", again=bool(note))
    old, old_index, old_record = earlier
    name = f"{old.run.paths.run_id}/{stage}/{old_index}"
    record = view.run.record(stage, index)
    if record is not None and record.get("key") == old_record.get("key"):
        return Comparison(_unusable(view.run, old.run, record, old_record), name)
    changes = [
        *family_changes(view, old, stage),
        *_own_changes(view, old, stage, index, old_index, record, old_record, depth),
    ]
    if not changes:
        return Comparison("its key is another, but no part of it tells why (perhaps another diel)", name)
    return Comparison("", name, tuple(changes))


# --- the earlier task -----------------------------------------------------------------------------


def _earlier(view: View, stage: str, index: int) -> tuple[tuple[View, int, Record] | None, str]:
    """The task at the same point in the nearest earlier run that has its result; else why there is none.

    Nothing is told where this is the first run of its workflow.
    """
    run = view.run
    point = run.point(stage, index)
    note = ""
    for old in view.earlier():
        try:
            found, why = _same_task(old.run, stage, point, run.parameters(stage))
        except DielError:
            continue  # a run that cannot be read any more was no help to the cache either
        if found is not None:
            return (old, *found), ""
        note = note or why
    return None, note


def _same_task(
    old: Recorded, stage: str, point: Mapping[str, Any], parameters: list[str]
) -> tuple[tuple[int, Record] | None, str]:
    name = old.paths.run_id
    if stage not in old.workflow.stages:
        return None, f"{name} has no stage '{stage}'"
    if set(old.parameters(stage)) != set(parameters):
        before = ", ".join(old.parameters(stage)) or "nothing"
        return (
            None,
            f"'{stage}' ran over {before} in {name}, and runs over {', '.join(parameters) or 'nothing'}",
        )
    index = old.find(stage, point)
    if index is None:
        where = ", ".join(f"{key} = {shown(value)}" for key, value in point.items())
        return None, f"a new point: {name} has no {where}"
    record = old.record(stage, index)
    if record is None:
        state = old.history.stage(stage).state(index)
        told = "did not run it" if state in _NOT_RUN else f"has no result of it ({state.label})"
        return None, f"{name} {told}"
    return (index, record), ""


_NOT_RUN = (TaskState.WAITING, TaskState.READY, TaskState.QUEUED)


def _unusable(run: Recorded, old: Recorded, record: Record, old_record: Record) -> str:
    """Why a result with the same key was not used."""
    name = old.paths.run_id
    made = old_record.get("artifacts", {})
    for output, artifact in ((name, file) for name, entry in made.items() for file in files_of(entry)):
        path = artifact_path(old_record, artifact["path"], old.paths.root)
        if not path.exists():
            return f"{name} has the same result, but its '{output}' is gone: {path}"
        if not path.is_dir() and path.stat().st_size != artifact["size"]:
            return f"{name} has the same result, but its '{output}' was changed since: {path}"
    passing = next((output for output, entry in made.items() if entry.get("keep") is False), None)
    if passing is not None and not old.history.state.ended:
        return f"{name} has the same result, but goes on, and deletes its '{passing}' after its use"
    if old_record["time"] > record["time"] - record.get("seconds", 0.0):
        return f"{name} has the same result, but had not finished it yet"
    return f"{name} has the same result, but could not be read then"


# --- what is the task's own -----------------------------------------------------------------------


def _own_changes(
    view: View,
    old: View,
    stage: str,
    index: int,
    old_index: int,
    record: Record | None,
    old_record: Record,
    depth: int,
) -> Iterator[Change]:
    parts = _parts(view, stage, index, record)
    old_parts = old_record.get("parts")
    if parts is None or old_parts is None:
        return
    if parts[0] != old_parts[0]:
        before, new = _values(old, stage, old_index), _values(view, stage, index)
        told = list(mapping_changes("values", "", before, new))
        yield from told or file_changes(view.recipe(stage).own_files(index), old)
    if parts[1] != old_parts[1]:
        yield from _input_changes(view, old, stage, index, old_index, depth)


def _parts(view: View, stage: str, index: int, record: Record | None) -> tuple[str, ...] | None:
    """The digests of a task's own values and inputs; None where they cannot be known yet."""
    if record is not None:
        return tuple(record["parts"]) if "parts" in record else None
    resolved = resolve(view, stage, index)
    return None if resolved is None else resolved.parts


def resolve(view: View, stage: str, index: int) -> Resolved | None:
    """A task with all its values; None where they cannot be known (yet)."""
    if view.stages[stage].domain is None:
        return None
    try:
        return view.recipe(stage).resolve(index)
    except (DielError, OSError):
        return None


def _values(view: View, stage: str, index: int) -> dict[str, Any]:
    """What a task's expressions read besides inputs: its point, hyperparameters, its index."""
    recipe = view.recipe(stage)
    scope = Scope(recipe, index)
    found = {**scope.point, **recipe.told_shards(index)}
    for chain in recipe.references:
        if (chain[0], chain[1] if len(chain) > 1 else None) not in recipe.data:
            try:
                found[".".join(chain)] = plain(scope.read(chain))
            except (DielError, KeyError):  # what it reads is not there: a scope is a mapping
                continue
    return found


def _input_changes(
    view: View, old: View, stage: str, index: int, old_index: int, depth: int
) -> Iterator[Change]:
    links, old_links = (_data_links(v, stage) for v in (view, old))
    for name in dict.fromkeys([*links, *old_links]):
        if name not in old_links:
            yield Change("inputs", name, f"input {name} is new")
        elif name not in links:
            yield Change("inputs", name, f"input {name} is gone")
        else:
            yield from _link_change(view, old, name, links[name], old_links[name], (index, old_index), depth)
    given = view.recipe(stage).static_inputs(index)
    before = old.recipe(stage).static_inputs(old_index)
    yield from mapping_changes("inputs", "inputs.", before, given)
    yield from _service_changes(view, old, stage, index, depth)


def _service_changes(view: View, old: View, stage: str, index: int, depth: int) -> Iterator[Change]:
    """The services that a task asks, where they are not what they were."""
    for link in view.into(stage):
        name = link.up.name
        before_that = old.stages.get(name)
        if not isinstance(link, ServiceLink) or before_that is None or depth >= MAX_DEPTH:
            continue
        if link.up.domain is None or before_that.domain is None:
            continue  # its tasks were never known
        replica = next(iter(link.members(link.group_of_downstream(index))))
        changes = list(family_changes(view, old, name))
        with contextlib.suppress(DielError):
            before, new = _values(old, name, replica), _values(view, name, replica)
            changes += mapping_changes("values", "", before, new)
            changes += _input_changes(view, old, name, replica, replica, depth + 1)
        for change in changes:
            told = f"service {name}: {change.text}"
            yield Change("inputs", f"service {name}", told, because=change.because)


def _data_links(view: View, stage: str) -> dict[str, Link]:
    """The links along which data moves, each by the name that a user knows it by."""
    return {
        link.edge.name or f"{link.edge.upstream}.{link.edge.output}": link
        for link in view.into(stage)
        if link.edge.output is not None and link.edge.axis is None
    }


def _link_change(
    view: View, old: View, name: str, link: Link, old_link: Link, tasks: tuple[int, int], depth: int
) -> Iterator[Change]:
    source = f"{link.edge.upstream}.{link.edge.output}"
    told = f"input {name}" + ("" if name == source else f" ({source})")
    try:
        new, before = _read(view, link, tasks[0]), _read(old, old_link, tasks[1])
    except DielError:
        yield Change("inputs", name, f"{told} changed")
        return
    changed = [
        place for place, (one, other) in enumerate(zip(new, before, strict=False)) if one[1] != other[1]
    ]
    if not changed and len(new) == len(before):
        return
    text = f"{told} changed"
    if len(new) != len(before):
        text = f"{told} gathers {len(before):,} → {counted(len(new), 'result')}"
    elif len(new) > 1:
        text = f"{told} changed: {len(changed):,} of {len(new):,} results are others"
    first = changed[0] if changed else min(len(before), len(new) - 1)
    old_value = before[first][2] if first < len(before) else None
    value = new[first][2] if new else None
    if len(new) == len(before) == 1 and type(value) is not Artifact:
        text = f"{told}: {shown(old_value)} → {shown(value)}"
    because = _because(view, link.edge.upstream, new[first][0], depth) if new else ()
    yield Change("inputs", name, text, plain(old_value), plain(value), because)


def _read(view: View, link: Link, index: int) -> list[tuple[int, str, Any]]:
    """What a task reads along a link: upstream task, digest, value."""
    group = link.group_of_downstream(index)
    members = link.good_members(group) if link.edge.gathered else link.members(group)
    found = []
    for member in members:
        value = view.output(link, member)
        digest = value.digest if type(value) is Artifact else json.dumps(value, sort_keys=True)
        found.append((member, digest, value))
    return found


def _because(view: View, stage: str, index: int, depth: int) -> tuple[str, ...]:
    """Why an upstream task has another result than before."""
    task = f"{stage}/{index}"
    record = view.run.record(stage, index)
    if record is not None and record["event"] == "cached":
        return (f"{task} was taken from {record['run']}",)
    if depth >= MAX_DEPTH:
        return (f"{task} was computed anew",)
    found = why_computed(view, stage, index, depth + 1)
    deeper = found.changes[0].because if found.changes else ()
    return (f"{task} was computed anew: {found.sentences()[0]}", *deeper)
