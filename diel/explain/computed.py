"""Why a task was computed and not taken from the cache: which part of its key differs from before.

A result's key covers what all tasks of its stage share (the family: module, command, params, files,
env) and what is the task's own (its values, its inputs). The journal keeps a digest of each part, so
that two runs can be compared part by part; workflow.yaml and run.json tell what stood behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diel.artifacts import Artifact, files_of
from diel.errors import DielError, counted
from diel.explain.difference import Difference, differences, is_same, plain
from diel.explain.family import family_changes, file_changes
from diel.explain.gang import gang_of
from diel.explain.view import View
from diel.results import Recorded
from diel.states import TaskState
from diel.table import shown
from diel.tasks.results import artifact_path
from diel.tasks.service import ServiceLink

if TYPE_CHECKING:
    from diel.journal.records import Result

MAX_DEPTH = 5
"""How far a change is followed upstream."""


@dataclass(frozen=True)
class Comparison:
    """A task beside the one at the same point of the nearest earlier run that has its result."""

    note: str
    """The reason in a sentence, where it is no change of a part."""
    earlier: str = ""
    """The earlier task, as `melt-3/train/0`; empty where there is none."""
    changes: tuple[Difference, ...] = ()
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
    earlier = _earlier(view, stage, index)
    if isinstance(earlier, str):
        return Comparison(earlier or f"no earlier run of '{run_file.workflow}'", again=bool(earlier))
    old, old_index, old_record = earlier
    name = f"{old.run.paths.run_id}/{stage}/{old_index}"
    record = view.run.record(stage, index)
    if record is not None and record.get("key") == old_record.get("key"):
        return Comparison(_unusable(view.run, old.run, record, old_record), name)
    changes = tuple(_changes(view, old, stage, (index, old_index), _moved(record, old_record), depth))
    if not changes:
        return Comparison("its key differs, but no part of it tells why (perhaps another diel)", name)
    return Comparison("", name, changes)


def _moved(record: Result | None, old: Result) -> tuple[bool, bool]:
    """Whether a task's own values and its inputs differ, as the digests in the journal tell."""
    if record is None or "parts" not in record or "parts" not in old:
        return False, False
    return record["parts"][0] != old["parts"][0], record["parts"][1] != old["parts"][1]


# --- the earlier task -----------------------------------------------------------------------------


def _earlier(view: View, stage: str, index: int) -> tuple[View, int, Result] | str:
    """The task at the same point in the nearest earlier run that has its result; else why there is none.

    Empty where this is the first run of its workflow.
    """
    note = ""
    for old in view.earlier():
        try:
            found = _at_same_point(old.run, view.run, stage, index)
        except DielError:
            continue  # a run that cannot be read any more was no help to the cache either
        if not isinstance(found, str):
            return old, *found
        note = note or found
    return note


def _at_same_point(old: Recorded, run: Recorded, stage: str, index: int) -> tuple[int, Result] | str:
    name = old.paths.run_id
    if stage not in old.workflow.stages:
        return f"{name} has no stage '{stage}'"
    over, before = run.parameters(stage), old.parameters(stage)
    if set(over) != set(before):
        was, is_ = (", ".join(names) or "nothing" for names in (before, over))
        return f"'{stage}' ran over {was} in {name}, and runs over {is_}"
    point = run.point(stage, index)
    found = old.find(stage, point)
    if found is None:
        where = ", ".join(f"{key} = {shown(value)}" for key, value in point.items())
        return f"a new point: {name} has no {where}"
    record = old.record(stage, found)
    if record is not None:
        return found, record
    state = old.history.stage(stage).state(found)
    return f"{name} {'did not run it' if state in _NOT_RUN else f'has no result of it ({state.label})'}"


_NOT_RUN = (TaskState.WAITING, TaskState.READY, TaskState.QUEUED)


def _unusable(run: Recorded, old: Recorded, record: Result, old_record: Result) -> str:
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


# --- what differs ---------------------------------------------------------------------------------


def _changes(
    view: View, old: View, stage: str, tasks: tuple[int, int], moved: tuple[bool, bool] | None, depth: int
) -> Iterator[Difference]:
    """What differs between a task and an earlier one; `moved` is None where nobody noted it."""
    yield from family_changes(view, old, stage)
    recipe = view.recipe(stage)
    try:
        (own, read), (old_own, old_read) = recipe.reads(tasks[0]), old.recipe(stage).reads(tasks[1])
    except (DielError, KeyError):  # what it read is not there any more: a scope is a mapping
        if moved is not None and any(moved):
            yield Difference("inputs", "", "what it reads changed")
        return
    if moved is None or moved[0]:
        told = list(differences("values", old_own, own))
        yield from told or (file_changes(recipe.own_files(tasks[0]), old, Path()) if moved else ())
    if moved is None or moved[1]:
        for name in dict.fromkeys([*read, *old_read]):
            if name not in old_read or name not in read:
                yield Difference("inputs", name, f"input {name} is {'gone' if name in old_read else 'new'}")
            elif not is_same(old_read[name], read[name]):
                found = _parts(view, stage, tasks[0], name, read[name])
                before = _parts(old, stage, tasks[1], name, old_read[name])
                yield _input_change(view, stage, name, found, before, depth)
        yield from _service_changes(view, old, stage, tasks[0], depth)


_Part = tuple[str, int, Any]
"""One result that a task reads: the stage and index that made it, and its value."""


def _parts(view: View, stage: str, index: int, name: str, value: Any) -> list[_Part]:
    """The results behind what a task reads by a name: several where it gathers them."""
    sources = view.recipe(stage).sources
    link = sources.inputs.get(name) or sources.link_of(tuple(name.split(".")))
    if link is None:  # a hyperparameter
        return [("", 0, value)]
    group = link.group_of_downstream(index)
    members = link.good_members(group) if link.edge.gathered else link.members(group)
    found = zip(members, value if link.edge.gathered else [value], strict=False)
    return [(link.up.name, *one) for one in found] or [("", 0, value)]  # nothing before a loop's first round


def _input_change(
    view: View, stage: str, name: str, new: list[_Part], old: list[_Part], depth: int
) -> Difference:
    """How what a task reads by a name changed, with the reason upstream."""
    given = view.run.workflow.stages[stage].inputs.get(name)
    told = f"input {name}" + ("" if given is None else f" ({given.source})")
    pairs = enumerate(zip(new, old, strict=False))
    changed = [place for place, (one, other) in pairs if not is_same(one[2], other[2])]
    first = changed[0] if changed else min(len(old), len(new) - 1)
    value, old_value = (parts[first][2] if 0 <= first < len(parts) else None for parts in (new, old))
    text = f"{told} changed"
    if len(new) != len(old):
        text = f"{told} gathers {len(old):,} → {counted(len(new), 'result')}"
    elif len(new) > 1:
        text = f"{told} changed: {len(changed):,} of {len(new):,} results are others"
    elif type(value) is not Artifact:
        text = f"{told}: {shown(old_value)} → {shown(value)}"
    because = _because(view, *new[first][:2], depth) if new and new[first][0] else ()
    return Difference("inputs", name, text, plain(old_value), plain(value), because)


def _service_changes(view: View, old: View, stage: str, index: int, depth: int) -> Iterator[Difference]:
    """The services that a task asks, where they are not what they were."""
    for link in view.into(stage):
        name, before = link.up.name, old.stages.get(link.up.name)
        if not isinstance(link, ServiceLink) or before is None or depth >= MAX_DEPTH:
            continue
        if link.up.domain is None or before.domain is None:
            continue  # its tasks were never known
        replica = next(iter(link.members(link.group_of_downstream(index))))
        for change in _changes(view, old, name, (replica, replica), None, depth + 1):
            text = f"service {name}: {change.text}"
            yield replace(change, part="inputs", name=f"service {name}", text=text)


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
