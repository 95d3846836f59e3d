"""The sum of the records of staging, by node."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diel.journal.records import NodeFacts, StagingRecord


def count_staging(
    nodes: dict[str, NodeFacts], counted: dict[str, float], record: StagingRecord, worker: str
) -> None:
    """Add a record to its node, once: a worker's report repeats it. `counted`: each worker's last."""
    if counted.get(worker, 0.0) >= record["time"]:
        return
    counted[worker] = record["time"]
    none: NodeFacts = {"copied": 0, "bytes": 0, "folder": "", "warnings": 0, "warning": ""}
    node = nodes.setdefault(record["node"], none)
    node["copied"] += record["copied"]
    node["bytes"] += record["bytes"]
    node["folder"] = record["folder"] or node["folder"]
    if record["warning"]:
        node["warnings"] += 1
        node["warning"] = record["warning"]
