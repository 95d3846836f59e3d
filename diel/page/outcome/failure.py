"""The panel of failures: grouped by what they have in common, with the ends of what their tasks printed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from diel.errors import DielError
from diel.explain.run import failures_of, skips_of
from diel.explain.text import Explanation
from diel.page.panel import Cell, Grid, Log, Part, Text
from diel.page.seen import Seen
from diel.status.stage import named_task

GROUPS = 40
SHOWN = 8
"""The most groups whose output is shown."""
END = 4000
"""Characters of an end that are shown: the last ones."""

_GIVEN_UP = ("upstream", "void", "hold", "max_failures", "fail_fast", "imports", "changed")
"""Reasons for which tasks do not run that no workflow asks for."""


def parts(seen: Seen) -> Iterator[Part]:
    run, status = seen.run, seen.status
    if status.trouble:
        yield Text(f"Trouble: {status.trouble}", "bad")
    if not _is_readable(seen) and status.failures:
        rows: list[list[Cell]] = [
            [named_task(one), one["class"], one["message"][:300]] for one in status.failures[:GROUPS]
        ]
        more = max(0, len(status.failures) - GROUPS)
        yield Grid("Failed tasks, as the journal has them", ("task", "class", "message"), rows, more)
    failed = [one.document for name in run.graph.order for one in failures_of(run, name)]
    if failed:
        heads = ("stage", "tasks", "class", "message", "tasks that failed so", "shared by them")
        groups = [_row(one) for one in failed[:GROUPS]]
        yield Grid("Failed tasks, those alike together", heads, groups, max(0, len(failed) - GROUPS))
        for one in failed[:SHOWN]:
            if one["stderr_tail"].strip():
                caption = f"{run.named(one['first'])}, the end of its stderr"
                yield Log(caption, one["stderr_tail"].rstrip()[-END:])
            yield Text(f"Next: {one['next']}", "note")
    skipped = [one for name in run.graph.order for one in _skipped(seen, name)]
    if skipped:
        yield Grid("What did not run", ("stage", "why"), [[*one] for one in skipped[:GROUPS]])


def _is_readable(seen: Seen) -> bool:
    """Whether its workflow can be read: without it, nobody knows what tasks that failed have in common."""
    with suppress(DielError):
        return bool(seen.run.workflow.stages)
    return False


def _row(one: dict[str, Any]) -> list[Cell]:
    cause = "" if one["headline"] in one["message"] else one["headline"]
    message = ": ".join(filter(None, (one["message"], cause)))
    tolerated = f", tolerated by {one['tolerated']}" if one["tolerated"] else ""
    more = f" and {one['count'] - len(one['tasks']):,} more" if one["count"] > len(one["tasks"]) else ""
    named = f"{', '.join(one['tasks'])}{more}"
    return [one["stage"], one["count"], f"{one['class']}{tolerated}", message[:300], named, one["shared"]]


def _skipped(seen: Seen, stage: str) -> Iterator[tuple[str, str]]:
    found: Iterator[Explanation] = skips_of(seen.run, stage)
    for one in found:
        if one.document["reason"] in _GIVEN_UP:
            yield stage, one.lines[0].removeprefix(f"{stage}: ")
