"""Words of a job script's directives: times, sizes, paths, as the schedulers' own readers take them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from diel.scheduler.job import SchedulerRefused


def clock(seconds: float) -> str:
    """HH:MM:SS, rounded up to whole seconds; hours may be more than 24, as all schedulers allow."""
    whole = max(1, -int(-seconds // 1))
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def seconds(text: str) -> float | None:
    """Seconds of `1-12:00:00`, `30:00`, `30` (minutes); None of `infinite` and what is no time."""
    days, _, clock = text.rpartition("-")
    parts = clock.split(":")
    if not all(part.isdigit() for part in parts) or not (days.isdigit() or not days):
        return None
    total = 0.0
    for part in parts if len(parts) > 1 else [*parts, "0"]:
        total = 60 * total + int(part)
    return total + 86400 * int(days or 0)


def mebibytes(size: int) -> int:
    """Bytes as MiB, rounded up: what Slurm's M and PBS's mb both mean."""
    return -(-size // 2**20)


def quoted(path: Path) -> str:
    """A path in double quotes, as a directive holds it.

    Raises SchedulerRefused for a path with a line break, a double quote or a backslash: no scheduler's
    reader of directives is to be trusted with it, and Slurm's would lose a job's output.
    """
    text = str(path)
    if any(ord(letter) < 32 or letter in '"\\' for letter in text):
        raise SchedulerRefused(
            f"a job script cannot name {text!r}: a path without line breaks, quotes and backslashes is needed"
        )
    return f'"{text}"'


def check_outputs(script: Path, named: re.Pattern[str]) -> tuple[str, ...]:
    """The files of output that a script's directives name. Raises SchedulerRefused where one has no folder.

    The scheduler would say nothing, and the job's output, or the job, would be lost.
    """
    files = tuple(shlex.split(value)[0] for value in named.findall(script.read_text(encoding="utf-8")))
    for file in files:
        folder = (script.parent / file.replace("%%", "%")).parent
        if not folder.is_dir():
            raise SchedulerRefused(f"{script}: its output cannot go to {folder}: make that folder")
    return files


def options(words: tuple[str, ...], nodes: int) -> tuple[str, ...]:
    """A site's options with the number of nodes of the job put in where they say {nodes}."""
    return tuple(word.replace("{nodes}", str(nodes)) for word in words)
