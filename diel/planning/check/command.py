"""Checks of commands: each value can be quoted, and no shell runs a value as a program."""

import json
import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Sequence

from diel.base.errors import Problem
from diel.planning.check.scripts import texts_of
from diel.planning.check.violations import Check
from diel.site.site import Site
from diel.workflow.expressions import ExpressionError, Template, parse
from diel.workflow.expressions.shell import (
    PIPE,
    RESERVED,
    VALUE,
    Command,
    Quotes,
    Unquotable,
    Word,
    commands,
    places,
)
from diel.workflow.load import Document
from diel.workflow.load.nodes import Key
from diel.workflow.models.forms.axis import bare
from diel.workflow.models.stage import reads_quotes, shell_name

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
"""The longest names that are too short: they resemble many others."""
_PLAIN = re.compile(r"[A-Za-z0-9_./+-]+")


def check_command(check: Check, name: str) -> None:
    """Check that each value in a command can be quoted, and that no shell executes what it holds."""
    stage = check.workflow.stages[name]
    key = ("stages", name, "command")
    try:
        if isinstance(stage.command, str):
            template = parse(stage.command)
            if template.constant or reads_quotes(stage.interpreter):
                try:
                    template.check_shell()
                except ExpressionError as error:
                    check.add(key, error.message, error.hint, error.offset)
                _check_text(check, key, template)
            else:
                program = shell_name(stage.interpreter)
                message = f"a value cannot be quoted for {program}, which is not a POSIX shell"
                hint = "put it under `params`, and read it there from the JSON file that DIEL_PARAMS names"
                check.add(key, message, hint, template.expressions[0].offset)
        elif stage.command is not None:
            _check_list(check, key, [parse(w) if isinstance(w, str) else None for w in stage.command])
    except (ExpressionError, Unquotable):
        return  # another check reports it


def remarks(document: Document) -> Iterator[Problem]:
    """Warn of what is right, and hardly meant."""
    yield from _foreign_parameters(document)
    yield from _mistyped_outputs(document)


def _foreign_parameters(document: Document) -> Iterator[Problem]:
    """Report parameters as other tools write them: a shell or a path takes them as they are."""
    for name, stage in document.spec.stages.items():
        axes = {label: document.spec.axes[label] for label in stage.over}
        names = {own for label, axis in axes.items() for own in axis.parameters_of(label) or (bare(label),)}
        texts: list[tuple[Key, re.Pattern[str], str]] = [
            (("outputs", label), _SNAKEMAKE, output.path or output.file or "")
            for label, output in stage.outputs.items()
        ]
        if isinstance(stage.command, str):
            texts.insert(0, (("command",), _MAESTRO, stage.command))
        for key, pattern, text in texts:
            for match in pattern.finditer(text):
                if match[1] in names or match[1] == "LAUNCHER":
                    right = match[1] if match[1] in names else "launcher"
                    message = f"'{match[0]}' is taken as it is, and not as an expression"
                    hint = f"write ${{{{ {right} }}}}"
                    yield document.problem(("stages", name, *key), message, hint)


def _mistyped_outputs(document: Document) -> Iterator[Problem]:
    """Report outputs whose file a command does not name, where the command has a file of nearly that name."""
    for name, stage in document.spec.stages.items():
        text = " ".join(texts_of(stage))
        paths = {label: output.path or output.file for label, output in stage.outputs.items()}
        for label, path in paths.items():
            file = (path or "").rpartition("/")[2]
            if not file or "${{" in file or file in text or f"outputs.{label}" in text:
                continue
            unnamed = {*_FILE.findall(text)} - {*paths.values()} - {*map(str, stage.files.values())}
            if near := _nearly(file, unnamed):
                message = f"the command does not name '{file}', but it names '{near}'"
                hint = f"if it writes '{near}', write that here: a task without its output fails"
                yield document.problem(("stages", name, "outputs", label), message, hint)


def _nearly(file: str, names: Iterable[str]) -> str:
    """Return the other file with nearly this name and the same numbers; empty if there is none."""
    from difflib import get_close_matches  # only where a command does not name its output

    numbers = re.findall(r"[0-9]+", file)
    alike = [name for name in names if re.findall(r"[0-9]+", name) == numbers and len(name) > _SHORT]
    return next(iter(get_close_matches(file, alike, n=1, cutoff=0.85)), "")


def missing_shells(document: Document, site: Site) -> Iterator[Problem]:
    """Report shells of commands that this machine lacks, if the commands run here."""
    if site.scheduled:
        return  # a node looks for its own shell
    for name, stage in document.spec.stages.items():
        if stage.interpreter and "PATH" not in stage.env and shutil.which(stage.interpreter[0]) is None:
            message = f"the shell '{stage.interpreter[0]}' is not on this machine"
            hint = "install it, or write `shell: sh`, where a pipe's status is that of its last program"
            yield document.problem(("stages", name, "command"), message, hint)


def _check_text(check: Check, key: tuple[str, ...], template: Template) -> None:
    if template.constant:
        return
    literals = template.literals
    whole = VALUE.join(literals)
    for command in commands(literals):
        words = command.words
        for word, runner in printed(command):
            offset = template.expressions[word.values[0]].offset
            check.add(key, _message(runner), _HINTS.get(runner, _GIVEN), offset)
        for place, runner in (*executed(words), *evaluated(words)):
            word = words[place]
            sources = [template.expressions[number].source for number in word.values]
            written = _retold(whole, words, place, runner) if not any(w.expands for w in words) else ""
            for source in sources if written else ():
                written = written.replace(VALUE, f"${{{{ {source} }}}}", 1)
            offset = template.expressions[word.values[0]].offset
            check.add(key, _message(runner), _hint(runner, written), offset)


def _check_list(check: Check, key: tuple[str, ...], templates: Sequence[Template | None]) -> None:
    if all(part is None or part.constant for part in templates):
        return
    words = [Word(VALUE.join(part.literals)) if part is not None else Word() for part in templates]
    for place, runner in executed(words):
        template = templates[place]
        assert template is not None
        values = [f'"${{{{ {part.source} }}}}"' for part in template.expressions]
        as_written = [
            _yaml(word.text if part is None or part.constant else part.text)
            for word, part in zip(words, templates, strict=True)
        ]
        code = _with_arguments(words, place)
        written = ""
        if runner in SHELLS and code is not None:
            as_written[place] = _yaml(code)
            after = [] if len(words) > place + 1 else [runner]
            written = f"[{', '.join([*as_written, *after, *values])}]"
        check.add((*key, place), _message(runner), _hint(runner, written), template.expressions[0].offset)


def _message(runner: str) -> str:
    if runner in _HINTS and runner not in ("eval", "trap", "env", *_OTHER_SHELL):
        return f"the shell computes with a value in `{runner}`, and executes a $(...) that it holds"
    return f"a value in the program that {runner} runs: the shell would execute what it holds"


def _hint(runner: str, written: str) -> str:
    if written and len(written) <= _LONGEST:
        return f"write {written}"
    return _HINTS.get(
        runner, 'write "$@" there, and pass the value after the program: sh -c \'echo "$@"\' sh ${{ ... }}'
    )


def _retold(whole: str, words: Sequence[Word], place: int, runner: str) -> str:
    """Return a simple command of a text, rewritten; empty if that is impossible."""
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
    """Return a program with "$1" in place of each value; None if that is impossible."""
    code, arguments = words[place].text, words[place + 1 :]
    if any(VALUE in word.text for word in (*words[:place], *arguments)):
        return None
    if arguments and arguments[-1].text in (";", "+"):
        return None  # find's -exec ends there
    literals = code.split(VALUE)
    first = max(0, len(arguments) - 1) + 1
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


SHELLS = frozenset(
    {*("sh", "bash", "rbash", "dash", "ash", "ksh", "ksh93", "mksh", "yash", "zsh"), *("fish", "csh", "tcsh")}
)
_BEFORE = RESERVED | {"builtin", "command"}
"""Words after which a command begins."""
_WRAPPERS = frozenset(
    {"env", "nice", "nohup", "timeout", "stdbuf", "setsid", "taskset", "numactl", "ionice", "chrt", "xargs"}
    | {"exec", "sudo", "doas", "find", "flock", "srun", "mpiexec", "mpirun", "aprun", "jsrun", "busybox"}
    | {"singularity", "apptainer", "docker", "podman"}
)
"""Programs that start another one, named somewhere among their words."""
_WITH_C = frozenset({"su", "runuser", "script", "flock"})
_WRAPPED = frozenset({"env", "su", "runuser", "ssh", "rsh", "remsh"})
"""The start of another program, in a command that hands words to a shell."""
_REMOTE = frozenset({"ssh", "rsh", "remsh"})
_STARTING = (_WRAPPERS | _REMOTE) - {"xargs", "find"}
"""Programs that pass their own input to the program that they start."""
_SSH_VALUED = "BbcDEeFIiJLlmOopQRSWw"
_PRINTING = frozenset({"echo", "printf", "<<<"})
_FILTERS = frozenset(
    {"cat", "tee", "head", "tail", "sort", "uniq", "tr", "sed", "grep", "cut", "tac", "envsubst"}
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[[^]]*\])?\+?=")
_SUBSCRIPT = re.compile(rf"[A-Za-z_]\w*\[[^]]*{VALUE}")
_COMPARED = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v"})


def executed(words: Sequence[Word]) -> Iterator[tuple[int, str]]:
    """Yield the words of a simple command that hold a value and run as a program, and what runs them."""
    if any(os.path.basename(word.text) == "env" for word in words):
        places, split = zip(*_split(words), strict=True)
        yield from ((places[index], runner) for index, runner in _executed(split))
    else:
        yield from _executed(words)


def _executed(words: Sequence[Word]) -> Iterator[tuple[int, str]]:
    names = [os.path.basename(word.text) for word in words]
    for place, name in enumerate(names):
        if name in SHELLS:
            yield from _of_shell(words, place + 1, name)
    start = begin(words)
    for place in range(start, len(words) if names[start] in _WRAPPERS else start + 1):
        if place == start or (names[place] in _WRAPPED and names.index(names[place]) == place):
            for index in _handed(words, place, names[place]):
                if VALUE in words[index].text:
                    yield index, names[place]


def printed(command: Command) -> Iterator[tuple[Word, str]]:
    """Yield the words by which a command prints a value to a shell that runs it, and that shell."""
    shell = _reading_shell(command.words)
    for writer in _through(command.reads) if shell else ():
        if _name(writer) in _PRINTING and not any("%q" in word.text for word in writer.words):
            yield from ((word, shell) for word in writer.words if VALUE in word.text)


def _through(reads: Iterable[Command]) -> Iterable[Command]:
    """Return the commands that a command reads from; through filters, also the commands before those."""
    todo, visited = list(reads), dict[int, Command]()
    while todo:
        command = todo.pop()
        if id(command) not in visited and _name(command) in _FILTERS:
            todo.extend(command.reads)
        visited[id(command)] = command
    return visited.values()


def _name(command: Command) -> str:
    return os.path.basename(command.words[begin(command.words)].text)


def _reading_shell(words: Sequence[Word]) -> str:
    """Return the shell that runs a command's input; empty if it runs a file, or a text after -c."""
    start = begin(words)
    name = os.path.basename(words[start].text)
    if name in ("source", ".") and any(word.text == PIPE for word in words[start + 1 : start + 2]):
        return name
    if name in _REMOTE and not list(_behind_host(words, start + 1)):
        return name
    for place in range(start, len(words) if name in _STARTING else start + 1):
        shell = os.path.basename(words[place].text)
        if shell in SHELLS:
            letters, operand = _behind_options(words, place + 1)
            reads = "s" in letters or operand == len(words) or words[operand].text in ("-", PIPE)
            return shell if reads and "c" not in letters else ""
    return ""


def evaluated(words: Sequence[Word]) -> Iterator[tuple[int, str]]:
    """Yield the words of `eval`, and of arithmetic, where a shell would run a value such as `x[$(...)]`."""
    start = begin(words)
    for place in _built_in(words, start):
        if VALUE in words[place].text:
            yield place, words[start].text
    for place, word in enumerate(words):
        if _SUBSCRIPT.match(word.text):
            yield place, "[...]"


def begin(words: Sequence[Word]) -> int:
    """Return the place of the program: after assignments, and words such as `then`."""
    place = 0
    while place < len(words) - 1 and (words[place].text in _BEFORE or _ASSIGNMENT.match(words[place].text)):
        place += 1
    return place


def _of_shell(words: Sequence[Word], place: int, name: str) -> Iterator[tuple[int, str]]:
    """Yield the text after a shell's -c: also after -lc, and after `-c -o pipefail`."""
    letters, operand = _behind_options(words, place)
    if "c" in letters or (name == "fish" and "C" in letters):
        options = (n for n in range(place, operand) if words[n].text[:1] in ("-", "+"))
        for n in (*options, operand):
            if n < len(words) and VALUE in words[n].text:
                yield n, name


def _behind_options(words: Sequence[Word], place: int) -> tuple[str, int]:
    """Return the letters of a shell's options, and the place where its first operand would be."""
    letters = ""
    while place < len(words) and re.match("[-+].", words[place].text):
        text = words[place].text
        long = text.startswith("--")
        letters += "c" * text.startswith(("--command", "--init-command")) if long else text[1:]
        takes = text in ("--rcfile", "--init-file") if long else text[-1] in "oO"
        place += 2 if takes else 1
    return letters, min(place, len(words))


def _handed(words: Sequence[Word], place: int, name: str) -> Iterator[int]:
    """Yield the words that a program hands to a shell or runs as a program."""
    rest = range(place + 1, len(words))
    if name in _WITH_C:
        yield from (n for n in rest if words[n - 1].text in ("-c", "--command", "--session-command"))
        yield from (n for n in rest if words[n].text.startswith("--command="))
    elif name == "env":
        yield from (n for n in rest if words[n - 1].text in ("-S", "--split-string", "-vS"))
        yield from (n for n in rest if words[n].text.startswith(("-S", "--split-string=")))
    elif name in _REMOTE:
        yield from _behind_host(words, place + 1)
    elif name in ("watch", "parallel"):
        end = next((n for n in rest if words[n].text.startswith(":::")), len(words))
        yield from range(place + 1, end)


def _split(words: Sequence[Word]) -> Iterator[tuple[int, Word]]:
    """Yield the words, each with its place; a text without a value after env -S is split, as env does."""
    for place, word in enumerate(words):
        option, text = words[place - 1].text if place else "", word.text
        attached = next((text.removeprefix(o) for o in ("-S", "--split-string=") if text.startswith(o)), "")
        split = text if option in ("-S", "--split-string", "-vS") else attached
        for part in split.split() if split and VALUE not in text else ():
            yield place, Word(part)
        if not split.strip() or VALUE in text:
            yield place, word


def _built_in(words: Sequence[Word], place: int) -> Iterator[int]:
    """Yield the words that a shell's built-in command reads as a program, or computes with."""
    name, rest = words[place].text, range(place + 1, len(words))
    if name in ("eval", "let"):
        yield from rest
    elif name == "trap":
        yield from [n for n in rest if not words[n].text.startswith("-")][:1]
    elif name in ("declare", "typeset", "local", "export", "readonly"):
        if any(re.match("-[A-Za-z]*i", words[n].text) for n in rest):
            yield from rest
    elif name == "[[":
        if any(words[n].text in _COMPARED for n in rest):
            yield from rest
    elif name in ("[", "test"):
        yield from (n for n in rest if words[n - 1].text == "-v")


def _behind_host(words: Sequence[Word], place: int) -> Iterator[int]:
    """Yield the words that ssh joins and hands to the other host's shell."""
    while place < len(words) and words[place].text.startswith("-"):
        text = words[place].text
        place += 2 if len(text) == 2 and text[1] in _SSH_VALUED else 1
    yield from range(place + 1, len(words))
