"""What attempts asked for, where expressions of their stage say it: as the journal has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from diel.results.reader import RunReader
from diel.spec import Resources


def asked_in(run: RunReader, stage: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """The attempts of a stage: task, number, and what it asked for; sizes in bytes, durations in seconds."""
    needles = (b'"event":"queued"', b'"asked":')
    for _, record in run.events(*needles, stage=stage) if run.workflow.stages[stage].demand else ():
        if record["event"] == "queued" and record["stage"] == stage:
            numbers = record.get("attempts") or [1] * len(record["tasks"])
            for index, number in zip(record["tasks"], numbers, strict=True):
                yield index, number, record["asked"]


def with_asked(wanted: Resources, asked: Mapping[str, Any]) -> Resources:
    """What a stage says, with what an attempt asked for."""
    return wanted.model_copy(update={key: asked[key] for key in asked if key in type(wanted).model_fields})
