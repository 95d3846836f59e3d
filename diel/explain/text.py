"""Explanations as lines for people."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from diel.errors import counted
from diel.explain.attempts import attempt_text, place_line, staging_line
from diel.explain.place import job_of, place_text, says
from diel.explain.wait import SHOWN
from diel.spec.stage import SHELLS
from diel.table import shown
from diel.values import format_duration

TAIL_LINES = 12
"""Lines of a failed task's error output that are shown; `diel logs` has all."""
COMMAND_LINES = 40
WIDE = 100


def render_run(document: Mapping[str, Any]) -> Iterator[str]:
    """A run's explanation."""
    stands = _totals(document["stages"])
    if document["controller"]:
        stands = document["controller"] + (f"; {stands}" if stands else "")
    yield f"{document['run']} {document['state']}: {stands or 'no tasks yet'}"
    if document["axes"]:
        yield ""
    for axis in document["axes"]:
        yield from (_printable(line) for line in axis["text"])
    for failure in document["failures"]:
        yield ""
        yield from _failure(failure)
    for skip in document["skipped"]:
        yield ""
        yield f"{skip['stage']}: {_skip(skip)}"
    if document["running"]:
        yield ""
        yield from _running("running", document["running"])
    if document["lost"]:
        yield ""
        yield from _running("running when the controller went away", document["lost"])
    yield from _blocks(document)
    for wait in document["waiting"]:
        yield ""
        count = "its tasks" if wait["count"] is None else counted(wait["count"], "task")
        yield f"{wait['stage']}: {count} waiting: {wait['text']}"
        if wait["next"]:
            yield f"    next: {wait['next']}"
    told = [computed for computed in document["computed"] if computed["earlier"] or computed["again"]]
    if told:
        yield ""
    for computed in told:
        yield from _computed(computed)


def _blocks(document: Mapping[str, Any]) -> Iterator[str]:
    """Blocks that ended badly, and what else went wrong with the scheduler."""
    for block in document["blocks"]:
        if block["ended"] is not None:
            yield ""
            yield f"block {block['block']} ({job_of(block)}) ended: {block['state']}{says(block)}"
            yield from _tail(block["stderr_tail"])
            yield f"    next: `diel explain {document['run']} --block {block['block']}`"
    if document["trouble"]:
        yield ""
        yield f"trouble: {document['trouble']}"


def _totals(stages: Mapping[str, Mapping[str, int]]) -> str:
    sums: dict[str, int] = {}
    for counts in stages.values():
        for state, number in counts.items():
            if state != "total":
                sums[state] = sums.get(state, 0) + number
    return ", ".join(f"{number:,} {state}" for state, number in sums.items() if number)


def _failure(failure: Mapping[str, Any]) -> Iterator[str]:
    tasks = ", ".join(failure["tasks"])
    more = f" and {failure['count'] - SHOWN:,} more" if failure["count"] > SHOWN else ""
    kind = failure["class"] + (f", tolerated by {failure['tolerated']}" if failure["tolerated"] else "")
    yield f"{failure['stage']}: {counted(failure['count'], 'task')} failed ({kind}): {failure['message']}"
    yield f"    {tasks}{more}"
    yield from _tail(failure["stderr_tail"])
    yield f"    next: {failure['next']}"


def _tail(text: str) -> Iterator[str]:
    lines = text.rstrip().splitlines()
    if len(lines) > TAIL_LINES:
        yield f"    │ … {counted(len(lines) - TAIL_LINES, 'line')} before"
    for line in lines[-TAIL_LINES:]:
        yield f"    │ {_printable(line)}"


def _printable(line: str) -> str:
    return "".join(char if char.isprintable() or char == "\t" else repr(char)[1:-1] for char in line)


def _skip(skip: Mapping[str, Any]) -> str:
    if skip["reason"] == "void":
        return f"never began: {skip['cause']}"
    if skip["reason"] == "axis":
        return f"{counted(skip['count'], 'task')} left out: {'; '.join(skip['why'])}"
    if skip["reason"] == "service":
        return f"{counted(skip['count'], 'task')} left out: no task came to need the service"
    if skip["reason"] == "when":
        why = f"'{skip['cause']}' was left out by its `when`" if skip["cause"] else "`when` does not hold"
        return f"{counted(skip['count'], 'task')} left out: {why}"
    roots = f" (it began with {', '.join(skip['roots'])})" if skip["roots"] else ""
    return (
        f"{counted(skip['count'], 'task')} skipped: '{skip['cause']}', which they read, has no result{roots}"
    )


def _running(title: str, running: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield f"{title}: {counted(len(running), 'task')}"
    for task in running[: 2 * SHOWN]:
        again = f", attempt {task['attempt']}" if task["attempt"] > 1 else ""
        where = place_text(task) or task["worker"]
        yield f"    {task['task']} for {format_duration(task['seconds'])}{again} ({where})"
    if len(running) > 2 * SHOWN:
        yield f"    … {len(running) - 2 * SHOWN:,} more"


def _computed(computed: Mapping[str, Any]) -> Iterator[str]:
    yield f"{computed['stage']}: {counted(computed['count'], 'task')} computed: {computed['why'][0]}"
    for reason in computed["why"][1:]:
        yield f"    and {reason}"
    yield from _because(computed["changes"])


def _because(changes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for change in changes:
        for reason in change["because"]:
            yield f"    because {reason}"


def render_task(document: Mapping[str, Any]) -> Iterator[str]:
    """A task's explanation."""
    yield f"{document['run']} {document['task']} {document['state']}"
    for reason in document["why"]:
        against = f" (compared with {document['earlier']})" if document["changes"] else ""
        yield f"    why: {reason}{against}"
    yield from _because(document["changes"])
    yield from _tail(document.get("stderr_tail", ""))
    if document["next"]:
        yield f"    next: {document['next']}"
    yield from _section("point", {k: shown(v, WIDE) for k, v in document["point"].items()})
    yield from _section(
        "hyperparameters of its trial", {k: shown(v, WIDE) for k, v in document["hp"].items()}
    )
    if document["params"]:
        yield from _section("params", {k: shown(v, WIDE) for k, v in document["params"].items()})
    if document["command"]:
        yield from _command(document["command"])
    yield from _section("inputs", {name: _input(given) for name, given in document["inputs"].items()})
    yield from _section("outputs", {k: shown(v, WIDE) for k, v in document["outputs"].items()})
    yield from _attempts(document["attempts"])


def render_block(document: Mapping[str, Any]) -> Iterator[str]:
    """A block's explanation."""
    yield f"{document['run']} block {document['block']} {document['state']}"
    yield f"    why: {document['why']}"
    if document["next"]:
        yield f"    next: {document['next']}"
    began, ended = document["began"], document["ended"]
    facts = {
        "job": document["job"] or "not known",
        "shape": f"{document['shape']} (pool {document['pool']})",
        "nodes": document["nodes"],
        "walltime": format_duration(document["walltime"]),
        "asked for": _clock(document["asked"]),
        "began": ""
        if began is None
        else f"{_clock(began)}, after {format_duration(began - document['asked'])}",
        "ended": "" if ended is None else _clock(ended),
    }
    yield from _section("block", {name: text for name, text in facts.items() if text})
    counts = ", ".join(f"{number:,} {state}" for state, number in document["attempts"].items())
    if counts:
        yield ""
        yield f"attempts: {counts}"
    for attempt in document["tasks"]:
        how = attempt["state"] + (f" ({attempt['class']})" if attempt["class"] else "")
        yield f"    {attempt['task']} attempt {attempt['attempt']} {how} on {attempt['node']}"
    if document["stderr_tail"]:
        yield ""
        yield "what its job said last"
        yield from _tail(document["stderr_tail"])
    if document["files"]:
        yield ""
        yield "files"
        yield from (f"    {file}" for file in document["files"])


def _command(words: Sequence[str]) -> Iterator[str]:
    """A command as it could be typed: the text for a shell, or the words, quoted where they need it."""
    yield ""
    yield "command"
    text = words[-1] if tuple(words[:-1]) in SHELLS.values() else shlex.join(words)
    for line in text.rstrip().splitlines()[:COMMAND_LINES]:
        yield f"    {_printable(line)[:1000]}"


def _section(title: str, entries: Mapping[str, str]) -> Iterator[str]:
    if entries:
        yield ""
        yield title
        width = max(map(len, entries))
        for name, text in entries.items():
            yield f"    {name.ljust(width)}{'  ' if width else ''}{text}"


def _input(given: Mapping[str, Any]) -> str:
    count = ""
    if given.get("tasks", 1) != 1:
        count = f", {given['done']:,} of {given['tasks']:,} done"
    source = given.get("task") or given["from"]
    picked = ", ".join(pick["text"] for pick in given.get("picks", ()))
    rule = f" ({given['rule']}{count}{f': {picked}' if picked else ''})" if "rule" in given else ""
    value = f": {shown(given['value'], WIDE)}" if given.get("value") is not None else ": not there yet"
    return f"{given['from'] if source == given['from'] else given['from'] + ' of ' + source}{rule}{value}"


def _attempts(attempts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not attempts:
        return
    yield ""
    yield "attempts"
    for attempt in attempts:
        began = f", {_clock(attempt['began'])}" if attempt["began"] else ""
        yield f"    {attempt_text(attempt)}{began}, {attempt['worker']}"
        if place := place_line(attempt):
            yield f"        {place}"
        yield f"        {attempt['dir']}"
        yield from (f"        {_printable(staging_line(told))}" for told in attempt["staging"])
        if attempt["block_end"] is not None:
            yield f"        its block ended: {attempt['block_end']['state']}{says(attempt['block_end'])}"
            yield from (f"    {line}" for line in _tail(attempt["block_end"]["stderr_tail"]))


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M:%S")
