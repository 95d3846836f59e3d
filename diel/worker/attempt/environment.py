"""The environment of an attempt: its variables, the words before its programs, the Python of its function.

Lines for bash are evaluated once in a worker, or for each attempt if they name a DIEL_ variable: loading
modules can take seconds. Limits and umask that they change are set again in front of the program.
"""

import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from diel.base.carried import PYTHON
from diel.base.states import FailureClass
from diel.worker.attempt.bundle import Failure
from diel.worker.attempt.command import spawn
from diel.worker.attempt.watchdog import RunningAttempt, Watchdog
from diel.worker.environments.prepared import PreparedEnvironment
from diel.worker.environments.runtime import NoContainer, start_words

_EVALUATE = r"""
diel_told=$1 diel_folder=$2; shift 2
exec >"$diel_told.said" 2>&1
diel_limits() { umask; ulimit -S -a; }
diel_before=$(diel_limits)
cd "$diel_folder" || exit 97
trap 'printf "\0%s\0%s" "$?" "$diel_line"' EXIT
for diel_line in "$@"; do
  eval "$diel_line" || exit
done
trap - EXIT
{ printf '%s\0' "$diel_before" "$(diel_limits)"; command -p env -0; } >"$diel_told"
"""
"""Evaluates lines, and writes umask and limits before and after them, then all variables."""
_LIMIT = re.compile(r"-(\w)\)\s+(\S+)$")
_THREADS = "OMP_NUM_THREADS"
"""What diel tells the lines, which may change it."""
_OF_TASK = re.compile(r"\bDIEL_")
_SHELL_OWN = ("_", "SHLVL", "PWD", "OLDPWD")
_SAID = 500
GUEST = str(Path(__file__).parents[1] / "foreign_importer.py")
"""Calls a function in a Python that has no diel of its own."""


Run = Callable[[tuple[str, ...], Mapping[str, str]], None]
"""Runs a program with these variables to its end; raises Failure unless it exits with 0."""


class SetupResult(NamedTuple):
    """What lines left behind."""

    variables: Mapping[str, str]
    words: tuple[str, ...]
    """Words before a program that set umask and limits; none if these are as before."""


_known: dict[tuple[str, ...], SetupResult] = {}
"""By folder, threads and lines; a worker is of one run."""


def surround(
    attempt: RunningAttempt,
    base: Mapping[str, str],
    own: Mapping[str, str],
    declared: Mapping[str, str],
    dog: Watchdog,
    disk: str = "",
) -> dict[str, str]:
    """Return the variables of an attempt in its environment; note its words and its Python in the attempt.
    `base` are those of the worker, `own` what diel tells the task, `declared` what its stage says, `disk` the
    node's own. Raise Failure (`launch`) where the environment cannot be entered."""
    prepared, module = attempt.environment, attempt.work.module
    assert prepared is not None

    def run(words: tuple[str, ...], env: Mapping[str, str]) -> None:
        spawn(words, env, dog, attempt)
        attempt.group = None
        dog.begin(attempt)

    shell = {name: value for name, value in declared.items() if name in attempt.work.from_shell}
    declared = {name: value for name, value in declared.items() if name not in shell}
    of_task = any(_OF_TASK.search(line) for line in prepared.lines)
    key = (prepared.folder, own[_THREADS], *prepared.lines, *map("=".join, shell.items()))
    evaluated = None if of_task else _known.get(key)
    if evaluated is None:
        start = {**base, **shell, **(own if of_task else {_THREADS: own[_THREADS]})}
        evaluated = evaluate(prepared, attempt.task_dir, start, run, sys.stderr.write)
        if not of_task:
            _known[key] = evaluated
    own = {name: value for name, value in own.items() if name != _THREADS}
    sees = [disk]
    if module is not None:
        sees += [str(Path(GUEST).parents[1]), *borrowed()]
        sees += [os.path.dirname(module.path)] if module.import_name is None else []
    env, attempt.inside = enter(prepared, evaluated, attempt.task_dir, {**own, **declared}, sees)
    attempt.caller = _caller(prepared, base, env)
    attempt.lent = borrowed() if GUEST in attempt.caller else ()
    return env


def enter(
    prepared: PreparedEnvironment,
    evaluated: SetupResult,
    folder: str,
    declared: Mapping[str, str],
    sees: Sequence[str] = (),
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Work out a program's variables and the words before it; a container `sees` more. Raises Failure."""
    if gone := prepared.gone:
        hint = "`diel resume` makes again what diel made, once the rest is back"
        raise Failure(
            FailureClass.LAUNCH, f"environment '{prepared.name}': {gone} is not on this node; {hint}"
        )
    env = {**evaluated.variables}
    if prepared.prefix:
        env |= {
            "VIRTUAL_ENV": prepared.prefix,
            "PATH": f"{prepared.prefix}/bin:{env.get('PATH', os.defpath)}",
        }
    env |= {**prepared.variables, **declared}
    if prepared.container is None:
        return env, evaluated.words
    places = [place for place in (*prepared.sees, *sees, env.get("TMPDIR", "")) if os.path.isdir(place)]
    try:
        words = start_words(prepared.container, folder, places, env, {n: env[n] for n in prepared.variables})
    except NoContainer as error:
        raise Failure(FailureClass.LAUNCH, f"environment '{prepared.name}': {error}") from error
    return env, (*evaluated.words, *words)


def evaluate(
    prepared: PreparedEnvironment, folder: str, env: Mapping[str, str], run: Run, say: Callable[[str], object]
) -> SetupResult:
    """Evaluate an environment's lines in a folder; `say` gets their output if one fails. Raises Failure."""
    if not prepared.lines:
        return SetupResult(env, ())
    answer = Path(folder) / ".environment"
    messages = answer.with_name(".environment.said")
    try:
        run(("bash", "-c", _EVALUATE, "diel", str(answer), prepared.folder, *prepared.lines), env)
        before, after, *variables = answer.read_text("utf-8", "surrogateescape").split("\0")[:-1]
    except (Failure, OSError, ValueError) as error:
        if isinstance(error, Failure) and error.kind != FailureClass.APP:
            raise
        raise Failure(FailureClass.LAUNCH, _why(prepared, messages, say)) from error
    finally:
        for path in (answer, messages):
            path.unlink(missing_ok=True)
    entries = dict(entry.partition("=")[::2] for entry in variables)
    own = {name: env[name] for name in _SHELL_OWN if name in env}
    return SetupResult(
        {n: v for n, v in entries.items() if n not in _SHELL_OWN} | own, _limits(before, after)
    )


def _why(prepared: PreparedEnvironment, messages: Path, say: Callable[[str], object]) -> str:
    try:
        text = messages.read_text("utf-8", "replace")
    except OSError:
        text = ""
    text, _, position = text.partition("\0")
    code, _, line = position.partition("\0")
    say(text)
    tail = text.strip()[-_SAID:]
    because = f": {tail}" if tail else ""
    what = f"`{line[:200]}`" if line else "its lines"
    if "diel_" in line and tail:  # not of the user's
        return f"environment '{prepared.name}': {tail}"
    how = "ended the shell" if code in ("", "0") else f"failed (exit code {code})"
    return f"environment '{prepared.name}': {what} {how}{because}"


def _limits(before: str, after: str) -> tuple[str, ...]:
    """Words that set what differs: `bash -c 'umask 0027; ulimit -S -s unlimited; exec "$@"' bash`."""
    old, new = before.splitlines(), after.splitlines()
    if old == new:
        return ()
    changed = [f"umask {new[0]}"] if new[0] != old[0] and new[0].isdecimal() else []
    pairs = [_LIMIT.search(line) for line in new[1:] if line not in old]
    changed += [f"ulimit -S -{pair[1]} {pair[2]}" for pair in pairs if pair is not None]
    return ("bash", "-c", "; ".join([*changed, 'exec "$@"']), "bash") if changed else ()


def _caller(
    prepared: PreparedEnvironment, base: Mapping[str, str], env: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the words that call a function: diel's own Python, or the one that the environment brings."""
    if prepared.container is not None:
        return ("python3", GUEST)
    python = shutil.which("python3", path=env.get("PATH", os.defpath))
    if python is None or python == shutil.which("python3", path=base.get("PATH", os.defpath)):
        return (*PYTHON, "-m", "diel.worker.function_runner")
    return (python, GUEST)


def borrowed() -> tuple[str, ...]:
    """Return the directories of the packages that a guest may take from this Python, where it lacks them."""
    import psutil  # here and below: only for their places
    import xxhash

    return tuple(os.path.dirname(str(package.__file__)) for package in (psutil, xxhash))
