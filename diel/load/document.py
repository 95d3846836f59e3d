"""A workflow file that has been read: its text, its spec, and where each key stands."""

from __future__ import annotations

import os
import re
import stat
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from diel.errors import MAX_PROBLEMS, Problem, SpecError, did_you_mean, first_problems
from diel.files import read_file, reason
from diel.load.expressions import STRAY, Sizes, note, standing, stray
from diel.load.misfits import Misfit, check
from diel.load.nodes import (
    TWICE,
    Complaint,
    Key,
    Node,
    Scalar,
    Unreadable,
    Verbatim,
    compose,
    content,
    descend,
)
from diel.load.syntax import complaint
from diel.spec import Model, Workflow
from diel.spec.model import found

M = TypeVar("M", bound=Model)

MAX_BYTES = 16 * 2**20
EXAMPLE = "`diel init` writes an example"
_VERBATIM: Verbatim = {"stages": {"*": {"command": True, "env": True}}}
"""Words of a command and variables stay as they are written: `1e-3`, `007`, `true`."""

_BREAK = re.compile(r"\r\n|\n|\r")
_REFUSED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x84\x86-\x9f]|\ufffe|\uffff")
"""Not one class of letters: that would take long to compile."""


@dataclass(frozen=True)
class Source:
    """A YAML text with the place of each of its parts."""

    path: Path
    text: str
    root: Node | None = field(default=None, repr=False, compare=False)

    @cached_property
    def _lines(self) -> list[int]:
        return [0, *(match.end() for match in _BREAK.finditer(self.text))]

    def place(self, index: int) -> tuple[int, int]:
        """Line and column, both from 1, of a character."""
        line = bisect_right(self._lines, index)
        return line, index - self._lines[line - 1] + 1

    def at(self, index: int, key: Key, message: str, hint: str = "") -> Problem:
        """A problem at a character."""
        line, column = self.place(index)
        return Problem(str(self.path), line, column, _dotted(key), _short(message), _short(hint))

    def problem(
        self,
        key: Sequence[str | int],
        message: str,
        hint: str = "",
        *,
        offset: int | None = None,
        at_key: bool = False,
    ) -> Problem:
        """A problem at the value of a key, or at the nearest part above it that is there.

        `offset` counts characters into a scalar's text; `at_key` points at the key itself.
        """
        whole = tuple(key)
        if self.root is not None:
            trail, rest = descend(self.root, whole)
            if rest and isinstance(trail[-1][1], Scalar):
                whole = whole[: len(whole) - len(rest)]  # a field behind a short form
        return self.at(self._index(whole, offset, at_key), whole, message, hint)

    def _index(self, key: Key, offset: int | None, at_key: bool) -> int:
        if self.root is None:
            return 0
        trail, rest = descend(self.root, key)
        label, node = trail[-1]
        if label is not None and (at_key or rest or _hangs_below(label, node, self)):
            return label.start
        if offset is not None and isinstance(node, Scalar) and not rest:
            return _inside(node, self.text, offset)
        return node.start

    def complained(self, complaints: Sequence[Complaint]) -> list[Problem]:
        """Complaints about the text as problems."""
        problems = []
        for each in complaints:
            hint = each.hint
            if each.first is not None:
                line, column = self.place(each.first)
                hint = f"the first is at line {line}, column {column}; {hint}"
            problems.append(self.at(each.index, each.key, each.message, hint))
        return problems


@dataclass(frozen=True)
class Document(Source):
    """A workflow file whose spec is good."""

    spec: Workflow = field(kw_only=True)


Settle = Callable[[Document], Mapping[str, Any]]


def load(path: Path, settle: Settle | None = None) -> Document:
    """Reads a workflow file.

    Raises SpecError with all that is wrong in it.
    """
    return load_text(read_text(path), path, settle)


def load_text(text: str, path: Path, settle: Settle | None = None) -> Document:
    """Reads a workflow from its text; `path` is where it came from.

    Raises SpecError with all that is wrong in it.
    """
    document, problems = examine(text, path, settle)
    if document is None or problems:
        raise SpecError(problems)
    return document


def examine(text: str, path: Path, settle: Settle | None = None) -> tuple[Document | None, list[Problem]]:
    """What a text holds, and all that is wrong in it.

    `settle` gives the hyperparameters that the axes' expressions read, from a document that has nothing but
    hyperparameters; without it the axes have some size. What it raises is raised.

    There is a document beside problems where those do not touch its meaning, such as unknown keys:
    further checks can then add theirs to the same list.
    """
    source, data, problems = parse(text, path, _VERBATIM)
    if source.root is None:
        return None, problems
    noted: dict[tuple[int, int], str] = {}
    if isinstance(data, dict) and ("${{" in text or "\\" in text):
        data = _settled(source, data, settle, problems, noted)
    spec, wrong = fit(source, data, Workflow)
    wrong = [_with_note(problem, noted) for problem in wrong]
    # Where the text itself was refused in part, what its values then lack says nothing new.
    places = {(p.line, p.column) for p in problems}
    keys = {p.key for p in problems if p.message != TWICE}
    problems += [p for p in wrong if (p.line, p.column) not in places and p.key not in keys]
    problems = first_problems(problems) if problems else problems
    return (None if spec is None else Document(path, text, source.root, spec=spec)), problems


def _settled(
    source: Source,
    data: dict[str, Any],
    settle: Settle | None,
    problems: list[Problem],
    noted: dict[tuple[int, int], str],
) -> dict[str, Any]:
    """The data with the axes' expressions evaluated; what each gave is noted at its place."""
    sizes = Sizes(data)
    problems += [source.problem(key, *STRAY) for key in (*sizes.refused, *stray(data))]
    if not sizes.texts:
        return data
    bare = {"diel": 1, "name": "head", "stages": {"none": {"command": ["true"]}}}
    head, _ = fit(source, {**bare, "hyperparameters": data.get("hyperparameters") or {}}, Workflow)
    made: dict[Key, Any] = dict.fromkeys(sizes.texts, 1)
    if head is not None:
        known = head.hyperparameters
        document = Document(source.path, source.text, source.root, spec=head)
        values = standing(known) if settle is None else settle(document)
        evaluated, wrong = sizes.evaluated(known, values)
        made |= evaluated
        for key, error in wrong.items():
            problems.append(source.problem(key, error.message, error.hint, offset=error.offset))
        for key, value in evaluated.items():
            place = source.problem(key, "")
            noted[place.line, place.column] = note(sizes.texts[key], value)
    return sizes.with_values(made)


def _with_note(problem: Problem, noted: Mapping[tuple[int, int], str]) -> Problem:
    told = noted.get((problem.line, problem.column))
    if not told:
        return problem
    return replace(problem, hint=f"{told}; {problem.hint}" if problem.hint else told)


def fit(source: Source, data: Any, model: type[M]) -> tuple[M | None, list[Problem]]:
    """A model from the plain values of a text, and what of them does not fit it."""
    if not isinstance(data, dict):
        known = ", ".join(info.alias or name for name, info in model.model_fields.items())
        return None, [source.problem((), f"expected a mapping, found {found(data)}", f"its keys: {known}")]
    try:
        return model.model_validate(data), []
    except ValidationError:
        made, misfits = check(data, model)
    return made, [_shown(source, misfit) for misfit in misfits[: 10 * MAX_PROBLEMS]]


def parse(
    text: str, path: Path, verbatim: Verbatim = False, example: str = EXAMPLE
) -> tuple[Source, Any, list[Problem]]:
    """The tree and the plain values of a YAML text, and what is wrong in it as YAML.

    `example` says what to do where the file is empty.
    """
    text = text.removeprefix("\ufeff")
    bare = Source(path, text)
    refused = _REFUSED.search(text)
    if refused:
        message = f"a control character, {refused.group()!r}"
        return bare, None, [bare.at(refused.start(), (), message, 'write it as an escape in "..."')]
    try:
        root, complaints = compose(text)
    except Unreadable as error:
        return bare, None, bare.complained([error.complaint])
    except yaml.YAMLError as error:
        return bare, None, bare.complained([complaint(error, text)])
    if root is None or (isinstance(root, Scalar) and root.plain and not root.text):
        return bare, None, [bare.at(0, (), "the file is empty", example)]
    source = Source(path, text, root)
    data = content(root, verbatim, complaints)
    return source, data, source.complained(complaints)


def read_text(path: Path, what: str = "workflow") -> str:
    """The text of a file, which is to hold a workflow, or what else `what` says.

    Raises SpecError where it is no readable UTF-8 file of at most 16 MiB.
    """

    def refused(message: str, hint: str = "", line: int = 1, column: int = 1) -> SpecError:
        return SpecError([Problem(str(path), line, column, "", message, hint)])

    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise refused("this is a directory", f"name the {what} file in it")
        if not stat.S_ISREG(mode):
            raise refused("this is no ordinary file", f"write the {what} into a file first")
        data = read_file(path, MAX_BYTES)
    except FileNotFoundError:
        raise refused("no such file", _nearby(path)) from None
    except (OSError, ValueError) as error:
        raise refused(f"cannot be read: {reason(error)}", "check its name and permissions") from None
    if len(data) > MAX_BYTES:
        raise refused(
            "larger than 16 MiB", "keep long lists in a CSV or JSONL file, and read it with `file:`"
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8").removeprefix("\ufeff")
        line, column = Source(path, before).place(len(before))
        message = f"byte {data[error.start]:#04x} is no UTF-8"
        raise refused(message, "save the file in UTF-8", line, column) from None


def _nearby(path: Path) -> str:
    try:
        names = [name for name in os.listdir(path.parent) if name.endswith((".yaml", ".yml"))]
    except OSError:
        return "check the path"
    return did_you_mean(path.name, names) or (
        f"workflows here: {', '.join(sorted(names)[:5])}" if names else EXAMPLE
    )


def _shown(source: Source, misfit: Misfit) -> Problem:
    hint = misfit.hint
    if misfit.written and source.root is not None:
        node = descend(source.root, misfit.key)[0][-1][1]
        if isinstance(node, Scalar):
            hint = misfit.written.format(text=node.text)
    return source.problem(misfit.key, misfit.message, hint, at_key=misfit.at_key)


def _dotted(key: Key) -> str:
    parts = [_short(str(part), 70) for part in key]
    return ".".join(parts if len(parts) <= 12 else [*parts[:4], "…"])


def _short(text: str, most: int = 600) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _hangs_below(label: Scalar, node: Node, source: Source) -> bool:
    """Whether a value is a block below its key, or nothing: the key is then the better place."""
    if isinstance(node, Scalar):
        return node.plain and not node.text
    return not node.flow or source.place(node.start)[0] != source.place(label.start)[0]


def _inside(node: Scalar, text: str, offset: int) -> int:
    """The character of the file that is the `offset`th of a scalar's text.

    Walks both along, since quotes, indents and folded lines are in the file only; an escape in
    double quotes can put it off by its length.
    """
    start = node.start
    if text[start : start + 1] in "|>" and not node.plain:
        start = text.find("\n", start, node.end) + 1
    index = start
    for wanted in node.text[: offset + 1]:
        index = start
        while index < node.end and text[index] != wanted and not (wanted.isspace() and text[index].isspace()):
            index += 1
        if index >= node.end:
            return node.start
        start = index + 1
    return index


__all__ = ["Document", "Source", "examine", "fit", "load", "load_text", "parse", "read_text"]
