"""Which directory is the node's own disk."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from diel.staging.disk import Disk, StagingError

VARIABLES = ("DIEL_LOCAL_DIR", "SLURM_TMPDIR", "TMPDIR")
"""Where the directory is looked for if the site names none, the first that is set winning."""
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_PLAIN = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
"""Paths that no shell takes apart: they stand in commands that were quoted before the node was known."""


@dataclass(frozen=True, slots=True)
class Local:
    """A site's word on its nodes' disks."""

    folder: str = ""
    """May name variables, which each node fills in; empty where the site names no directory."""
    size: int | None = None
    """Bytes that diel may keep there; None for all that is free."""


def local_folder(local: Local, environ: Mapping[str, str]) -> tuple[str, bool]:
    """The directory on this node, and whether somebody has named it for diel.

    Raises StagingError where a variable in it is not set here, or it can be no directory.
    """
    named = local.folder or environ.get("DIEL_LOCAL_DIR", "")
    given = named or next((environ[name] for name in VARIABLES if environ.get(name)), "/tmp")
    lacking = [a or b for a, b in _VARIABLE.findall(given) if not environ.get(a or b)]
    if lacking:
        raise StagingError(f"{given}: ${lacking[0]} is not set on this node")
    folder = _VARIABLE.sub(lambda match: environ[match[1] or match[2]], given)
    if not os.path.isabs(folder):
        raise StagingError(f"{folder} is no absolute path, so it is not the same directory for all tasks")
    if not _PLAIN.fullmatch(folder):
        raise StagingError(f"{folder!r} has characters that a shell would take apart")
    return folder, bool(named)


def own_disk(local: Local, environ: Mapping[str, str]) -> Disk:
    """This node's disk, ready for use. Raises StagingError where there is none."""
    folder, named = local_folder(local, environ)
    return Disk.open(folder, local.size, named=named)
