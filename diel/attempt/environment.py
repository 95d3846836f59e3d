"""The environment of an attempt: its variables, the words before its programs, the Python of its function.

Lines for bash are evaluated once in a worker, by a shell whose variables are then read: loading modules can
take seconds. Lines that name a variable of the task (DIEL_…) are evaluated for each attempt. What else lines
change and a program inherits, its limits and umask, is set again in front of it.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from diel.attempt.bundle import Failure
from diel.attempt.command import spawn
from diel.attempt.watchdog import RunningAttempt, Watchdog
from diel.environments.prepared import Prepared
from diel.environments.runtime import NoContainer, start_words
from diel.states import FailureClass

_EVALUATE = r"""
diel_told=$1 diel_folder=$2; shift 2
exec >"$diel_told.said" 2>&1
diel_limits() { umask; ulimit -S -a; }
diel_before=$(diel_limits)
cd "$diel_folder" || exit 97
for diel_line in "$@"; do
  eval "$diel_line" || { diel_code=$?; printf '\0%s\0%s' "$diel_code" "$diel_line"; exit 97; }
done
{ printf '%s\0' "$diel_before" "$(diel_limits)"; command -p env -0; } >"$diel_told"
"""
"""Evaluates lines, and writes umask and limits before and after them, then all variables."""
_FAILED = 97
_LIMIT = re.compile(r"-(\w)\)\s+(\S+)$")
_OF_TASK = re.compile(r"\bDIEL_")
_SHELL_OWN = ("_", "SHLVL", "PWD", "OLDPWD")
_SAID = 500
"""The most characters of what a line said that a message shows."""
GUEST = str(Path(__file__).parents[1] / "worker" / "guest.py")
"""Calls a function in a Python that has no diel of its own."""


class Evaluated(NamedTuple):
    """What lines left behind."""

    variables: Mapping[str, str]
    words: tuple[str, ...]
    """Words before a program that set umask and limits; none if these are as before."""


_known: dict[tuple[str, str], Evaluated] = {}
"""By folder and lines; a worker is of one run."""


def surround(
    attempt: RunningAttempt,
    base: Mapping[str, str],
    own: Mapping[str, str],
    given: Mapping[str, str],
    dog: Watchdog,
    disk: str = "",
) -> dict[str, str]:
    """The variables of an attempt in its environment; its words and its Python are noted in the attempt.

    `base` are those of the worker, `own` what diel tells the task, `given` what its stage says, `disk` the
    node's own. Raises Failure (`launch`) where the environment cannot be entered.
    """
    wanted = attempt.environment
    assert wanted is not None
    if wanted.prefix and not os.path.isdir(wanted.prefix):
        message = (
            f"environment '{wanted.name}': its packages are gone: {wanted.prefix}; resume makes them again"
        )
        raise Failure(FailureClass.LAUNCH, message)
    evaluated = _evaluated(wanted, attempt, {**base}, {**base, **own}, dog)
    env = {**evaluated.variables}
    if wanted.prefix:
        env |= {"VIRTUAL_ENV": wanted.prefix, "PATH": f"{wanted.prefix}/bin:{env.get('PATH', os.defpath)}"}
    env |= {**wanted.variables, **own, **given}
    attempt.caller = _caller(wanted, base, env)
    attempt.lent = borrowed() if GUEST in attempt.caller else ()
    attempt.inside = evaluated.words
    if wanted.container is not None:
        attempt.inside += _container_words(wanted, attempt, env, disk)
    return env


def _evaluated(
    wanted: Prepared, attempt: RunningAttempt, base: Mapping[str, str], full: Mapping[str, str], dog: Watchdog
) -> Evaluated:
    if not wanted.lines:
        return Evaluated(base, ())
    if any(_OF_TASK.search(line) for line in wanted.lines):
        return _evaluate(wanted, attempt, full, dog)
    key = (wanted.folder, "\n".join(wanted.lines))
    if key not in _known:
        _known[key] = _evaluate(wanted, attempt, base, dog)
    return _known[key]


def _evaluate(wanted: Prepared, attempt: RunningAttempt, env: Mapping[str, str], dog: Watchdog) -> Evaluated:
    """Raises Failure (`launch`) with the line that failed, and with what it said."""
    told = Path(attempt.task_dir) / ".environment"
    said = told.with_name(".environment.said")
    try:
        spawn(("bash", "-c", _EVALUATE, "diel", str(told), wanted.folder, *wanted.lines), env, dog, attempt)
        before, after, *variables = told.read_text("utf-8", "surrogateescape").split("\0")[:-1]
    except (Failure, OSError, ValueError) as error:
        if isinstance(error, Failure) and error.kind != FailureClass.APP:
            raise
        raise Failure(FailureClass.LAUNCH, _why(wanted, said)) from error
    finally:
        for path in (told, said):
            path.unlink(missing_ok=True)
    attempt.group = None
    dog.begin(attempt)
    found = dict(entry.partition("=")[::2] for entry in variables)
    own = {name: env[name] for name in _SHELL_OWN if name in env}
    return Evaluated({n: v for n, v in found.items() if n not in _SHELL_OWN} | own, _limits(before, after))


def _why(wanted: Prepared, said: Path) -> str:
    try:
        text = said.read_text("utf-8", "replace")
    except OSError:
        text = ""
    text, _, told = text.partition("\0")
    code, _, line = told.partition("\0")
    sys.stderr.write(text)
    tail = text.strip()[-_SAID:]
    because = f": {tail}" if tail else ""
    if not line:
        return f"environment '{wanted.name}': its lines ended the shell{because}"
    return f"environment '{wanted.name}': `{line[:200]}` failed (exit code {code}){because}"


def _limits(before: str, after: str) -> tuple[str, ...]:
    """Words that set what differs: `bash -c 'umask 0027; ulimit -S -s unlimited; exec "$@"' bash`."""
    old, new = before.splitlines(), after.splitlines()
    if old == new:
        return ()
    changed = [f"umask {new[0]}"] if new[0] != old[0] and new[0].isdecimal() else []
    pairs = [_LIMIT.search(line) for line in new[1:] if line not in old]
    changed += [f"ulimit -S -{pair[1]} {pair[2]}" for pair in pairs if pair is not None]
    return ("bash", "-c", "; ".join([*changed, 'exec "$@"']), "bash") if changed else ()


def _caller(wanted: Prepared, base: Mapping[str, str], env: Mapping[str, str]) -> tuple[str, ...]:
    """The words that call a function: diel's own Python, or the one that the environment brings."""
    if wanted.container is not None:
        return ("python3", GUEST)
    found = shutil.which("python3", path=env.get("PATH", os.defpath))
    if found is None or found == shutil.which("python3", path=base.get("PATH", os.defpath)):
        return (sys.executable, "-m", "diel.worker.called")
    return (found, GUEST)


def _container_words(
    wanted: Prepared, attempt: RunningAttempt, env: Mapping[str, str], disk: str
) -> tuple[str, ...]:
    assert wanted.container is not None
    work = attempt.work
    sees = [*wanted.sees]
    if work.module is not None:
        sees += [str(Path(GUEST).parents[1]), *borrowed(), *_folder_of(work.module.path)]
    sees.append(disk)
    if "TMPDIR" in env:
        sees.append(env["TMPDIR"])
    sees = [place for place in sees if os.path.isdir(place)]
    try:
        return start_words(wanted.container, attempt.task_dir, sees, env, wanted.variables)
    except NoContainer as error:
        raise Failure(FailureClass.LAUNCH, f"environment '{wanted.name}': {error}") from error


def _folder_of(path: object) -> list[str]:
    return [] if path is None else [os.path.dirname(str(path))]


def borrowed() -> tuple[str, ...]:
    """The directories of the packages that a guest may take from this Python, if it has none of its own."""
    import psutil  # here and below: only for their places
    import xxhash

    return tuple(os.path.dirname(str(package.__file__)) for package in (psutil, xxhash))
