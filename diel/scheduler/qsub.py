"""What PBS and Torque share: directives, submission, errors. Their states and answers are their own.

Their commands exit with an error's number modulo 256: 15001, an unknown job, is 153. The numbers are in
OpenPBS's pbs_error.h; Torque's commands have the same, and errno's where they do not reach the server.
"""

from __future__ import annotations

import os
import pwd
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from diel.scheduler.command import Answer, ask, first_lines
from diel.scheduler.directives import check_outputs, clock, options, quoted
from diel.scheduler.job import Job
from diel.scheduler.scheduler import SchedulerBusy, SchedulerRefused

UNKNOWN = 153
"""No such job."""
FINISHED = 35
"""A job that is history."""
_BUSY_CODES = frozenset(
    {
        255,  # no server
        13,  # 15117: its table of connections is full
        57,  # 15161: it cannot save the job
        104,  # 15208: try again later
        110,  # errno: timed out
        111,  # errno: connection refused
        113,  # errno: no route to host
        162,  # 15010: system error
        163,  # 15011: internal error
        183,  # 15031: protocol error
        185,  # 15033: no free connections
        186,  # 15034: no server to connect to
        212,  # 15060: it is shutting down
    }
)
_BUSY_WORDS = re.compile(
    r"cannot connect to|connection refused|timed out|end of file|communication failure|no free connections"
    r"|server shutting down|premature end|try again|unable to contact slurm controller|pbs_iff",
    re.IGNORECASE,
)
_ENVIRONMENT = (
    "# The number of cores of a node, which is not that of a task.",
    "unset OMP_NUM_THREADS NCPUS",
)
_OUTPUT = re.compile(r"^#PBS -[oe] (.+)$", re.MULTILINE)


def script(job: Job, resources: Iterable[str]) -> str:
    """A whole job script with these `-l` words. Raises SchedulerRefused for a path that cannot be in one."""
    quoted(job.folder)  # outputs are there, whether or not they name it
    lines = [
        "#!/bin/bash",
        *(f"#PBS {words}" for words in _directives(job, resources)),
        f"cd {shlex.quote(str(job.folder))} || exit 1",
        *_ENVIRONMENT,
        *job.setup,
        job.command,
    ]
    return "\n".join(lines) + "\n"


def _directives(job: Job, resources: Iterable[str]) -> Iterator[str]:
    yield f"-N {job.name}"
    yield "-S /bin/bash"
    yield f"-o {_output(job, job.stdout)}"
    yield f"-e {_output(job, job.stderr)}"
    if job.queue:
        yield f"-q {job.queue}"
    if job.account:
        yield f"-A {job.account}"
    yield from (f"-l {words}" for words in resources)
    yield f"-l walltime={clock(job.walltime)}"  # there is no default: without it a job may run for ever
    if job.after:
        yield f"-W depend=afterany:{job.after}"
    yield "-r n"  # one id is one run of the script: else a restarted node would run it again
    yield from options(job.options, job.nodes)


def _output(job: Job, path: Path) -> str:
    """A file's name within the folder, from where the job is submitted: a colon in a path means a host."""
    name = path.name if path.parent == job.folder else None
    if name is not None and re.fullmatch(r"[\w.+-]+", name, re.ASCII):
        return name
    return quoted(path)


def submit(qsub: Sequence[str], script: Path, timeout: float, *, outputs: bool) -> str:
    """Queues a script from its folder by `qsub`; returns the job's id. `outputs` says them to it as well.

    Raises SchedulerBusy, after which the job may be queued all the same, and SchedulerRefused, also
    where the folder of an output is missing: then the job's output would be lost without a word.
    """
    files = check_outputs(script, _OUTPUT)
    words = [word for pair in zip(("-o", "-e"), files, strict=False) for word in pair] if outputs else []
    return _queue([*qsub, *words], script, timeout)


def hold(qsub: Sequence[str], script: Path, timeout: float) -> str:
    """Queues a script as a job that does not begin, for its user to delete; returns its id.

    Raises SchedulerBusy and SchedulerRefused: qsub has no other way to say whether it takes a script.
    """
    return _queue([*qsub, "-h"], script, timeout)


def _queue(words: Sequence[str], script: Path, timeout: float) -> str:
    answer = ask([*words, script.name], timeout=timeout, folder=script.parent)
    if answer.code != 0:
        busy = failed_to_answer(answer)
        raise (SchedulerBusy if busy else SchedulerRefused)(f"qsub: {told(answer)}")
    ids = re.findall(r"^(\d+[\w.\-]*)\s*$", answer.out, re.MULTILINE)
    if not ids:
        raise SchedulerBusy(f"qsub printed no id of a job: {answer.words}")
    return str(ids[-1])


def failed_to_answer(answer: Answer) -> bool:
    """Whether the server was not reached, or could not answer, so that asking again may help."""
    return answer.code < 0 or answer.code in _BUSY_CODES or bool(_BUSY_WORDS.search(answer.err + answer.out))


def told(answer: Answer) -> str:
    """The scheduler's own words, without the name of the program that begins them."""
    own = answer.out.partition("and the output was:")[2].strip(" '\n")  # Slurm's qsub quotes sbatch
    text = first_lines(own) or answer.words
    return re.sub(r"\b(qsub|qstat|qdel|qselect|sbatch): (error: )?", "", text)


def short(number: str) -> str:
    """An id without the server's name, which qsub and qstat may write differently."""
    return number.split(".")[0]


def user() -> str:
    """The name of the user whose jobs these are."""
    return pwd.getpwuid(os.getuid()).pw_name


def hosts(text: str) -> str:
    """The nodes in `exec_host` (n1/0*4+n2/0*4), with commas between."""
    names = [part.split("/")[0] for part in text.split("+") if part.strip()]
    return ",".join(dict.fromkeys(name.strip() for name in names))
