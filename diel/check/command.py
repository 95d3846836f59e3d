"""Checks of commands: each value can be quoted, and none is in a word that a shell runs as a program."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Sequence

from diel.check.flaws import Check
from diel.check.scripts import texts_of
from diel.errors import Problem
from diel.expressions import ExpressionError, Template, parse
from diel.expressions.program import SHELLS, begin, evaluated, executed, printed
from diel.expressions.shell import VALUE, Quotes, Unquotable, Word, commands, places
from diel.load import Document
from diel.load.nodes import Key
from diel.site import Site
from diel.spec.forms.axis import bare
from diel.spec.stage import reads_quotes, shell_name

_LONGEST = 300
"""The longest command that a hint rewrites, in characters."""
_OTHER_SHELL = ("ssh", "rsh", "remsh", "watch", "parallel", "su", "runuser", "script", "flock")
_HINTS = {
    "eval": "omit `eval`, or set a variable first: x=${{ ... }}",
    "trap": "set a variable first, and name it in single quotes: f=${{ ... }}; trap 'rm \"$f\"' EXIT",
    "env": "write the words one by one, without -S",
    **dict.fromkeys(_OTHER_SHELL, 'quote it for that shell: "$(printf %q ${{ ... }})"'),
    "[[": "write [ ... ] with one bracket, or compute inside ${{ }}",
    **dict.fromkeys(("[", "test"), "name the variable itself after -v, or compute inside ${{ }}"),
    **dict.fromkeys(("let", "[...]"), "compute inside ${{ }}"),
    **dict.fromkeys(("declare", "typeset", "local", "export", "readonly"), "compute inside ${{ }}"),
}
_GIVEN = "pass it as an argument: sh -c 'echo \"$@\"' sh ${{ ... }}"
_FILE = re.compile(r"[\w.-]*\w\.\w+")
_MAESTRO = re.compile(r"\$\((\w+)\)")
_SNAKEMAKE = re.compile(r"(?<!\{)\{(\w+)\}")
_SHORT = 6
"""Names of files that are no longer are like many others."""
_PLAIN = re.compile(r"[A-Za-z0-9_./+-]+")


def check_command(found: Check, name: str) -> None:
    """Checks that each value in a command can be quoted, and that no shell executes what it holds."""
    stage = found.workflow.stages[name]
    key = ("stages", name, "command")
    try:
        if isinstance(stage.command, str):
            template = parse(stage.command)
            if template.constant or reads_quotes(stage.interpreter):
                try:
                    template.check_shell()
                except ExpressionError as error:
                    found.add(key, error.message, error.hint, error.offset)
                _check_text(found, key, template)
            else:
                program = shell_name(stage.interpreter)
                message = f"a value cannot be quoted for {program}, which is not a POSIX shell"
                hint = "put it under `params`, and read it there from the JSON file that DIEL_PARAMS names"
                found.add(key, message, hint, template.expressions[0].offset)
        elif stage.command is not None:
            _check_list(found, key, [parse(w) if isinstance(w, str) else None for w in stage.command])
    except (ExpressionError, Unquotable):
        return  # which has its own message


def remarks(document: Document) -> Iterator[Problem]:
    """Warnings: what is right, and hardly meant."""
    yield from _foreign_parameters(document)
    yield from _mistyped_outputs(document)


def _foreign_parameters(document: Document) -> Iterator[Problem]:
    """Parameters as other tools write them, which a shell or a path takes as they are."""
    for name, stage in document.spec.stages.items():
        axes = {label: document.spec.axes[label] for label in stage.over}
        known = {one for label, axis in axes.items() for one in axis.parameters_of(label) or (bare(label),)}
        texts: list[tuple[Key, re.Pattern[str], str]] = [
            (("outputs", label), _SNAKEMAKE, output.path or output.file or "")
            for label, output in stage.outputs.items()
        ]
        if isinstance(stage.command, str):
            texts.insert(0, (("command",), _MAESTRO, stage.command))
        for key, pattern, text in texts:
            for match in pattern.finditer(text):
                if match[1] in known or match[1] == "LAUNCHER":
                    right = match[1] if match[1] in known else "launcher"
                    message = f"'{match[0]}' is taken as it is, and not as an expression"
                    hint = f"write ${{{{ {right} }}}}"
                    yield document.problem(("stages", name, *key), message, hint)


def _mistyped_outputs(document: Document) -> Iterator[Problem]:
    """Outputs whose file a command does not name, though it names one that is called nearly so."""
    for name, stage in document.spec.stages.items():
        text = " ".join(texts_of(stage))
        paths = {label: output.path or output.file for label, output in stage.outputs.items()}
        for label, path in paths.items():
            file = (path or "").rpartition("/")[2]
            if not file or "${{" in file or file in text or f"outputs.{label}" in text:
                continue
            others = {
                one for one in _FILE.findall(text) if one not in (*paths.values(), *stage.files.values())
            }
            if near := _nearly(file, others):
                message = f"the command does not name '{file}', but it names '{near}'"
                hint = f"if it writes '{near}', write that here: a task without its output fails"
                yield document.problem(("stages", name, "outputs", label), message, hint)


def _nearly(file: str, others: Iterable[str]) -> str:
    """The one of other files that is called nearly so, numbers apart; empty if none is."""
    from difflib import get_close_matches  # only where a command does not name its output

    numbers = re.findall(r"[0-9]+", file)
    alike = [one for one in others if re.findall(r"[0-9]+", one) == numbers and len(one) > _SHORT]
    return next(iter(get_close_matches(file, alike, n=1, cutoff=0.85)), "")


def missing_shells(document: Document, site: Site) -> Iterator[Problem]:
    """Shells of commands that this machine lacks, if it is the one that runs them."""
    if site.scheduled:
        return  # a node's shell is found by the node
    for name, stage in document.spec.stages.items():
        if stage.interpreter and "PATH" not in stage.env and shutil.which(stage.interpreter[0]) is None:
            message = f"the shell '{stage.interpreter[0]}' is not on this machine"
            hint = "install it, or write `shell: sh`, where a pipe's status is that of its last program"
            yield document.problem(("stages", name, "command"), message, hint)


def _check_text(found: Check, key: tuple[str, ...], template: Template) -> None:
    if template.constant:
        return
    literals = template.literals
    whole = VALUE.join(literals)
    for command in commands(literals):
        words = command.words
        for word, runner in printed(command):
            offset = template.expressions[word.values[0]].offset
            found.add(key, _message(runner), _HINTS.get(runner, _GIVEN), offset)
        for place, runner in (*executed(words), *evaluated(words)):
            word = words[place]
            sources = [template.expressions[number].source for number in word.values]
            written = _retold(whole, words, place, runner) if not any(w.expands for w in words) else ""
            for source in sources if written else ():
                written = written.replace(VALUE, f"${{{{ {source} }}}}", 1)
            offset = template.expressions[word.values[0]].offset
            found.add(key, _message(runner), _hint(runner, written), offset)


def _check_list(found: Check, key: tuple[str, ...], templates: Sequence[Template | None]) -> None:
    if all(one is None or one.constant for one in templates):
        return
    words = [Word(VALUE.join(one.literals)) if one is not None else Word() for one in templates]
    for place, runner in executed(words):
        template = templates[place]
        assert template is not None
        values = [f'"${{{{ {one.source} }}}}"' for one in template.expressions]
        as_written = [
            _yaml(word.text if one is None or one.constant else one.text)
            for word, one in zip(words, templates, strict=True)
        ]
        code = _with_arguments(words, place)
        written = ""
        if runner in SHELLS and code is not None:
            as_written[place] = _yaml(code)
            after = [] if len(words) > place + 1 else [runner]
            written = f"[{', '.join([*as_written, *after, *values])}]"
        found.add((*key, place), _message(runner), _hint(runner, written), template.expressions[0].offset)


def _message(runner: str) -> str:
    if runner in _HINTS and runner not in ("eval", "trap", "env", *_OTHER_SHELL):
        return f"the shell computes with a value in `{runner}`, and executes a $(...) that it holds"
    return f"a value in the program that {runner} runs: the shell would execute what it holds"


def _hint(runner: str, written: str) -> str:
    if written and len(written) <= _LONGEST:
        return f"write {written}"
    return _HINTS.get(
        runner,
        'write "$@" there, and pass the value after the program: sh -c \'echo "$@"\' sh ${{ ... }}',
    )


def _retold(whole: str, words: Sequence[Word], place: int, runner: str) -> str:
    """A simple command of a text, rewritten; empty if that is impossible."""
    start = words[begin(words)].start
    if runner == "eval":
        return " ".join(word.text for word in words[place:]) if len(words) == place + 1 else ""
    code = _with_arguments(words, place)
    if runner not in SHELLS or code is None:
        return ""
    after = whole[words[place].end : words[-1].end] or f" {runner}"
    values = " ".join([VALUE] * len(words[place].values))
    return f"{whole[start : words[place].start]}{shlex.quote(code)}{after} {values}"


def _with_arguments(words: Sequence[Word], place: int) -> str | None:
    """A program with "$1" in place of each value; None if that is impossible."""
    code, given = words[place].text, words[place + 1 :]
    if any(VALUE in word.text for word in (*words[:place], *given)):
        return None
    if given and given[-1].text in (";", "+"):
        return None  # of find's -exec, which ends there
    literals = code.split(VALUE)
    first = max(0, len(given) - 1) + 1
    try:
        where = places(literals)
    except Unquotable:
        return None
    text = literals[0]
    for number, (spot, literal) in enumerate(zip(where, literals[1:], strict=True)):
        name = "@" if len(where) == 1 and first == 1 else f"{first + number}"
        variable = f"${name}" if not re.match(r"\w", literal) or name == "@" else f"${{{name}}}"
        text += {Quotes.BARE: f'"{variable}"', Quotes.DOUBLE: variable, Quotes.SINGLE: f"'\"{variable}\"'"}[
            spot
        ]
        text += literal
    return re.sub(r"''(\"\$[@\w]+\")''", r"\1", text)


def _yaml(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    return json.dumps(text, ensure_ascii=False) if "\n" in text else "'" + text.replace("'", "''") + "'"
