"""What is known about a search or loop: its trials or rounds, for each combination of other axes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, assert_never

from diel.base.form import Contradiction
from diel.base.states import TrialState

if TYPE_CHECKING:
    from diel.store.journal import records

Context = tuple[int, ...]
"""Coordinates on some axes: a search or loop runs once for each combination."""


@dataclass(slots=True)
class Trial:
    """One point of a search."""

    number: int
    hp: dict[str, Any]
    """The hyperparameters that the search has set, by name."""
    began: float
    """Seconds since the epoch."""
    state: TrialState = TrialState.RUNNING
    values: list[float] = field(default_factory=list)
    """One for each objective, in the search's order; empty without a score."""
    excess: list[float] = field(default_factory=list)
    """By how much it is beyond the bound of each constraint; what is above 0 breaks it."""
    message: str = ""
    """Why it has none."""
    lost: list[list[Any]] = field(default_factory=list)
    """The tasks that failed or were cancelled, as [stage, index]."""
    ended: float | None = None
    reported: dict[int, float] = field(default_factory=dict)
    """What it reported while it ran, by step."""
    parent: int | None = None
    """The trial that it goes on from."""
    core_seconds: float = 0.0
    """Core time of the tasks that were stopped when it was pruned."""


def _good(trials: Iterable[Trial]) -> list[Trial]:
    complete = (trial for trial in trials if trial.state is TrialState.COMPLETE and trial.values)
    return [trial for trial in complete if max(trial.excess, default=0.0) <= 0]


def ranked(trials: Iterable[Trial], small: bool) -> list[Trial]:
    """Return the complete trials of one objective, the best first; of two equal ones, the earlier first."""
    sign = 1 if small else -1
    return sorted(_good(trials), key=lambda trial: (sign * trial.values[0], trial.number))


def front(trials: Iterable[Trial], small: Sequence[bool]) -> list[Trial]:
    """Return the Pareto front: the complete trials that no other dominates, by number."""
    complete = _good(trials)
    costs = {
        trial.number: tuple(v if s else -v for v, s in zip(trial.values, small, strict=True))
        for trial in complete
    }
    best: list[Trial] = []
    # In this order nothing is dominated by what comes later, so that only what is kept has to be compared.
    for trial in sorted(complete, key=lambda trial: (costs[trial.number], trial.number)):
        cost = costs[trial.number]
        better = (costs[other.number] for other in best if costs[other.number] != cost)
        if not any(all(a <= b for a, b in zip(other, cost, strict=True)) for other in better):
            best.append(trial)
    return sorted(best, key=lambda trial: trial.number)


@dataclass(slots=True)
class Round:
    """One point of a loop that has been judged."""

    number: int
    holds: bool
    """Whether `until` held."""
    values: dict[str, Any]
    """What `until` read, by name."""
    time: float


@dataclass(slots=True)
class Course:
    """How one search or loop went so far: the trials of one study, the rounds of one loop."""

    context: Context
    seed: int = 0
    """Of the sampler."""
    began: float = 0.0
    idle: float = 0.0
    """Seconds since then in which nobody drove the run, or the search was over."""
    closed: float | None = None
    """When it was over, in seconds since the epoch."""
    trials: list[Trial] = field(default_factory=list)
    """By number."""
    rounds: list[Round] = field(default_factory=list)
    """By number."""
    told: list[list[int]] = field(default_factory=list)
    """What the searcher was asked and what was reported to it, in that order: [number] for a new trial,
    [number, -1] for its end, [number, step] for a report."""
    points: int | None = None
    """How many points there are in the end; None while more can come."""
    reason: str = ""
    """Why it ended."""
    stopped: str = ""
    """Why no further trial is requested while others still run."""
    failed: bool = False
    """Whether it ended without a point to hand on."""
    tolerated: str = ""
    """If it failed and others went on without it: what allowed that."""
    at: dict[str, Any] = field(default_factory=dict)
    """The parameters of the points that its context is made of, by name."""

    @property
    def over(self) -> bool:
        return self.points is not None

    def known(self, number: int) -> Trial:
        """Return a trial that began. Raise Contradiction if none with this number did."""
        if not 0 <= number < len(self.trials):
            raise Contradiction(f"trial {number} has a record, but never began")
        return self.trials[number]

    def ask(self, record: "records.TrialRecord") -> None:
        """Begin a trial."""
        if record["number"] == len(self.trials):
            parent = record.get("parent")
            self.trials.append(Trial(record["number"], record["hp"], record["time"], parent=parent))
            self.told.append([record["number"]])

    def report(self, record: "records.Reported") -> None:
        """Note a value that a trial reported."""
        trial, step = self.known(record["number"]), record["step"]
        if step not in trial.reported and trial.state is TrialState.RUNNING:
            trial.reported[step] = record["value"]
            self.told.append([trial.number, step])

    def judge(self, record: "records.JudgedRecord") -> None:
        """End a trial."""
        trial = self.known(record["number"])
        if trial.state is not TrialState.RUNNING:
            return
        trial.state = TrialState(record["state"])
        trial.values = record.get("values", [])
        trial.excess = record.get("excess", [])
        trial.message = record.get("message", "")
        trial.lost = record.get("lost", [])
        trial.core_seconds = record.get("core_seconds", 0.0)
        trial.ended = record["time"]
        self.told.append([trial.number, -1])

    def reopen(self, trials: Iterable[int], now: float) -> None:
        """Continue as if no controller had been killed, and try these trials again."""
        self.idle += 0.0 if self.closed is None else now - self.closed
        self.points, self.reason, self.failed, self.tolerated, self.closed = None, "", False, "", None
        for number in trials:
            trial = self.known(number)
            trial.state, trial.message, trial.lost = TrialState.RUNNING, "", []
            self.told.remove([number, -1])


@dataclass(slots=True)
class AxisFacts:
    """What the workflow says about an axis, kept so that status needs no workflow."""

    kind: str
    """`search` or `loop`."""
    size: int
    """The most points that there can be."""
    context: list[str]
    """It runs once for each combination of these axes."""
    judges: list[str]
    """The stages that judge its points; none for a loop that runs all of its rounds."""
    stages: list[str]
    """The stages that run over it."""
    until: str = ""
    """The expression that ends it; empty if there is none."""
    sampler: str = ""
    parallel: int = 1
    pruner: str = "none"
    objectives: list[list[Any]] = field(default_factory=list)
    """[STAGE.VALUE, whether it is minimized] each."""
    watched: str = ""
    """The STAGE.METRIC that the pruner watches."""


@dataclass(slots=True)
class AxisHistory:
    """The courses of one axis."""

    courses: dict[Context, Course] = field(default_factory=dict)
    facts: AxisFacts | None = None

    def course(self, context: list[int]) -> Course:
        return self.courses.setdefault(tuple(context), Course(tuple(context)))

    def know(self, facts: dict[str, Any]) -> None:
        """Read an axis's facts. Raise Contradiction if a workflow cannot say these about an axis."""
        try:
            self.facts = AxisFacts(**facts)
        except TypeError as error:
            raise Contradiction(f"a record of `axis`: `facts` is {repr(facts)[:60]}") from error

    def apply(self, record: "records.OfCourse") -> None:
        """Fold one record in."""
        course = self.course(record["context"])
        match record["event"]:
            case "begin":
                course.seed, course.began = record["seed"], record["time"]
                course.at = record.get("at", {})
            case "trial":
                course.ask(record)
            case "reported":
                course.report(record)
            case "judged":
                course.judge(record)
            case "round":
                if (number := record["number"]) == len(course.rounds):
                    course.rounds.append(Round(number, record["holds"], record["values"], record["time"]))
            case "stopped":
                course.stopped = record["message"] or "until"
            case "closed":
                course.points, course.reason = record["points"], record["reason"]
                course.failed, course.closed = record.get("failed", False), record["time"]
            case "reopened":
                course.reopen(record["trials"], record["time"])
            case "spared":
                course.tolerated = record["cause"]
            case never:
                assert_never(never)

    def reopen(
        self, cancelled: Callable[[Trial], bool], now: float, idle: float
    ) -> Iterator[tuple[str, int]]:
        """Continue what is not decided, after so many seconds without a controller, and try trials again that
        lost tasks, if their search failed or a user stopped them. Yield the tasks that were lost in trials
        which stay failed."""
        for course in self.courses.values():
            if not course.over:
                course.idle += idle
            if not course.over or course.failed:
                again = (lost for lost in course.trials if lost.lost and (course.failed or cancelled(lost)))
                course.reopen([trial.number for trial in again], now)
            yield from ((name, index) for trial in course.trials for name, index in trial.lost)
