"""What every scheduler does for diel, and what it offers. Adding one is one file with such a class."""

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

from diel.base.errors import UsageError
from diel.base.extensions import SCHEDULERS, class_named, names_in
from diel.site.scheduler.job import Job, JobStatus, SchedulerBusy, SchedulerRefused, check_outputs, quoted

TIMEOUT = 30.0
"""Seconds that a scheduler has to answer."""
QUESTION = 10.0
"""Seconds that a question about the cluster may take."""


class Answer(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """The first lines of its error message, on one line."""
        return first_lines(f"{self.err}\n{self.out}") or f"exit code {self.code}, without a message"


def first_lines(text: str) -> str:
    """Return the first lines of a text that are not empty, on one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "; ".join(lines[:4])[:600]


def ask(
    words: Sequence[str],
    environ: Mapping[str, str],
    timeout: float = TIMEOUT,
    *,
    folder: Path | None = None,
    stdin: Path | None = None,
) -> Answer:
    """Run a command in a folder (by default the current one), with a file or nothing on its stdin.

    Raise SchedulerBusy if it cannot be started, or has not ended after `timeout` seconds; then all that
    it started in its process group is killed.
    """
    try:
        with (
            open(stdin or os.devnull, "rb") as source,
            subprocess.Popen(
                words,
                cwd=folder,
                env=environ,
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            ) as process,  # at its end the pipes are closed: what left the group may hold them open
        ):
            try:
                out, err = process.communicate(timeout=timeout)
            finally:
                if process.poll() is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
    except subprocess.TimeoutExpired as error:
        raise SchedulerBusy(f"`{words[0]}` has not answered after {timeout:g} s") from error
    except FileNotFoundError as error:
        if folder is not None and not folder.is_dir():
            raise SchedulerBusy(f"cannot run `{words[0]}` in {folder}: there is no such folder") from error
        hint = "use a machine with the scheduler's commands, or put them on PATH"
        raise SchedulerBusy(f"no `{words[0]}` here: {hint}") from error
    except OSError as error:
        raise SchedulerBusy(f"cannot run `{words[0]}`: {error.strerror}") from error
    return Answer(process.returncode, *(data.decode("utf-8", "replace") for data in (out, err)))


class Dialect(NamedTuple):
    """What answers to a scheduler's commands."""

    version: str
    """Its own words, or what is known about it."""
    wrapper: bool = False
    """Whether these are another scheduler's commands in this one's style, as Slurm's own qsub is."""


class Queue(NamedTuple):
    """A queue, with the longest walltime that it allows."""

    name: str
    limit: float | None = None
    """Seconds; None if there is none, or the scheduler does not say."""
    default: bool = False
    """Whether jobs that name no queue go there."""


class NodeKind(NamedTuple):
    """Nodes of one shape, as the scheduler gives them."""

    queue: str
    """Empty if the scheduler does not say which queue has them."""
    nodes: int
    cores: int
    threads: int
    """Hardware threads; what some schedulers count as CPUs."""
    memory: int
    """Bytes; 0 if it does not say."""
    gpus: int
    physical: int = 0
    """Cores that the host really has; 0 if the scheduler does not say."""
    sharing: int = 1
    """How many such nodes (vnodes) there are on one host: its cores are not their sum."""


class Offer(NamedTuple):
    """What jobs can have."""

    queues: Sequence[Queue]
    nodes: Sequence[NodeKind] = ()
    """Empty if the scheduler does not say."""


def gathered(kinds: Iterable[NodeKind]) -> list[NodeKind]:
    """Nodes of the same shape counted together."""
    counts: Counter[NodeKind] = Counter()
    for kind in kinds:
        counts[kind._replace(nodes=0)] += kind.nodes
    return [shape._replace(nodes=count) for shape, count in counts.items()]


class Scheduler(ABC):
    """A scheduler: its commands, a script template, a table of states, a parser, and some facts.

    Five methods are to be written: `directives`, `submit`, `query`, `cancel`, `find`. The rest has defaults.
    One object serves a whole run; `submit`, `query`, `cancel` and `find` are called in several threads.
    """

    commands: ClassVar[tuple[str, ...]] = ()
    """Programs that diel calls for every job: a run is refused if one is not on PATH."""
    also: ClassVar[tuple[str, ...]] = ()
    """Other words for it, which a site file might use by mistake."""
    shell: ClassVar[str] = "#!/bin/bash"
    """First line of a job script."""
    sentinel: ClassVar[str] = "#"
    """How a directive's line begins: `#SBATCH`."""
    prologue: ClassVar[tuple[str, ...]] = ()
    """Shell lines of every job, before those of the site."""
    redirects: ClassVar[bool] = False
    """Whether the script itself sends its output to the job's files: a scheduler may add words of its own."""
    private: ClassVar[tuple[str, ...]] = ()
    """Beginnings of variables that its commands must not get: they describe a job, or a user's habits."""
    public: ClassVar[tuple[str, ...]] = ()
    """Exceptions to these: variables that say where the server is."""
    job_variables: ClassVar[tuple[str, ...]] = ()
    """Variables with a job's id; the first that is set counts."""
    node: str = ""
    """Shell text that prints the name of its node, if `hostname` may print another."""
    spread: Sequence[str] = ()
    """Words that start a program once on each node of a job, with {nodes} to be filled in. They need not hand
    on variables and folder. Without them blocks of several nodes need a site's `spread`."""
    hosts: str = ""
    """Shell text that prints the names of the job's nodes: for tasks on several, and `home: inside`."""
    share: Sequence[str] = ()
    """Words that start a program once on some nodes of the allocation that they run in, for `home: inside`.
    DIEL_NODES holds the names with commas between, DIEL_NODE_NUMBERS their places with blanks between."""
    oom: str = ""
    """Regular expression of a line on a task's stderr that reports a rank killed because memory ran out."""
    elsewhere: ClassVar[tuple[str, ...]] = ()
    """Options that send jobs to other queues, or under other limits, than `queue` says."""
    hidden: ClassVar[str] = ""
    """What to do if another scheduler's commands with the same names hide its own."""

    def __init__(self, timeout: float = TIMEOUT) -> None:
        """`timeout`: seconds that a command has to answer."""
        self.timeout = timeout

    @abstractmethod
    def directives(self, job: Job) -> Iterable[str]:
        """Return a job's options, as written after the sentinel. Raise SchedulerRefused for a bad path."""

    def script(self, job: Job) -> str:
        """Return the whole job script. Pure. Raise SchedulerRefused for a path that no script can hold."""
        stdout, stderr, folder = (shlex.quote(str(path)) for path in (job.stdout, job.stderr, job.folder))
        lines = [
            self.shell,
            *(f"{self.sentinel} {words}" for words in self.directives(job)),
            *((f"exec > {stdout}", f"exec 2> {stderr}") if self.redirects else ()),
            f"cd {folder} || exit 1",
            *self.prologue,
            *job.setup,
            job.command,
        ]
        return "\n".join(lines) + "\n"

    def try_out(self, script: Path) -> None:  # noqa: B027
        """Ask whether the server would take this script, and leave no job; by default ask nothing. Raise
        SchedulerRefused if it would not, and SchedulerBusy."""

    @abstractmethod
    def submit(self, script: Path) -> str:
        """Queue a script from its folder; return the job's id, a word without blanks.

        Raise SchedulerBusy and SchedulerRefused. After SchedulerBusy the job may be queued all the same:
        `find` by its name tells.
        """

    @abstractmethod
    def query(self, ids: Iterable[str]) -> Mapping[str, JobStatus]:
        """Return the states of jobs, by one question; one not in the answer is gone. Raise SchedulerBusy."""

    @abstractmethod
    def cancel(self, ids: Iterable[str]) -> None:
        """End jobs; those that have already ended are ignored. Raise SchedulerBusy."""

    @abstractmethod
    def find(self, prefix: str) -> Mapping[str, str]:
        """Ids, by name, of this user's living jobs whose names begin so. Raise SchedulerBusy."""

    def ask(
        self, *words: str, folder: Path | None = None, stdin: Path | None = None, timeout: float | None = None
    ) -> Answer:
        """Run a command of the scheduler. Raise SchedulerBusy where it is missing or too slow."""
        program = self.program(words[0])
        environ = self.environment(os.environ)
        return ask([program, *words[1:]], environ, timeout or self.timeout, folder=folder, stdin=stdin)

    def environment(self, outside: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of diel's process for the scheduler's commands."""
        public = {k: v for k, v in outside.items() if k in self.public or not k.startswith(self.private)}
        return {**public, "LC_ALL": "C"}

    def program(self, name: str) -> str:
        """One of its commands: by default the first of its name on PATH."""
        return name

    def lacking(self) -> tuple[str, ...]:
        """Return the commands that this machine lacks. Nothing is asked: the server may be down or busy."""
        return tuple(name for name in self.commands if shutil.which(self.program(name)) is None)

    def dialect(self) -> Dialect | None:
        """Return what answers to the commands here; None if nothing does, or another scheduler. By default a
        server is asked for jobs. Raise SchedulerBusy if that does not answer."""
        if self.lacking():
            return None
        self.find("diel-")
        return Dialect("")

    def offer(self) -> Offer | None:
        """Return queues and nodes for `diel doctor`; None where it tells none. Raise SchedulerBusy."""
        return None

    def job_id(self) -> str | None:
        """Return the id of the job that this process runs in; None outside a job."""
        return next((os.environ[name] for name in self.job_variables if os.environ.get(name)), None)

    def allocation(self) -> Sequence[str]:
        """Return the nodes of this process's job; some may come repeatedly. Raise SchedulerBusy."""
        answer = ask(["sh", "-c", self.hosts], os.environ, self.timeout)
        if answer.code != 0:
            raise SchedulerBusy(f"cannot find out the nodes of this allocation: {answer.words}")
        return answer.out.split()

    def narrowed(self, nodes: Sequence[str], script: Path) -> Mapping[str, str | None]:
        """Variables by which programs find the nodes of their job, for some of them; None removes one. A file
        that a variable names may lie beside the script that will run there."""
        return {}


def node_file(nodes: Sequence[str], script: Path) -> str:
    """Write a file beside a script that names nodes, one a line; return its path."""
    file = script.with_suffix(".nodes")
    file.write_text("".join(f"{name}\n" for name in nodes), encoding="utf-8")
    return str(file)


def scheduler_named(name: str) -> Scheduler:
    """Return the scheduler that a site names. Raise UsageError if it is not installed, or cannot be used."""
    kind: type[Scheduler] = class_named(SCHEDULERS, name, Scheduler)
    return kind()


def usable_schedulers() -> Iterator[tuple[str, Scheduler]]:
    """Yield the installed schedulers by name, without those that cannot be loaded."""
    for name in names_in(SCHEDULERS):
        with contextlib.suppress(UsageError):
            yield name, scheduler_named(name)


def find_dialects() -> dict[str, Dialect]:
    """Return the schedulers that answer within a minute, by name; those behind another's commands last."""
    dialects = {}
    for name, scheduler in usable_schedulers():
        with contextlib.suppress(SchedulerBusy):
            if (dialect := scheduler.dialect()) is not None:
                dialects[name] = dialect
    return dict(sorted(dialects.items(), key=lambda item: item[1].wrapper))


class BatchScheduler(Scheduler):
    """A scheduler with commands that print text: facts about them, and one method that reads jobs."""

    queues_by: ClassVar[tuple[str, ...]]
    """The command that queues a script, with the options that it always has."""
    held: ClassVar[tuple[str, ...]] = ()
    """Its options for a job that is looked at and never begins."""
    ends_by: ClassVar[tuple[str, ...]]
    """The command that ends jobs."""
    accepted: ClassVar[str]
    """Regular expression of a queued job's id in what it prints: sites print greetings before it."""
    outputs: ClassVar[str]
    """Lines of a script that name files of output."""
    busy: ClassVar[str]
    """What its commands say if the server was not reached, so that asking again may help."""
    settled: ClassVar[str]
    """What they say about jobs that have ended or are unknown."""
    speaker: ClassVar[str]
    """The name of the program that begins a line of theirs: it is left out of messages."""

    @abstractmethod
    def options(self, job: Job) -> Iterable[tuple[str, object]]:
        """Return a job's directives, each with its value; those without a value are left out."""

    def directives(self, job: Job) -> Iterator[str]:
        quoted(job.folder)  # outputs are there, whether or not they name it
        yield from (option.format(value) for option, value in self.options(job) if value)
        yield from job.extra

    @abstractmethod
    def jobs(self, ids: list[str]) -> Iterable[tuple[str, str, JobStatus]]:
        """Id, name and state of these jobs, or this user's if none is given. Raise SchedulerBusy."""

    def try_out(self, script: Path) -> None:
        self.cancel([self.queue(*self.held, script=script)])

    def submit(self, script: Path) -> str:
        check_outputs(script, re.compile(self.outputs, re.MULTILINE))
        return self.queue(script=script)

    def queue(self, *words: str, script: Path) -> str:
        """Queue a script from its folder, with further options; return the job's id."""
        answer = self.hand_over(script, *self.queues_by, *words)
        if answer.code != 0:
            raise self.refusal(answer)
        ids = re.findall(self.accepted, answer.out, re.MULTILINE)
        if not ids:
            raise SchedulerBusy(f"{self.queues_by[0]} printed no id of a job: {answer.words}")
        return str(ids[-1])

    def hand_over(self, script: Path, *words: str) -> Answer:
        return self.ask(*words, script.name, folder=script.parent)

    def refusal(self, answer: Answer) -> SchedulerBusy | SchedulerRefused:
        """Say why a script was not queued: whether asking again helps."""
        error = SchedulerBusy if self.is_busy(answer) else SchedulerRefused
        return error(f"{self.queues_by[0]}: {self.words(answer)}")

    def is_busy(self, answer: Answer) -> bool:
        """Return whether the server was not reached, or could not answer."""
        words = f"{answer.err}\n{answer.out}"
        return answer.code < 0 or re.search(self.busy, words, re.IGNORECASE) is not None

    def query(self, ids: Iterable[str]) -> Mapping[str, JobStatus]:
        numbers = sorted(set(ids))
        jobs = self.jobs(numbers) if numbers else ()
        return {number: status for number, _, status in jobs if number in numbers}

    def cancel(self, ids: Iterable[str]) -> None:
        if numbers := sorted(set(ids)):
            answer = self.ask(*self.ends_by, *numbers)
            lines = [line for line in (answer.out + answer.err).splitlines() if line.strip()]
            settled = lines and all(re.search(self.settled, line, re.IGNORECASE) for line in lines)
            if answer.code != 0 and not settled:
                raise SchedulerBusy(f"{self.ends_by[0]}: {self.words(answer)}")

    def find(self, prefix: str) -> Mapping[str, str]:
        jobs = ((number, name) for number, name, status in self.jobs([]) if not status.state.ended)
        return {name: number for number, name in jobs if name.startswith(prefix)}

    def words(self, answer: Answer) -> str:
        """Return the scheduler's own words."""
        return re.sub(self.speaker, "", answer.words)

    def output(self, *words: str, timeout: float = QUESTION) -> str:
        """Return the answer of a command to a question about the cluster. Raise SchedulerBusy."""
        answer = self.ask(*words, timeout=timeout)
        if answer.code != 0:
            raise SchedulerBusy(f"`{' '.join(words)}` says: {self.words(answer)}")
        return answer.out
