"""Makes the environments of a run before its tasks, on the user's machine: nodes may lack a network."""

import os
import platform
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from diel.base.errors import UsageError, counted
from diel.base.files import put
from diel.store.artifacts import content, digest_of
from diel.worker.environments.kept import LOCK, Tell, find_tool, make_once, output_of, refuse_shared
from diel.worker.environments.prepared import PreparedContainer, PreparedEnvironment
from diel.worker.environments.runtime import NoContainer, find_runtime, version_of_image
from diel.workflow.models import Environment
from diel.workflow.models.environment import Definition, PythonPackages

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
_TOOLS = ("micromamba", "mamba", "conda")
_OTHER_FILE = re.compile(r"\s*(?:-r|-c|--requirements?|--constraints?)[\s=]+(\S+)")
_OPTION = re.compile(
    r"\s*(?:-i|-f|--index-url|--extra-index-url|--find-links|--no-index|--no-binary|--pre)\b"
)
_FOLDER = re.compile(r"\s*(-f|--find-links)[\s=]+(\S+)\s*$")
_EDITABLE = re.compile(r"\s*(?:-e|--editable)\b")
_LOCAL = re.compile(r"^(?:.*@\s*)?(?:file://)?(\.{0,2}/\S+)")
BORROWED = ("psutil", "xxhash")
"""What functions of another version of Python need besides diel itself, which comes from its own place."""


def make(
    name: str, defined: Definition, runs: Path, store: Path, tell: Tell, *, here: bool
) -> PreparedEnvironment:
    """Make an environment for use; `here` says whether programs run on this machine. Raise UsageError."""
    spec, source, folder = defined
    loads = [f"module load {shlex.quote(module)}" for module in spec.modules]
    lines = [*loads, *spec.setup]
    if any(line.split(maxsplit=1)[:1] in (["module"], ["ml"]) for line in lines):
        lines.insert(0, _MODULE_COMMAND)
    identity: dict[str, Any] = {
        key: list(commands) for key in ("modules", "setup") if (commands := getattr(spec, key))
    }
    prefix = conda = ""
    if spec.conda is not None:
        place, identity["conda"] = _make_conda(name, spec, store, tell)
        lines += _conda_lines(place)
        conda = str(place / "conda-meta")
    if spec.spack is not None:
        identity["spack"] = spec.spack if isinstance(spec.spack, str) else list(spec.spack)
        lines += _spack_lines(spec.spack)
    if spec.python is not None:
        place, identity["python"] = _make_python(name, spec.python, store, tell)
        prefix = str(place)
    variables = {key: str(value) for key, value in spec.variables.items()}
    if variables:
        identity["variables"] = variables
    contained, sees = None, (str(runs), str(folder))
    if spec.container is not None:
        box = spec.container
        _refuse_unmountable(name, sees)
        version = version_of_image(name, box.image, box.runtime or "", here=here)
        if here:
            try:
                if not lines:  # the lines may load it
                    find_runtime(
                        PreparedContainer(box.image, box.runtime or ""), os.environ.get("PATH", os.defpath)
                    )
            except NoContainer as error:
                raise UsageError(f"environment '{name}': {error}") from error
        runtime = {"runtime": box.runtime} if box.runtime else {}
        identity["container"] = {"image": version, "mounts": list(box.mounts), **runtime}
        contained = PreparedContainer(box.image, box.runtime or "", box.mounts)
    return PreparedEnvironment(
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
        stamp(spec),
    )


def stamp(spec: Environment) -> str | None:
    """Return what tells, without a tool or a network, whether an environment must be made anew: its
    definition, and the files that it names. None if a file is gone."""
    parts: list[Any] = [spec.model_dump(mode="json")]
    try:
        if spec.python is not None:
            parts += _asked_of(Path(spec.python.requirements))
        if spec.conda is not None:
            path = Path(spec.conda)
            parts.append(_packages(path) if path.is_dir() else content(path)[1])
        if spec.container is not None and spec.container.image.startswith("/"):
            parts.append(content(spec.container.image, "stat")[1])
    except (OSError, UsageError):
        return None
    return digest_of(parts)


def _refuse_unmountable(name: str, sees: tuple[str, ...]) -> None:
    for path in sees:
        if any(sign in path for sign in ":,"):
            what = "a container cannot see a path with a colon or comma"
            raise UsageError(f"environment '{name}': {what}: {path}; give another with --runs, or move it")


def _conda_lines(prefix: Path) -> Iterator[str]:
    """Yield the lines that replace `conda activate`, without Conda."""
    place = shlex.quote(str(prefix))
    yield f"export CONDA_PREFIX={place} CONDA_DEFAULT_ENV={place} CONDA_SHLVL=1 PATH={place}/bin:$PATH"
    scripts = f"{place}/etc/conda/activate.d/*.sh"
    yield f'for diel_file in {scripts}; do [ ! -r "$diel_file" ] || . "$diel_file"; done'


def _spack_lines(spec: str | Sequence[str]) -> Iterator[str]:
    """Yield the lines that replace `spack load SPEC…` or `spack env activate NAME`."""
    if isinstance(spec, str):
        words = f"env activate --sh {shlex.quote(spec)}"
    else:
        words = f"load --sh {shlex.join(spec)}"
    yield '[ -z "${SPACK_ROOT:-}" ] || PATH=$SPACK_ROOT/bin:$PATH'
    lacks = "echo 'spack is not on this node: neither on PATH nor in SPACK_ROOT'"
    yield f"type spack >/dev/null 2>&1 || {{ {lacks}; diel_found=no; false; }}"
    yield f'diel_said=$(spack {words}) && eval "$diel_said"'


def _make_conda(name: str, spec: Environment, store: Path, tell: Tell) -> tuple[Path, dict[str, Any]]:
    """Return a Conda environment's directory, made if need be, and its part of a key. Raise UsageError."""
    path, head = Path(str(spec.conda)), f"environment '{name}': {spec.conda}"
    if spec.prefix is not None:
        if not (path / "conda-meta").is_dir():
            raise UsageError(f"{head} is no Conda environment: it has no directory conda-meta")
        return path, {"from": spec.prefix, "packages": _packages(path)}
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{head}: cannot be read: {error}") from error

    def create(place: Path) -> None:
        tool = find_tool(*_TOOLS)
        if tool is None:
            hint = "install one, or name the directory of an environment"
            raise UsageError(f"{head}: {', '.join(_TOOLS)}: none of them is here; {hint}")
        tell(f"environment '{name}': making it with {Path(tool).name} …")
        env = [] if Path(tool).name == "micromamba" else ["env"]
        output_of([tool, *env, "create", "--yes", "--prefix", str(place), "--file", str(path)], head)
        put(place / LOCK, "\n".join([*_packages(place), ""]))

    place = make_once(store, digest_of(["conda", platform.machine(), text])[:24], create)
    return place, {"from": path.name, "packages": _packages(place)}


def _packages(place: Path) -> list[str]:
    """Return an environment's packages: Conda's with version and build, pip's with their version."""
    notes = place.glob("lib/python3*/site-packages/*.dist-info/INSTALLER")
    by_pip = (note.parent.stem for note in notes if note.read_text("utf-8").strip() != "conda")
    conda = (path.stem for path in (place / "conda-meta").glob("*.json"))
    return sorted([*conda, *(name.replace("-", "==", 1) for name in by_pip)])


def _make_python(name: str, spec: PythonPackages, store: Path, tell: Tell) -> tuple[Path, dict[str, Any]]:
    """Return the packages' directory, made if need be, and its part of a cache key. Raise UsageError."""
    file = Path(spec.requirements)
    head = f"environment '{name}': {file}"
    texts = {str(path): path.read_text("utf-8") for path in _files(file, head)}
    if any(_EDITABLE.match(line) for text in texts.values() for line in text.splitlines()):
        hint = "its content has no version that a cache key could hold: name a wheel, or a version"
        raise UsageError(f"{head}: an editable package\n    {hint}")
    python, version = _interpreter(head, spec.version)
    tag = f"{version} {platform.machine()}"
    if store.is_dir():
        refuse_shared(store)
    lock = _locked(head, file, texts, python, store, tag)
    lines = [line.removesuffix("\\").strip() for line in lock.splitlines() if line.strip()]
    hashes = [line for line in lines if line.startswith("--hash=")]
    packages = [_with_content(line, file.parent, head) for line in lines if not line.startswith("--hash=")]
    digest = digest_of([tag, packages, *hashes])[:24]
    all_hashed = ["--require-hashes"] if lock.count(" \\\n    --hash=") >= len(packages) else []

    def install(place: Path) -> None:
        tell(f"environment '{name}': installing {counted(len(packages), 'package')} for Python {version} …")
        output_of([_uv(head), "venv", "-q", "--no-project", "--python", python, str(place)], head)
        put(place / LOCK, lock)
        put(place / "options.txt", "\n".join([*_options(texts), ""]))
        where = ["--python", str(place / "bin" / "python"), str(place / "options.txt"), str(place / LOCK)]
        output_of([_uv(head), "pip", "sync", "-q", "--no-progress", *all_hashed, *where], head, file.parent)
        (place / "options.txt").unlink()  # it may hold an index's password

    return make_once(store, digest, install), {"version": version, "packages": packages}


def _locked(head: str, file: Path, texts: Mapping[str, str], python: str, store: Path, tag: str) -> str:
    """Return the exact versions, as found when these texts were first resolved here."""
    own = [*BORROWED] if _minor(tag) != _minor(platform.python_version()) else []
    lock = store / "locks" / f"{digest_of([tag, list(texts.values()), own])[:24]}.txt"
    if not lock.is_file():
        lock.parent.mkdir(0o755, parents=True, exist_ok=True)
        words = [_uv(head), "pip", "compile", "-q", "--no-progress", "--no-header", "--no-annotate"]
        words.append("--generate-hashes")
        with tempfile.NamedTemporaryFile("w", suffix=".in") as more:
            more.write("\n".join(own))
            more.flush()
            resolved = output_of([*words, "--python", python, str(file), more.name], head, file.parent)
        put(lock, resolved)
    return lock.read_text("utf-8")


def _options(texts: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines that say where packages are; directories absolute."""
    for file, text in texts.items():
        for line in text.splitlines():
            match = _FOLDER.match(line)
            if match is not None and (folder := Path(file).parent / match[2]).is_dir():
                yield f"{match[1]} {folder}"
            elif _OPTION.match(line):
                yield line


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]


def _files(file: Path, head: str, visited: frozenset[Path] = frozenset()) -> Iterator[Path]:
    """Yield a file of requirements, and those that it names. Raise UsageError for one that cannot be read."""
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise UsageError(f"{head}: cannot read {file}: {why}") from error
    yield file
    for line in text.splitlines():
        other = _OTHER_FILE.match(line)
        if other is not None and (path := file.parent / other[1]) not in visited:
            yield from _files(path, head, visited | {path})


def _asked_of(file: Path) -> list[str]:
    """Read the lines of a file of requirements, with its files' content. Raise OSError and UsageError."""
    return [
        _with_content(line, path.parent, "")
        for path in _files(file, "")
        for line in path.read_text("utf-8").splitlines()
    ]


def _with_content(line: str, folder: Path, head: str) -> str:
    """Return a line of a lock, with the digest of the file that it names, if it is one of this machine."""
    local = _LOCAL.match(line)
    if local is None:
        return line.strip()
    path = folder / local[1]
    if not path.is_file():
        hint = "its content has no version that a cache key could hold: build a wheel, and name that"
        raise UsageError(f"{head}: {local[1]} is a directory\n    {hint}")
    return f"{line.strip()} {content(path)[1]}"


def _interpreter(head: str, version: str | None) -> tuple[str, str]:
    """Return a Python of this version, and its full version; uv finds it, or downloads it."""
    if version is None or _minor(version) == _minor(platform.python_version()):
        return sys.executable, platform.python_version()
    python = _find(head, version)
    if not python:
        output_of([_uv(head), "python", "install", "-q", "--no-progress", version], head)
        python = _find(head, version)
    return python, output_of(
        [python, "-I", "-c", "import platform; print(platform.python_version())"], head
    ).strip()


def _find(head: str, version: str) -> str:
    try:
        words = [_uv(head), "python", "find", "--no-project", "--no-python-downloads", version]
        return output_of(words, head).strip()
    except UsageError:
        return ""


def _uv(head: str) -> str:
    uv = find_tool("uv")
    if uv is None:
        raise UsageError(f"{head}: uv makes it, and is not here: {sys.executable} -m pip install 'diel[uv]'")
    return uv
