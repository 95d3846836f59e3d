"""What the files of a run were when it first read them, for this controller and for who resumes the run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from diel.artifacts.watched import FirstLook, hold, look_at, refuse_newer
from diel.errors import ModuleError
from diel.files import flaw_of, reason
from diel.modules.catalogue import Module
from diel.modules.sources import newest
from diel.paths import RunPaths

WATCHED = ("files.", "module ")
"""How the names of such files begin."""


class Watch:
    """The files of one version of a run. One process at a time records them: who makes or drives the run."""

    def __init__(self, paths: RunPaths, *, records: bool) -> None:
        sources = newest(paths.sources)
        self._place = None if sources is None else Path(f"{sources.place.removesuffix('.json')}.files.jsonl")
        self._runs = paths.root.parent
        self._records = records and self._place is not None
        self._known: dict[str, FirstLook] = {}
        for one in self.recorded():
            self._known.setdefault(one.path, one)

    def recorded(self) -> Iterator[FirstLook]:
        """The files that were read so far."""
        try:
            lines = b"" if self._place is None else self._place.read_bytes()
        except FileNotFoundError:
            return
        for line in lines.splitlines(keepends=True):
            if line.endswith(b"\n"):
                yield FirstLook(*json.loads(line))

    def look(self, name: str, path: str) -> FirstLook:
        """Return a file as the run knows it. Raises ModuleError where it cannot be read, Changed."""
        known = self._known.get(path)
        if known is None:
            real = os.path.realpath(path)
            for place in (real, *map(str, Path(real).parents)):
                if place in self._known:
                    refuse_newer(self._known[place], path)
            if flaw := flaw_of(path) or self._flaw(path):
                raise ModuleError(f"{name}: {path} {flaw}")
            try:
                known = look_at(name, path)
                if self._records and self._place is not None:
                    with open(self._place, "a", encoding="utf-8") as file:
                        file.write(json.dumps(known) + "\n")
            except OSError as error:
                raise ModuleError(f"{name}: {path} cannot be read: {reason(error)}") from error
            self._known[path] = known
        else:
            known = self._known[path] = known._replace(identity=hold(known)[0])
        return known._replace(name=name)

    def _flaw(self, path: str) -> str:
        within = f"{self._runs}/".startswith(f"{path}/")
        return (
            "holds the runs, which change all the time: name what is read, or give --runs" if within else ""
        )

    def known(self, name: str, path: str) -> FirstLook:
        """Return a file as the run knows it, whatever lies there now. Raises as `look` does."""
        known = self._known.get(path)
        return self.look(name, path) if known is None else known._replace(name=name)


def file_of(module: Module | None) -> dict[str, str]:
    """Return the file of a function of a package, by its name: the package itself counts by its version."""
    watched = module is not None and module.packaged and module.digest and module.path.suffix == ".py"
    return {f"module {module.reference}": str(module.path)} if module is not None and watched else {}
