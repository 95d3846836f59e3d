"""Python packages of an environment: resolved, locked and installed once by uv."""

from __future__ import annotations

import platform
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from diel.artifacts import content, digest_of
from diel.environments.kept import LOCK, Tell, find_tool, made, output_of, refuse_shared
from diel.errors import UsageError, counted
from diel.files import put
from diel.spec.environment import PythonPackages

_OTHER_FILE = re.compile(r"\s*(?:-r|-c|--requirements?|--constraints?)[\s=]+(\S+)")
_OPTION = re.compile(
    r"\s*(?:-i|-f|--index-url|--extra-index-url|--find-links|--no-index|--no-binary|--pre)\b"
)
_FOLDER = re.compile(r"\s*(-f|--find-links)[\s=]+(\S+)\s*$")
_EDITABLE = re.compile(r"\s*(?:-e|--editable)\b")
_LOCAL = re.compile(r"^(?:.*@\s*)?(?:file://)?(\.{0,2}/\S+)")
BORROWED = ("psutil", "xxhash")
"""What functions of another version of Python need besides diel itself, which comes from its own place."""


def make_python(name: str, asked: PythonPackages, kept: Path, tell: Tell) -> tuple[Path, dict[str, Any]]:
    """Return the packages' directory, made if need be, and its part of a cache key. Raises UsageError."""
    file = Path(asked.requirements)
    said = f"environment '{name}': {file}"
    texts = {str(path): path.read_text("utf-8") for path in _files(file, said)}
    if any(_EDITABLE.match(line) for text in texts.values() for line in text.splitlines()):
        hint = "its content has no version that a cache key could hold: name a wheel, or a version"
        raise UsageError(f"{said}: an editable package\n    {hint}")
    python, version = _interpreter(said, asked.version)
    tag = f"{version} {platform.machine()}"
    if kept.is_dir():
        refuse_shared(kept)
    lock = _locked(said, file, texts, python, kept, tag)
    lines = [line.removesuffix("\\").strip() for line in lock.splitlines() if line.strip()]
    hashes = [line for line in lines if line.startswith("--hash=")]
    packages = [_with_content(line, file.parent, said) for line in lines if not line.startswith("--hash=")]
    digest = digest_of([tag, packages, *hashes])[:24]
    all_hashed = ["--require-hashes"] if lock.count(" \\\n    --hash=") >= len(packages) else []

    def install(place: Path) -> None:
        tell(f"environment '{name}': installing {counted(len(packages), 'package')} for Python {version} …")
        output_of([_uv(said), "venv", "-q", "--no-project", "--python", python, str(place)], said)
        put(place / LOCK, lock)
        put(place / "options.txt", "\n".join([*_options(texts), ""]))
        where = ["--python", str(place / "bin" / "python"), str(place / "options.txt"), str(place / LOCK)]
        output_of([_uv(said), "pip", "sync", "-q", "--no-progress", *all_hashed, *where], said, file.parent)
        (place / "options.txt").unlink()  # an index may need a password, which is not kept

    return made(kept, digest, install), {"version": version, "packages": packages}


def _locked(said: str, file: Path, texts: Mapping[str, str], python: str, kept: Path, tag: str) -> str:
    """The exact versions: those that were found when these texts were first resolved here."""
    own = [*BORROWED] if _minor(tag) != _minor(platform.python_version()) else []
    lock = kept / "locks" / f"{digest_of([tag, list(texts.values()), own])[:24]}.txt"
    if not lock.is_file():
        lock.parent.mkdir(0o755, parents=True, exist_ok=True)
        words = [_uv(said), "pip", "compile", "-q", "--no-progress", "--no-header", "--no-annotate"]
        words.append("--generate-hashes")
        with tempfile.NamedTemporaryFile("w", suffix=".in") as more:
            more.write("\n".join(own))
            more.flush()
            found = output_of([*words, "--python", python, str(file), more.name], said, file.parent)
        put(lock, found)
    return lock.read_text("utf-8")


def _options(texts: Mapping[str, str]) -> Iterator[str]:
    """The lines that say where packages are; directories absolute."""
    for file, text in texts.items():
        for line in text.splitlines():
            found = _FOLDER.match(line)
            if found is not None and (folder := Path(file).parent / found[2]).is_dir():
                yield f"{found[1]} {folder}"
            elif _OPTION.match(line):
                yield line


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]


def _files(file: Path, said: str, seen: frozenset[Path] = frozenset()) -> Iterator[Path]:
    """A file of requirements, and those that it names. Raises UsageError for one that cannot be read."""
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise UsageError(f"{said}: cannot read {file}: {why}") from error
    yield file
    for line in text.splitlines():
        other = _OTHER_FILE.match(line)
        if other is not None and (path := file.parent / other[1]) not in seen:
            yield from _files(path, said, seen | {path})


def asked_of(file: Path) -> list[str]:
    """Read what a file of requirements asks for, with its files' content. Raises OSError and UsageError."""
    return [
        _with_content(line, path.parent, "")
        for path in _files(file, "")
        for line in path.read_text("utf-8").splitlines()
    ]


def _with_content(line: str, folder: Path, said: str) -> str:
    """A line of a lock, with the digest of the file that it names, if it is one of this machine."""
    local = _LOCAL.match(line)
    if local is None:
        return line.strip()
    path = folder / local[1]
    if not path.is_file():
        hint = "its content has no version that a cache key could hold: build a wheel, and name that"
        raise UsageError(f"{said}: {local[1]} is a directory\n    {hint}")
    return f"{line.strip()} {content(path)[1]}"


def _interpreter(said: str, version: str | None) -> tuple[str, str]:
    """A Python of this version, and its full version; uv looks for it, and downloads it if need be."""
    if version is None or _minor(version) == _minor(platform.python_version()):
        return sys.executable, platform.python_version()
    found = _find(said, version)
    if not found:
        output_of([_uv(said), "python", "install", "-q", "--no-progress", version], said)
        found = _find(said, version)
    return found, output_of(
        [found, "-I", "-c", "import platform; print(platform.python_version())"], said
    ).strip()


def _find(said: str, version: str) -> str:
    try:
        words = [_uv(said), "python", "find", "--no-project", "--no-python-downloads", version]
        return output_of(words, said).strip()
    except UsageError:
        return ""


def _uv(said: str) -> str:
    found = find_tool("uv")
    if found is None:
        raise UsageError(f"{said}: uv makes it, and is not here: {sys.executable} -m pip install 'diel[uv]'")
    return found
