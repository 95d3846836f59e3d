"""Makes the environments of a run before any of its tasks, where it is typed: nodes may lack a network."""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from diel.artifacts import content, digest_of
from diel.environments.kept import LOCK, Tell, find_tool, made, output_of
from diel.environments.prepared import Contained, Prepared
from diel.environments.python import asked_of, make_python
from diel.environments.runtime import NoContainer, find_runtime, version_of_image
from diel.errors import UsageError
from diel.files import put
from diel.spec import Environment
from diel.spec.environment import Definition

_PLACES = (
    '"$LMOD_PKG/init/bash" "$MODULESHOME/init/bash" /usr/share/lmod/lmod/init/bash '
    "/opt/cray/pe/lmod/lmod/init/bash /usr/share/Modules/init/bash /usr/share/modules/init/bash "
    "/etc/profile.d/lmod.sh /etc/profile.d/z00_lmod.sh /etc/profile.d/modules.sh"
)
_MODULE_COMMAND = (
    f"type module >/dev/null 2>&1 || for diel_file in {_PLACES}; do "
    'if [ -r "$diel_file" ]; then . "$diel_file"; type module >/dev/null 2>&1 && break; fi; done; '
    "type module >/dev/null 2>&1 || { echo 'neither Lmod nor Environment Modules is on this node'; false; }"
)
"""Defines `module`: non-interactive shells often lack it."""
_WORDS = ("module", "ml")
_TOOLS = ("micromamba", "mamba", "conda")


def make(name: str, defined: Definition, runs: Path, kept: Path, tell: Tell, *, here: bool) -> Prepared:
    """Make an environment for use; `here` says whether programs run on this machine. Raises UsageError."""
    given, source, folder = defined
    lines: list[str] = [_MODULE_COMMAND] if _uses_modules(given.modules, given.setup) else []
    lines += [*_module_lines(given.modules), *given.setup]
    identity: dict[str, Any] = {
        key: list(found) for key in ("modules", "setup") if (found := getattr(given, key))
    }
    prefix = conda = ""
    if given.conda is not None:
        place, identity["conda"] = _make_conda(name, given, kept, tell)
        lines += _conda_lines(place)
        conda = str(place / "conda-meta")
    if given.spack is not None:
        identity["spack"] = given.spack if isinstance(given.spack, str) else list(given.spack)
        lines += _spack_lines(given.spack)
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
        runtime = {"runtime": box.runtime} if box.runtime else {}
        identity["container"] = {"image": version, "mounts": list(box.mounts), **runtime}
        contained = Contained(box.image, box.runtime or "", box.mounts)
    return Prepared(
        name,
        source,
        str(folder),
        tuple(lines),
        prefix,
        variables,
        contained,
        sees,
        identity,
        conda,
        stamp(given),
    )


def stamp(given: Environment) -> str | None:
    """What tells, without a tool or a network, whether an environment must be made anew: its definition, and
    the files that it names, as they are. None if one of them is gone.
    """
    found: list[Any] = [given.model_dump(mode="json")]
    try:
        if given.python is not None:
            found += asked_of(Path(given.python.requirements))
        if given.conda is not None:
            path = Path(given.conda)
            found.append(_packages(path) if path.is_dir() else content(path)[1])
        if given.container is not None and given.container.image.startswith("/"):
            found.append(content(given.container.image, "stat")[1])
    except (OSError, UsageError):
        return None
    return digest_of(found)


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


def _uses_modules(modules: Sequence[str], setup: Sequence[str]) -> bool:
    return bool(modules) or any(line.split(maxsplit=1)[:1] in ([word] for word in _WORDS) for line in setup)


def _module_lines(modules: Sequence[str]) -> Iterator[str]:
    return (f"module load {shlex.quote(module)}" for module in modules)


def _conda_lines(prefix: Path) -> Iterator[str]:
    """What `conda activate` does, without Conda."""
    place = shlex.quote(str(prefix))
    yield f"export CONDA_PREFIX={place} CONDA_DEFAULT_ENV={place} CONDA_SHLVL=1 PATH={place}/bin:$PATH"
    scripts = f"{place}/etc/conda/activate.d/*.sh"
    yield f'for diel_file in {scripts}; do [ ! -r "$diel_file" ] || . "$diel_file"; done'


def _spack_lines(given: str | Sequence[str]) -> Iterator[str]:
    """What `spack load SPEC…` or `spack env activate NAME` does."""
    if isinstance(given, str):
        words = f"env activate --sh {shlex.quote(given)}"
    else:
        words = f"load --sh {shlex.join(given)}"
    yield '[ -z "${SPACK_ROOT:-}" ] || PATH=$SPACK_ROOT/bin:$PATH'
    lacks = "echo 'spack is not on this node: neither on PATH nor in SPACK_ROOT'"
    yield f"type spack >/dev/null 2>&1 || {{ {lacks}; diel_found=no; false; }}"
    yield f'diel_said=$(spack {words}) && eval "$diel_said"'


def _make_conda(name: str, given: Environment, kept: Path, tell: Tell) -> tuple[Path, dict[str, Any]]:
    """Return a Conda environment's directory, made if need be, and its part of a key. Raises UsageError."""
    path, said = Path(str(given.conda)), f"environment '{name}': {given.conda}"
    if given.prefix is not None:
        if not (path / "conda-meta").is_dir():
            raise UsageError(f"{said} is no Conda environment: it has no directory conda-meta")
        return path, {"from": given.prefix, "packages": _packages(path)}
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{said}: cannot be read: {error}") from error

    def create(place: Path) -> None:
        tool = find_tool(*_TOOLS)
        if tool is None:
            hint = "install one, or name the directory of an environment"
            raise UsageError(f"{said}: {', '.join(_TOOLS)}: none of them is here; {hint}")
        tell(f"environment '{name}': making it with {Path(tool).name} …")
        env = [] if Path(tool).name == "micromamba" else ["env"]
        output_of([tool, *env, "create", "--yes", "--prefix", str(place), "--file", str(path)], said)
        put(place / LOCK, "\n".join([*_packages(place), ""]))

    place = made(kept, digest_of(["conda", platform.machine(), text])[:24], create)
    return place, {"from": path.name, "packages": _packages(place)}


def _packages(place: Path) -> list[str]:
    """The packages in an environment: Conda's with version and build, those of pip with their version."""
    notes = place.glob("lib/python3*/site-packages/*.dist-info/INSTALLER")
    by_pip = (note.parent.stem for note in notes if note.read_text("utf-8").strip() != "conda")
    conda = (path.stem for path in (place / "conda-meta").glob("*.json"))
    return sorted([*conda, *(name.replace("-", "==", 1) for name in by_pip)])
