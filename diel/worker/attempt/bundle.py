"""What the controller sends to a worker, and what it gets back."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from diel.workflow.modules.catalogue import Module

if TYPE_CHECKING:  # not loaded by workers and plans that do without
    from diel.store.artifacts.identity import FirstLook
    from diel.store.journal.records import Record
    from diel.worker.attempt.service import Answers
    from diel.worker.environments.prepared import PreparedEnvironment
    from diel.worker.staging.item import Item, Local, Shard
    from diel.workflow.models import Output, Resources, Service, Surrogate


Rendered = tuple[str, str, bool]
"""A file made for a task from a template: its path in the task's directory, its text, and if it can run."""
LAUNCHER = ".launcher"
"""The file in a task's directory that starts its ranks, where a command does so itself."""
AT_LAUNCHER = "/.diel launcher"
"""What `${{ launcher }}` gives until the attempt is known that it starts ranks for; a shell quotes it."""


class Staging(NamedTuple):
    """How a stage uses the disks of its nodes."""

    local: "Local"
    each_node: tuple[str, ...] = ()
    """The launcher's words that start a program on each node; empty if the worker's own is the task's."""
    drains: tuple[str, ...] = ()
    """Outputs that are written on the node's disk, and copied to the run while the next task runs."""


class Work(NamedTuple):
    """What all tasks of a stage share."""

    stage: str
    module: Module | None
    """The Python module; None for a command."""
    values: Mapping[str, str]
    """Declared values of a command, with their types."""
    timeout: float | None
    """Seconds after which an attempt is killed."""
    launcher: tuple[str, ...]
    """The MPI launcher's words, put before what ranks run; empty without `ranks`."""
    threads: int
    """Cores of each process, for OpenMP."""
    ranks: int = 1
    """MPI processes of a task."""
    memory: int | None = None
    """Bytes that a task may take on each node; it is ended if it takes more."""
    walltime: float | None = None
    """Seconds that a task may run in a block."""
    checkpoint: bool = False
    """Whether a task that is interrupted continues as another attempt."""
    grace: float = 60.0
    """Seconds between the warning to such a task and its end."""
    rehearses: bool = False
    """Whether it is warned of its `timeout` too."""
    promises: Mapping[str, "Output"] = {}
    """Outputs that promise more than a path or the type of a value; of a module, all that are declared."""
    conversions: Mapping[str, Any] | None = None
    """Inputs whose files are in other units than the module reads; None if there are none."""
    columns: Mapping[str, Mapping[str, str]] | None = None
    """The types of columns that contracts declare, by input of a module."""
    staging: Staging | None = None
    """How it uses the disks of its nodes; None if it does not."""
    service: "Service | None" = None
    """Its settings; None for a stage whose tasks end."""
    surrogate: "Surrogate | None" = None
    """What each task asks before it runs, with the outputs that are answered."""
    environments: "Mapping[str, PreparedEnvironment] | None" = None
    """The environments that its tasks name; None if they name none."""
    launches: bool = False
    """Whether its command runs once and starts the ranks itself."""
    watched: "tuple[FirstLook, ...]" = ()
    """The files that all its tasks read where they lie."""
    apart: bool = False
    """Whether each of its tasks has a process of its own, though it is a function."""
    from_shell: tuple[str, ...] = ()
    """Variables of the user's shell among those of its requests: an environment may set others."""

    def within(self, resources: "Resources") -> "Work":
        """Return the same with what one attempt asked for: a retry can get more than its stage says."""
        if (self.memory, self.walltime) == (resources.memory, resources.walltime):
            return self
        return self._replace(memory=resources.memory, walltime=resources.walltime)


class StagedTask(NamedTuple):
    """A task's texts with placeholders for copies on its node instead of artifacts."""

    items: "tuple[Item, ...]"
    params: Mapping[str, Any]
    inputs: Mapping[str, Any]
    command: tuple[str, ...] | None
    env: Mapping[str, str]
    rendered: tuple[Rendered, ...] = ()


class Question(NamedTuple):
    """What a task asks before it runs."""

    row: Mapping[str, int | float]
    """The task's parameters."""
    replicas: tuple[int, ...]
    """The task indices of the replicas that can answer."""
    key: str
    """Cache key of the answer: it depends on the model too, unlike a simulation."""
    parts: tuple[str, str]
    audited: bool = False
    """Whether the task is simulated all the same, to see how far the answer is off."""
    answers: "Answers | None" = None
    """What makes the key, if the service takes newer models while it runs."""
    watched: "tuple[FirstLook, ...]" = ()
    """The files that the service reads where they lie."""
    reads: Mapping[str, Any] | None = None
    """What the service reads of other tasks' files, by name."""


class Request(NamedTuple):
    """One attempt of one task, with everything resolved."""

    index: int  # type: ignore[assignment]  # tuples have a method of this name
    attempt: int
    key: str
    """Cache key, written into the record."""
    parts: tuple[str, str]
    """Digests of the parameters and of the inputs: the parts of the key that differ by task."""
    params: Mapping[str, Any]
    inputs: Mapping[str, Any]
    command: tuple[str, ...] | None
    outputs: Mapping[str, str]
    """Declared output files of a command, relative to the task's directory."""
    env: Mapping[str, str]
    staged: StagedTask | None = None
    """The same with artifacts on the node's disk; None if none go there."""
    shards: "Mapping[str, Shard] | None" = None
    """Inputs that are split, by name."""
    services: Mapping[str, Sequence[int]] | None = None
    """The task indices of the replicas that it asks, by name."""
    streams: Mapping[str, Mapping[str, str]] | None = None
    """What it puts and gets while it runs, by name; None if it runs beside no other stage's tasks."""
    question: Question | str | None = None
    """What it asks before it runs, or why it asks nobody; None where there is nobody to ask."""
    rendered: tuple[Rendered, ...] = ()
    """Files that are written into its directory before it runs."""
    environment: str | None = None
    """The name of the environment in which it runs."""
    answers: "Answers | None" = None
    """What makes its key, if it asks services that take newer inputs while they run."""
    reads: Mapping[str, Any] | None = None
    """What it reads of other tasks' files, by name; None if nothing."""
    watched: "tuple[FirstLook, ...]" = ()
    """The files of its own that it reads where they lie."""
    point: Mapping[str, Any] = {}
    """The parameters of its axes: another stage reads them as it reads outputs."""


class Bundle(NamedTuple):
    """Tasks of one stage that a worker runs one after the other."""

    number: int
    run_dir: str
    epoch: int
    work: Work
    requests: tuple[Request, ...]
    slice: float
    """Seconds after which the worker hands back what it has not begun."""
    needed: float = 0.0
    """Seconds that each task must have left in its block, by the run times seen so far."""
    imports: tuple[str, ...] = ()
    """Packages to look for before any task: modules of the run import them in this pool."""


class BundleReport(NamedTuple):
    """The report on a bundle: its records are in the worker's segment; tasks without one were not begun."""

    segment: str
    end: int
    """The length of the segment now."""
    records: "tuple[tuple[int, Record], ...]"
    missing: tuple[str, ...] = ()
    """Packages that are not there, so that no task was begun."""
    python: str = ""
    """The Python in which they were looked for."""


class Failure(Exception):
    """An attempt ended without a result; `traceback` is where a module raised an error."""

    def __init__(self, kind: str, message: str, exit_code: int | None = None, traceback: str = "") -> None:
        self.kind = kind
        self.message = message
        self.exit_code = exit_code
        self.traceback = traceback
        super().__init__(message)
