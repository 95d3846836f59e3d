"""What can go wrong, and how diel says it.

    DielError                   exit code 1; every error that a user may see
    ├── UsageError              2: a command line, or a run, that makes no sense
    │   └── SpecError           2: a workflow that is wrong, with all its problems
    ├── ModuleError             a module that broke its contract while running
    ├── Interrupted             no failure: a module that stopped at a checkpoint, to continue later
    ├── JournalError            a run's files cannot be read or written
    ├── NotBegun                a worker ended before it could run anything
    ├── WorkerLost              a worker ended while it had tasks
    └── StreamError             a stream or the tuple space cannot be used
        ├── StreamEnd           no failure: a stream has ended, and all its items were read
        └── StreamBroken        4: a stream lacks items, for a task that puts into it failed

Each message says what is wrong, where, what was expected and what to do next.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from typing import NamedTuple

MISTAKE = "diel failed in a way that it should not"
"""How a message begins that reports a mistake in diel itself, not in its input."""

MAX_PROBLEMS = 100
"""The most problems of a file that are shown; the search ends soon after."""
_COMPARED = 500
"""The most words that one word is compared with: some 5 ms."""


class DielError(Exception):
    """An error that is shown to the user as one message, without a traceback."""

    exit_code = 1


class HintedError(DielError):
    """One that says apart what is wrong, and what to do about it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}; {hint}" if hint else message)
        self.message = message
        self.hint = hint


class UsageError(DielError):
    """A command line or request that cannot be carried out."""

    exit_code = 2


class ModuleError(DielError):
    """A module broke its contract: a wrong return value, a missing output file."""


class Interrupted(DielError):
    """Raised by a module that saved a checkpoint and stopped: the task continues as another attempt.

    For stages with `checkpoint: true`. An MPI rank that raises it ends them all, so that every rank
    must have saved before any of them raises.
    """


class Pruned(DielError):
    """Raised by `Context.report` in a trial that its search has stopped: clean up, and let it pass."""


class JournalError(DielError):
    """A run's files cannot be read or written."""


class NotBegun(DielError):
    """A worker ended before it could run anything: no task is to blame."""


class WorkerLost(DielError):
    """A worker process of this machine ended while it had a bundle."""

    def __init__(self, message: str, *, killed: bool = False) -> None:
        self.killed = killed
        """Whether signal 9 ended it."""
        super().__init__(message)


class StreamError(DielError):
    """No broker answers, or it refused what was asked."""


class StreamLost(StreamError):
    """No broker of the run answers any more."""


class StreamEnd(StreamError):
    """All items were given to this consumer, and no more will come; iterating just ends."""


class StreamBroken(StreamError):
    """Items are missing: a task that puts them failed for good. Raised by iterating as well.

    No end: a task that reads them has no result, whatever it does. `diel resume` runs it again.
    """

    exit_code = 4


class Problem(NamedTuple):
    """One thing that is wrong in a workflow file.

    `file`, `line` and `column` (both from 1) say where; `key` is the path of the key
    ("stages.train.retries", empty for the file as a whole); `message` says what was found and
    what was expected; `hint` what to do next.
    """

    file: str
    line: int
    column: int
    key: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}: "
        key = f"{self.key}: " if self.key else ""
        hint = f"\n    {self.hint}" if self.hint else ""
        return f"{where}{key}{self.message}{hint}"


class SpecError(UsageError):
    """A workflow is wrong. `problems` holds every problem found, in the file's order."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        super().__init__("\n".join(str(problem) for problem in self.problems))


def first_problems(problems: Iterable[Problem]) -> list[Problem]:
    """Return the problems to show, in the file's order; a last one says if there are more."""
    problems = sorted(set(problems))
    if len(problems) <= MAX_PROBLEMS:
        return problems
    last = problems[MAX_PROBLEMS]
    rest = Problem(last.file, last.line, last.column, "", "and more problems from here on")
    return [*problems[:MAX_PROBLEMS], rest]


def counted(number: int, word: str) -> str:
    """Return a number of things: "1 task", "2,000 tasks"."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def likeness(message: str) -> str:
    """Return a message without numbers and paths: what says the same about several tasks then is the same."""
    bare = re.sub(r" \(in [^()]+\)$", "", message)  # the file that a cause is from
    return re.sub(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|/[\w./-]+", "#", bare)


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Return a hint with the nearest known word, or an empty string if none is near."""
    near = get_close_matches(word, list(islice(choices, _COMPARED)), n=1, cutoff=0.6)
    return f"did you mean '{near[0]}'?" if near else ""
