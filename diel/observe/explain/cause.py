"""Why a task was computed and not taken from the cache: which part of its key changed.

A result's key covers what all tasks of its stage share (the family: module, command, params, files,
env) and what is the task's own (its values, its inputs). The journal keeps a digest of each part, so
that two runs can be compared part by part; workflow.yaml and run.json tell what was behind it.
"""

import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from diel.base.errors import DielError, counted
from diel.base.states import TaskState
from diel.observe.explain.wait import gang_of
from diel.observe.results import RunReader
from diel.observe.results.rows import all_at
from diel.store.artifacts import Artifact, files_of
from diel.store.journal.records import Result
from diel.store.table import shown
from diel.tasks.recipe import APART, Recipe, digest_of_values
from diel.tasks.results import artifact_path
from diel.worker.environments.prepared import PreparedEnvironment
from diel.workflow.models import Stage
from diel.workflow.modules.sources import SourceVersion, newest

MAX_DEPTH = 5
WIDE = 120
_NOT_RUN = (TaskState.WAITING, TaskState.READY, TaskState.QUEUED)


@dataclass(frozen=True)
class Difference:
    """One part of a key that differs from an earlier run."""

    part: str
    """module, command, params, files, env, values or inputs."""
    name: str
    """What changed within the part, as `hp.hidden`; empty if unknown."""
    text: str
    old: Any = None
    new: Any = None
    because: tuple[str, ...] = ()
    """For an input: why it differs, step by step upstream."""


@dataclass(frozen=True)
class Comparison:
    """A task compared with the one at the same point of the nearest earlier run that has its result."""

    note: str
    """The reason in a sentence, if no part of the key changed."""
    earlier: str = ""
    """The earlier task, as `melt-3/train/0`; empty if there is none."""
    changes: tuple[Difference, ...] = ()
    again: bool = True
    """Whether an earlier run might have had the result: False for the first run of a workflow."""

    def sentences(self) -> list[str]:
        """Return the reasons, each in a sentence."""
        return [change.text for change in self.changes] or [self.note]


def because(changes: Iterable[Difference]) -> list[str]:
    """Return the reasons behind some changes, as lines."""
    return [f"    because {reason}" for change in changes for reason in change.because]


def why_computed(run: RunReader, stage: str, index: int, depth: int = 0) -> Comparison:
    """Return why the cache had no result for a task."""
    run_file = run.run_file
    if run.stages[stage].spec.service is not None:
        return Comparison("it is a service, and starts again in each run that asks it")
    if not run_file.use_cache:
        return Comparison("`--no-cache` told it to use no earlier result")
    if gang_of(run, stage) is not None:
        return Comparison("it runs beside others, and stream data is not part of a cache key")
    begin_at = run_file.begin_at
    if begin_at is not None and stage in run.graph.after(begin_at):
        return Comparison(f"`--from {begin_at}` told it to compute again")
    earlier = _earlier(run, stage, index)
    if isinstance(earlier, str):
        return Comparison(earlier or f"no earlier run of '{run_file.workflow}'", again=bool(earlier))
    old, old_index, old_record = earlier
    name = f"{old.paths.run_id}/{stage}/{old_index}"
    record = run.record(stage, index)
    if record is not None and record.get("key") == old_record.get("key"):
        return Comparison(_unusable(old, record, old_record), name)
    moved = (False, False)
    if record is not None and "parts" in record and "parts" in old_record:
        (own, read), (old_own, old_read) = record["parts"], old_record["parts"]
        moved = (own != old_own, read != old_read)
    changes = tuple(_changes(run, old, stage, (index, old_index), moved, depth))
    note = "" if changes else "its key differs, but no part of it says why (perhaps another diel)"
    return Comparison(note, name, changes)


def _earlier(run: RunReader, stage: str, index: int) -> tuple[RunReader, int, Result] | str:
    """Return the task at this point in the nearest earlier run that has it, else why; empty in the first."""
    note = ""
    for old in run.earlier():
        try:
            match = _at_same_point(old, run, stage, index)
        except DielError:
            continue  # a run that can no longer be read was no help to the cache either
        if not isinstance(match, str):
            return old, *match
        note = note or match
    return note


def _at_same_point(old: RunReader, run: RunReader, stage: str, index: int) -> tuple[int, Result] | str:
    name = old.paths.run_id
    if stage not in old.workflow.stages:
        return f"{name} has no stage '{stage}'"
    over, before = run.parameters(stage), old.parameters(stage)
    if set(over) != set(before):
        was, is_ = (", ".join(names) or "nothing" for names in (before, over))
        return f"'{stage}' ran over {was} in {name}, and runs over {is_}"
    point = run.point(stage, index)
    old_index = next(iter(all_at(old, stage, point)), None)
    if old_index is None:
        where = ", ".join(f"{key} = {shown(value)}" for key, value in point.items())
        return f"a new point: {name} has no {where}"
    record = old.record(stage, old_index)
    if record is not None:
        return old_index, record
    state = old.history.stage(stage).state(old_index)
    return f"{name} {'did not run it' if state in _NOT_RUN else f'has no result of it ({state.label})'}"


def _unusable(old: RunReader, record: Result, old_record: Result) -> str:
    same = f"{old.paths.run_id} has the same result, but"
    artifacts = old_record.get("artifacts", {})
    for output, artifact in ((name, file) for name, entry in artifacts.items() for file in files_of(entry)):
        path = artifact_path(old_record, artifact["path"], old.paths.root)
        if not path.exists():
            return f"{same} its '{output}' is gone: {path}"
        if not path.is_dir() and path.stat().st_size != artifact["size"]:
            return f"{same} its '{output}' has changed since: {path}"
    passing = next((output for output, entry in artifacts.items() if entry.get("keep") is False), None)
    if passing is not None and not old.history.state.ended:
        return f"{same} is still going, and deletes its '{passing}' after use"
    if old_record["time"] > record["time"] - record.get("seconds", 0.0):
        return f"{same} had not finished it yet"
    return f"{same} could not be read then"


def _changes(
    run: RunReader,
    old: RunReader,
    stage: str,
    tasks: tuple[int, int],
    moved: tuple[bool, bool] | None,
    depth: int,
) -> Iterator[Difference]:
    """Yield what differs between a task and an earlier one. `moved` says whether its own values and its
    inputs differ, by the digests in the journal; None where nobody noted that."""
    yield from _family_changes(run, old, stage)
    recipe = run.recipe(stage)
    try:
        (own, read), (old_own, old_read) = recipe.reads(tasks[0]), old.recipe(stage).reads(tasks[1])
    except (DielError, KeyError):  # what it read is gone: a scope is a mapping
        if moved is not None and any(moved):
            yield Difference("inputs", "", "what it reads changed")
        return
    if moved is None or moved[0]:
        changes = list(_differences("values", old_own, own))
        for name, was, text in template_changes(recipe, old.recipe(stage), tasks):
            changes.append(_text_change(Difference("files", name, "", was, text), f"files.{name}"))
        yield from changes or (_file_changes(recipe.own_files(tasks[0]), old, Path()) if moved else ())
    if moved is None or moved[1]:
        for name in dict.fromkeys([*read, *old_read]):
            if name not in old_read or name not in read:
                yield Difference("inputs", name, f"input {name} is {'gone' if name in old_read else 'new'}")
            elif not _is_same(old_read[name], read[name]):
                now = _parts(run, stage, tasks[0], name, read[name])
                before = _parts(old, stage, tasks[1], name, old_read[name])
                yield _input_change(run, stage, name, now, before, depth)
        yield from _order_change("inputs", old_read, read)
        yield from _service_changes(run, old, stage, tasks[0], depth)


def _differences(part: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Difference]:
    for name in dict.fromkeys([*new, *old]):
        before, now = _plain(old.get(name)), _plain(new.get(name))
        if name not in old:
            yield Difference(part, name, f"{name} is new: {shown(now)}", None, now)
        elif name not in new:
            yield Difference(part, name, f"{name} is gone: {shown(before)}", before, None)
        elif not _is_same(before, now):
            yield Difference(part, name, f"{name}: {shown(before)} → {shown(now)}", before, now)
    yield from _order_change(part, old, new)


def _order_change(part: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield the names that are in both in another order: a task reads them in it."""
    both = zip([name for name in old if name in new], [name for name in new if name in old], strict=True)
    if moved := [pair for pair in both if pair[0] != pair[1]]:
        before, now = map(list, zip(*moved, strict=True))
        text = f"{part} are in another order: {', '.join(before)} → {', '.join(now)}"
        yield Difference(part, "", text, before, now)


def _is_same(old: Any, new: Any) -> bool:
    """Return whether two values are the same in a key, where 1, 1.0 and true all differ, and orders."""
    return digest_of_values({"": old}) == digest_of_values({"": new})


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _family_changes(run: RunReader, old: RunReader, stage: str) -> Iterator[Difference]:
    """Yield the parts of a stage's key that differ, in the workflow's words or else in content."""
    parts, old_parts = (v.history.stage(stage).parts for v in (run, old))
    new, before = (v.workflow.stages[stage] for v in (run, old))
    for part, account in _ACCOUNTS.items():
        if parts.get(part) == old_parts.get(part):
            continue
        if diffs := list(_differences(part, account(before), account(new))):
            for diff in diffs:
                yield _text_change(diff, "the command") if diff.name == "command" else diff
        elif part == "module":
            module, kept = run.module(stage), [newest(v.paths.sources) or SourceVersion() for v in (old, run)]
            files = [{*map(tuple, one.modules.get(stage, {}).get("files", ()))} for one in kept]
            paths = sorted({path for path, _ in files[0] ^ files[1]}) or (
                [str(module.path)] if module else []
            )
            where = f" ({', '.join(paths)})" if paths else ""
            yield Difference(part, str(new.module), f"the source of module '{new.module}' changed{where}")
        elif part == "files":
            shared = {n: path for n, path in new.files.items() if isinstance(path, str) and "${{" not in path}
            yield from _file_changes(shared, old, run.run_file.folder)
    if parts.get("environment") != old_parts.get("environment"):
        environments = (unlike.environment(stage) for unlike in (old, run))
        for change in environment_changes(*environments):
            yield Difference("environment", *change)


def _called(prefix: str, entries: Mapping[str, Any]) -> dict[str, Any]:
    return {prefix + name: value for name, value in entries.items()}


def _command(stage: Stage) -> dict[str, Any]:
    command = stage.command
    words = command if isinstance(command, tuple) else ("(a module)" if command is None else command,)
    lines = [word if isinstance(word, str) else json.dumps(_plain(word)) for word in words]
    shell = {"shell": shlex.join(stage.interpreter)} if stage.interpreter else {}
    listed = stage.outputs.items() if stage.module else sorted(stage.outputs.items())
    outputs = {name: output.model_dump(exclude=APART) for name, output in listed}
    return {"command": "\n".join(lines), **shell, **_called("outputs.", outputs)}


_ACCOUNTS: Mapping[str, Callable[[Stage], dict[str, Any]]] = {
    "module": lambda stage: {"module": stage.module or "a command", "isolation": stage.isolation},
    "command": _command,
    "params": lambda stage: _called("params.", stage.params),
    "files": lambda stage: _called("files.", stage.files),
    "env": lambda stage: _called("env.", dict(sorted(stage.env.items()))),
}
"""What the workflow says of each part, by name."""


def _text_change(change: Difference, what: str) -> Difference:
    """Return the first lines of a command or file that differ, and the number of other places."""
    old, new = str(change.old).splitlines(), str(change.new).splitlines()
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    blocks = [(old[i:j], new[k:m]) for word, i, j, k, m in matcher.get_opcodes() if word != "equal"]
    before, after = (" ⏎ ".join(lines) for lines in blocks[0]) if blocks else ("", "")
    text = f"{what} changed: {shown(before, WIDE) or 'nothing'} → {shown(after, WIDE) or 'nothing'}"
    more = f", and in {len(blocks) - 1} more places" if len(blocks) > 1 else ""
    return replace(change, text=text + more)


def _file_changes(files: Mapping[str, str], old: RunReader, folder: Path) -> Iterator[Difference]:
    """Yield files whose content an earlier run read otherwise: the newer ones, or all candidates."""
    if not files:
        return
    since = old.run_file.created
    paths = {name: folder / path for name, path in files.items()}
    there = (name for name, path in paths.items() if os.path.exists(path))
    names = [name for name in there if os.path.getmtime(paths[name]) > since] or list(files)
    listed = " or ".join(f"files.{name} ({files[name]})" for name in names)
    yield Difference("files", names[0] if len(names) == 1 else "", f"the content of {listed} changed")


_Part = tuple[str, int, Any]
"""One result that a task reads: the stage and index that made it, and its value."""


def _parts(run: RunReader, stage: str, index: int, name: str, value: Any) -> list[_Part]:
    """Return the results that a task reads under a name: several if it gathers them."""
    sources = run.recipe(stage).sources
    link = sources.inputs.get(name) or sources.link_of(run.recipe(stage).chains.get(name, (name,)))
    if link is None:  # a hyperparameter
        return [("", 0, value)]
    group = link.group_of_downstream(index)
    members = [member for _, member in link.listed(group)] if link.edge.gathered else link.members(group)
    pairs = zip(members, value if link.edge.gathered else [value], strict=False)
    # Nothing is before a loop's first round.
    return [(link.up.name, *pair) for pair in pairs] or [("", 0, value)]


def _input_change(
    run: RunReader, stage: str, name: str, new: list[_Part], old: list[_Part], depth: int
) -> Difference:
    declared = run.workflow.stages[stage].inputs.get(name)
    called = f"input {name}" + ("" if declared is None else f" ({declared.source})")
    pairs = enumerate(zip(new, old, strict=False))
    changed = [place for place, (part, other) in pairs if not _is_same(part[2], other[2])]
    first = changed[0] if changed else min(len(old), len(new) - 1)
    value, old_value = (parts[first][2] if 0 <= first < len(parts) else None for parts in (new, old))
    text = f"{called} changed"
    if len(new) != len(old):
        text = f"{called} gathers {len(old):,} → {counted(len(new), 'result')}"
    elif len(new) > 1:
        text = f"{called} changed: {len(changed):,} of {len(new):,} results differ"
    elif type(value) is not Artifact:
        text = f"{called}: {shown(old_value)} → {shown(value)}"
    reasons = _because(run, *new[first][:2], depth) if new and new[first][0] else ()
    return Difference("inputs", name, text, _plain(old_value), _plain(value), reasons)


def _service_changes(
    run: RunReader, old: RunReader, stage: str, index: int, depth: int
) -> Iterator[Difference]:
    for link in run.into(stage):
        name, before = link.up.name, old.stages.get(link.up.name)
        if not link.edge.service or before is None or depth >= MAX_DEPTH:
            continue
        if not link.up.known or not before.known:
            continue  # its tasks were never known
        replica = next(iter(link.members(link.group_of_downstream(index))))
        for change in _changes(run, old, name, (replica, replica), None, depth + 1):
            service = f"service {name}"
            yield replace(change, part="inputs", name=service, text=f"{service}: {change.text}")


def _because(run: RunReader, stage: str, index: int, depth: int) -> tuple[str, ...]:
    task = run.stages[stage].task(index)
    record = run.record(stage, index)
    if record is not None and record["event"] == "cached":
        return (f"{task} was taken from {record['run']}",)
    if depth >= MAX_DEPTH:
        return (f"{task} was computed again",)
    causes = why_computed(run, stage, index, depth + 1)
    deeper = causes.changes[0].because if causes.changes else ()
    return (f"{task} was computed again: {causes.sentences()[0]}", *deeper)


def template_changes(new: Recipe, old: Recipe, tasks: tuple[int, int]) -> Iterator[tuple[str, str, str]]:
    """Yield names and both texts of templated files that differ. Raise as a scope does for lost inputs."""
    now, then = (recipe.sources.files.rendered for recipe in (new, old))
    if now is None:
        return
    texts = now.texts(new.scope(tasks[0]))
    before = {} if then is None else then.texts(old.scope(tasks[1]))
    for name, lines in texts.items():
        was = before.get(name, ("", "", False))
        if lines != was:
            yield name, "\n".join(map(str, was)), "\n".join(map(str, lines))


_NAMED = re.compile(r"([\w.-]+?)(?:==|-(?=\d))(\S+)")
"""A package and its version, as uv and as Conda write it."""
_PACKAGES = 5
"""Packages of which a change is shown."""


def environment_changes(
    old: PreparedEnvironment | None, new: PreparedEnvironment | None
) -> Iterator[tuple[str, str, Any, Any]]:
    """Yield each difference: the key, the change in words, and the values before and after."""
    if old is None or new is None:
        was_named, is_named = (None if env is None else env.name for env in (old, new))
        change = f"{was_named or 'none'} → {is_named or 'none'}"
        yield "", f"its environment: {change}", was_named, is_named
        return
    was, now = ({**env.identity} for env in (old, new))
    for key in dict.fromkeys([*now, *was]):
        before, after = was.get(key), now.get(key)
        if before != after:
            for name, text in _identity_changes(key, before, after):
                yield name, f"environment '{new.name}': {text}", before, after


def _identity_changes(key: str, before: Any, after: Any) -> Iterator[tuple[str, str]]:
    if before is None or after is None:
        yield key, f"`{key}` is {'new' if before is None else 'gone'}"
    elif key in ("python", "conda"):
        yield key, f"{key}: {_packages(before, after)}"
    elif key == "container":
        same = before["image"] == after["image"]
        yield key, f"container: {'other mounts' if same else 'another image'}"
    elif isinstance(before, Mapping):
        for name in dict.fromkeys([*after, *before]):
            if before.get(name) != after.get(name):
                a, b = (shown(side[name]) if name in side else "nothing" for side in (before, after))
                yield f"{key}.{name}", f"{key}.{name}: {a} → {b}"
    else:
        yield key, f"{key}: {shown(before)} → {shown(after)}"


def _packages(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return the packages that differ: `numpy 1.26.4 → 2.0.1, scipy is new`."""
    was, now = (
        {"Python": side.get("version"), **dict(map(_package, side["packages"]))} for side in (before, after)
    )
    changed = [
        f"{name} {was[name]} → {now[name]}"
        if name in was and name in now
        else f"{name} is {'new' if name in now else 'gone'}"
        for name in sorted({*was, *now})
        if was.get(name) != now.get(name)
    ]
    more = f" and {len(changed) - _PACKAGES} more" if len(changed) > _PACKAGES else ""
    return ", ".join(changed[:_PACKAGES]) + more or "it is made anew"


def _package(line: str) -> tuple[str, str]:
    match = _NAMED.match(line)
    return (match[1], match[2]) if match is not None else (line, line)
