"""This machine's own disk, where inputs with `stage: node` are brought."""

from __future__ import annotations

import os
from pathlib import Path

from diel.doctor.finding import Finding
from diel.doctor.folder import existing, file_system
from diel.site import Site
from diel.staging.disk import StagingError
from diel.staging.local import Local, local_folder
from diel.values import format_size


def check_local(site: Site, runs: Path) -> Finding:
    """The directory can be used, and whether it is another disk than that of the runs."""
    try:
        folder, named = local_folder(Local(site.local.dir or "", site.local.size), os.environ)
    except StagingError as error:
        fix = "set `local: {dir: …}` in the site file, or DIEL_LOCAL_DIR, to a directory of this machine"
        return Finding("local disk", False, f"{error}; inputs are not staged", fix, required=False)
    place = existing(Path(folder))
    if not os.access(place, os.W_OK | os.X_OK):
        fix = "give a directory that you can write to: `local: {dir: …}` in the site file, or DIEL_LOCAL_DIR"
        return Finding("local disk", False, f"{folder} cannot be written to", fix, required=False)
    told = os.statvfs(place)
    found = f"{folder} on {file_system(place.resolve())}, {format_size(told.f_bavail * told.f_frsize)} free"
    if not named and place.stat().st_dev == existing(runs).stat().st_dev:
        found += "; the runs are on the same disk, so that nothing is staged"
    return Finding("local disk", True, found)
