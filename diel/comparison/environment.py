"""What the programs of a run ran in, as facts to compare: versions, machine, environments."""

from __future__ import annotations

from typing import Any

from diel.results import RunReader


def facts_of(run: RunReader) -> dict[str, Any]:
    """By name; of each environment what its results depend on."""
    file = run.run_file
    made = {"diel": file.diel, "Python": file.python, "site": file.site, "host": file.host, "user": file.user}
    parts = [(name, *part) for name, found in run.environments.items() for part in found.identity.items()]
    named = {f"environment {name}: {key}": value for name, key, value in parts}
    given = {"settings": " ".join(file.settings) or None, "begun at stage": file.begin_at}
    return {"workflow": file.workflow, "file": file.source, **made, **named, **given}
