"""What attempts used, in words: `1.9 of 2 cores, 310 MiB of 2 GiB, read 4 GiB`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diel.values import format_duration, format_size


def used_text(usage: Mapping[str, Any], seconds: float | None, cores: int, memory: int | None = None) -> str:
    """What an attempt used of what it had; empty if nothing was measured.

    `seconds` is how long it took, `memory` what it asked for on all its nodes.
    """
    parts = []
    if "cpu_seconds" in usage and seconds:
        parts.append(
            f"{_number(usage['cpu_seconds'] / seconds)} of {cores} {'core' if cores == 1 else 'cores'}"
        )
    if "memory_bytes" in usage:
        bound = "at most " if usage.get("memory_at_most") else ""
        asked = "" if memory is None else f" of {format_size(memory)}"
        parts.append(f"{bound}{format_size(usage['memory_bytes'])}{asked}{' of memory' if not asked else ''}")
    if usage.get("gpu_seconds") is not None and seconds:
        parts.append(f"{_number(usage['gpu_seconds'] / seconds)} GPUs")
        if "gpu_memory_bytes" in usage:
            parts.append(f"{format_size(usage['gpu_memory_bytes'])} on them")
    moved = (("read", "read_bytes"), ("wrote", "written_bytes"))
    parts += [f"{word} {format_size(usage[key])}" for word, key in moved if usage.get(key, 0) >= 1 << 20]
    return ", ".join(parts)


def stage_usage_text(sums: Mapping[str, Any]) -> str:
    """What the tasks of a stage used together, from their sums in the fold; empty if nothing was measured."""
    if not sums.get("tasks"):
        return ""
    parts = [f"{format_duration(sums['cpu_seconds'])} of processor time"]
    if sums["seconds"]:
        parts.append(f"{_number(sums['cpu_seconds'] / sums['seconds'])} cores a task")
    if "memory_bytes" in sums:
        parts.append(f"at most {format_size(sums['memory_bytes'])} of memory")
    if "gpu_seconds" in sums:
        parts.append(f"{format_duration(sums['gpu_seconds'])} of GPUs")
        if "gpu_memory_bytes" in sums:
            parts.append(f"at most {format_size(sums['gpu_memory_bytes'])} on them")
    moved = (("read", "read_bytes"), ("wrote", "written_bytes"))
    parts += [f"{word} {format_size(sums[key])}" for word, key in moved if sums.get(key, 0) >= 1 << 20]
    return ", ".join(parts)


def _number(value: float) -> str:
    return f"{value:.2g}" if value < 10 else f"{value:.0f}"
