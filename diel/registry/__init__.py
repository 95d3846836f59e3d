"""The shared registry: hyperparameters of a run, and those that a project keeps for all its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from diel.errors import Problem, SpecError, UsageError, did_you_mean
from diel.load import Document, parse, read_text
from diel.registry.store import Change as Change
from diel.registry.store import Held
from diel.registry.store import append_change as append_change
from diel.registry.store import current as current
from diel.registry.store import read_changes as read_changes
from diel.registry.store import read_current as read_current
from diel.spec import Flaw, Flaws, Hyperparameter
from diel.values import scalar

if TYPE_CHECKING:
    from diel.project.run_file import RunFile


class Value(NamedTuple):
    """A hyperparameter's value, and where it comes from."""

    value: Any
    origin: str
    """default, project, file or command line."""
    source: str
    """The file with its line, the setting as it was typed, or what made it the project's."""


class Hyperparameters(NamedTuple):
    """The hyperparameters that have a value; those without default or setting are missing."""

    values: Mapping[str, Value]
    said: tuple[str, ...] = ()
    """The settings that were given, as they were written."""
    files: tuple[Path, ...] = ()
    """The files that were given."""

    def plain(self) -> dict[str, Any]:
        """Only the values, by name."""
        return {name: value.value for name, value in self.values.items()}

    @property
    def settings(self) -> tuple[str, ...]:
        """The names of those that were given by `--set`."""
        return tuple(name for name, value in self.values.items() if value.origin == "command line")


def resolve(
    document: Document,
    settings: Sequence[str] = (),
    params_files: Sequence[Path] = (),
    project: Mapping[str, Held] | None = None,
    takes_back: str = "",
) -> Hyperparameters:
    """Return the values for a run: a setting `hp.NAME=VALUE` beats files, a later file an earlier, files beat
    the project's values, and these the defaults.

    A value of the project that does not fit is a problem only where nothing else gives one; `takes_back` is
    what the command that takes it back needs besides (` --runs DIR`). Raise SpecError where files or the
    project's values are wrong, UsageError where a setting is; both say all at once.
    """
    known = document.spec.hyperparameters
    values: dict[str, Value] = {}
    problems: list[Problem] = []
    for path in params_files:
        found, wrong = _from_file(path, known)
        values.update(found)
        problems += wrong
    complaints = []
    for setting in settings:
        try:
            name, value = _from_setting(setting, known)
        except UsageError as error:
            complaints.append(str(error))
        else:
            values[name] = Value(value, "command line", f"--set {setting}")
    for name, held in (project or {}).items():
        if name in known and name not in values:
            try:
                values[name] = Value(known[name].accept(held.value), "project", held.change.source)
            except Flaws as error:
                message = f"the project's value does not fit: {error.flaws[0].message} ({held.change.source})"
                unset = f"`diel params set {name} --unset{takes_back}` removes it"
                hint = f"{unset}; `--set hp.{name}=VALUE` is for one run"
                problems.append(document.problem(("hyperparameters", name), message, hint, at_key=True))
    if complaints:
        raise UsageError("\n".join([*map(str, sorted(set(problems))), *complaints]))
    if problems:
        raise SpecError(problems)
    return Hyperparameters(_in_order(document, values), tuple(settings), tuple(params_files))


def kept_values(run_file: RunFile) -> Hyperparameters:
    """The values that a run has, whatever its project and its files say by now."""
    return Hyperparameters(
        {
            name: Value(value, run_file.origins.get(name, "default"), run_file.sources.get(name, ""))
            for name, value in run_file.hyperparameters.items()
        }
    )


def _in_order(document: Document, values: Mapping[str, Value]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for name, given in document.spec.hyperparameters.items():
        if name in values:
            found[name] = values[name]
        elif given.default is not None:
            place = document.problem(("hyperparameters", name, "default"), "")
            found[name] = Value(given.accept(given.default), "default", f"{place.file}:{place.line}")
    return found


def _from_file(path: Path, known: Mapping[str, Hyperparameter]) -> tuple[dict[str, Value], list[Problem]]:
    try:
        source, data, problems = parse(read_text(path), path)
    except SpecError as error:
        return {}, list(error.problems)
    if source.root is None:
        return {}, problems
    if not isinstance(data, dict):
        hint = "write a line such as `learning_rate: 0.01`"
        return {}, [*problems, source.problem((), "expected a mapping of hyperparameters", hint)]
    values: dict[str, Value] = {}
    complained = {problem.key for problem in problems}
    seen: set[str] = set()
    for key, given in data.items():
        name = key.removeprefix("hp.")
        if key in complained:
            continue
        if name not in known:
            problems.append(source.problem((key,), *_unknown(name, known), at_key=True))
        elif name in seen:
            message = f"'{name}' is there twice, with and without hp."
            problems.append(source.problem((key,), message, "drop one of them", at_key=True))
        else:
            seen.add(name)
            place = source.problem((key,), "")
            try:
                values[name] = Value(known[name].accept(given), "file", f"{place.file}:{place.line}")
            except Flaws as error:
                problems += [source.problem((key,), flaw.message, flaw.hint) for flaw in error.flaws]
    return values, problems


def _from_setting(setting: str, known: Mapping[str, Hyperparameter]) -> tuple[str, Any]:
    """The name and value of `hp.NAME=VALUE`; raises UsageError."""
    left, equals, right = setting.partition("=")
    name = left.strip().removeprefix("hp.")
    if not equals or not name:
        example = f"hp.{next(iter(known), 'learning_rate')}=0.01"
        raise UsageError(f"--set {setting}: expected NAME=VALUE\n    for instance --set {example}")
    try:
        if name not in known:
            raise Flaws(Flaw(*_unknown(name, known)))
        return name, typed(known[name], right)
    except Flaws as error:
        flaw = error.flaws[0]
        raise UsageError(
            "\n    ".join(filter(None, (f"--set {setting}: {flaw.message}", flaw.hint)))
        ) from None


def typed(known: Hyperparameter, text: str) -> Any:
    """Return a text as the hyperparameter wants it: numbers by YAML's rules. Raise Flaws."""
    if known.type == "str":
        return known.accept(text)
    value = scalar(text)
    if known.type == "choice" and value not in (known.choices or ()):
        return known.accept(text)
    return known.accept(value)


def _unknown(name: str, known: Mapping[str, Hyperparameter]) -> tuple[str, str]:
    hint = did_you_mean(name, known) or f"hyperparameters: {', '.join(known)}"
    if not known:
        hint = "the workflow has none; they are written under `hyperparameters:`"
    return f"no hyperparameter '{name}'", hint
