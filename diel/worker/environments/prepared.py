"""An environment ready for use: a worker's part, to run programs in it, and the cache key's part."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from diel.base.errors import counted
from diel.store.artifacts import digest_of


class PreparedContainer(NamedTuple):
    """A container: its image, and what it sees of the machine."""

    image: str
    runtime: str = ""
    """Empty: the first that is found on the node."""
    mounts: tuple[str, ...] = ()


class PreparedEnvironment(NamedTuple):
    """An environment of a run."""

    name: str
    source: str
    """Who defined it: `the workflow`, or a site."""
    folder: str
    """Where its lines run: the directory of the workflow."""
    lines: tuple[str, ...] = ()
    prefix: str = ""
    variables: Mapping[str, str] = {}
    container: PreparedContainer | None = None
    sees: tuple[str, ...] = ()
    """Directories that its container sees besides the mounts: the runs, the workflow's."""
    identity: Mapping[str, Any] = {}
    """What a result depends on, by the key of its definition: it enters the cache key."""
    conda: str = ""
    """The directory in which its Conda environment lists its packages."""
    stamp: str | None = None
    """The definition's stamp when it was made: with another one it must be made anew."""

    def seeing(self, place: str) -> "PreparedEnvironment":
        """Return the same environment whose container sees one more directory."""
        return self._replace(sees=tuple(dict.fromkeys((*self.sees, place))))

    @property
    def gone(self) -> str:
        """A path that it needs and that is not here; empty if all are."""
        image = "" if self.container is None else self.container.image
        needed = (self.prefix, self.conda, image if image.startswith("/") else "")
        return next((path for path in needed if path and not os.path.exists(path)), "")

    @property
    def digest(self) -> str:
        """The digest of what a result depends on: a part of the cache key."""
        return digest_of([self.identity])[:16]

    @property
    def text(self) -> str:
        """It in a few words: `gcc/13, Python 3.11.7 with 12 packages, container tools.sif`."""
        parts = [*self.identity.get("modules", ())]
        parts += [f"{key} {origin}" for key in ("conda", "spack") if (origin := self._origin(key))]
        if "python" in self.identity:
            packages = counted(len(self.identity["python"]["packages"]), "package")
            parts.append(f"Python {self.identity['python']['version']} with {packages}")
        if "setup" in self.identity:
            parts.append(f"{counted(len(self.identity['setup']), 'line')} of setup")
        if self.container is not None:
            parts.append(f"container {self.container.image}")
        return f"{', '.join(parts) or 'variables alone'} (defined by {self.source})"

    def _origin(self, key: str) -> str:
        entry = self.identity.get(key)
        origin = entry.get("from", "") if isinstance(entry, dict) else entry
        return " ".join(origin) if isinstance(origin, list) else str(origin or "")


def prepared_text(environments: Mapping[str, PreparedEnvironment]) -> str:
    """Return the environments of a run as the text of its file."""
    return json.dumps({name: environment._asdict() for name, environment in environments.items()}, indent=1)


def read_prepared(path: Path) -> dict[str, PreparedEnvironment]:
    """Return the environments of a run; none if it has no such file, or an unreadable one."""
    try:
        written = json.loads(path.read_bytes())
        return {name: _read(entry) for name, entry in written.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _read(written: dict[str, Any]) -> PreparedEnvironment:
    box = written.pop("container")
    contained = None if box is None else PreparedContainer(box[0], box[1], tuple(box[2]))
    fields = {**written, "lines": tuple(written["lines"]), "sees": tuple(written["sees"])}
    return PreparedEnvironment(**fields, container=contained)
