"""The energy of the machines of a run, as they counted it, or that it was not measured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from diel.paths import RunPaths

NOT_MEASURED = "not measured"


def energy_of(paths: RunPaths) -> dict[str, Any] | None:
    """Joules by what counted them (RAPL, NVML), of each block or controller too; None where nothing did."""
    parts: dict[str, Any] = {}
    joules: dict[str, float] = {}
    for file in sorted(paths.energy.glob("*.json")):
        try:
            part = json.loads(file.read_text("utf-8"))
            for source, value in part["joules"].items():
                joules[source] = joules.get(source, 0.0) + value
            parts[file.stem] = part
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # damaged: the others tell
    return {"joules": joules, "parts": parts} if parts else None


def energy_text(found: Mapping[str, Any] | None) -> str:
    """`1.2 kWh (RAPL 1.0, NVML 0.2), of whole machines`, or that it was not measured."""
    if not found:
        return NOT_MEASURED
    each = ", ".join(f"{source} {_amount(value)}" for source, value in found["joules"].items())
    return f"{_amount(sum(found['joules'].values()))} of whole machines ({each})"


def _amount(joules: float) -> str:
    if joules >= 3.6e6:
        return f"{joules / 3.6e6:.3g} kWh"
    return f"{joules / 1000:.3g} kJ" if joules >= 1000 else f"{joules:.3g} J"
