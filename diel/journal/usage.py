"""The sum of what the tasks of a stage used."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diel.journal.records import UsageFacts

SUMS = ("cpu_seconds", "system_seconds", "read_bytes", "written_bytes", "gpu_seconds")
PEAKS = ("memory_bytes", "gpu_memory_bytes")


def count_usage(known: dict[str, float], usage: UsageFacts, seconds: float) -> None:
    """Add one attempt. `tasks` counts those that were measured, `seconds` their time. A peak of memory that
    the kernel could not tell from the worker's is left out."""
    known["tasks"] = known.get("tasks", 0) + 1
    known["seconds"] = known.get("seconds", 0.0) + seconds
    for key in SUMS:
        if key in usage:
            known[key] = known.get(key, 0) + usage[key]  # type: ignore[literal-required]
    for key in PEAKS:
        if key in usage and not (key == "memory_bytes" and usage.get("memory_at_most")):
            known[key] = max(known.get(key, 0), usage[key])  # type: ignore[literal-required]
