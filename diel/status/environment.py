"""The environments of a run, as lines for people."""

from __future__ import annotations

from collections.abc import Mapping

from diel.paths import RunPaths
from diel.status.columns import printable


def environments_in(paths: RunPaths) -> dict[str, str]:
    """The environments of a run in a few words, by name."""
    from diel.environments.prepared import read_prepared  # here: it loads what digests are made with

    return {name: made.text for name, made in read_prepared(paths.environments).items()}


def environment_lines(found: Mapping[str, str]) -> list[str]:
    return [f"environment {name}: {printable(text)}" for name, text in found.items()]
