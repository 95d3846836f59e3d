"""Conda environments: one that is there, or one that is made once of an environment.yml."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

from diel.artifacts import digest_of
from diel.environments.kept import LOCK, Tell, find_tool, made, output_of
from diel.errors import UsageError
from diel.files import put

_TOOLS = ("micromamba", "mamba", "conda")


def make_conda(name: str, given: str, kept: Path, tell: Tell) -> tuple[Path, dict[str, Any]]:
    """The directory of a Conda environment, made if it is not there yet, and what enters a cache key.

    Raises UsageError where there is none and none can be made.
    """
    path, said = Path(given), f"environment '{name}': {given}"
    if path.suffix not in (".yml", ".yaml"):
        if not (path / "conda-meta").is_dir():
            raise UsageError(f"{said} is no Conda environment: it has no directory conda-meta")
        return path, {"from": given, "packages": _packages(path)}
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{said}: cannot be read: {error}") from error

    def create(place: Path) -> None:
        tool = find_tool(*_TOOLS)
        if tool is None:
            raise UsageError(f"{said}: {', '.join(_TOOLS)}: none of them is here; name a directory instead")
        tell(f"environment '{name}': making it with {Path(tool).name} …")
        env = [] if Path(tool).name == "micromamba" else ["env"]
        output_of([tool, *env, "create", "--yes", "--prefix", str(place), "--file", str(path)], said)
        put(place / LOCK, "\n".join([*_packages(place), ""]))

    place = made(kept, digest_of(["conda", platform.machine(), text])[:24], create)
    return place, {"from": path.name, "packages": (place / LOCK).read_text("utf-8").split()}


def _packages(place: Path) -> list[str]:
    """The packages in an environment, each with its version and build."""
    return sorted(path.stem for path in (place / "conda-meta").glob("*.json"))
