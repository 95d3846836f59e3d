"""The files that are made for each task from templates, and how they enter its key."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

from diel.artifacts import Artifact, File, digest_of
from diel.attempt.bundle import Rendered
from diel.errors import ModuleError
from diel.expressions import ExpressionError, Template, parse
from diel.expressions.gathered import Gathered, is_list
from diel.spec import Stage
from diel.spec.data import target_flaw

Scope = Mapping[str, Any]


class Renderings:
    """The templates of one stage, parsed once. Its methods raise ExpressionError, and what a scope raises."""

    def __init__(self, stage: Stage) -> None:
        self._templates = {
            name: (one.template, parse(one.target), parse(one.filling.text), one.filling.executable)
            for name, one in stage.rendered.items()
        }

    def paths(self, scope: Scope) -> dict[str, str]:
        """Where they are written, relative to the task's directory; a script by a path that can be called."""
        found = {name: target.text_value(scope) for name, (_, target, _, _) in self._templates.items()}
        called = (name for name, (*_, executable) in self._templates.items() if executable)
        return {**found, **{name: f"./{found[name]}" for name in called if "/" not in found[name]}}

    def render(self, scope: Scope) -> tuple[Rendered, ...]:
        """The files of a task. Raises ModuleError for one outside its directory."""
        rendered: list[Rendered] = []
        places: dict[str, str] = {}
        for name, (template, _, text, executable) in self._templates.items():
            path = scope["files"][name]
            if flaw := target_flaw(path):
                raise ModuleError(f"files.{name}: {flaw}: {path!r}")
            if (place := posixpath.normpath(path)) in places:
                raise ModuleError(f"files.{name}: files.{places[place]} is written to {path!r} too")
            places[place] = name
            rendered.append((path, _filled(template, text, scope), executable))
        return tuple(rendered)

    def texts(self, scope: Scope) -> dict[str, tuple[str, str, bool]]:
        """The same by name and as the key sees it: of files the content counts, and not the path."""
        return {
            name: (scope["files"][name], _filled(template, text, _Keyed(scope)), executable)
            for name, (template, _, text, executable) in self._templates.items()
        }

    def digests(self, scope: Scope) -> dict[str, str]:
        """What enters a task's key."""
        return {f"files.{name}": digest_of(text) for name, text in self.texts(scope).items()}


def _filled(name: str, template: Template, scope: Scope) -> str:
    try:
        return template.text_value(scope)
    except ExpressionError as error:
        line = template.text.count("\n", 0, error.offset) + 1
        raise ModuleError(f"{name}:{line}: {error}") from error


class _Keyed(Mapping[str, Any]):
    """A scope in which artifacts are their digests, and nothing tells where or in which run a task is."""

    def __init__(self, inner: Mapping[str, Any], depth: int = 0) -> None:
        self._inner = inner
        self._depth = depth
        self.join = getattr(inner, "join", None)

    def __getitem__(self, name: str) -> Any:
        if self._depth == 0 and name in ("run", "files"):
            return _Named(self._inner[name], name)
        value = self._inner[name]
        if self._depth == 0 and name == "task":
            return {**value, "attempt": 0}
        return _as_keyed(value, self._depth + 1)

    def __iter__(self) -> Iterator[str]:
        return iter(self._inner)

    def __len__(self) -> int:
        return len(self._inner)


class _Named(_Keyed):
    """A mapping of paths in which each is its name; files know their size."""

    def __init__(self, inner: Mapping[str, Any], name: str) -> None:
        super().__init__(inner, 1)
        self._name = name

    def __getitem__(self, name: str) -> str:
        text, path = f"{self._name}.{name}", self._inner[name]
        return Artifact(text, text, size=path.bytes) if isinstance(path, File) else text


def _as_keyed(value: Any, depth: int) -> Any:
    if type(value) is Artifact:
        return Artifact(f"{value.digest}/{value.name}", value.digest, size=value.bytes)
    if isinstance(value, Mapping):
        return _Keyed(value, depth)
    if isinstance(value, Gathered):
        return value.map(lambda item: _as_keyed(item, depth))
    return [_as_keyed(item, depth) for item in value] if is_list(value) else value
