"""Surrogates as lines for people."""

from __future__ import annotations

from diel.cli.columns import paint, printable, shorten
from diel.status import Status
from diel.status.surrogate import SurrogateStatus, terms, told, trouble

LINE = 200
"""Characters of a message."""


def surrogate_lines(status: Status) -> list[str]:
    """What each surrogate answered and saved."""
    found = {stage.name: stage.surrogate for stage in status.stages if stage.surrogate is not None}
    lines = [line for name, surrogate in found.items() for line in lines_of(name, surrogate)]
    return ["", *lines] if lines else []


def lines_of(name: str, surrogate: SurrogateStatus) -> list[str]:
    """What the surrogate of a stage answered, the terms of its speedup, and what went wrong."""
    measured = ", ".join(f"{term} {value}" for term, value in terms(surrogate).items())
    lines = [f"surrogate of {name}: {told(surrogate)}", paint(f"  {measured}", dim=True)]
    wrong = trouble(surrogate)
    return [*lines, f"  {shorten(printable(wrong), LINE)}"] if wrong else lines
