"""What the attempts of a run used, as rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from diel.errors import counted
from diel.results.picked import tasks_at
from diel.results.reader import RunReader
from diel.table import Listing

if TYPE_CHECKING:
    from diel.journal.records import Done, Fail

MEASURED = (
    *("cpu_seconds", "system_seconds", "memory_bytes", "read_bytes", "written_bytes"),
    *("gpu_seconds", "gpu_memory_bytes"),
)


def list_usage(
    run: RunReader, stages: Sequence[str] = (), limit: int | None = None, at: Mapping[str, Any] | None = None
) -> Listing:
    """A row for each attempt of the stages that ended, in order: its point, how it ended, what it used.

    `at` has values of axis parameters, of one stage. A cell is empty where nothing was measured, and
    where the kernel only knows a bound. Raises UsageError for a stage or point that is not there.
    """
    for stage in stages:
        run.check_stage(stage)
    chosen = list(stages) or list(run.workflow.stages)
    parameters = list(dict.fromkeys(name for stage in chosen for name in run.parameters(stage)))
    gpus = any("gpu_seconds" in run.history.stage(stage).usage for stage in chosen)
    measured = MEASURED if gpus else MEASURED[:-2]
    rows: list[tuple[Any, ...]] = []
    notes = {}
    for stage in chosen:
        wanted = set(tasks_at(run, stage, range(run.history.stage(stage).total), at)) if at else None
        bare = 0
        found = {(record["index"], record["attempt"]): record for record in ended(run, stage)}
        for index, attempt in sorted(found):
            if wanted is not None and index not in wanted:
                continue
            record = found[index, attempt]
            bare += "usage" not in record
            if limit is None or len(rows) < limit:
                point = run.point(stage, index)
                rows.append((f"{stage}/{index}", *map(point.get, parameters), *_cells(record, measured)))
        if bare:
            notes[stage] = f"nothing was measured of {counted(bare, 'attempt')} of '{stage}'"
        if cached := run.history.stage(stage).counts()["cached"]:
            note = f"{counted(cached, 'task')} of '{stage}' came from the cache: its run has what they used"
            notes[stage] = "; ".join(filter(None, (notes.get(stage, ""), note)))
    return Listing(("task", *parameters, "attempt", "state", "seconds", *measured), rows, notes)


def ended(run: RunReader, stage: str, most: int | None = None) -> Iterator[Done | Fail]:
    """The ends of attempts of a stage, as their workers wrote them; no more than so many, spread evenly."""
    every = 1 if most is None else 1 + run.history.stage(stage).timed // most
    for event, step in ((b'"event":"done"', every), (b'"event":"fail"', 1)):
        for _, record in run.events(event, stage=stage, every=step):
            if (record["event"] == "done" or record["event"] == "fail") and record["stage"] == stage:
                yield record


def _cells(record: Done | Fail, measured: Sequence[str]) -> list[Any]:
    usage: dict[str, Any] = {**record.get("usage", {})}
    if usage.get("memory_at_most"):
        del usage["memory_bytes"]
    state = "done" if record["event"] == "done" else record["class"]
    return [record["attempt"], state, record.get("seconds"), *map(usage.get, measured)]
