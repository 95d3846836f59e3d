"""A site: a machine or cluster, and its pools, as the site file describes them."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, PrivateAttr

from diel.base.errors import counted, did_you_mean
from diel.base.extensions import SCHEDULERS, names_in
from diel.base.values import format_duration
from diel.workflow.models.environment import Environment
from diel.workflow.models.model import (
    NAME_PATTERN,
    Duration,
    Items,
    Key,
    Later,
    Limit,
    Line,
    Name,
    Size,
    SpecModel,
    Text,
    Violation,
    optional,
    quote,
    refuse,
)

LOCAL = "local"
"""What a site without a scheduler has instead."""
FOUND_HERE = {"mpich": "MPICH", "openmpi": "Open MPI"}
"""Launchers that a site without a scheduler has by these names where this machine has such an MPI."""
_LOCAL_TOO = ("none", "laptop", "localhost", "workstation")
_NAME = re.compile(r"[\w.@:+/=,%][\w.@:+/=,%-]*")
_SHELL_VARIABLE = re.compile(r"\$\{[^{}]*\}")
_BRACES = re.compile(r"\{([^{}]*)\}")
_PLACE = re.compile(r"[\w\s.-]*")
"""The word in the braces of a place; other braces (`{print $1}`, `{a,b}`) are a shell's or a program's."""


def job_word(text: str) -> str:
    """Return an account or a queue, which no shell or reader of directives may split. Raise Flaws."""
    if not _NAME.fullmatch(text):
        hint = "it can have letters, digits and _ . @ : + / = , % - (the last not at its start)"
        raise refuse(f"expected one word as the scheduler has it, found {quote(text)}", hint)
    return text


def _scheduler(text: str) -> str:
    if text == LOCAL or text in (names := names_in(SCHEDULERS)):
        return text
    from diel.site.scheduler.scheduler import usable_schedulers  # here: only if the word is wrong

    word = text.lower()
    synonyms = (name for name, scheduler in usable_schedulers() if word in scheduler.also)
    meant = LOCAL if word in _LOCAL_TOO else next(synonyms, None)
    hint = f"did you mean '{meant}'?" if meant else did_you_mean(text, (*names, LOCAL))
    raise refuse(f"expected one of {', '.join((LOCAL, *names))}; found {quote(text)}", hint)


def _filled_in(text: str, places: tuple[str, ...]) -> str:
    """Refuse unknown places and lone braces: they would reach the scheduler as they are."""
    listed = " ".join(f"{{{place}}}" for place in places)
    plain = _SHELL_VARIABLE.sub("", text)
    for inner in _BRACES.findall(plain):
        if inner not in places and _PLACE.fullmatch(inner):
            near = did_you_mean(f"{{{inner.strip()}}}", [f"{{{place}}}" for place in places])
            raise refuse(f"nothing is filled in for {{{inner}}}", near or f"filled in are: {listed}")
    while (less := _BRACES.sub("", plain)) != plain:
        plain = less
    if "{" in plain or "}" in plain:
        raise refuse(f"a lone brace in {quote(text)}", f"filled in are: {listed}")
    return text


_LAUNCHED = ("ranks", "nodes", "ranks_per_node", "cores_per_rank", "hosts")
SchedulerName = Annotated[str, AfterValidator(_scheduler)]
JobWord = Annotated[str, AfterValidator(job_word)]
JobOption = Annotated[Line, AfterValidator(partial(_filled_in, places=("nodes",)))]
"""One option of a scheduler, as in its directive lines."""
LauncherWord = Annotated[Text, AfterValidator(partial(_filled_in, places=_LAUNCHED))]


def _words(value: Any) -> Any:
    if isinstance(value, str):
        words = ", ".join(f'"{word}"' if "{" in word else word for word in value.split())
        raise refuse(f"expected a list of words, found {quote(value)}", f"write [{words}]")
    return value


Words = Annotated[Items[LauncherWord], BeforeValidator(_words)]


def _launcher(value: Any) -> Any:
    is_name = isinstance(value, str) and re.fullmatch(NAME_PATTERN, value)
    return value if is_name else _words(value)


Launcher = Annotated[Name | Items[LauncherWord], BeforeValidator(_launcher)]
"""A name of `launchers`, or the words themselves."""
SpreadWord = Annotated[Text, AfterValidator(partial(_filled_in, places=("nodes",)))]


class Pool(SpecModel):
    """A kind of node, and the blocks (allocations) of it that diel may hold."""

    description: str = ""
    queue: JobWord | None = optional("Queue, or partition; the scheduler's default if absent.")
    account: JobWord | None = optional("Account to charge; the site's if absent.")
    nodes: int = optional("How many nodes a block, and so a task, may span.", 1, ge=1)
    block_nodes: int = optional("Nodes of a block, unless a task needs more.", 1, ge=1)
    blocks: int = optional("How many blocks diel may hold at the same time.", 1, ge=1)
    cores: int | None = optional("Cores of a node; without a scheduler, this machine's if absent.", ge=1)
    memory: Size | None = optional("Memory of a node; without a scheduler, this machine's if absent.")
    gpus: int = optional("GPUs of a node.", 0, ge=0)
    gpu_variables: Items[str] = optional(
        "Variables that pin a task to its GPUs: CUDA_VISIBLE_DEVICES, "
        "ROCR_VISIBLE_DEVICES, ZE_AFFINITY_MASK.",
        ("CUDA_VISIBLE_DEVICES",),
    )
    walltime: Limit = optional("Walltime of a block, unless a task needs more.", 3600.0)
    max_walltime: Limit | None = optional("Longest walltime that the queue allows; `walltime` if absent.")
    launcher: Launcher | None = optional(
        "What starts ranks there: a name of `launchers`, or words; the site's if absent."
    )
    idle: Duration = optional("How long a block may idle before it is given back.", 30.0, ge=0)
    options: Items[JobOption] = optional(
        "Further options of the scheduler, one each: `--constraint=gpu`, `-l place=scatter`.", ()
    )
    setup: Items[Line] = optional("Shell lines at the start of each block: `module load ...`.", ())

    @property
    def longest(self) -> float:
        """The longest walltime of a block, in seconds."""
        return max(self.walltime, self.max_walltime or 0.0)

    def flaws(self) -> Iterator[Violation]:
        if self.block_nodes > self.nodes:
            message = f"{self.block_nodes} block_nodes, but a block has at most {counted(self.nodes, 'node')}"
            yield Violation(message, "raise `nodes`, or lower `block_nodes`", ("block_nodes",))
        if self.max_walltime is not None and self.max_walltime < self.walltime:
            longest, usual = format_duration(self.max_walltime), format_duration(self.walltime)
            message = f"max_walltime {longest} is shorter than walltime {usual}"
            yield Violation(message, "drop one of the two", ("max_walltime",))


class ControllerHome(SpecModel):
    """Where the controller of a submitted run lives, and what it asks for there."""

    home: Literal["login", "job", "inside"] = optional(
        "`login`: a process of its own, where you type `diel submit`; `job`: a small job; "
        "`inside`: one allocation holds the controller and all its workers.",
        "login",
    )
    queue: JobWord | None = optional("Queue of the controller's job; the pool's if absent.")
    walltime: Limit | None = optional(
        "Walltime of its job, a day where absent; it queues its successor before that ends. "
        "Of the allocation for `inside`, as long as its longest task needs where absent."
    )
    cores: int = optional("Cores of its job.", 1, ge=1)
    memory: Size | None = optional("Memory of its job.")
    options: Items[JobOption] = optional("Further options of the scheduler for its job.", ())


class FileSystem(SpecModel):
    """A file system of the site: what a run's directory can expect of it."""

    path: Text = Field(min_length=1, description="Where it is; may name variables, as $SCRATCH.")
    description: str = ""
    quota: Size | None = optional("Bytes that a user may keep.")
    files: int | None = optional("Files that a user may keep.", ge=1)
    purge: Duration | None = optional("Files that nobody has read for this long are deleted.")
    compute: Literal["write", "read", "none"] = optional(
        "What compute nodes may do there; runs need `write`.", "write"
    )


class LocalDisk(SpecModel):
    """The nodes' own disks, where diel can keep what several tasks of a node read."""

    dir: Text | None = optional(
        "Directory on each node; may name variables, as $TMPDIR, which each node fills in.", min_length=1
    )
    size: Size | None = optional("Bytes that diel may keep there; all free space if absent.")


def _notify(value: Any) -> Any:
    from diel.workflow.models.notify import Notify  # here: few sites tell anybody

    return Notify.model_validate(value)


class Site(SpecModel):
    """A machine or cluster, as its site file describes it."""

    name: Name
    description: str = ""
    extends: Name | None = optional("A site whose keys apply where this file has none.")
    scheduler: SchedulerName = Field(description="What starts allocations.")
    account: JobWord | None = optional("Account to charge; DIEL_ACCOUNT beats it.")
    account_required: bool = optional("Whether the scheduler refuses jobs without one.", False)
    pools: dict[Name, Pool] = Field(min_length=1, description="Kinds of node, by name.")
    launchers: dict[Name, Words] = Field(
        default_factory=dict,
        description="Words of MPI launchers, by name; {ranks}, {nodes}, {ranks_per_node}, "
        "{cores_per_rank} and {hosts} (the task's nodes, with commas between) are put in.",
    )
    launcher: Launcher = optional(
        "The usual one: a name of `launchers`, or its words.", ("mpiexec", "-n", "{ranks}")
    )
    spread: Items[SpreadWord] = optional(
        "Words that start a program once on each node of a block, where the scheduler's own "
        "are not right; {nodes} is put in.",
        (),
    )
    setup: Items[Line] = optional("Shell lines at the start of every job.", ())
    options: Items[JobOption] = optional("Further options of the scheduler for every job.", ())
    address: Text | None = optional(
        "Address or network interface at which nodes reach the controller; all if absent."
    )
    poll: Limit = optional("Time between two questions to the scheduler.", 5.0)
    silence: Limit = optional("A node counts as lost after this long without a heartbeat.", 15.0)
    startup: Limit = optional(
        "How long the first worker of this machine may take to start; `status` says so meanwhile.", 300.0
    )
    grace: Duration = optional("How long before a block's end its tasks are warned.", 60.0, ge=0)
    controller: ControllerHome = ControllerHome.model_construct()
    local: LocalDisk = LocalDisk.model_construct()
    filesystems: dict[Name, FileSystem] = Field(default_factory=dict, description="File systems, by name.")
    environments: dict[Name, Later[Environment]] = Field(
        default_factory=dict, description="Environments of programs, by name; they beat the workflow's."
    )
    cache: Text | None = optional(
        "Directory for the environments that diel makes, shared by projects; the directory of the runs "
        "if absent. May name variables, as $SCRATCH.",
        min_length=1,
    )
    notify: Items[Annotated[Any, PlainValidator(_notify)]] = Field(
        default=(), exclude=True, description="Whom runs tell that something happened: it may hold secrets."
    )
    _file: str = PrivateAttr("")

    @property
    def scheduled(self) -> bool:
        """Whether a scheduler starts allocations; if not, this machine is all there is."""
        return self.scheduler != LOCAL

    @property
    def file(self) -> str:
        """The file that it was read from; empty for one that a run kept."""
        return self._file

    def from_file(self, path: Path) -> Self:
        """Return this site with the place that it was read from."""
        self._file = str(path)
        return self

    @property
    def launcher_names(self) -> tuple[str, ...]:
        """What a stage can name: its `launchers`, and those that are looked for on this machine."""
        return tuple(dict.fromkeys((*self.launchers, *(() if self.scheduled else FOUND_HERE))))

    def launcher_hint(self, name: str) -> str:
        """Name the alternatives."""
        names = self.launcher_names
        return did_you_mean(name, names) or f"launchers: {', '.join(names) or 'none has a name'}"

    def flaws(self) -> Iterator[Violation]:
        for name, pool in self.pools.items() if self.scheduled else ():
            if pool.cores is None:
                message = f"pool '{name}' does not say how many cores a node has"
                yield Violation(message, "write cores: 64", ("pools", name))
        chosen: dict[Key, tuple[str, ...] | str] = {("launcher",): self.launcher}
        chosen |= {("pools", n, "launcher"): p.launcher for n, p in self.pools.items() if p.launcher}
        for key, named in (chosen | {("launchers", n): words for n, words in self.launchers.items()}).items():
            if not named or not named[0]:
                yield Violation("an empty launcher", "write [mpiexec, -n, '{ranks}']", key)
            elif isinstance(named, str) and named not in self.launcher_names:
                yield Violation(f"no launcher '{named}' in `launchers`", self.launcher_hint(named), key)


def missing(site: Site) -> list[str]:
    """List what a user must still provide before a site takes jobs, and how."""
    if not site.account_required or site.account is not None:
        return []
    without = [name for name, pool in site.pools.items() if pool.account is None]
    if not without:
        return []
    charged = "its jobs are charged" if len(without) == len(site.pools) else f"pools {', '.join(without)}"
    return [
        f"site '{site.name}' needs an account ({charged}): set DIEL_ACCOUNT=NAME, or write a file of your "
        f"own, schedulers/mine.yaml, with `extends: {site.name}` and `account: NAME`, and use --site mine"
    ]
