"""The exports of a task: its files in the run, and their targets."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from diel.artifacts import files_of
from diel.errors import ModuleError
from diel.expressions import parse
from diel.journal.records import Made
from diel.spec import Stage
from diel.tasks.results import artifact_path, name_of


class Delivery(NamedTuple):
    """A file or directory of a run, and where it is copied to; both absolute."""

    output: str
    source: str
    target: str
    place: str = ""
    """The directory into which it goes as one of a list of files."""


class Exports:
    """The outputs of one stage that are exported."""

    def __init__(self, stage: Stage, folder: Path, root: Path) -> None:
        """Parse the paths. `folder` is the workflow's, `root` that of the run."""
        self._folder = folder
        self._root = root
        self._templates = {
            name: (parse(output.export), _bare(output.glob))
            for name, output in stage.outputs.items()
            if output.export is not None
        }

    def of(self, scope: Mapping[str, Any], record: Made) -> Iterator[Delivery]:
        """Yield the deliveries of a task. Raise ExpressionError, ModuleError, and a scope's errors."""
        for name, (template, prefix) in self._templates.items():
            entry = record.get("artifacts", {}).get(name)
            if entry is None:
                what = "is a value" if name in record.get("values", {}) else "was not made"
                raise ModuleError(f"'{name}' {what}: only files are exported")
            text = template.text_value(scope)
            place = os.path.join(self._folder, text)
            for file in files_of(entry):
                source = os.fspath(artifact_path(record, file["path"], self._root))
                own = name_of(file["path"])
                inner = own.removeprefix(prefix) if prefix else os.path.basename(own)
                whole = os.path.join(place, inner) if "files" in entry or text.endswith("/") else place
                listed = os.path.normpath(place) if "files" in entry else ""
                yield Delivery(name, source, os.path.normpath(whole), listed)


def _bare(glob: str | None) -> str:
    """Return the directories before the first pattern of a glob: they are not repeated where its files go."""
    parts = (glob or "").split("/")[:-1]
    plain = next((place for place, part in enumerate(parts) if set(part) & set("*?[$")), len(parts))
    return "".join(f"{part}/" for part in parts[:plain])
