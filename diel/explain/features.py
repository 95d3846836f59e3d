"""What surrogates, gangs and environments say of a task: whom it asked, what it waits for, what it ran in."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from diel.digits import texts_apart
from diel.environments.prepared import Prepared
from diel.explain.wait import SHOWN, waits_of_task
from diel.graph import Gang, gangs
from diel.journal.stage_history import ranges
from diel.results import RunReader, suspects
from diel.results.suspect import suspect_inputs
from diel.states import TaskState
from diel.status.columns import tasks_text
from diel.table import shown

_LOOKED_AT = 1000
"""The most tasks of a stage to look at: a gang can have a million."""
_NAMED = re.compile(r"([\w.-]+?)(?:==|-(?=\d))(\S+)")
"""A package and its version, as uv and as Conda write it."""
_SHOWN = 5
"""Packages of which a change is told."""


if TYPE_CHECKING:
    from diel.journal.records import Result


def asked_lines(run: RunReader, stage: str, record: Result | None) -> list[str]:
    """Return what a task's surrogate answered, if it has one."""
    answer = None if record is None else record.get("surrogate")
    surrogate = run.workflow.stages[stage].surrogate
    if answer is None or surrogate is None:
        return []
    service = surrogate.service
    if unasked := answer.get("unasked"):
        return [f"it was simulated without asking '{service}': {unasked}"]
    if answer.get("message"):
        return [f"it was simulated, because '{service}' gave no answer: {answer['message']}"]
    sizes = [answer["uncertainty"], answer.get("error"), surrogate.tolerance]
    unsure, far, tolerance = texts_apart([math.inf if size is None else size for size in sizes], 3)
    doubt = "" if answer["uncertainty"] is None else f" with an uncertainty of {unsure}"
    did = "answered" if answer["used"] else "was too unsure, so it was simulated: it answered"
    if "error" in answer:
        off = "more than a number can say" if answer["error"] is None else far
        did = f"was audited by this task, and off by {off}: it answered"
    return [f"'{service}' {did}{doubt}; the tolerance is {tolerance}"]


def doubt_of(run: RunReader, stage: str, index: int) -> tuple[list[str], str]:
    """Return why a task's result is suspect, and what to do; nothing where it is not."""
    suspect = suspects(run)
    if index not in suspect.get(stage, ()):
        return [], ""
    history = run.history.stage(stage)
    surrogate = history.surrogate
    if surrogate is not None and index in history.suspect():
        why = f"audits found answers of '{surrogate.service}' further off than the tolerance"
        return [f"its answer is suspect: {why}"], f"{_recompute(run)}, and runs again what read it"
    if index in history.stays():
        why = "it read suspect answers, which were simulated since; it stays, as decisions rest on it"
    else:
        read = suspect_inputs(run, stage, index, suspect).items()
        named = ", ".join(f"{name}/{tasks_text(ranges(tasks))}" for name, tasks in read)
        why = f"it read suspect results: {named}"
    anew = "`diel run` decides anew, and takes the rest from the cache"
    return [why], _recompute(run) if run.history.is_doubted() else anew


def _recompute(run: RunReader) -> str:
    return f"`diel resume {run.paths.run_id} --recompute suspect` simulates what is suspect"


def gang_of(run: RunReader, stage: str) -> Gang | None:
    """Return the gang of a stage; None if it runs alone."""
    return next((gang for gang in _gangs(run) if stage in gang.stages), None)


@lru_cache(maxsize=1)
def _gangs(run: RunReader) -> tuple[Gang, ...]:
    """Return the gangs of a run, found once for all its stages."""
    return gangs(run.graph)


def partners_awaited(run: RunReader, stage: str, index: int) -> list[str]:
    """Return the tasks that must run at the same time as this one and still wait."""
    gang, own = gang_of(run, stage), run.stages[stage]
    if gang is None or not own.known:
        return []
    coordinates = own.domain.coordinates(index)
    place = {axis: coordinates[axis] for axis in gang.axes}
    lines: list[str] = []
    for name in gang.stages:
        other, in_waves = run.stages[name], name in gang.in_waves
        if not other.known:
            lines.append(f"waits for '{name}', which runs at the same time, and whose axes are not known yet")
            continue
        states = {i: other.history.state(i) for i in islice(other.domain.matching(place), _LOOKED_AT)}
        if in_waves and {TaskState.QUEUED, TaskState.RUNNING} & set(states.values()):
            continue  # with one of its tasks there, the others may come later
        idle = [i for i, state in states.items() if state in (TaskState.WAITING, TaskState.READY)]
        waits_by_task = ((i, waits_of_task(run, name, i)) for i in idle if (name, i) != (stage, index))
        held = (
            f"{other.task(i)}, which runs at the same time and waits for {waits[0]}"
            for i, waits in waits_by_task
            if waits
        )
        lines += [f"waits for {text}" for text in islice(held, 1 if in_waves else SHOWN)]
    return lines[:SHOWN]


def room_awaited(run: RunReader, stage: str) -> str:
    """Return what a ready task waits for, if not for a block."""
    gang = gang_of(run, stage)
    if gang is None:
        return "waits for a free worker"
    partners = ", ".join(f"'{name}'" for name in gang.stages if name != stage)
    return f"runs at the same time as {partners}, and waits until there is room for all of them"


def environment_entry(env: Prepared | None) -> dict[str, str]:
    """Return a task's environment for people, by its name."""
    return {} if env is None else {env.name: f"{env.text}, digest {env.digest}"}


def environment_changes(old: Prepared | None, new: Prepared | None) -> Iterator[tuple[str, str, Any, Any]]:
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
        {"Python": side.get("version"), **dict(map(_parts, side["packages"]))} for side in (before, after)
    )
    changed = [
        f"{name} {was[name]} → {now[name]}"
        if name in was and name in now
        else f"{name} is {'new' if name in now else 'gone'}"
        for name in sorted({*was, *now})
        if was.get(name) != now.get(name)
    ]
    more = f" and {len(changed) - _SHOWN} more" if len(changed) > SHOWN else ""
    return ", ".join(changed[:_SHOWN]) + more or "it is made anew"


def _parts(line: str) -> tuple[str, str]:
    match = _NAMED.match(line)
    return (match[1], match[2]) if match is not None else (line, line)
