"""The records of a journal: one JSON object on each line, of a type by its `event`.

Whoever writes a record makes it of one of these types, and whoever reads one gets it: mypy names the field
that a writer forgot, and the places that have to deal with a new kind. At run time they are plain dicts, as
the JSON reader makes them (docs/decisions/039). So `status`, `plan` and workers import it under
TYPE_CHECKING. `form` says what is wrong with a damaged record: for that a type has words and bounds too.

An optional key is one that older runs lack, or that is written only where it says something.
`time` is in seconds since the epoch; the ledger stamps what a controller writes.
"""

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from diel.base.states import RunState, TrialState

Count = Annotated[int, range(2**53 + 1)]
"""JSON readers agree on numbers up to here."""
Index = Annotated[int, "a task's index", range(10**9)]
"""Each task takes a byte of memory."""
Total = Annotated[int, "a number of tasks", range(10**9)]
Indices = Annotated[list[Index], "a list of tasks"]
Ranges = Annotated[list[Annotated[list[Index], range(2, 3)]], "pairs of tasks", range(1, 10**9)]
"""Tasks of a stage as [first, last] pairs (see diel.store.journal.stage_history)."""
Numbered = Annotated[list[Annotated[list[Count], range(2, 3)]], "tasks, each with its attempt"]
"""Tasks of a stage, each as [index, attempt]."""


class _Stamped(TypedDict):
    time: NotRequired[float]


class ControllerRecord(TypedDict):
    event: Literal["controller"]
    """A controller took the run over. Its first record, with its lease."""
    epoch: Count
    host: str
    pid: int
    started: float
    birth: NotRequired[str]
    idle: NotRequired[float]
    """Seconds for which nobody had driven it."""
    time: float


class Handover(_Stamped):
    event: Literal["handover"]
    """It let go, for its successor to go on."""


class End(_Stamped):
    event: Literal["end"]
    """It let go: the run's state then. `diel cancel` writes one for a run without a controller."""
    state: Annotated[str, "a state of a run", tuple(RunState)]


class Trouble(_Stamped):
    event: Literal["trouble"]
    """A problem that is not a task's: a block was refused."""
    message: str


class ExportFacts(TypedDict):
    """What was exported of an output so far."""

    files: Count
    folder: str
    """The directory that has them all."""
    failed: Count
    message: str
    """Why the first of these failed."""
    kept: NotRequired[Count]
    """How many were not put in place, for something that is newer stays there."""
    why: NotRequired[str]


class ExportedRecord(ExportFacts, _Stamped):
    event: Literal["exported"]
    """How far the exports of an output are: all of it so far."""
    output: str
    """STAGE.OUTPUT"""


class SchedulerRecord(_Stamped):
    event: Literal["scheduler"]
    """Why the scheduler does not answer; an empty message if it does again."""
    message: str


class BlockFacts(TypedDict):
    """The state of one allocation."""

    block: str
    job: str
    epoch: Count
    pool: str
    shape: str
    needs: dict[str, Any]
    """The fields of its diel.site.Shape."""
    state: str
    reason: str
    """The scheduler's own words."""
    hopeless: NotRequired[bool]
    """Whether it will never run, by these words."""
    nodes: str
    walltime: float
    asked: float
    began: float | None
    ended: float | None
    ending: bool
    """Whether diel asked for its end."""
    stderr_tail: str


class BlockRecord(BlockFacts, _Stamped):
    event: Literal["block"]
    """The state of one allocation. Also by `diel cancel`, for those that it ended."""


class BlockNow(BlockFacts):
    """The same for status, with the number of tasks known to run there."""

    running: int


class Adopted(_Stamped):
    event: Literal["adopted"]
    """Attempts of an earlier controller that still run in its blocks."""
    tasks: Annotated[list[tuple[str, Index, Count, str]], "tasks, each with its attempt and worker"]
    """Stage, index, attempt and the worker's segment, each."""


class TaughtBy(TypedDict):
    """What answers for tasks of a stage, and the stages that teach its model."""

    service: str
    training: list[str]
    simulations: list[str]
    tolerance: NotRequired[float]
    """What its answers are held to, if they are audited."""


class StageRecord(_Stamped):
    event: Literal["stage"]
    """A stage's tasks are known, or, with `void`, never will be."""
    stage: str
    kind: str
    total: Total
    family: NotRequired[str]
    parts: NotRequired[dict[str, str]]
    """The family: the parts of the cache key that its tasks share."""
    reads: NotRequired[list[str]]
    """The hyperparameters that its tasks read."""
    factors: NotRequired[list[dict[str, Any]]]
    surrogate: NotRequired[TaughtBy]
    void: NotRequired[str]
    remark: NotRequired[str]
    """What was lost of the texts of its axes."""


class Queued(_Stamped):
    event: Literal["queued"]
    """Tasks were handed out in a bundle, as these attempts (the first, if not given)."""
    stage: str
    bundle: NotRequired[Count]
    tasks: Indices
    attempts: NotRequired[list[Count]]
    resources: NotRequired[dict[str, Any]]
    """What they get, if it is more than they ask for."""
    asked: NotRequired[dict[str, Any]]
    """What they ask for by expressions of their stage."""


class _Verdict(_Stamped):
    stage: str
    tasks: Ranges


Said = TypedDict(
    "Said",
    {
        "class": str,
        "message": str,
        "exit_code": NotRequired[int | None],
        "stderr_tail": NotRequired[str],
        "headline": NotRequired[str],
    },
)
"""What an attempt without a result reported."""


class Failed(_Verdict, Said):
    event: Literal["failed"]
    """The verdict on tasks that failed for good, with the message of the last attempt."""
    attempt: NotRequired[Count]
    point: NotRequired[dict[str, Any]]
    """The axis parameters of the (one) task."""
    tolerated: NotRequired[str]
    """Never written: the fold adds what lets others go on without them."""


class Cause(TypedDict, total=False):
    """Why tasks are not run."""

    reason: str
    """`upstream`, `when`, `axis` or `service`, or what stopped the stage: see `HeldRecord`."""
    cause: str
    """The stage that it comes from; empty if the task's own `when` says so."""


class Skipped(_Verdict, Cause):
    event: Literal["skipped"]
    """The verdict on tasks that are not run."""


class Cancelled(_Verdict):
    event: Literal["cancelled"]
    """The verdict on tasks that a user stopped."""


class Tolerated(_Verdict):
    event: Literal["tolerated"]
    """Failed tasks that others went on without, and what allows that."""
    cause: str


class JoinedRecord(_Stamped):
    event: Literal["joined"]
    """What a task does not get of gathers that meet in it: the points that one edge lacks, for each."""
    stage: str
    index: Index
    left: list[dict[str, Any]]
    """`edges`, `of` what has them, `number`, and the first `points`."""


class HeldRecord(_Stamped):
    event: Literal["held"]
    """No more tasks of a stage are begun, and why; with an empty `why` they are again."""
    stage: str
    rule: str
    """`hold`, `max_failures`, `fail_fast`, `imports` (packages that a node lacks), `changed` (a file)."""
    why: str


class Fenced(_Stamped):
    event: Literal["fenced"]
    """Attempts that were given up for lost: no result of theirs counts, whenever it comes."""
    stage: str
    tasks: Numbered


class Gone(_Stamped):
    event: Literal["gone"]
    """Results that lost their files, are outdated, or are of pruned trials: none up to these attempts counts.

    By `diel resume`; of pruned trials, by the controller."""
    stage: str
    tasks: Numbered
    made: NotRequired[list[tuple[Index, dict[str, str]]]]
    """The digests of the outputs of results that are made again, or were: those that readers had."""


class Doubted(_Stamped):
    event: Literal["doubted"]
    """Results of these attempts that read suspect answers, and stay as these are simulated: they decided.

    By `diel resume --recompute suspect`."""
    stage: str
    tasks: Numbered


class Dropped(_Stamped):
    event: Literal["dropped"]
    """Artifacts that were deleted after use. Also by `diel clean --intermediate`."""
    stage: str
    output: str
    tasks: Ranges
    bytes: Count


class AxisRecord(_Stamped):
    event: Literal["axis"]
    """What the workflow says about a search or loop."""
    axis: str
    facts: dict[str, Any]
    """The fields of diel.store.journal.axis_history.AxisFacts."""


class CourseKey(_Stamped):
    axis: str
    context: list[int]
    """Coordinates on some axes: it runs once for each combination."""


class Begin(CourseKey):
    event: Literal["begin"]
    """It began there."""
    seed: int
    at: NotRequired[dict[str, Any]]
    """The parameters of the points that its context is made of, by name."""


class TrialRecord(CourseKey):
    event: Literal["trial"]
    """A trial, and the hyperparameters that it sets."""
    number: Count
    hp: dict[str, Any]
    parent: NotRequired[Count]
    """The trial that it goes on from."""


class Reported(CourseKey):
    event: Literal["reported"]
    """What a trial reported to its pruner."""
    number: Count
    step: Count
    value: float


class JudgedRecord(CourseKey):
    event: Literal["judged"]
    """The end of a trial."""
    number: Count
    state: Annotated[str, "a state of a trial", tuple(TrialState)]
    values: NotRequired[list[float]]
    excess: NotRequired[list[float]]
    """How far it is beyond the bounds of its constraints."""
    message: NotRequired[str]
    lost: NotRequired[list[list[Any]]]
    """The tasks that failed or were cancelled, as [stage, index]."""
    core_seconds: NotRequired[float]


class StoppedRecord(CourseKey):
    event: Literal["stopped"]
    """No further trials."""
    number: NotRequired[Count]
    message: str


class RoundRecord(CourseKey):
    event: Literal["round"]
    """The values that `until` read in a round, and whether it held."""
    number: Count
    holds: bool
    values: dict[str, Any]


class Closed(CourseKey):
    event: Literal["closed"]
    """How many points there are in the end."""
    points: Count
    reason: str
    failed: NotRequired[bool]


class Reopened(CourseKey):
    event: Literal["reopened"]
    """A search continues with trials that were cancelled, because nobody has used what it found."""
    trials: list[Count]


class Spared(CourseKey):
    event: Literal["spared"]
    """It failed and others went on without it, and what allows that."""
    cause: str


class WorkerRecord(TypedDict):
    event: Literal["worker"]
    """A worker process began. Its first record."""
    host: str
    pid: int
    started: NotRequired[float]
    birth: NotRequired[str]
    time: float
    block: NotRequired[str]
    """In a block alone, as `node` is."""
    node: NotRequired[str]


class WorkerFacts(TypedDict):
    """A worker in a block, as the fold keeps it."""

    block: str
    node: str | None
    host: str | None
    pid: int | None


class _Task(TypedDict):
    stage: str
    index: Index


class _Attempt(_Task):
    attempt: Count
    time: float


class Start(_Attempt):
    event: Literal["start"]
    """Begin an attempt."""
    bundle: NotRequired[Count]


class UsageFacts(TypedDict):
    """What an attempt used: all its processes, on all its nodes. What could not be measured is missing."""

    cpu_seconds: float
    """User and system time."""
    system_seconds: float
    """The system's part of it."""
    memory_bytes: NotRequired[Count]
    """The most that its processes took together; of a function, as in a Python of its own."""
    memory_at_most: NotRequired[bool]
    """It took less: the kernel cannot tell a small, short command from its worker."""
    read_bytes: NotRequired[Count]
    """By read calls, of whatever; or from disks, if that is more."""
    written_bytes: NotRequired[Count]
    gpu_seconds: NotRequired[float]
    """The time for which its GPUs were busy, added up: those of its worker's node."""
    gpu_memory_bytes: NotRequired[Count]


class Answered(TypedDict):
    """The answer to a task that asked before it ran."""

    asked: float
    """Seconds that the question took."""
    used: bool
    uncertainty: NotRequired[float | None]
    message: NotRequired[str]
    unasked: NotRequired[str]
    """Why nobody was asked."""
    error: NotRequired[float | None]
    """How far the answer was off, of a task that was audited; None if that is no number."""
    answer: NotRequired[str]
    """The key of that answer."""


class Made(TypedDict, total=False):
    """What a task made."""

    values: dict[str, Any]
    artifacts: dict[str, dict[str, Any]]
    run: str
    """The earlier run that holds it; missing if it is this one."""
    run_id: str
    """That run's own id: its name can be given again. Records from before have none."""
    imports: dict[str, str]
    """Files of the user that a task executed and that no import names, each with the digest of its bytes."""


class _Result(_Task, Made):
    seconds: float
    key: str
    parts: NotRequired[tuple[str, str]]
    surrogate: NotRequired[Answered]
    origin: NotRequired[list[int]]
    """Index and attempt in the earlier run."""
    origin_stage: NotRequired[str]
    """The stage there, if it has another name."""
    same: NotRequired[Index]
    """The equal task of this run whose result it is."""


class Done(_Result):
    event: Literal["done"]
    """An attempt's result: this line is the commit."""
    attempt: Count
    time: float
    output: NotRequired[bool]
    """Whether it printed anything."""
    usage: NotRequired[UsageFacts]


class Cached(_Result, _Stamped):
    event: Literal["cached"]
    """A task's result, from an earlier `run`. By the controller."""


class PrunedRecord(_Task, _Stamped):
    event: Literal["pruned"]
    """What a task reported before it was pruned, for later runs. By the controller."""
    key: str
    """Made from that of the task and the metric, for it is none of a result."""
    metric: NotRequired[str]
    """What the values are of; where it is missing nobody can tell, and nobody takes them."""
    reported: list[list[float]]
    """[step, value] each."""


class Fail(_Attempt, Said):
    event: Literal["fail"]
    """An attempt ended without a result. By the controller if a worker does not answer."""
    bundle: NotRequired[Count]
    seconds: NotRequired[float]
    usage: NotRequired[UsageFacts]


class Release(_Stamped):
    event: Literal["release"]
    """Tasks of a bundle that the worker will not run after all."""
    stage: str
    bundle: Count
    tasks: Indices
    taken: NotRequired[Count]
    """The attempt that another worker has begun."""


class ServiceRecord(_Attempt):
    event: Literal["service"]
    """The state of a replica."""
    state: str
    url: str
    restarts: Count
    message: NotRequired[str]


class StagingRecord(_Attempt):
    event: Literal["staging"]
    """What an attempt copied to its node's disk, or why it did not."""
    node: str
    copied: Count
    bytes: Count
    found: Count
    seconds: float
    folder: str
    warning: str


class NoticeRecord(TypedDict):
    """What became of telling an address something. In a file of its own, which is no segment."""

    event: Literal["notice"]
    about: str
    kind: str
    way: str
    state: Literal["sending", "sent", "failed"]
    time: float
    message: NotRequired[str]
    """Why it failed."""


class NodeFacts(TypedDict):
    """What all attempts copied to the disk of a node, as the fold keeps it."""

    copied: Count
    bytes: Count
    folder: str
    warnings: int
    warning: str


Result = Done | Cached
OfTask = Start | Fail | Done | Cached | PrunedRecord | ServiceRecord | StagingRecord
"""Records about a single task."""
OfCourse = (
    Begin | TrialRecord | Reported | JudgedRecord | RoundRecord | StoppedRecord | Closed | Reopened | Spared
)
OfAxis = AxisRecord | OfCourse
OfTasks = Queued | Release | Failed | Skipped | Cancelled
OfStage = StageRecord | Tolerated | JoinedRecord | HeldRecord | Fenced | Gone | Doubted | Dropped
OfRun = (
    ControllerRecord
    | Handover
    | End
    | Trouble
    | SchedulerRecord
    | BlockRecord
    | Adopted
    | WorkerRecord
    | ExportedRecord
)
Record = OfTask | OfTasks | OfStage | OfAxis | OfRun
