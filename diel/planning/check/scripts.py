"""Files that a command names and no key knows: an edit of one would leave old results in the cache."""

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from diel.base.carried import carried
from diel.base.errors import Problem
from diel.workflow.expressions.shell import label_of, names_in
from diel.workflow.load import Document
from diel.workflow.models import Stage
from diel.workflow.models.data import EXPRESSION, Rendering
from diel.workflow.models.forms.axis import Points
from diel.workflow.models.model import Key
from diel.workflow.modules.beside import Importer, files_of, imported_by

_LONGEST = 200
"""The longest command that a hint rewrites, in characters."""
_UNKNOWN = "is in no `files`: results of before are used again after an edit of it"
_OF_ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")
_SHOWN = 3
"""The most imports of a script that a warning names."""
_SYSTEM = frozenset(
    {"/bin", "/dev", "/etc", "/lib", "/lib64", "/opt", "/proc", "/sbin", "/snap", "/sys", "/usr", "/var"}
    | {sys.prefix, sys.base_prefix}
)

_HOME = re.compile(r"(?:(?<![^\s=:,'\"<>(])~|\$HOME|\$\{HOME\})(?=/)")

Warned = tuple[Key, str, str]
"""The key below a stage, the message and the hint of a warning."""


def unknown_files(document: Document, points: Mapping[str, Points]) -> Iterator[Problem]:
    """Yield a warning for each file of the user in a command, variable or parameter, and for each script that
    imports some, where no `files` have it. `points` are those of axes, as far as known."""
    for name, stage in document.spec.stages.items():
        home = document.path.parent.absolute()
        folders = [document.home(("stages", name, key)) or home for key in ("command", "files")]
        over = [points[label] for label in stage.over if label in points]
        around = document.spec.environments.get(stage.environment or "")
        declared = {**({} if around is None else around.variables), **stage.env}
        for key, message, hint in (
            *_imports(stage, folders[1], declared),
            *_settings(stage, home),
            *_values(stage, home, over),
            *_words(stage, folders[0], declared),
        ):
            yield document.problem(("stages", name, *key), message, hint)


def _words(stage: Stage, folder: Path, declared: Mapping[str, Any]) -> Iterator[Warned]:
    named = ((word, text, word) for word, text in named_files(stage, folder))
    for word, text, file in (*named, *_programs(stage, folder, declared)):
        label = label_of(file, stage.files)
        line = re.sub(rf"(?<![\w./-]){re.escape(word)}(?![\w./-])", f"${{{{ files.{label} }}}}", text)
        short = isinstance(stage.command, str) and len(line) <= _LONGEST and "\n" not in line
        rest = f"command: {line}" if short else f"command: …, with ${{{{ files.{label} }}}} in its place"
        beside = "lies beside the workflow, and a task works in a directory of its own"
        beside = beside if file == word else f"is {file}, which PATH finds and which {_UNKNOWN}"
        message = f"'{word}' {_UNKNOWN if os.path.isabs(word) else beside}"
        yield ("command",), message, f"write\n    files: {{{label}: {file}}}\n    {rest}"


def _programs(stage: Stage, folder: Path, declared: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the programs that PATH finds below the workflow's folder: a command's word, text and path."""
    own, listed, path = Importer(folder, home=str(folder)), _listed_files(stage, folder), declared.get("PATH")
    for text in texts_of(stage):
        for word in names_in(EXPRESSION.sub("\0", text)):
            file = os.path.abspath("" if "/" in word else shutil.which(word, path=path and str(path)) or "")
            if os.path.isfile(file) and own.covers(file):
                places = {os.path.realpath(file), *map(str, Path(file).parents)}
                is_tool = any(os.path.exists(f"{at}/{mark}") for at in places for mark in _OF_ENVIRONMENTS)
                if not (is_tool or places & listed):
                    yield word, text, os.path.relpath(file, folder)


def _values(stage: Stage, folder: Path, over: Iterable[Points]) -> Iterator[Warned]:
    """Yield a warning for each word that is a value of an axis, where these are files."""
    texts = (text for text in texts_of(stage) for text in EXPRESSION.findall(text))
    read = {text[3:-2].strip() for text in texts}
    for axis in over:
        first = dict(zip(axis.parameters, axis.values(0), strict=True)) if len(axis) else {}
        for label, value in first.items():
            if label in read and isinstance(value, str) and "\0" not in value and set(value) & set("./"):
                path = os.path.realpath(folder / value)
                if os.path.isfile(path) and not _is_known(value, path, set()):
                    message = f"'{label}' names files, as '{value}', and they are in no `files`"
                    files = f'files: {{{label}: "${{{{ {label} }}}}"}}'
                    hint = f"write\n    {files}\n    command: …, with ${{{{ files.{label} }}}}"
                    yield ("command",), message, hint


def _imports(stage: Stage, folder: Path, declared: Mapping[str, Any]) -> Iterator[Warned]:
    """Yield a warning for each script under `files` that imports what lies beside it, for a command that
    imports what PYTHONPATH finds, and for folders of PYTHONPATH in `env`, where none of `files` has them."""
    listed, own = _listed_files(stage, folder), Importer(folder, home=str(folder))
    path = str(declared.get("PYTHONPATH", carried(os.environ).get("PYTHONPATH", "")))
    roots = [Path(at) for at in path.split(os.pathsep) if os.path.isabs(at) and own.covers(at)]
    named = dict.fromkeys(imported_by(" ".join(texts_of(stage)), roots))
    found: list[tuple[Key, str, Iterable[Path]]] = [(("command",), "the command imports", named)]
    for script in (Path(file) for file in sorted(listed) if file.endswith(".py") and os.path.isfile(file)):
        beside = files_of(Importer(script, (script.parent, *roots)))
        found.append((("files",), f"{script.name} imports", beside))
    place = ("env", "PYTHONPATH") if "PYTHONPATH" in stage.env else ("environment",)
    found.append((place, "PYTHONPATH names", filter(Path.is_dir, roots if "PYTHONPATH" in declared else ())))
    for key, what, files in found:
        unlisted = [file for file in files if not _is_known(str(file), str(file), listed)]
        if unlisted:
            shown = [os.path.relpath(file, folder) for file in unlisted[:_SHOWN]]
            more = f" and {len(unlisted) - _SHOWN} more" if len(unlisted) > _SHOWN else ""
            message = f"{what} {', '.join(shown)}{more}, which no `files` have: "
            hint = f"add\n    {', '.join(f'{label_of(file, stage.files)}: {file}' for file in shown)}"
            yield key, f"{message}results of before are used again after an edit", hint


def _settings(stage: Stage, folder: Path) -> Iterator[Warned]:
    """Yield a warning for each variable and parameter that is the absolute path of a file in no `files`."""
    listed = _listed_files(stage, folder)
    for key, values in (("env", stage.env), ("params", stage.params)):
        for label, value in values.items():
            if not isinstance(value, str) or not os.path.isabs(value) or "\0" in value:
                continue
            if os.path.isfile(value) and not _is_known(value, os.path.realpath(value), listed):
                hint = f"write\n    files: {{{label_of(value, stage.files)}: {value}}}"
                yield (key, label), f"'{value}' {_UNKNOWN}", hint


def texts_of(stage: Stage) -> list[str]:
    """Return the texts of a command: its own, or its words that are texts."""
    words = (stage.command,) if isinstance(stage.command, str) else stage.command or ()
    return [word for word in words if isinstance(word, str)]


def _listed_files(stage: Stage, folder: Path) -> set[str]:
    """Return the files that a stage names without expressions."""
    return {os.path.realpath(folder / file) for file in stage.files.values() if isinstance(file, str)}


def named_files(stage: Stage, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the words of a command that are files of the user, with their text, where `~` is spelled out."""
    listed = _listed_files(stage, folder)
    own = {rendering.target for rendering in stage.files.values() if isinstance(rendering, Rendering)}
    own |= {output.place for output in stage.outputs.values() if output.place is not None}
    for text in (_HOME.sub(lambda _: os.path.expanduser("~"), text) for text in texts_of(stage)):
        for word in names_in(EXPRESSION.sub("\0", text)):
            path = os.path.realpath(folder / word)
            if os.path.normpath(word) in own or not os.path.isfile(path) or _is_known(word, path, listed):
                continue
            yield word, text


def _is_known(word: str, path: str, listed: set[str]) -> bool:
    """Return whether a file is in `files`, or a program: a task finds no file beside the workflow."""
    if not os.path.isabs(word):
        return not set(word) & set("./") and shutil.which(word) is not None
    places = {path, *map(str, Path(path).parents), *map(str, Path(word).parents)}
    return Path(word).parent.name in ("bin", "sbin") or bool(places & (listed | _SYSTEM))
