"""Takes values out of what a command wrote: by a pattern, a column of a table, a key of JSON.

Files are read one block at a time: a log may be larger than memory.
"""

import contextlib
import csv
import json
import os
import re
import signal
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, takewhile
from typing import Any, NoReturn

from diel.base.errors import ModuleError
from diel.base.terms import group_of, parts_of, suffix_of
from diel.base.values import read_float, read_json
from diel.store.artifacts import Values
from diel.store.artifacts.artifact import Breach, written
from diel.store.artifacts.collect import matching
from diel.store.artifacts.values import check_size, is_of, listed, shown
from diel.worker.attempt.capture import PRINTED
from diel.workflow.models import Output

PATIENCE = 10.0
"""Seconds of processor time for one block: some patterns would take longer than anybody lives."""
_BLOCK = 1 << 20
_JSON = 64 << 20
_MOST = 100_000
"""The most values of one list: they are to fit into a record."""
_END, _LAST_LINES = 2000, 8
_JSON_LINES = (".jsonl", ".ndjson")
_NUMBER = re.compile(
    r"([+-]?(?!\d+[+-])(?:\d+\.?\d*|\.\d+))(?:[eEdDqQ]([+-]?\d+)|([+-]\d{3}))?|[+-]?(?:nan|inf(?:inity)?)",
    re.IGNORECASE,
)
"""A number as C, Fortran and Python write it: `-.5`, `1.0D-03`, and `0.1-102`, where an exponent left no room
for its letter. `10-200` is none: a range of atoms or residues."""
_COMMA = re.compile(r"(?<=\d),(?=\d)")
_TRUTHS = {
    **dict.fromkeys(("true", "t", ".true.", "yes", "1"), True),
    **dict.fromkeys(("false", "f", ".false.", "no", "0"), False),
}
_EXPECTED = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "a text"}

Found = Iterator[tuple[str, Any]]
"""What was found, each with its place for a message: `scf.out, line 12`."""


def extract(promises: Mapping[str, Output], paths: Mapping[str, str], task_dir: str, own: Values) -> Values:
    """Take values out of files; `own` is what the command handed over itself. Raises ModuleError."""
    values: Values = {}
    for name, how in promises.items():
        if how.way is None:
            continue
        if name in own:
            hint = f"its `{how.way}` finds it too: drop one of them"
            raise ModuleError(f"the command wrote the value '{name}' to DIEL_RESULT, and {hint}")
        try:
            values[name] = _extract(how, paths.get(name, PRINTED[1]), task_dir)
        except Breach as breach:
            raise ModuleError(f"output '{name}': {breach}") from breach.__cause__
    check_size({**own, **values})
    return values


def _extract(how: Output, file: str, task_dir: str) -> Any:
    paths = _files(file, task_dir)
    ways = {"match": _matches, "column": _cells, "key": _entries}
    matches = chain.from_iterable(ways[str(how.way)](how, path, _called(path, task_dir)) for path in paths)
    with _bounded(how):
        if how.way == "match" and how.value == "bool" and not re.compile(str(how.match)).groups:
            return any(True for _ in matches)
        if how.pick == "all":
            every = [_as_value(*match, how) for match in islice(matches, _MOST + 1)]
            if len(every) > _MOST:
                raise Breach(f"more than {_MOST:,} values in {file}; make the file itself an output")
            if every:
                return every
        else:
            for match in islice(matches, 1) if how.pick == "first" else deque(matches, 1):
                return _as_value(*match, how)
    raise _nothing(how, file, paths[-1])


def _files(file: str, task_dir: str) -> list[str]:
    """List the files to read by name: those that fit a pattern, or one, which may catch what was printed."""
    whole = os.path.join(task_dir, file)
    for number, name in PRINTED.items():
        if file == name and not os.path.lexists(whole):
            return [f"/dev/fd/{number}"]
    if os.path.isfile(whole):  # also one whose name could be a pattern, as `Al[fcc].out`
        return [whole]
    paths = [os.path.join(task_dir, name) for name in matching(file, task_dir)]
    if not (files := [*filter(os.path.isfile, paths)]):  # a pipe would be read for ever
        what = "no ordinary file" if os.path.exists(whole) else "no file"
        raise Breach(f"{what} '{file}'; the task wrote {written(task_dir)}")
    return files


def _called(path: str, task_dir: str) -> str:
    return PRINTED[int(path[-1])] if path.startswith("/dev/fd/") else os.path.relpath(path, task_dir)


@contextlib.contextmanager
def _bounded(how: Output) -> Iterator[None]:
    """End a search that takes too long: Python's engine of patterns looks for signals while it works."""
    if how.match is None:
        yield
        return

    def end(*_: object) -> NoReturn:
        hint = "do not nest `+` and `*`, as in (a+)+"
        raise Breach(f"the pattern {_written(how.match)} takes more than {PATIENCE:g} s; {hint}")

    before = signal.signal(signal.SIGVTALRM, end)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE)
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _lines(path: str) -> Iterator[str]:
    """Yield the lines of a file without their ends; one that is longer than a block comes in parts."""
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        rest = ""
        while block := file.read(_BLOCK):
            if signal.getitimer(signal.ITIMER_VIRTUAL)[0]:
                signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE)
            *lines, rest = (rest + block).split("\n")
            yield from lines
            if len(rest) > _BLOCK:
                yield rest
                rest = ""
        if rest:
            yield rest


def _nothing(how: Output, file: str, path: str) -> Breach:
    message = {
        "match": f"nothing in {file} matches {_written(how.match)}",
        "column": f"{file} has no rows",
        "key": f"no line of {file} has {how.key!r}",
    }[str(how.way)]
    with open(path, "rb") as opened:
        opened.seek(max(0, os.fstat(opened.fileno()).st_size - _END))
        end = opened.read(_END).decode("utf-8", "replace").splitlines()[-_LAST_LINES:]
    shown = ("".join(c if c.isprintable() else " " if c == "\t" else "\ufffd" for c in line) for line in end)
    return Breach(
        "\n      ".join([f"{message}\n    it ends with:", *shown]) if end else f"{message}; it is empty"
    )


def _written(pattern: str | None) -> str:
    """Return a pattern as it is in single quotes of the workflow file."""
    return "'" + str(pattern).replace("'", "''").replace("\n", "\\n") + "'"


def _matches(how: Output, path: str, called: str) -> Found:
    """Yield what a pattern finds, line by line. One with line breaks sees as many lines more."""
    pattern = re.compile(str(how.match))
    group, search, more = group_of(pattern), pattern.search, pattern.pattern.count("\\n")
    for number, line in enumerate(_windows(_lines(path), more) if more else _lines(path), 1):
        match = search(line)
        while match is not None:
            if more and "\n" in line[: match.start()]:
                break  # the next window begins there
            if match[group] is not None:
                yield f"{called}, line {number}", match[group]
            match = search(line, match.end()) if match.end() > match.start() else None


def _windows(lines: Iterator[str], more: int) -> Iterator[str]:
    window: deque[str] = deque(maxlen=more + 1)
    for line in chain(lines, [""] * more):
        window.append(line)
        if len(window) > more:
            yield "\n".join(window)


def _cells(how: Output, path: str, called: str) -> Found:
    """Yield the cells of a column. But in `.csv` and `.tsv`, `#` begins comments, which may name columns."""
    if path.endswith(_JSON_LINES):
        yield from _entries(how, path, called)
        return
    column, divider, is_settled, named, width = how.column, "", False, False, 0
    place = column - 1 if isinstance(column, int) else None
    is_first, plain = True, suffix_of(path) in (".csv", ".tsv")  # read as contracts and axes do
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        divider = divider if is_settled else _divider(line)
        bare = line.lstrip(" #") if (comment := not plain and line.lstrip().startswith("#")) else line
        try:
            row = next(csv.reader([bare], delimiter=divider, strict=True)) if divider else bare.split()
        except csv.Error as error:
            raise Breach(f"{called}, line {number}: {error}") from error
        if place is None:
            names = [cell.strip() for cell in row]
            if names.count(str(column)) > 1:
                raise Breach(
                    f"{called} has two columns '{column}'; write the number of the one that is meant"
                )
            if column in names:
                named, width = not comment, 0 if comment else len(row)
                place, is_settled = names.index(str(column)), bool(divider) and not comment
            elif not comment:
                raise Breach(f"{called} has no column {column!r}; it has: {listed(names)}")
            continue
        if comment:
            continue
        row = row if divider else [*takewhile(lambda cell: not cell.startswith("#"), row)]
        width = width or len(row)
        if wrong := _misshapen(row, place, width, exact=bool(divider or named)):
            raise Breach(f"{called}, line {number}: it has {len(row)} cells, and {wrong}")
        cell = row[place]
        is_header = is_first and column == place + 1 and how.value in ("int", "float")
        is_first, is_settled = False, True
        if not is_header or _NUMBER.fullmatch(cell.strip()):
            yield f"{called}, line {number}", cell


def _misshapen(row: Sequence[str], place: int, width: int, *, exact: bool) -> str:
    """Say what is wrong with the number of cells; text may follow blanks whose header is a comment."""
    if len(row) <= place:
        return f"none for column {place + 1}"
    return f"those before it {width}" if len(row) < width or (exact and len(row) > width) else ""


def _divider(line: str) -> str:
    """Return what divides the cells of a line, empty for blanks; beside semicolons, commas are decimal."""
    marks = "\t;" if ";" in line and "," not in _COMMA.sub("", line) else "\t,;"
    return next((mark for mark in marks if mark in line), "")


def _entries(how: Output, path: str, called: str) -> Found:
    """Yield the values at a place in JSON, of the file or of each line: what is printed may be either."""
    parts = (str(how.column),) if how.key is None else parts_of(how.key) or ()
    printed = called in PRINTED.values()
    if not path.endswith(_JSON_LINES):
        if os.path.getsize(path) > _JSON and not printed:
            raise Breach(f"{called} is larger than {_JSON >> 20} MiB; write JSON lines (.jsonl) instead")
        try:
            with open(path, encoding="utf-8-sig", errors="replace") as file:
                value = _loaded(file.read(_JSON), called)
            yield called, _inside(value, parts)
            return
        except LookupError as error:
            raise Breach(f"{called} has no {how.key}: {error.args[0]}") from None
        except Breach:
            if not printed:
                raise
    for number, line in enumerate(_lines(path), 1):
        if line.lstrip()[:1] in ("{", "[") if printed else line.strip():
            place = f"{called}, line {number}"
            try:
                yield place, _inside(_loaded(line, place), parts)
            except LookupError as error:
                if how.column is not None:  # of a table, in which each row has it
                    raise Breach(f"{place}: no '{how.column}': {error.args[0]}") from None
            except _NoJson:
                if not printed:
                    raise


class _NoJson(Breach):
    """A line of another kind, among those of JSON that a command prints."""


def _loaded(text: str, called: str) -> Any:
    try:
        return read_json(text)
    except (ValueError, RecursionError) as error:
        kind = _NoJson if isinstance(error, json.JSONDecodeError | RecursionError) else Breach
        raise kind(f"{called} holds no JSON: {error}") from error


def _inside(value: Any, parts: Sequence[str | int]) -> Any:
    """Return what is at a place of a JSON value. Raise LookupError, which says what is there instead."""
    for part in parts:
        number = int(part) if isinstance(part, int) or part.isdecimal() else None
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and number is not None and -len(value) <= number < len(value):
            value = value[number]
        else:
            there = f"an object with {listed(value)}" if isinstance(value, dict) else shown(value)
            raise LookupError(f"'{part}' is asked of {there}")
    return value


def _as_value(place: str, text: Any, how: Output) -> Any:
    """Return a text as a value of the declared type; JSON has types already. Raise Breach with its place."""
    kind = str(how.value)
    if how.key is not None or place.rpartition(",")[0].endswith(_JSON_LINES):
        if is_of(text, kind):
            return text
        raise Breach(f"{place}: {shown(text)}; expected {_EXPECTED.get(kind, kind)}")
    if kind == "str":
        return text
    bare = text.strip()
    number = _NUMBER.fullmatch(bare)
    if kind == "bool" and bare.lower() in _TRUTHS:
        return _TRUTHS[bare.lower()]
    if kind == "int" and re.fullmatch(r"[+-]?[0-9]{1,4000}", bare):
        return int(bare)
    if kind == "float" and number is not None and bare.isascii():
        try:
            return read_float(f"{number[1]}e{number[2] or number[3] or 0}" if number[1] else bare)
        except ValueError as error:
            raise Breach(f"{place}: {error}") from None
    if bare and set(bare) == {"*"}:
        raise Breach(f"{place}: {bare}; the number did not fit into the width that the program gave it")
    raise Breach(f"{place}: {shown(text)}; expected {_EXPECTED.get(kind, kind)}")
