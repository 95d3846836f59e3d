"""Committed results: the place of each in the journal, to be read on demand.

A finished task costs the controller ten bytes here; its values stay in the journal.
"""

import os
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from diel.base.errors import DielError
from diel.base.paths import RunPaths
from diel.store.artifacts import Artifact, digest_of, files_of
from diel.store.journal.records import Cached, Made, Result
from diel.store.journal.segment import read_result
from diel.store.project.runs import home_of_run


class MissingInput(DielError):
    """An input or expression reads something that a task did not make."""


RECENT = 4096
"""The most records kept in memory: a result is mostly read right after it was written."""


class Results:
    """The results of all stages of a run."""

    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths
        self._segments: list[str] = []
        self._numbers: dict[str, int] = {}
        self._places: dict[str, tuple[array[int], array[int]]] = {}
        self._recent: OrderedDict[tuple[str, int], Result] = OrderedDict()

    def put(self, stage: str, index: int, segment: str, offset: int, record: Result) -> None:
        number = self._numbers.get(segment)
        if number is None:
            number = self._numbers[segment] = len(self._segments)
            self._segments.append(segment)
        if stage not in self._places:
            self._places[stage] = array("I"), array("Q")
        numbers, offsets = self._places[stage]
        if index >= len(numbers):
            missing = index + 1 - len(numbers)
            numbers.extend([0] * missing)
            offsets.extend([0] * missing)
        numbers[index], offsets[index] = number, offset
        self._recent[(stage, index)] = record
        if len(self._recent) > RECENT:
            self._recent.popitem(last=False)

    def record(self, stage: str, index: int) -> Result:
        recent = self._recent.get((stage, index))
        if recent is not None:
            return recent
        numbers, offsets = self._places[stage]
        return read_result(self._paths.journal / self._segments[numbers[index]], offsets[index])

    def outputs(self, stage: str, index: int) -> Made:
        """Return the outputs of a task, in its record."""
        return self.record(stage, index)

    def place(self, stage: str, index: int) -> tuple[str, int]:
        """Return segment and offset of a committed result."""
        numbers, offsets = self._places[stage]
        return self._segments[numbers[index]], offsets[index]


def carry(record: Made, to: Made) -> None:
    """Copy a task's outputs from its record, and nothing else."""
    to.update(cast("Made", {key: value for key, value in record.items() if key in Made.__annotations__}))


def output_of(record: Made, name: str, run_root: Path) -> Any:
    """Return a value, or Artifacts with absolute paths. Raise KeyError where there is no such output."""
    values = record.get("values")
    if values is not None and name in values:
        return values[name]
    entry = record.get("artifacts", {})[name]
    home = os.fspath(artifact_home(record, run_root))
    inside = entry.get("inside")
    artifacts = [
        Artifact(
            f"{home}/{path}",
            file["digest"],
            inside,
            file.get("size", 0),
            file.get("identity", ""),
            name_of(path),
        )
        for file in files_of(entry)
        for path in (file["path"],)
    ]
    return artifacts if "files" in entry else artifacts[0]


def name_of(path: str) -> str:
    """Return an artifact's path in the directory of its maker, from that in its run."""
    return path.split("/", 3)[-1]  # below tasks/STAGE/INDEX


def artifact_path(record: Made, path: str, run_root: Path) -> Path:
    """Return the path of an artifact: in this run, or in the earlier one that it was taken from."""
    return artifact_home(record, run_root) / path


def artifact_home(record: Made, run_root: Path) -> Path:
    """Return the run that holds a task's artifacts; a missing one where another run has its name now."""
    origin = record.get("run")
    return run_root if origin is None else home_of_run(run_root.parent, origin, record.get("run_id", ""))


def tell_origin(record: Cached, result: Result) -> None:
    """Note which task made an earlier result: a pruner reads what it reported."""
    if result["event"] == "done":
        record["origin"] = [result["index"], result["attempt"]]
    elif "origin" in result:
        record["origin"] = result["origin"]
    maker = result.get("origin_stage", result["stage"])
    if maker != record["stage"]:
        record["origin_stage"] = maker


def origin_dirs(record: Result, runs: Path) -> Iterator[tuple[int, Path]]:
    """Yield the attempts that made an earlier run's result, oldest first, each with its directory."""
    if "origin" in record:
        index, last = record["origin"]
        stage, made_by = (
            record.get("origin_stage", record["stage"]),
            RunPaths(artifact_home(record, runs / "this")),
        )
        for attempt in range(1, last + 1):
            yield attempt, made_by.task_dir(stage, index, attempt)


Outputs = Mapping[str, str]
"""The digest of each output of a result."""


def outputs_digests(record: Made) -> Outputs:
    """Return digests that tell a result from another of its task; of a file, of its content and name."""
    values = record.get("values", {}).items()
    digests = {name: digest_of([value], in_order=True)[:16] for name, value in values}
    for name, entry in record.get("artifacts", {}).items():
        files = [[os.path.basename(file["path"]), file["digest"]] for file in files_of(entry)]
        digests[name] = digest_of(files)[:16]
    return digests


def outputs_of(record: Made) -> list[str]:
    return [*record.get("values", {}), *record.get("artifacts", {})]
