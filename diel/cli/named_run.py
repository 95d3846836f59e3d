"""Which run a command line means."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from diel.errors import UsageError
from diel.paths import RunPaths
from diel.project.runs import find_run


def run_and_rest(runs: Path, words: Sequence[str]) -> tuple[RunPaths, tuple[str, ...]]:
    """The run that the first word names and the other words; `last` and all words where it names none.

    Raises UsageError where there is no run at all, and where a word looks like a run's name only.
    """
    if not words:
        return find_run(runs), ()
    try:
        return find_run(runs, words[0]), tuple(words[1:])
    except UsageError as error:
        if words[0] == "last" or not _may_be_target(words[0]):
            raise
        try:
            return find_run(runs), tuple(words)
        except UsageError:
            raise error from None


def _may_be_target(word: str) -> bool:
    """Whether a word can be STAGE, STAGE.VALUE or STAGE/INDEX: a run's name ends in a dash and a number."""
    stage = word.partition("/")[0].partition(".")[0]
    return stage.isidentifier()
