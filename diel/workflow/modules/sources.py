"""The Python sources of a run, kept as bytes: all tasks run one version, whatever is edited meanwhile.

sources/<digest>                  the bytes of one file
sources/<version>.json            the modules by stage, and the digest of each file that they import
sources/<version>.<name>.later    a file that no import names, as it was when a worker first imported it
"""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from diel.base.carried import carried
from diel.base.errors import UsageError
from diel.base.files import put

Facts = Mapping[str, Any]
"""A module as JSON."""


class SourceVersion(NamedTuple):
    """One version of the sources of a run; without a folder, files are read where they lie."""

    folder: str = ""
    version: int = 0
    modules: Mapping[str, Facts] = {}
    """By stage."""
    files: Mapping[str, str] = {}
    """The digest of each file, by its path."""
    python_path: str | None = None
    """PYTHONPATH when it was kept; None in older runs."""

    @property
    def place(self) -> str:
        """The file that describes this version; empty without a folder."""
        return f"{self.folder}/{self.version}.json" if self.folder else ""

    def read(self, path: str) -> bytes:
        """Return the bytes of a source. Raise OSError."""
        data = self.kept(path)
        if data is None:
            return self._read_later(path) if self.folder else Path(path).read_bytes()
        return data

    def kept(self, path: str) -> bytes | None:
        """Return the bytes of a source as the run began with it; None of others. Raise OSError."""
        digest = self.files.get(path)
        if digest is None:
            return None
        data = Path(self.folder, digest).read_bytes()
        if digest_of_bytes(data) != digest:
            raise OSError(0, "what the run keeps of it was changed", path)
        return data

    def _read_later(self, path: str) -> bytes:
        """Return the bytes of this file, as the first worker that imported it found them."""
        name = digest_of_bytes(os.fsencode(path))
        first = Path(self.folder, f"{self.version}.{name}.later")
        if not first.exists():
            whole = os.fsencode(path) + b"\0" + Path(path).read_bytes()
            part = first.with_name(f".{name}.{os.urandom(6).hex()}.part")
            put(part, whole)
            with contextlib.suppress(FileExistsError):  # another worker was faster
                os.link(part, first)
            part.unlink()
        return first.read_bytes().partition(b"\0")[2]

    def later(self) -> Iterator[tuple[str, bytes]]:
        """Yield the files that workers imported though no import names them, with their bytes."""
        for file in Path(self.folder).glob(f"{self.version}.*.later"):
            path, _, data = file.read_bytes().partition(b"\0")
            yield os.fsdecode(path), data


def digest_of_bytes(data: bytes) -> str:
    """Return BLAKE2b of a source in hexadecimal."""
    return blake2b(data, digest_size=16).hexdigest()


def keep(folder: Path, modules: Mapping[str, Facts], version: int) -> SourceVersion:
    """Keep the sources of a run as a version. Raise OSError, and UsageError where one was changed."""
    folder.mkdir(exist_ok=True)
    files = {path: digest for facts in modules.values() for path, digest in facts["files"]}
    for path, digest in files.items():
        if not (folder / digest).exists():
            try:
                data = Path(path).read_bytes()
            except OSError as error:
                raise UsageError(f"{path} cannot be read: {error.strerror}") from error
            if digest_of_bytes(data) != digest:
                raise UsageError(f"{path} was changed while the run was made: start it again")
            put(folder / digest, data)
    source = SourceVersion(str(folder), version, modules, files, carried(os.environ).get("PYTHONPATH", ""))
    put(source.place, json.dumps({"modules": modules, "files": files, "python_path": source.python_path}))
    return source


def newest(folder: Path) -> SourceVersion | None:
    """Return the version by which a run goes on; None for a run that keeps none."""
    versions = [int(path.stem) for path in folder.glob("*.json") if path.stem.isdecimal()]
    return read_sources(str(folder / f"{max(versions)}.json")) if versions else None


def read_sources(place: str) -> SourceVersion:
    """Return a version by the file that describes it; without one, what lies there. Raise OSError."""
    if not place:
        return SourceVersion()
    written = json.loads(Path(place).read_bytes())
    return SourceVersion(os.path.dirname(place), int(Path(place).stem), **written)
