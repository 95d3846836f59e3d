"""Makes the environments of a run before any of its tasks, where it is typed: nodes may lack a network."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from diel.environments.conda import make_conda
from diel.environments.image import version_of_image
from diel.environments.kept import Tell
from diel.environments.lines import MODULE_COMMAND, conda_lines, module_lines, spack_lines, uses_modules
from diel.environments.prepared import Contained, Prepared
from diel.environments.python import make_python
from diel.environments.runtime import NoContainer, find_runtime
from diel.errors import UsageError
from diel.spec import Environment


def make(
    name: str,
    given: Environment,
    source: str,
    folder: Path,
    runs: Path,
    kept: Path,
    tell: Tell,
    *,
    here: bool,
) -> Prepared:
    """An environment for use. `given` has absolute paths; `here` says whether programs run on this machine.

    Raises UsageError where it cannot be made.
    """
    lines: list[str] = [MODULE_COMMAND] if uses_modules(given.modules, given.setup) else []
    lines += [*module_lines(given.modules), *given.setup]
    identity: dict[str, Any] = {
        key: list(found) for key in ("modules", "setup") if (found := getattr(given, key))
    }
    prefix = ""
    if given.conda is not None:
        place, identity["conda"] = make_conda(name, given.conda, kept, tell)
        lines += conda_lines(place)
    if given.spack is not None:
        identity["spack"] = given.spack if isinstance(given.spack, str) else list(given.spack)
        lines += spack_lines(given.spack)
    if given.python is not None:
        place, identity["python"] = make_python(name, given.python, kept, tell)
        prefix = str(place)
    variables = {key: str(value) for key, value in given.variables.items()}
    if variables:
        identity["variables"] = variables
    contained, sees = None, (str(runs), str(folder))
    if given.container is not None:
        box = given.container
        _refuse_unmountable(name, sees)
        version = version_of_image(name, box.image, box.runtime or "", here=here)
        if here:
            _refuse_unstartable(name, Contained(box.image, box.runtime or ""), lines)
        identity["container"] = {"image": version, "mounts": list(box.mounts)}
        contained = Contained(box.image, box.runtime or "", box.mounts)
    return Prepared(name, source, str(folder), tuple(lines), prefix, variables, contained, sees, identity)


def _refuse_unmountable(name: str, sees: tuple[str, ...]) -> None:
    for path in sees:
        if any(sign in path for sign in ":,"):
            what = "a container cannot see a path with a colon or comma"
            raise UsageError(f"environment '{name}': {what}: {path}; give another with --runs, or move it")


def _refuse_unstartable(name: str, contained: Contained, lines: list[str]) -> None:
    """Raises UsageError where programs run here and nothing can start the container; lines may load it."""
    try:
        if not lines:
            find_runtime(contained, os.environ.get("PATH", os.defpath))
    except NoContainer as error:
        raise UsageError(f"environment '{name}': {error}") from error


def is_whole(made: Prepared) -> bool:
    """Whether what was made for it is still there."""
    return not made.prefix or os.path.isdir(made.prefix)
