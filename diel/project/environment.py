"""The environments that a project keeps: which of them no run needs any longer."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from diel.environments.kept import left_behind
from diel.paths import RunPaths, kept_environments


def unneeded_environments(runs: Path, known: Iterable[RunPaths]) -> list[Path]:
    """The kept environments of a project that none of these runs names, and what killed builds left."""
    kept = kept_environments(runs)
    named = "".join(_text(paths.environments) for paths in known)
    links = sorted(path for path in kept.glob("*") if path.is_symlink())
    return [*(path for path in links if path.name not in named), *left_behind(kept)]


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError:
        return ""


def remove_environment(path: Path) -> None:
    """Removes a kept environment: first the link, so that nobody finds half of it. Raises OSError."""
    place = path.parent / os.readlink(path) if path.is_symlink() else path
    if path.is_symlink():
        path.unlink()
    shutil.rmtree(place, ignore_errors=True)
