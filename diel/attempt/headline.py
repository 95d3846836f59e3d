"""The headline of a failure: the line of a program's output that names the cause, rarely the last one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

LONGEST = 300
"""Characters of a headline."""
END = 1 << 16
"""Bytes at the ends of standard error and of standard output that are read for one."""


class Sign(NamedTuple):
    """Something that programs write when they fail. Of the heaviest signs the first one is the headline."""

    weight: int
    """3 names a cause, 2 may, 1 is what follows from a cause: that a launcher ends the other ranks."""
    pattern: str
    """Looked for in a line without its rank's prefix and the characters of boxes."""
    whole: str = "{line}"
    """The headline, of the line, the `next` one that says something, and the `place` named before it."""


SIGNS = (
    # Compilers and linkers: gcc, clang, nvcc, gfortran (whose place stands three lines above), rustc.
    Sign(3, r"^\S+:\d+(:\d+)?: (fatal )?error: "),
    Sign(3, r"^\S+\(\d+\): error: "),
    Sign(3, r"^(Fatal )?Error: .* at \(\d\)", "{place}{line}"),
    Sign(3, r"^error(\[E\d+\])?: (?!could not compile|aborting due)"),
    Sign(3, r"undefined reference to |undefined symbol: |cannot find -l|multiple definition of "),
    Sign(1, r"^collect2: error: |^error: (could not compile|aborting due)"),
    # Run times of languages.
    Sign(3, r"^Fortran runtime error: ", "{place}{line}"),
    Sign(3, r"^forrtl: (severe|error)"),
    Sign(3, r"^what\(\): "),
    Sign(3, r": Assertion .* failed|^\*?\** ?stack smashing detected|double free or corruption|^free\(\): "),
    Sign(3, r"^thread '.*' .*panicked at .*:$", "{next} ({line})"),
    Sign(3, r"^panic: "),
    Sign(3, r"^Caused by: "),
    Sign(2, r'^Exception in thread "'),
    Sign(3, r"^ERROR: LoadError: "),
    Sign(3, r"^Error in .* : *$", "{line} {next}"),
    Sign(3, r"^Error in .* : \S"),
    # Simulation codes: Quantum ESPRESSO, VASP, GROMACS, and what CP2K and others put in boxes.
    Sign(3, r"^Error in routine .*:$", "{line} {next}"),
    Sign(3, r"^VERY BAD NEWS|^internal error in subroutine", "{line} {next}"),
    Sign(3, r"^Fatal error:$", "{line} {next}"),
    Sign(3, r"^\[ABORT\]", "{next}"),
    # MPI: a mistake that it found. (That it ends the others is below.)
    Sign(3, r"MPI_ERR_\w+: "),
    Sign(3, r"^\w*\(\d+\)\.*: (?!MPI_)\S.*"),
    Sign(3, r"was unable to launch the specified application", "{line} {next}"),
    # Memory, GPUs, programs that are not there.
    Sign(3, r"(CUDA|HIP|GPU).*out of memory|\bCUDA error\b|cudaError\w+"),
    Sign(3, r"error: Detected \d+ oom|Out Of Memory|DUE TO TIME LIMIT|[Nn]o space left on device"),
    Sign(3, r": command not found|: (not found|No such file or directory|Permission denied)$"),
    Sign(3, r"error while loading shared libraries: "),
    Sign(3, r"^CMake Error at .*:$", "{line} {next}"),
    Sign(3, r"^make(\[\d+\])?: \*\*\* No (rule|targets)"),
    Sign(3, r"^(ERROR: )?(No matching distribution|ResolutionImpossible)|PackagesNotFoundError|^CondaError"),
    Sign(3, r"(Lmod has detected|Unable to locate a modulefile|ModuleCmd_Load)", "{line} {next}"),
    # What most programs write.
    Sign(2, r"(?i:\b(error|fatal|exception)) ?(\([^)]*\))?: *(?![-+.\d\s]|none\b|no\b)"),
    Sign(2, r"^(ERROR|FATAL|ABORT|CRITICAL)\b|\b(ERROR|CRITICAL|FATAL)\b[\]: ]|^(?i:error)\b.*[:!]"),
    # What follows from a cause.
    Sign(
        1, r"Segmentation fault|SIGSEGV|SIGFPE|SIGBUS|Floating point exception|Bus error|core dumped|Aborted"
    ),
    Sign(1, r"^Abort\(|MPI_ABORT was invoked|BAD TERMINATION|srun: error: |exited (on signal|with)|^Killed"),
    Sign(1, r"^make(\[\d+\])?: \*\*\*|terminate called after|CalledProcessError|ChildFailedError"),
)
"""What is looked for: a sign that is heavier than all before it in both outputs is the headline."""
_SIGNS = [(sign, re.compile(sign.pattern)) for sign in SIGNS]
_ANY = re.compile("|".join(f"(?:{sign.pattern})" for sign in SIGNS))
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_RANK = re.compile(r"^(?:\[[^\]\s]*\d[^\]\s]*\](?:<std\w+>)?:? ?|(?:[Rr]ank ?)?\d+: )")
"""What launchers and programs put before the lines of a rank: `[1,0]<stderr>:`, `[rank0]: `, `0: `."""
_BOX = " \t|*#%!=+"
_PLACE = re.compile(r"^(\S+\.\w+:\d+:\d+):$|^At line (\d+) of file (\S+)")
_TRACEBACK = "Traceback (most recent call last):"
_CHAINED = re.compile(r"^(During handling of the above exception|The above exception was the direct cause)")
_EMPTY = re.compile(r"^[\W_]*$")
"""Lines that say nothing: carets, dashes."""


def headline(stderr: str, stdout: str) -> str:
    """The line that names the cause, else the last line of the errors that says anything; may be empty."""
    best, heaviest = "", 0
    for text in (stderr, stdout):
        for weight, line in _signs([_RANK.sub("", _COLOUR.sub("", one)) for one in text.splitlines()]):
            if weight > heaviest:
                best, heaviest = line, weight
    if not best:
        said = [line.strip() for line in stderr.splitlines() if not _EMPTY.match(line)]
        best = said[-1] if said else ""
    return best[:LONGEST]


def _signs(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Every sign in these lines, with its weight."""
    inside = ""
    """The exception that a traceback ended with, until it is clear that no other one followed from it."""
    traced = False
    for number, line in enumerate(lines):
        if line.strip() == _TRACEBACK:
            traced = True
            continue
        if traced:
            if line[:1] not in ("", " ", "\t"):
                traced, inside = False, line
            continue
        if inside and line.strip() and not _CHAINED.match(line):
            yield _of_exception(inside)
            inside = ""
        text = line.strip(_BOX)
        if _ANY.search(text):
            yield from _signs_of(lines, number, text)
    if inside:
        yield _of_exception(inside)


def _of_exception(line: str) -> tuple[int, str]:
    weak = "CalledProcessError" in line or "ChildFailedError" in line or line.startswith("SystemExit")
    return 1 if weak else 3, line.strip()


def _signs_of(lines: list[str], number: int, text: str) -> Iterator[tuple[int, str]]:
    for sign, pattern in _SIGNS:
        if pattern.search(text):
            after = (line.strip(_BOX) for line in lines[number + 1 : number + 6])
            following = next((line for line in after if not _EMPTY.match(line)), "")
            yield (
                sign.weight,
                sign.whole.format(line=text, next=following, place=_place(lines, number)).strip(),
            )


def _place(lines: list[str], number: int) -> str:
    """The place in a source that the lines above name: `run.f90:4: `."""
    for line in reversed(lines[max(0, number - 6) : number]):
        if match := _PLACE.match(line.strip()):
            return f"{match[1] or f'{match[3]}:{match[2]}'}: "
    return ""
