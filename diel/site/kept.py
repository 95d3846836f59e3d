"""The site of a run, as it was when the run was made."""

from __future__ import annotations

from diel.errors import UsageError
from diel.paths import RunPaths
from diel.project.run_file import reason
from diel.site.site import Site


def read_kept_site(paths: RunPaths) -> Site:
    """The site as it was when its run was made. Raises UsageError if it cannot be read."""
    try:
        return Site.model_validate_json(paths.site.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"{paths.run_id}: its site cannot be read: {reason(error)}") from error
