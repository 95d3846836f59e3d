"""The files of a run as it first read them, for this controller and for one that resumes the run."""

import json
import os
from pathlib import Path

from diel.artifacts.identity import FirstLook, hold, look_at, refuse_newer
from diel.errors import ModuleError
from diel.files import flaw_of, reason
from diel.modules.catalogue import Module
from diel.modules.sources import newest
from diel.paths import RunPaths

WATCHED = ("files.", "module ")
"""How the names of such files begin."""
OF_AXIS = "axis "
"""The prefix of axes' files: no task reads these, and their points are compared by themselves."""
HOLDS_RUNS = "holds the runs, which change all the time: name what is read, or give --runs"


class Watch:
    """The files of one version of a run. One process at a time records them: who makes or drives the run."""

    def __init__(self, paths: RunPaths, *, records: bool) -> None:
        sources = newest(paths.sources)
        self._place = None if sources is None else Path(f"{sources.place.removesuffix('.json')}.files.jsonl")
        self._runs = paths.root.parent
        self._records = records
        self.files: dict[str, FirstLook] = {}
        """The files that were read so far, by path."""
        recorded = self._place is not None and self._place.exists()
        for line in self._place.read_bytes().splitlines(keepends=True) if self._place and recorded else ():
            if line.endswith(b"\n"):
                file = FirstLook(*json.loads(line))
                self.files.setdefault(file.path, file)

    def look(self, name: str, path: str) -> FirstLook:
        """Return a file as the run knows it. Raise ModuleError where it cannot be read, Changed."""
        if path in self.files:
            file = self.files[path]
            self.files[path] = file._replace(identity=hold(file)[0][0])
            return self.files[path]._replace(name=name)
        flaw = HOLDS_RUNS if f"{self._runs}/".startswith(f"{path}/") else flaw_of(path)
        if flaw:
            raise ModuleError(f"{name}: {path} {flaw}")
        real = os.path.realpath(path)
        for place in (real, *map(str, Path(real).parents)):
            if place in self.files:
                refuse_newer(self.files[place], path)
        try:
            file = look_at(name, path)
            if self._records and self._place is not None:
                with open(self._place, "a", encoding="utf-8") as lines:
                    lines.write(json.dumps(file) + "\n")
        except OSError as error:
            raise ModuleError(f"{name}: {path} cannot be read: {reason(error)}") from error
        return self.files.setdefault(path, file)

    def recall(self, name: str, path: str) -> FirstLook:
        """Return a file as the run knows it, whatever lies there now. Raise as `look` does."""
        return self.files[path]._replace(name=name) if path in self.files else self.look(name, path)


def file_of(module: Module | None) -> dict[str, str]:
    """Return the file of a function of a package, by its name: the package itself counts by its version."""
    watched = module is not None and module.packaged and module.digest and module.path.suffix == ".py"
    return {f"module {module.reference}": str(module.path)} if module is not None and watched else {}
