"""What the files of a run say of it besides its journal, read as far as they can be."""

from __future__ import annotations

import json
from typing import Any

from diel.paths import RunPaths


def workflow_name(paths: RunPaths) -> str:
    """The workflow's name: as the run's file has it, else as the run's name begins."""
    named = run_document(paths).get("workflow")
    return named if isinstance(named, str) else paths.run_id.rpartition("-")[0]


def run_document(paths: RunPaths) -> dict[str, Any]:
    """The run's file as it is, unchecked: a run of another version of diel can be listed too."""
    try:
        document = json.loads(paths.run_file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def stage_names(paths: RunPaths) -> list[str]:
    """The stages of the workflow's text, in its order; none where it cannot be read."""
    import yaml  # costs 20 ms, which the status of a run with a snapshot does not need

    try:
        text = paths.workflow.read_text(encoding="utf-8")
        document = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - makes nothing but text
        return list(document["stages"])
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError):
        return []
