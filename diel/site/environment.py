"""The environments of a site file: their paths are relative to the file that names them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from diel.site.site import Site


def anchored(site: Site, data: dict[str, Any], folder: Path) -> tuple[Site, dict[str, Any]]:
    """A site and its keys as written, with the paths of environments absolute.

    A file that extends it, from another folder, then inherits them as they are meant.
    """
    made = {name: one.beside(folder.absolute()) for name, one in site.environments.items()}
    written = {name: one.model_dump(mode="json", exclude_unset=True) for name, one in made.items()}
    return site.model_copy(update={"environments": made}), {**data, "environments": written}
