"""The files of a stage's tasks: where they are, and digests of those that differ between tasks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diel.artifacts import content
from diel.errors import ModuleError
from diel.expressions import Template, parse
from diel.files import flaw_of, reason
from diel.spec import Stage

_KNOWN = 50_000
"""Digests that are kept at a time."""


class Files:
    """The files of one stage: those of all its tasks, and those that a task has of its own."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        self._folder = folder
        templates = {name: parse(text) for name, text in stage.files.items()}
        self.shared = {name: self._place(t.text_value({})) for name, t in templates.items() if t.constant}
        """Absolute paths."""
        self._known: dict[str, tuple[tuple[int, ...], str]] = {}
        """Digests of what tasks have of their own, so that a file is read once, however many have it."""
        self._own: dict[str, Template] = {name: t for name, t in templates.items() if not t.constant}

    def paths(self, scope: Mapping[str, Any]) -> dict[str, str]:
        """The absolute path of each file of a task. Raises ExpressionError."""
        own = {name: self._place(template.text_value(scope)) for name, template in self._own.items()}
        return {**self.shared, **own}

    def digests(self, scope: Mapping[str, Any]) -> dict[str, str]:
        """The content of the files that a task has of its own, as it enters its key.

        Raises ModuleError for one that cannot be read.
        """
        if not self._own:
            return {}
        paths = scope["files"]
        return {f"files.{name}": self._content(name, paths[name]) for name in self._own}

    def own(self, scope: Mapping[str, Any]) -> dict[str, str]:
        """The paths of the files that a task has of its own."""
        return {name: scope["files"][name] for name in self._own}

    def _place(self, path: str) -> str:
        return os.path.realpath(self._folder / path) if "\0" not in path else path

    def _content(self, name: str, path: str) -> str:
        flaw = flaw_of(path)
        if flaw:
            raise ModuleError(f"files.{name}: {path} {flaw}")
        try:
            status = os.stat(path)
            changed = () if os.path.isdir(path) else (status.st_mtime_ns, status.st_size, status.st_ino)
            known = self._known.get(path)
            if known is None or known[0] != changed:
                if len(self._known) >= _KNOWN:
                    self._known.clear()
                known = self._known[path] = changed, content(path)[1]
            return known[1]
        except OSError as error:
            raise ModuleError(f"files.{name}: {path} cannot be read: {reason(error)}") from error
