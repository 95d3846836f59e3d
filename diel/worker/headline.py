"""The headline of a failure: the line of a program's output that names the cause, rarely the last one."""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

LONGEST = 300
END = 1 << 16
"""Bytes at the ends of standard error, of standard output and of files that are read for one."""
FILES = 8


class Sign(NamedTuple):
    """Something that programs write when they fail. Of the heaviest signs the first one is the headline."""

    weight: int
    """4 names a cause, 3 may, 2 says that something went wrong, 1 follows: a launcher ends other ranks."""
    pattern: str
    """Looked for in a line without its rank's prefix and the characters of boxes."""
    whole: str = "{line}"
    """The headline, of the line, the `next` one that says something, and the `place` named before it."""


SIGNS = (
    # Compilers and linkers: gcc, clang, nvcc, gfortran (whose place stands three lines above), rustc.
    Sign(4, r"^\S+:\d+(:\d+)?: (fatal )?error: "),
    Sign(4, r"^\S+\(\d+\): error: "),
    Sign(4, r"^(Fatal )?Error: .* at \(\d\)", "{place}{line}"),
    Sign(4, r"^error(\[E\d+\])?: (?!could not compile|aborting due)"),
    Sign(4, r"undefined reference to |undefined symbol: |cannot find -l|multiple definition of "),
    Sign(1, r"^collect2: error: |^error: (could not compile|aborting due)"),
    # Run times of languages.
    Sign(4, r"^Fortran runtime error: ", "{place}{line}"),
    Sign(4, r"^forrtl: (severe|error)"),
    Sign(4, r"^what\(\): "),
    Sign(
        4, r": Assertion .* failed|stack smashing detected|double free or corruption|^(free|\w*alloc)\(\): "
    ),
    Sign(4, r"^thread '.*' .*panicked at .*:$", "{next} ({line})"),
    Sign(4, r"^panic: "),
    Sign(4, r"^Caused by: "),
    Sign(3, r'^Exception in thread "'),
    Sign(4, r"^ERROR: LoadError: |^lua\S*: .+:\d+: "),
    Sign(4, r"^Error in .* : *$", "{line} {next}"),
    Sign(4, r"^Error in .* : (?!cannot open the connection$)\S"),
    Sign(4, r"^cannot open (compressed )?file '.*': "),
    # Simulation codes: Quantum ESPRESSO, VASP, GROMACS, and what CP2K and others put in boxes.
    Sign(4, r"^Error in routine .*:$", "{line} {next}"),
    Sign(4, r"^VERY BAD NEWS|^internal error in subroutine", "{line} {next}"),
    Sign(4, r"^Fatal error:$", "{line} {next}"),
    Sign(4, r"^\[ABORT\]", "{next}"),
    # Genomics: bwa, samtools and what else is built on htslib.
    Sign(4, r"^\[E::\w+\]"),
    # MPI: a mistake that it found. (That it ends the others is below.)
    Sign(4, r"MPI_ERR_\w+: "),
    Sign(4, r"^\w*\(\d+\)\.*: (?!MPI_)\S.*"),
    Sign(4, r"was unable to launch the specified application|^There are not enough slots", "{line} {next}"),
    Sign(4, r"has detected an attempt to run as root"),
    # Memory, GPUs, programs that are not there.
    Sign(4, r"(CUDA|HIP|GPU).*out of memory|\bCUDA error\b|cudaError\w+"),
    Sign(4, r"error: Detected \d+ oom|Out Of Memory|DUE TO TIME LIMIT|[Nn]o space left on device"),
    Sign(4, r": command not found|: (not found|No such file or directory|Permission denied)$"),
    Sign(4, r"error while loading shared libraries: "),
    Sign(4, r"^CMake Error at .*:$", "{line} {next}"),
    Sign(4, r"^make(\[\d+\])?: \*\*\* No (rule|targets)"),
    Sign(4, r"^(ERROR: )?(No matching distribution|ResolutionImpossible)|PackagesNotFoundError|^CondaError"),
    Sign(4, r"(Lmod has detected|Unable to locate a modulefile|ModuleCmd_Load)", "{line} {next}"),
    # What most programs write.
    Sign(3, r"(?i:\b(error|fatal|exception)) ?(\([^)]*\))?: *(?![-+.\d\s]|none\b|no\b)"),
    Sign(3, r"^(ERROR|FATAL|ABORT|CRITICAL)\b|\b(ERROR|CRITICAL|FATAL)\b[\]: ]|^(?i:error)\b.*[:!]"),
    Sign(3, r"(?i:\b(not converged|did not converge|convergence not achieved))"),
    Sign(
        2, r"(?i:\b(fail(ed)? to|cannot|can't|could not|couldn't|unable to|unrecognized|unknown|not found)\b)"
    ),
    # What follows from a cause.
    Sign(
        1, r"Segmentation fault|SIG(SEGV|FPE|BUS|ABRT)|Floating point exception|Bus error|core dumped|Aborted"
    ),
    Sign(1, r"^Abort\(|MPI_ABORT was invoked|BAD TERMINATION|srun: error: |exited (on signal|with)|^Killed"),
    Sign(1, r"An error occurred in MPI_\w+"),
    Sign(1, r"^make(\[\d+\])?: \*\*\*|terminate called after|CalledProcessError|ChildFailedError"),
)
"""What is looked for: a sign that is heavier than all before it in both outputs is the headline."""
_SIGNS = [(sign, re.compile(sign.pattern)) for sign in SIGNS]
_ANY = re.compile("|".join(f"(?:{sign.pattern})" for sign in SIGNS))
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_RANK = re.compile(r"^(?:\[(?!\w::)[^\]\s]*\d[^\]\s]*\](?:<std\w+>)?:? ?|(?:[Rr]ank ?)?\d+: )")
"""What launchers and programs put before the lines of a rank: `[1,0]<stderr>:`, `[rank0]: `, `0: `."""
_BOX = " \t|*#%!=+"
_PLACE = re.compile(r"^(\S+\.\w+:\d+:\d+):$|^At line (\d+) of file (\S+)")
_TRACEBACK = "Traceback (most recent call last):"
_WARNING = re.compile(r"(?i)\b(warn(ing)?|note|info|ignor(ed|ing)|skipp(ed|ing)|using|default)\b")
"""What makes of `could not` a remark."""
_REDIRECTED = re.compile(r">\|?\s*[\"']?([\w./+-]+)|\btee (?:-a )?([\w./+-]+)")
"""The files that the text of a command writes: `> FILE`, `| tee FILE`."""
_CHAINED = re.compile(r"^(During handling of the above exception|The above exception was the direct cause)")
_EMPTY = re.compile(r"^[\W_]*$")
"""Lines that say nothing: carets, dashes."""


def written(folder: str, command: Iterable[str], outputs: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the ends of the texts that a command wrote, by name: files behind `>`, and its outputs."""
    redirected = ("".join(target) for word in command for target in _REDIRECTED.findall(word))
    for name in islice(dict.fromkeys((*redirected, *outputs)), FILES):
        path = Path(folder, name)
        with suppress(OSError):  # it may be gone, or be meant for others
            if path.is_file():
                with path.open("rb") as file:
                    file.seek(max(0, path.stat().st_size - END))
                    data = file.read(END)
                yield name, "" if b"\0" in data else data.decode("utf-8", "replace")


def headline(stderr: str, stdout: str, written: Iterable[tuple[str, str]] = ()) -> str:
    """Return the line that names the cause, and its file; else the last one that says anything."""
    best, heaviest, where = "", 0, ""
    for name, text in (("", stderr), ("", stdout), *written):
        for weight, line in _signs([_RANK.sub("", _COLOUR.sub("", raw)) for raw in text.splitlines()]):
            if weight > heaviest:
                best, heaviest, where = line, weight, f" (in {name})" if 0 < len(name) < LONGEST // 3 else ""
    if not best:
        lines = [line.strip() for line in stderr.splitlines() if not _EMPTY.match(line)]
        best = lines[-1] if lines else ""
    return " ".join(best.split())[: LONGEST - len(where)] + where


def _signs(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield every sign in these lines, with its weight."""
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
    return 1 if weak else 4, line.strip()


def _signs_of(lines: list[str], number: int, text: str) -> Iterator[tuple[int, str]]:
    for sign, pattern in _SIGNS:
        if pattern.search(text) and not (sign.weight == 2 and _WARNING.search(text)):
            after = (line.strip(_BOX) for line in lines[number + 1 : number + 6])
            following = next((line for line in after if not _EMPTY.match(line)), "")
            yield (
                sign.weight,
                sign.whole.format(line=text, next=following, place=_place(lines, number)).strip(),
            )


def _place(lines: list[str], number: int) -> str:
    """Return the place in a source that the lines above name: `run.f90:4: `."""
    for line in reversed(lines[max(0, number - 6) : number]):
        if match := _PLACE.match(line.strip()):
            return f"{match[1] or f'{match[3]}:{match[2]}'}: "
    return ""
