"""Which stages read which hyperparameters: as the workflow says, and as a run has recorded it."""

from __future__ import annotations

from diel.graph import hyperparameter_reads
from diel.results import Recorded
from diel.spec import Workflow


def reads_of_workflow(workflow: Workflow) -> dict[str, list[str]]:
    """By stage."""
    return {name: sorted(hyperparameter_reads(name, stage)) for name, stage in workflow.stages.items()}


def reads_of_run(run: Recorded) -> dict[str, list[str]]:
    """By stage, of those whose tasks have come to be known."""
    found: dict[str, list[str]] = {}
    for _, record in run.events(b'"event":"stage"'):
        if record["event"] == "stage" and not record.get("void"):
            found[record["stage"]] = record.get("reads", [])
    return {name: found[name] for name in run.workflow.stages if name in found}
