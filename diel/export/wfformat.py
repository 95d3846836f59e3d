"""WfFormat 1.6, the traces of WfCommons: tasks, what each waited for, when and where it ran, what it used."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from diel.base.errors import UsageError, counted
from diel.base.values import json_value
from diel.export import Key, TaskOutcome, left_out, ran, read_by, when
from diel.observe.results import RunReader
from diel.store.artifacts import files_of

_FORBIDDEN = re.compile(r"[^0-9a-zA-Z\-_./:]")
_HOST = re.compile(r"[0-9A-Za-z]([0-9A-Za-z\-.]{0,251}[0-9A-Za-z])?")
_MEASURED = {"memory_bytes": "memoryInBytes", "read_bytes": "readBytes", "written_bytes": "writtenBytes"}


def write(run: RunReader, into: Path, target: Path) -> list[str]:
    """Write `wfformat.json`. Raise UsageError for a run of which no task has ended."""
    tasks = ran(run)
    if not tasks:
        raise UsageError(f"{run.paths.run_id} has no task that ended: a trace has one at least")
    read = {key: read_by(run, key, tasks) for key in tasks}
    children: dict[Key, list[Key]] = {key: [] for key in tasks}
    for key, above in read.items():
        for parent in above:
            children[parent].append(key)
    files: dict[str, int] = {}
    specified, executed = [], []
    for key, task in tasks.items():
        outputs = dict(_files(task))
        inputs = {
            file: size for parent, names in read[key].items() for file, size in _files(tasks[parent], names)
        }
        files.update(outputs | inputs)
        specified.append(
            {
                "name": run.named(task.task),
                "id": _id(key),
                "parents": [_id(parent) for parent in read[key]],
                "children": [_id(child) for child in children[key]],
                "inputFiles": [*inputs],
                "outputFiles": [*outputs],
            }
        )
        if task.seconds is not None:
            executed.append(_execution(run, task))
    document = {
        "name": run.paths.run_id,
        "description": run.workflow.description or f"A run of {run.run_file.workflow}",
        "createdAt": when(run.run_file.created),
        "schemaVersion": "1.6",
        "runtimeSystem": {"name": "diel", "version": run.run_file.diel},
        "workflow": {
            "specification": {
                "tasks": specified,
                "files": [{"id": name, "sizeInBytes": size} for name, size in files.items()],
            },
            **({"execution": _together(run, tasks, executed)} if executed else {}),
        },
    }
    (into / "wfformat.json").write_text(
        json.dumps(json_value(document), indent=1, ensure_ascii=False), "utf-8"
    )
    edges, failed = sum(map(len, read.values())), sum(not task.state.good for task in tasks.values())
    lines = [f"{counted(len(tasks), 'task')}, dependencies: {edges:,}"]
    if failed:
        lost = f"{counted(failed, 'task')} of these failed or were stopped"
        lines.append(f"{lost}, for which the format has no word")
    return [*lines, *left_out(run, tasks)]


def _together(
    run: RunReader, tasks: Mapping[Key, TaskOutcome], executed: list[dict[str, Any]]
) -> dict[str, Any]:
    """Describe the execution as a whole, from its first task to its last."""
    times = [time for task in tasks.values() for time in (task.began, task.ended) if time is not None]
    began = min(times, default=run.run_file.created)
    hosts = sorted({host for task in executed for host in task.get("machines", ())})
    return {
        "makespanInSeconds": round(max(times, default=began) - began, 6),
        "executedAt": when(began),
        "tasks": executed,
        **({"machines": [{"nodeName": host} for host in hosts]} if hosts else {}),
    }


def _execution(run: RunReader, task: TaskOutcome) -> dict[str, Any]:
    """Return how a task ran, without what was not measured."""
    facts: dict[str, Any] = {
        "id": _id((task.stage, task.number)),
        "runtimeInSeconds": task.seconds,
        "coreCount": run.stages[task.stage].ran_as(task.number, max(task.attempt, 1)).resources.cores,
    }
    if task.began is not None:
        facts["executedAt"] = when(task.began)
    if _HOST.fullmatch(task.host):
        facts["machines"] = [task.host]
    facts |= {word: task.usage[name] for name, word in _MEASURED.items() if task.usage.get(name) is not None}
    if task.seconds and task.usage.get("cpu_seconds") is not None:
        facts["avgCPU"] = round(100 * task.usage["cpu_seconds"] / task.seconds, 3)
    return facts


def _id(key: Key) -> str:
    """Return a task as WfFormat may name it, without a slash; no stage's name has a dash."""
    return f"{key[0]}-{key[1]}"


def _files(task: TaskOutcome, outputs: Sequence[str] | None = None) -> Iterator[tuple[str, int]]:
    """Yield the files of a task, as WfFormat may name them, with their sizes: those deleted since, too."""
    home = f"../{task.outcome['run']}/" if "run" in task.outcome else ""
    for output, entry in task.outcome.get("artifacts", {}).items():
        for file in files_of(entry) if outputs is None or output in outputs else ():
            yield _FORBIDDEN.sub("_", home + file["path"]), file.get("size", 0)
