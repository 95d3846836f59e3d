"""Undeclared variables of the shell that a command's text reads by name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from diel.carried import is_place
from diel.spec.stage import Stage, reads_quotes
from diel.spec.workflow import Workflow

_QUOTED = r"""\$\{\{.*?\}\}|\\.|'[^']*'|"(?:\\.|[^"\\])*\"|(?<!\S)#[^\n]*"""
_READ = re.compile(r"\$\{\{.*?\}\}|\\.|\$\{?[#!]?([A-Za-z_]\w*)", re.DOTALL)
_TEXT = re.compile(rf"{_QUOTED}|\$\{{?[#!]?([A-Za-z_]\w*)", re.DOTALL)
_SUM = re.compile(r"\$\(\((.*?)\)\)", re.DOTALL)
_BY_NAME = re.compile(r"""\b(?:printenv\s+|(?:environ(?:\.get\(|\[)|getenv\()\s*["'])([A-Za-z_]\w*)""")
_SET = re.compile(r"""(?:^|[\s;&|(`])([A-Za-z_]\w*)\+?=(?:"[^"]*"|\S)*""")
_LISTED = re.compile(
    r"\b(?:for|select|read|local|declare|typeset|readarray|mapfile|getopts \S+)((?: +[-\w]+)+)"
)
_OWN = re.compile(
    r"BASH(?:_\w+|PID|OPTS)?|RANDOM|SRANDOM|SECONDS|EPOCH(?:SECONDS|REALTIME)|LINENO|PWD|OLDPWD|IFS|OPT(?:ARG|IND|ERR)|REPLY|E?UID|PPID|"
    r"HOSTTYPE|MACHTYPE|OSTYPE|SHLVL|FUNCNAME|PIPESTATUS|GROUPS|DIRSTACK|_|LC_[A-Z]+|OMP_NUM_THREADS"
)
"""What a shell or diel sets."""


class FromShell(str):
    """A value of a stage's `env` that is the user's shell's: an environment may set another."""


def read_variables(workflow: Workflow, stage: Stage) -> dict[str, int]:
    """Return the variables that a stage's command reads by name, if neither diel sets them nor the stage or
    its environment declares them, with the place in the text of each; 0 for a command that is a list, and
    for the lines of an environment, which are read before it."""
    around = workflow.environments.get(stage.environment or "")
    lines = "" if around is None else "".join(f"{line}\n" for line in around.setup)
    declared = {*stage.env, *(() if around is None else around.variables)}
    places: dict[str, int] = {}
    for name, place in _read(stage, lines):
        if name not in declared and not (is_place(name) or _OWN.fullmatch(name)):
            places.setdefault(name, max(0, place) if isinstance(stage.command, str) else 0)
    return places


def _read(stage: Stage, lines: str) -> Iterator[tuple[str, int]]:
    if is_text := isinstance(stage.command, str):
        texts = [stage.command]
    else:
        words = [word for word in stage.command or () if isinstance(word, str)]
        texts = [word for before, word in pairwise(words) if re.fullmatch(r"-\w*c", before)]
    for text in texts or [""]:
        if not is_text or reads_quotes(stage.interpreter):
            yield from ((name, place - len(lines)) for name, place in _in_shell(lines + text))
        yield from ((match[1], match.start(1)) for match in _BY_NAME.finditer(text))


def _in_shell(text: str) -> Iterator[tuple[str, int]]:
    """Yield the variables that a shell reads, and that the text has not set before."""
    own = {match[1]: match.span() for match in reversed([*_SET.finditer(text)])}
    for match in _LISTED.finditer(text):
        own.update(dict.fromkeys(match[1].split(), match.span()))
    for name, place in sorted(_names(text), key=lambda pair: pair[1]):
        begin, end = own.get(name, (len(text), 0))
        if place < begin or (place < end and text[begin:end].find("=") > 0):
            yield name, place


def _names(text: str) -> Iterator[tuple[str, int]]:
    for match in _TEXT.finditer(text):
        if match[1]:
            yield match[1], match.start()
        elif match[0].startswith('"'):
            inner = _READ.finditer(match[0])
            yield from ((part[1], match.start() + part.start()) for part in inner if part[1])
    for match in _SUM.finditer(text):
        yield from ((part[0], match.start()) for part in re.finditer(r"(?<!\$)\b[A-Za-z_]\w*", match[1]))


def shell_of(workflow: Workflow, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the values of all variables that its commands read by name and nothing declares."""
    names = {name for stage in workflow.stages.values() for name in read_variables(workflow, stage)}
    values = {name: environ[name] for name in sorted(names) if name in environ}
    return {name: value for name, value in values.items() if not re.search("[\ud800-\udfff]|\\${{", value)}


def apply_shell(workflow: Workflow, shell: Mapping[str, str]) -> None:
    """Declare for each stage the variables of these that its command reads; its environment beats them."""
    for name, stage in workflow.stages.items() if shell else ():
        if read := {key: FromShell(shell[key]) for key in read_variables(workflow, stage) if key in shell}:
            workflow.stages[name] = stage.model_copy(update={"env": {**read, **stage.env}})


def apply_sizes(workflow: Workflow, sizes: Mapping[str, Mapping[str, Any]]) -> None:
    """Give stages these resources: sizes in bytes, durations in seconds."""
    for name, size in sizes.items():
        if name in workflow.stages:
            stage = workflow.stages[name]
            resources = stage.resources.model_copy(update=dict(size))
            workflow.stages[name] = stage.model_copy(update={"resources": resources})
