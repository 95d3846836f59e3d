"""The attempts at a task: where each ran, with what, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from diel.errors import counted
from diel.explain.place import LOST, block_end, place_of, place_text
from diel.results import Recorded
from diel.states import FailureClass, RunState
from diel.values import format_duration, format_size

if TYPE_CHECKING:
    from diel.journal.records import OfTask


def attempts_of(run: Recorded, stage: str, index: int) -> list[dict[str, Any]]:
    """The attempts at a task as its workers told them, in their order."""
    found: dict[int, dict[str, Any]] = {}
    for segment, record in run.attempts(stage, index):
        if record["event"] == "cached":
            continue
        number = record["attempt"]
        if record["event"] == "done" and run.history.stage(stage).is_fenced(index, number):
            continue  # it came after its attempt was given up
        attempt = found.setdefault(
            number,
            {
                "attempt": number,
                "state": "lost",
                "began": None,
                "ended": None,
                "seconds": None,
                "worker": segment.removesuffix(".jsonl"),
                "dir": str(run.paths.task_dir(stage, index, number)),
                "class": None,
                "exit_code": None,
                "message": "",
                "stderr_tail": "",
                "staging": [],
            },
        )
        _add(attempt, record, segment)
    attempts = [found[number] for number in sorted(found)]
    changed = _changed_resources(run, stage, index) if len(attempts) > 1 else {}
    for attempt in attempts:
        attempt |= place_of(run, attempt["worker"])
        resources = run.workflow.stages[stage].resources.changed(changed.get(attempt["attempt"], {}))
        attempt["resources"] = {"memory": resources.memory, "walltime": resources.walltime}
        to_blame = attempt["state"] == "lost" or attempt["class"] in LOST
        attempt["block_end"] = block_end(run, attempt["block"]) if to_blame else None
    last = attempts[-1] if attempts else {"state": ""}
    if last["state"] == "lost" and last["block_end"] is None and run.state == RunState.RUNNING:
        last["state"] = "running"
    return attempts


def _changed_resources(run: Recorded, stage: str, index: int) -> dict[int, dict[str, Any]]:
    """What later attempts asked for in place of what the stage says, by attempt."""
    found: dict[int, dict[str, Any]] = {}
    needles = (b'"event":"queued"', b'"stage":"%s"' % stage.encode(), b'"resources":')
    for _, record in run.events(*needles):
        if record["event"] != "queued" or record["stage"] != stage or index not in record["tasks"]:
            continue
        numbers = record.get("attempts") or [1] * len(record["tasks"])
        found[numbers[record["tasks"].index(index)]] = record["resources"]
    return found


def _add(attempt: dict[str, Any], record: OfTask, segment: str) -> None:
    match record["event"]:
        case "start":
            attempt.update(began=record["time"], worker=segment.removesuffix(".jsonl"))
        case "done":
            attempt.update(state="done", ended=record["time"], seconds=record.get("seconds"))
        case "staging":
            told = {key: record[key] for key in ("node", "copied", "bytes", "found", "seconds", "warning")}
            attempt["staging"].append(told)
        case "fail":
            continues = record["class"] == FailureClass.INTERRUPTED
            attempt.update(record, state="interrupted" if continues else "failed", ended=record["time"])
            for key in attempt.keys() & {"event", "stage", "index", "bundle", "time"}:
                del attempt[key]


def attempt_text(attempt: Mapping[str, Any]) -> str:
    """An attempt in one line."""
    seconds = attempt["seconds"]
    took = f" after {format_duration(seconds)}" if seconds is not None else ""
    reason = f" ({attempt['class']}): {attempt['message']}" if attempt["state"] == "failed" else ""
    if attempt["state"] == "interrupted":
        reason = f": {attempt['message']}"
    return f"attempt {attempt['attempt']}: {attempt['state']}{took}{reason}"


def staging_line(told: Mapping[str, Any]) -> str:
    """What one attempt brought to its node's disk, or why it did not."""
    if told["warning"]:
        return f"used the shared file system: {told['warning']}"
    copied = counted(told["copied"], "artifact")
    found = f"; found {told['found']:,} there" if told["found"] else ""
    size, took = format_size(told["bytes"]), format_duration(told["seconds"])
    return f"brought {copied} ({size}) to the disk of {told['node']} in {took}{found}"


def place_line(attempt: Mapping[str, Any]) -> str:
    """Where an attempt ran and with what: `node n1, block 1-0 (job 123), 2.0 GiB, 20m00s of walltime`."""
    memory, walltime = attempt["resources"]["memory"], attempt["resources"]["walltime"]
    parts = [place_text(attempt)]
    parts += [format_size(memory)] if memory is not None else []
    parts += [f"{format_duration(walltime)} of walltime"] if walltime is not None else []
    return ", ".join(filter(None, parts))
