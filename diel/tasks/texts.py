"""The texts of a stage that hold expressions, parsed once, and the files that it names."""

import json
import os
import posixpath
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from diel.base.errors import ModuleError
from diel.base.files import flaw_of, reason
from diel.base.paths import RunPaths
from diel.store.artifacts import Artifact, File, digest_of
from diel.store.artifacts.identity import FirstLook, hold, look_at, refuse_newer
from diel.worker.attempt.bundle import Rendered
from diel.workflow.expressions import (
    JOINT,
    ExpressionError,
    Template,
    Tree,
    parse,
    parse_expression,
    parse_tree,
)
from diel.workflow.expressions.gathered import GatheredValues, is_list
from diel.workflow.models import Stage
from diel.workflow.models.data import EXPRESSION, target_flaw
from diel.workflow.modules.catalogue import Module
from diel.workflow.modules.sources import newest

Scope = Mapping[str, Any]

_OWN = ("run", "outputs", "files", "params", "inputs", "launcher")
"""Names that enter a task's key in other ways, or must not enter it."""
NOWHERE: Mapping[str, Path] = {}


class Texts:
    """What a stage says about its tasks. Its methods raise ExpressionError, and what a scope raises."""

    def __init__(self, stage: Stage) -> None:
        self._when = parse_expression(stage.when) if isinstance(stage.when, str) else stage.when
        self.params = {name: parse_tree(value) for name, value in stage.params.items()}
        self._env = {name: parse(str(value)) for name, value in stage.env.items()}
        self.outputs = {n: parse(p) for n, o in stage.outputs.items() if (p := o.place) is not None}
        words = stage.command if isinstance(stage.command, tuple) else ()
        self._words = [parse(word if isinstance(word, str) else json.dumps(word)) for word in words]
        self._is_fixed = not any(word.expressions for word in self._words)
        self._command: tuple[str, ...] | None = None
        self._interpreter = stage.interpreter
        self._shell = parse(stage.command) if isinstance(stage.command, str) else None

    @property
    def references(self) -> tuple[tuple[str, ...], ...]:
        """The dotted names that enter a task's key."""
        return tuple(sorted(c for c in self._chains if c[0] not in _OWN and c[:2] != ("task", "attempt")))

    @property
    def inputs(self) -> set[str]:
        """The inputs that expressions read."""
        return {chain[1] for chain in self._chains if chain[0] == "inputs" and len(chain) > 1}

    @property
    def _chains(self) -> set[tuple[str, ...]]:
        texts: list[Template | Tree] = [*self.params.values(), *self._env.values(), *self.outputs.values()]
        texts += self._words if self._shell is None else [self._shell]
        chains = {chain for text in texts for chain in text.references}
        if any("DIEL_TASK_ID" in text.text for text in (*self._words, self._shell) if text is not None):
            chains.add(("task", "index"))
        return chains

    def is_wanted(self, scope: Callable[[], Scope]) -> bool:
        """Return whether `when` holds for a task, whose scope is made only where it is read."""
        if self._when is None or isinstance(self._when, bool):
            return self._when is not False
        return self._when.truth(scope())

    def paths(self, scope: Scope) -> dict[str, str]:
        """Return the output files of a task. Raise ModuleError for one outside its directory."""
        paths: dict[str, str] = scope["outputs"]
        for name, path in paths.items():
            flaw = target_flaw(path)
            if flaw:
                raise ModuleError(f"output '{name}': {flaw}: {path!r}")
        return paths

    def env(self, scope: Scope) -> dict[str, str]:
        """Return a task's variables. Raise ModuleError for an impossible one."""
        variables = {name: template.text_value(scope) for name, template in self._env.items()}
        for name, text in variables.items():
            if "\0" in text:
                raise ModuleError(f"env '{name}': a variable cannot hold a NUL character")
        return variables

    def command(self, scope: Scope) -> tuple[str, ...] | None:
        if self._shell is not None:
            return (*self._interpreter, self._shell.shell(scope))
        if self._words and not (self._is_fixed and self._command):
            self._command = tuple(word for text in self._words for word in text.words(scope))
        return self._command


WATCHED = ("files.", "module ")
"""How the names of such files begin."""
OF_AXIS = "axis "
"""The prefix of axes' files: no task reads these, and their points are compared by themselves."""
HOLDS_RUNS = "holds the runs, which change all the time: name what is read, or give --runs"


class Watch:
    """The files of one version of a run as it first read them, for this controller and for one that resumes
    the run. One process at a time records them: who makes or drives the run."""

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


class Files:
    """The files of one stage: those of all its tasks, and each task's own."""

    def __init__(self, stage: Stage, folder: Path, watch: Watch, homes: Mapping[str, Path] = NOWHERE) -> None:
        """Watch the files. `homes`: the folders of included workflows that have written entries, by label."""
        self._folder, self._watch = folder, watch
        self._homes = {label: os.path.realpath(homes.get(label, folder)) for label in stage.files}
        templates = {name: parse(text) for name, text in stage.files.items() if isinstance(text, str)}
        self.rendered = Renderings(stage) if stage.rendered else None
        self._real = os.path.realpath(folder)
        self.shared = {name: self._place(t.text_value({})) for name, t in templates.items() if t.constant}
        """Absolute paths."""
        self._own: dict[str, Template] = {name: t for name, t in templates.items() if not t.constant}

    def paths(self, scope: Mapping[str, Any]) -> dict[str, str]:
        """Return the absolute path of each file of a task. Raise ExpressionError."""
        own = {name: self._place(template.text_value(scope)) for name, template in self._own.items()}
        rendered = {} if self.rendered is None else self.rendered.paths(scope)
        return {**self.shared, **own, **rendered}

    @property
    def static(self) -> list[tuple[str, str, str]]:
        """Return the files of all tasks: label, path from the workflow's folder, digest."""
        named = [(label, self._named(label, path)) for label, path in self.shared.items()]
        return [(*name, artifact.digest) for name, artifact in zip(named, self.watched_by_all(), strict=True)]

    def _named(self, label: str, path: str) -> str:
        """Return a path as tasks see it, but for where the project lies."""
        return os.path.relpath(path, self._homes[label])

    def digests(self, scope: Mapping[str, Any]) -> dict[str, Any]:
        """Return the paths and contents of a task's own files, for its key. Raise ModuleError, Changed."""
        if not self._own and self.rendered is None:
            return {}
        labels = {f"files.{label}": label for label in self._own}
        own = {
            first.name: [self._named(labels[first.name], os.path.realpath(first.path)), first.digest]
            for first in self.watched(scope)
        }
        return own if self.rendered is None else {**own, **self.rendered.digests(scope)}

    def render(self, scope: Mapping[str, Any]) -> tuple[Rendered, ...]:
        """Return the files that are made for a task. Raise as `Renderings.render` does."""
        return () if self.rendered is None else self.rendered.render(scope)

    def own(self, scope: Mapping[str, Any]) -> dict[str, File]:
        return {name: scope["files"][name] for name in self._own}

    def watched(self, scope: Mapping[str, Any]) -> tuple[FirstLook, ...]:
        """Return a task's own files as the run first read them. Raise ModuleError, Changed."""
        own = self.own(scope).items() if self._own else ()
        return tuple(self._watch.look(f"files.{name}", file.written) for name, file in own)

    def watched_by_all(self, module: Module | None = None) -> tuple[FirstLook, ...]:
        """Return the files of all tasks as the run first read them. Raise ModuleError for an unknown one."""
        named = {f"files.{name}": file.written for name, file in self.shared.items()} | file_of(module)
        return tuple(self._watch.recall(name, path) for name, path in named.items())

    def _place(self, path: str) -> File:
        if "\0" in path:
            return File(path)
        written = os.path.join(self._real, path)
        real = os.path.realpath(written)
        return File(real, written if real != os.path.normpath(written) else real)


class OwnNames:
    """Knows the names in expressions as they enter a key: without that of an include, if none clashes."""

    def __init__(self, stage: str, references: Collection[tuple[str, ...]]) -> None:
        """Note the dotted names that the keys of the stage's tasks have."""
        before = stage.rpartition(".")[0]
        within = f"{before}." if before else ""
        self.chains = {".".join(part.removeprefix(within) for part in chain): chain for chain in references}
        if len(self.chains) < len(references):
            self.chains, within = {".".join(chain): chain for chain in references}, ""
        self._within = within.replace(".", JOINT)

    def text(self, value: Any) -> Any:
        """Return a JSON value with these names in its expressions."""
        if not self._within:
            return value
        if isinstance(value, str):
            return EXPRESSION.sub(lambda match: match[0].replace(self._within, ""), value)
        if isinstance(value, dict):
            return {key: self.text(item) for key, item in value.items()}
        return [self.text(item) for item in value] if isinstance(value, list | tuple) else value


class Renderings:
    """The templates of one stage, parsed once. Its methods raise ExpressionError, and what a scope raises."""

    def __init__(self, stage: Stage) -> None:
        self._templates = {
            name: (file.template, parse(file.target), parse(file.filling.text), file.filling.executable)
            for name, file in stage.rendered.items()
        }

    def paths(self, scope: Scope) -> dict[str, str]:
        """Return their places, relative to the task's directory; a script's can be called."""
        paths = {name: target.text_value(scope) for name, (_, target, _, _) in self._templates.items()}
        called = (name for name, (*_, executable) in self._templates.items() if executable)
        return {**paths, **{name: f"./{paths[name]}" for name in called if "/" not in paths[name]}}

    def render(self, scope: Scope) -> tuple[Rendered, ...]:
        """Return the files of a task. Raise ModuleError for one outside its directory."""
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
        """Return the same by name, as the key sees them: of files the content, and not the path."""
        return {
            name: (scope["files"][name], _filled(template, text, _KeyScope(scope)), executable)
            for name, (template, _, text, executable) in self._templates.items()
        }

    def digests(self, scope: Scope) -> dict[str, str]:
        """Return the part of a task's key."""
        return {f"files.{name}": digest_of(text) for name, text in self.texts(scope).items()}


def _filled(name: str, template: Template, scope: Scope) -> str:
    try:
        return template.text_value(scope)
    except ExpressionError as error:
        line = template.text.count("\n", 0, error.offset) + 1
        raise ModuleError(f"{name}:{line}: {error}") from error


class _KeyScope(Mapping[str, Any]):
    """A scope in which artifacts are their digests, and nothing tells where or in which run a task is."""

    def __init__(self, inner: Mapping[str, Any], depth: int = 0) -> None:
        self._inner = inner
        self._depth = depth
        self.join = getattr(inner, "join", None)
        self.maker = getattr(inner, "maker", None)

    def __getitem__(self, name: str) -> Any:
        if self._depth == 0 and name in ("run", "files"):
            return _NameScope(self._inner[name], name)
        value = self._inner[name]
        if self._depth == 0 and name == "task":
            return {**value, "attempt": 0}
        return _as_keyed(value, self._depth + 1)

    def __iter__(self) -> Iterator[str]:
        return iter(self._inner)

    def __len__(self) -> int:
        return len(self._inner)


class _NameScope(_KeyScope):
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
        return _KeyScope(value, depth)
    if isinstance(value, GatheredValues):
        return value.map(lambda item: _as_keyed(item, depth))
    return [_as_keyed(item, depth) for item in value] if is_list(value) else value
