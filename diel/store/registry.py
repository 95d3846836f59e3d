"""The shared registry: hyperparameters of a run, and those that a project keeps for all its runs."""

import contextlib
import getpass
import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from diel.base.errors import Problem, SpecError, UsageError, did_you_mean
from diel.base.files import put, replacing
from diel.base.paths import registry_dir
from diel.base.values import scalar
from diel.store.project.run_file import RunFile
from diel.workflow.load import Document, parse, read_text
from diel.workflow.models import Hyperparameter, Violation, Violations


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
    words: tuple[str, ...] = ()
    """The settings that were given, as they were written."""
    files: tuple[Path, ...] = ()
    """The files that were given."""
    texts: Mapping[Path, str] = {}
    """What they said."""

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
    project: "Mapping[str, RegistryValue] | None" = None,
    takes_back: str = "",
) -> Hyperparameters:
    """Return the values for a run: a setting `hp.NAME=VALUE` beats files, a later file an earlier, files beat
    the project's values, and these the defaults.

    A value of the project that does not fit is a problem only where nothing else gives one; `takes_back` is
    what the command that takes it back needs besides (` --runs DIR`). Raise SpecError where files or the
    project's values are wrong, UsageError where a setting is; both say all at once.
    """
    declared = document.spec.hyperparameters
    values: dict[str, Value] = {}
    problems: list[Problem] = []
    texts: dict[Path, str] = {}
    for path in params_files:
        try:
            texts[path] = read_text(path)
            from_file, wrong = _from_file(path, texts[path], declared)
            values.update(from_file)
            problems += wrong
        except SpecError as error:
            problems += error.problems
    complaints = []
    for setting in settings:
        try:
            name, value = _from_setting(setting, declared)
            earlier = values.get(name)
            if earlier is not None and earlier.origin == "command line" and earlier.value != value:
                raise UsageError(
                    f"{earlier.source} and --set {setting} exclude each other: leave one of them out"
                )
        except UsageError as error:
            complaints.append(str(error))
        else:
            values[name] = Value(value, "command line", f"--set {setting}")
    for name, held in (project or {}).items():
        if name in declared and name not in values:
            try:
                values[name] = Value(declared[name].accept(held.value), "project", held.change.source)
            except Violations as error:
                message = f"the project's value does not fit: {error.flaws[0].message} ({held.change.source})"
                unset = f"`diel params set {name} --unset{takes_back}` removes it"
                hint = f"{unset}; `--set hp.{name}=VALUE` is for one run"
                problems.append(document.problem(("hyperparameters", name), message, hint, at_key=True))
    if complaints:
        raise UsageError("\n".join([*map(str, sorted(set(problems))), *complaints]))
    if problems:
        raise SpecError(problems)
    return Hyperparameters(_in_order(document, values), tuple(settings), tuple(params_files), texts)


def kept_values(run_file: RunFile) -> Hyperparameters:
    """Return the values that a run has, whatever its project and its files say by now."""
    return Hyperparameters(
        {
            name: Value(value, run_file.origins.get(name, "default"), run_file.sources.get(name, ""))
            for name, value in run_file.hyperparameters.items()
        }
    )


def _in_order(document: Document, values: Mapping[str, Value]) -> dict[str, Value]:
    ordered: dict[str, Value] = {}
    for name, declared in document.spec.hyperparameters.items():
        if name in values:
            ordered[name] = values[name]
        elif declared.default is not None:
            place = document.problem(("hyperparameters", name, "default"), "")
            ordered[name] = Value(declared.accept(declared.default), "default", f"{place.file}:{place.line}")
    return ordered


def _from_file(
    path: Path, text: str, declared: Mapping[str, Hyperparameter]
) -> tuple[dict[str, Value], list[Problem]]:
    source, data, problems = parse(text, path)
    if source.root is None:
        return {}, problems
    if not isinstance(data, dict):
        hint = "write a line such as `learning_rate: 0.01`"
        return {}, [*problems, source.problem((), "expected a mapping of hyperparameters", hint)]
    values: dict[str, Value] = {}
    complained = {problem.key for problem in problems}
    names: set[str] = set()
    for key, value in data.items():
        name = key.removeprefix("hp.")
        if key in complained:
            continue
        if name not in declared:
            problems.append(source.problem((key,), *_unknown(name, declared), at_key=True))
        elif name in names:
            message = f"'{name}' is there twice, with and without hp."
            problems.append(source.problem((key,), message, "drop one of them", at_key=True))
        else:
            names.add(name)
            place = source.problem((key,), "")
            try:
                values[name] = Value(declared[name].accept(value), "file", f"{place.file}:{place.line}")
            except Violations as error:
                problems += [source.problem((key,), flaw.message, flaw.hint) for flaw in error.flaws]
    return values, problems


def _from_setting(setting: str, declared: Mapping[str, Hyperparameter]) -> tuple[str, Any]:
    """Return the name and value of `hp.NAME=VALUE`. Raise UsageError."""
    key, equals, right = setting.partition("=")
    name = key.strip().removeprefix("hp.")
    if not equals or not name:
        example = f"hp.{next(iter(declared), 'learning_rate')}=0.01"
        raise UsageError(f"--set {setting}: expected NAME=VALUE\n    for instance --set {example}")
    try:
        if name not in declared:
            raise Violations(Violation(*_unknown(name, declared)))
        return name, typed(declared[name], right)
    except Violations as error:
        flaw = error.flaws[0]
        hint = f"\n    {flaw.hint}" if flaw.hint else ""
        raise UsageError(f"--set {setting}: {flaw.message}{hint}") from None


def typed(hyperparameter: Hyperparameter, text: str) -> Any:
    """Return a text as the hyperparameter wants it: numbers by YAML's rules. Raise Flaws."""
    if hyperparameter.type == "str":
        return hyperparameter.accept(text)
    value, choices = scalar(text), hyperparameter.choices or ()
    if hyperparameter.type == "choice":
        quoted = next((choice for choice in choices if json.dumps(choice) == text), text)
        return hyperparameter.accept(quoted if quoted != text or value not in choices else value)
    if not isinstance(value, str) and re.match(r"\s*[-+]?0[0-9xo]", text):
        raise Violations(
            Violation(f"expected a number in the usual way, found {text.strip()}", f"write {value}")
        )
    return hyperparameter.accept(value)


def _unknown(name: str, declared: Mapping[str, Hyperparameter]) -> tuple[str, str]:
    hint = did_you_mean(name, declared) or f"hyperparameters: {', '.join(declared)}"
    if not declared:
        hint = "the workflow has none; they are written under `hyperparameters:`"
    return f"no hyperparameter '{name}'", hint


_NAME = re.compile(r"(?P<stamp>[0-9]{20})-.+\.json")
_FOLD = "folded.json"
FOLDED = 500
"""Changes after which the fold of all is written again."""
_END = 253_402_300_800.0 - 86_400.0
"""The year 10000, in any time zone: later times have no date."""


class Change(NamedTuple):
    """One change of a project's values: several names change together."""

    origin: Literal["set", "promotion", "publication"]
    values: Mapping[str, Any] = {}
    unset: tuple[str, ...] = ()
    """The names that the project has no value for from then on."""
    workflow: str = ""
    """The workflow by which the values were checked, or whose run made them."""
    run: str = ""
    axis: str = ""
    """The search of a promotion."""
    trial: int | None = None
    stage: str = ""
    """The stage of a publication."""
    task: int | None = None
    key: str = ""
    """The cache key of the task that made a publication."""
    began: float | None = None
    """When that run was made, which distinguishes it from a later one of its name."""
    user: str = ""
    time: float = 0.0
    """Seconds since the epoch, by the clock of the host that made it."""

    @property
    def source(self) -> str:
        """Its source in words: `promotion of melt-3, trial 7`."""
        if self.origin == "promotion":
            return f"promotion of {self.run}, {self.axis} {self.trial}"
        if self.origin == "publication":
            return f"publication of {self.run}, {self.stage}/{self.task}"
        return f"diel params set, by {self.user}" if self.user else "diel params set"


class RegistryValue(NamedTuple):
    """A value that the project has now, and the change that made it."""

    value: Any
    change: Change


def append_change(runs: Path, change: Change) -> Change:
    """Add a change to the project, named as the latest; return it with time and user. Raise UsageError."""
    stamped = change._replace(time=time.time(), user=change.user or user_name())
    folder = registry_dir(runs)
    host = re.sub(r"[^A-Za-z0-9.-]", "_", os.uname().nodename) or "host"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stamps = (int(match["stamp"]) for match in map(_NAME.fullmatch, os.listdir(folder)) if match)
        stamp = max(time.time_ns(), 1 + max(stamps, default=0))
        name = f"{stamp:020d}-{host}-{os.getpid()}-{os.urandom(4).hex()}.json"
        with replacing(folder / name) as file:
            file.write(json.dumps(stamped._asdict()).encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise UsageError(f"cannot write to the project's registry {folder}: {error.strerror}") from error
    _keep_fold(folder)
    return stamped


def user_name() -> str:
    """Return the user's name; the number if a container knows no name for it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def read_changes(runs: Path) -> tuple[list[Change], list[Path]]:
    """Return all changes of the project in order, and the unreadable files. Raise UsageError."""
    folder = registry_dir(runs)
    return _read_all(folder, _names(folder))


def read_current(runs: Path) -> tuple[dict[str, RegistryValue], list[Path]]:
    """Return the project's values, and the files that cannot be read. Raise UsageError."""
    return _read_current(folder := registry_dir(runs), _names(folder))


def _read_current(folder: Path, names: Sequence[str]) -> tuple[dict[str, RegistryValue], list[Path]]:
    fold = _load_fold(folder, names)
    changes, unreadable = _read_all(folder, names[fold.size :])
    return current(changes, fold.held), [*(folder / name for name in fold.unreadable), *unreadable]


def _names(folder: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if _NAME.fullmatch(name))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(f"cannot read the project's registry {folder}: {error.strerror}") from error


def _read_all(folder: Path, names: Sequence[str]) -> tuple[list[Change], list[Path]]:
    by_path = {folder / name: read_change(folder / name) for name in names}
    changes = [change for change in by_path.values() if change is not None]
    return changes, [path for path, change in by_path.items() if change is None]


def read_change(path: Path) -> Change | None:
    """Return the change that a file holds; None if it cannot be read."""
    try:
        return _change_of(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def _change_of(document: Any) -> Change:
    """Return a change from its JSON. Raise ValueError or TypeError for a wrong part."""
    fields = {name: document[name] for name in Change._fields if name in document}
    change = Change(**{**fields, "unset": tuple(fields.get("unset", ()))})
    json.dumps(change.values, allow_nan=False)
    where = (change.workflow, change.run, change.axis, change.stage)
    texts = (change.origin, *where, change.key, change.user, *change.unset)
    numbers = (change.trial or 0, change.task or 0, change.began or 0.0, change.time)
    if not (
        isinstance(change.values, dict)
        and all(isinstance(text, str) for text in texts)
        and all(isinstance(number, int | float) for number in numbers)
        and "time" in fields
        and 0 <= change.time < _END
    ):
        raise ValueError("no change of a project's values")
    return change


def current(
    changes: Iterable[Change], before: Mapping[str, RegistryValue] | None = None
) -> dict[str, RegistryValue]:
    """Return the values that hold after these changes, by name; `before` has those that held then."""
    held = dict(before or {})
    for change in changes:
        for name in change.unset:
            held.pop(name, None)
        held.update({name: RegistryValue(value, change) for name, value in change.values.items()})
    return held


class _Fold(NamedTuple):
    size: int
    held: Mapping[str, RegistryValue]
    unreadable: Sequence[str]


def _load_fold(folder: Path, names: Sequence[str]) -> _Fold:
    """Return the kept fold; an empty one if there is none, or files were added or removed since."""
    nothing = _Fold(0, {}, ())
    try:
        document = json.loads((folder / _FOLD).read_text(encoding="utf-8"))
        count, unreadable = document["count"], document["unreadable"]
        if document["names"] != _digest(names[:count]):
            return nothing
        changes = {name: _change_of(packed) for name, packed in document["held"].items()}
        held = {name: RegistryValue(change.values[name], change) for name, change in changes.items()}
        return _Fold(count, held, unreadable)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return nothing


def _keep_fold(folder: Path) -> None:
    """Write the fold if many changes came since. Errors only cost its readers time."""
    names = _names(folder)
    if len(names) - _load_fold(folder, names).size < FOLDED:
        return
    held, unreadable = _read_current(folder, names)
    document = {
        "count": len(names),
        "names": _digest(names),
        "held": {name: entry.change._asdict() for name, entry in held.items()},
        "unreadable": [path.name for path in unreadable],
    }
    with contextlib.suppress(OSError):
        put(folder / _FOLD, json.dumps(document))


def _digest(names: Sequence[str]) -> str:
    return hashlib.blake2b("\n".join(names).encode(), digest_size=16).hexdigest()
