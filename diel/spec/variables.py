"""Undeclared variables of the shell that a command's text reads by name."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from diel.carried import is_place
from diel.expressions.variables import variables_in, variables_of
from diel.spec.stage import Stage, reads_quotes
from diel.spec.workflow import Workflow

_BY_NAME = re.compile(
    r"""(?:(?:\benviron(?:\.(?:get|pop|setdefault)\(|\[)|getenv\(|\bENV(?:IRON)?\[)\s*\\?["']|\bENV\{["']?|"""
    r"""(?:\benv|\$ENV)\.(?=[A-Z_]+\b))([A-Za-z_]\w*)(?!\w|\\?["']\]\s*=[^=])"""
)
_OWN = re.compile(
    r"BASH(?:_\w+|PID|OPTS)?|S?RANDOM|SECONDS|EPOCH(?:SECONDS|REALTIME)|LINENO|PWD|OLDPWD|IFS|_|REPLY|E?UID|PPID|"
    r"OPT(?:ARG|IND|ERR)|HOSTTYPE|MACHTYPE|OSTYPE|SHLVL|FUNCNAME|PIPESTATUS|GROUPS|DIRSTACK|LC_[A-Z]+|OMP_NUM_THREADS"
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
    text = stage.command if isinstance(stage.command, str) else ""
    words = [word for word in (not text and stage.command) or () if isinstance(word, str)]
    if not text or reads_quotes(stage.interpreter):
        yield from ((name, place - len(lines)) for name, place in variables_in(lines + text))
    yield from ((match[1], match.start(1)) for match in _BY_NAME.finditer(text or " ".join(words)))
    names = [*variables_of(words)]
    for script, target in ((file.filling.text, file.target) for file in stage.rendered.values()):
        is_shell = target.endswith("sh") or re.match(r"#!.*sh\b", script)
        names += [*_BY_NAME.findall(script), *(name for name, _ in variables_in(script if is_shell else ""))]
    yield from ((name, 0) for name in names)


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
