"""Commands that a message names, so that they work as they stand."""

from __future__ import annotations

import shlex

from diel.paths import RunPaths, runs_dir


def here(paths: RunPaths) -> str:
    """` --runs DIR`, where a command would not look for this run by itself."""
    where = paths.root.parent
    return "" if where == runs_dir().resolve() else f" --runs {shlex.quote(str(where))}"
