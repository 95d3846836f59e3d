"""The state of a stage: how many of its tasks are in each state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from diel.errors import counted
from diel.journal.history import History
from diel.journal.segment import Reader
from diel.journal.stage_history import StageHistory, ranges
from diel.paths import RunPaths
from diel.states import RunState, TaskState
from diel.status.joined import Left
from diel.status.surrogate import SurrogateStatus, surrogate_of
from diel.status.tasks import UNDER_WAY, stage_names


@dataclass(frozen=True)
class StageStatus:
    """One stage: how many of its tasks are in each state."""

    name: str
    kind: str
    total: int | None
    """None until the run shows it; tasks that will never come do not count."""
    counts: Mapping[str, int]
    """Tasks by the label of their state."""
    mean_seconds: float | None
    """Mean run time of the attempts that were committed."""
    void: str = ""
    """Why the stage will have no tasks, if one of its axes could not be made."""
    held: Sequence[str] = ()
    """By which rule no more of its tasks are begun, and why; empty if they are."""
    omitted: int = 0
    """Tasks at points that never came: of rounds after a loop's last, of pruned trials."""
    hindered: int = 0
    """Skipped tasks that would have run but for a failure."""
    tolerated: int = 0
    """Failed tasks that others went on without, as a search or `min_success` allows."""
    shared: int = 0
    """Tasks that have the result of an equal trial of the same run."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """By output, how many tasks' artifacts were deleted after use."""
    usage: Mapping[str, float] = field(default_factory=dict)
    """What the committed attempts used together."""
    surrogate: SurrogateStatus | None = None
    """If its tasks ask before they run."""
    joined: Mapping[int, Left] = field(default_factory=dict)
    """By task, the points that it does not get of gathers that meet in it."""
    stays: Sequence[int] = ()
    """The tasks that read suspect answers, and stay."""

    def __getitem__(self, state: TaskState) -> int:
        return self.counts[state.label]

    @property
    def good(self) -> int:
        """Tasks with a result, cached ones included."""
        return self[TaskState.DONE] + self[TaskState.CACHED]

    def document(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "total": self.total,
            **self.counts,
            "omitted": self.omitted,
            "tolerated": self.tolerated,
            "mean_seconds": self.mean_seconds,
            **({"void": self.void} if self.void else {}),
            **({"held": {"rule": self.held[0], "why": self.held[1]}} if self.held else {}),
            **({"shared": self.shared} if self.shared else {}),
            **({"dropped": dict(self.dropped)} if self.dropped else {}),
            **({"usage": {key: round(value, 6) for key, value in self.usage.items()}} if self.usage else {}),
            **({} if self.surrogate is None else {"surrogate": self.surrogate.document()}),
            **({"left_out": {str(i): one for i, one in self.joined.items()}} if self.joined else {}),
            **({"stays": ranges(self.stays)} if self.stays else {}),
        }


def shared_lines(stages: Iterable[StageStatus]) -> list[str]:
    """How many tasks did not run, since an equal one of the same run had."""
    who = "the result of an equal trial"
    return [f"{one.name}: {counted(one.shared, 'task')} took {who}" for one in stages if one.shared]


def stages_in(paths: RunPaths, reader: Reader, state: RunState) -> Iterator[StageStatus]:
    known = reader.history.stages
    names = list(known)
    if not known or not paths.snapshot.exists():  # its first snapshot names the stages that have yet to begin
        written = stage_names(paths)
        names = [*written, *(name for name in names if name not in written)] if written else names
    for name in names:
        stage = known.get(name) or StageHistory("analysis", 0, bytearray())
        yield _stage_status(name, stage, state, reader.history)


def _stage_status(name: str, stage: StageHistory, state: RunState, history: History) -> StageStatus:
    counts = stage.counts()
    if not state.live:  # without a controller nothing is under way
        for label in (s.label for s in UNDER_WAY):
            counts["waiting"] += counts[label]
            counts[label] = 0
    return StageStatus(
        name=name,
        kind=stage.kind,
        total=stage.expected if stage.total or stage.parts or stage.void else None,
        counts=counts,
        mean_seconds=round(stage.seconds / stage.timed, 6) if stage.timed else None,
        void=stage.void,
        held=stage.held,
        omitted=stage.never,
        hindered=stage.hindered,
        tolerated=len(stage.tolerated),
        shared=len(stage.shared),
        dropped={output: len(tasks) for output, tasks in stage.dropped.items()},
        usage=stage.usage,
        surrogate=None if stage.surrogate is None else surrogate_of(history, stage.surrogate),
        joined=stage.joined,
        stays=stage.stays(),
    )
