"""The state of a stage: how many of its tasks are in each state, what they used, how they failed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from diel.base.errors import UsageError, counted, did_you_mean
from diel.base.paths import RunPaths
from diel.base.states import RunState, TaskState
from diel.base.values import format_duration, format_size, point_text, task_text
from diel.observe.status.columns import last_line, paint, printable, shorten, tasks_text
from diel.observe.status.surrogate import SurrogateStatus, surrogate_of
from diel.store.journal.history import History
from diel.store.journal.segment import Reader
from diel.store.journal.stage_history import LEFT_BY_AXIS, StageHistory, ranges

if TYPE_CHECKING:
    from diel.store.journal.records import Failed, Said


@dataclass(frozen=True)
class StageStatus:
    """One stage: how many of its tasks are in each state."""

    name: str
    kind: str
    total: int | None
    """None until the run shows it; tasks that will never come do not count."""
    counts: Mapping[str, int]
    """Tasks by the label of their state."""
    mean_seconds: float | None = None
    """Mean run time of the attempts that were committed."""
    void: str = ""
    """Why the stage will have no tasks, if one of its axes could not be made."""
    remark: str = ""
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
    joined: "Mapping[int, MissingPoints]" = field(default_factory=dict)
    """By task, the points that it does not get of gathers that meet in it."""
    stays: Sequence[int] = ()
    """The tasks that read suspect answers, and stay."""

    def __getitem__(self, state: TaskState) -> int:
        return self.counts[state.label]

    @property
    def good(self) -> int:
        """Tasks with a result, cached ones included."""
        return self[TaskState.DONE] + self[TaskState.CACHED]

    @property
    def total_text(self) -> str:
        return "?" if self.total is None else f"{self.total:,}"

    def document(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "total": self.total,
            **self.counts,
            "omitted": self.omitted,
            "tolerated": self.tolerated,
            "mean_seconds": self.mean_seconds,
            **({"void": self.void} if self.void else {}),
            **({"remark": self.remark} if self.remark else {}),
            **({"held": {"rule": self.held[0], "why": self.held[1]}} if self.held else {}),
            **({"shared": self.shared} if self.shared else {}),
            **({"dropped": dict(self.dropped)} if self.dropped else {}),
            **({"usage": {key: round(value, 6) for key, value in self.usage.items()}} if self.usage else {}),
            **({} if self.surrogate is None else {"surrogate": self.surrogate.document()}),
            **({"left_out": {str(i): joined for i, joined in self.joined.items()}} if self.joined else {}),
            **({"stays": ranges(self.stays)} if self.stays else {}),
        }


def shared_lines(stages: Sequence[StageStatus]) -> list[str]:
    """Return how many tasks did not run, since an equal one of the same run had, and remarks on stages."""
    who = "the result of an equal trial"
    lines = [f"{stage.name}: {counted(stage.shared, 'task')} took {who}" for stage in stages if stage.shared]
    return lines + [stage.remark for stage in stages if stage.remark]


def stages_in(paths: RunPaths, history: History, state: RunState) -> Iterator[StageStatus]:
    stages = history.stages
    names = list(stages)
    if not stages or not paths.snapshot.exists():  # the first snapshot names stages that have yet to begin
        written = stage_names(paths)
        names = [*written, *(name for name in names if name not in written)] if written else names
    for name in names:
        stage = stages.get(name) or StageHistory("analysis", 0, bytearray())
        yield _stage_status(name, stage, state, history)


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
        remark=stage.remark,
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


MissingPoints = Sequence[Mapping[str, Any]]
"""The points that are left out of one task, by the edge that lacks them."""
SHOWN_POINTS = 3
"""The most points of an edge, and tasks of a stage, that are named; the rest are counted."""


def left_text(missing: MissingPoints) -> str:
    """Return the points that a task is without: `x=1 of inputs.q, which a.v lacks; x=2 and x=3 of …`."""
    return "; ".join(
        f"{_points(entry['points'], entry['number'])}{_of(entry.get('of'))}, which {_listed(entry['edges'])} "
        f"lack{'s' * (len(entry['edges']) == 1)}"
        for entry in missing
    )


def _of(names: Sequence[str] | None) -> str:
    return f" of {_listed(names)}" if names else ""


def _points(points: Sequence[Mapping[str, Any]], number: int) -> str:
    more = number - SHOWN_POINTS
    shown = ((len(point), point_text(point)) for point in points[:SHOWN_POINTS])
    texts = [f"({text})" if size > 1 else text for size, text in shown]
    return _listed([*texts, f"{more:,} more"] if more > 0 else texts)


def _listed(texts: Sequence[str]) -> str:
    return " and ".join([", ".join(texts[:-1]), texts[-1]]) if len(texts) > 1 else texts[0]


def joined_lines(
    stages: Iterable[tuple[str, Mapping[int, MissingPoints]]], most: int = SHOWN_POINTS
) -> list[str]:
    """Return a line for each task that lacks points, of many for the first ones of each stage."""
    lines = []
    for name, joined in stages:
        first = islice(sorted(joined.items()), most)
        lines += [f"{name}/{index} was joined without {left_text(missing)}" for index, missing in first]
        if (more := len(joined) - most) > 0:
            lines.append(f"{name}: {more:,} more tasks were joined without some points")
    return lines


UNDER_WAY = (TaskState.READY, TaskState.QUEUED, TaskState.RUNNING)

LONGEST = 600
"""Characters of a line of a failure: what to do stands at its end."""
LINES = 10


def stage_names(paths: RunPaths) -> list[str]:
    """Return the stages of the workflow's text, in its order; none if it cannot be read."""
    import yaml  # costs 20 ms, and the status of a run with a snapshot does not need it

    try:
        text = paths.workflow.read_text(encoding="utf-8")
        document = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - makes nothing but text
        return list(document["stages"])
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError):
        return []


def find_stage(reader: Reader, name: str) -> StageHistory:
    """Return a stage of a run. Raise UsageError with the nearest name if there is none."""
    stages = reader.history.stages
    if name in stages:
        return stages[name]
    names = dict.fromkeys([*stages, *stage_names(reader.paths)])
    if name in names:
        return StageHistory("analysis", 0, bytearray())
    hint = did_you_mean(name, names) or f"stages: {', '.join(names) or 'none yet'}"
    raise UsageError(f"{reader.paths.run_id} has no stage '{name}'; {hint}")


def find_task(reader: Reader, task: str) -> tuple[str, int]:
    """Return the stage and index of `simulate/17`, or of a stage that has one task. Raise UsageError."""
    name, slash, _ = task.partition("/")
    total, run = find_stage(reader, name).total, reader.paths.run_id
    if slash:
        return name, index_of(run, task, total)
    if total != 1:
        has = _tasks_text(name, total)
        raise UsageError(f"{run}: '{name}' has {has}; choose one, or its point: {name} NAME=VALUE")
    return name, 0


def index_of(run: str, task: str, total: int) -> int:
    """Return the index in `simulate/17`. Raise UsageError where a stage of so many tasks has no such task."""
    name, _, text = task.partition("/")
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise UsageError(f"'{task}': expected STAGE/INDEX, such as {name}/0")
    if int(text) >= total:
        raise UsageError(f"{run} has no task '{task}'; '{name}' has {_tasks_text(name, total)}")
    return int(text)


def _tasks_text(name: str, total: int) -> str:
    return f"{counted(total, 'task')}, {name}/0 to {name}/{total - 1}" if total else "no tasks yet"


def never_came(stage: StageHistory) -> list[list[int]]:
    """Return the tasks at points that never came, as [first, last] pairs."""
    return ranges(index for index, reason in enumerate(stage.left_out) if reason == LEFT_BY_AXIS)


def tasks_by_state(stage: StageHistory, *, under_way: bool = True) -> dict[TaskState, list[list[int]]]:
    """Return the indices of a stage's tasks in each state, as [first, last] pairs; without empty states.
    Without `under_way`, what was handed out counts as waiting: its controller is gone. Tasks that never came
    are in no state: see `never_came`."""
    indices: dict[TaskState, list[int]] = {}
    states = bytes(stage.states) + bytes(max(0, stage.total - len(stage.states)))
    left_out = stage.left_out + bytes(max(0, len(states) - len(stage.left_out)))
    for index, number in enumerate(states):
        state = TaskState(number)
        if left_out[index] == LEFT_BY_AXIS:
            continue
        if not under_way and state in UNDER_WAY:
            state = TaskState.WAITING
        indices.setdefault(state, []).append(index)
    return {state: ranges(indices[state]) for state in TaskState if state in indices}


def count_text(state: TaskState, count: int, tolerated: int) -> str:
    """Return `3 failed, 1 of them tolerated`: tasks in a state, and how many failures are tolerated."""
    text = f"{count:,} {state.label}"
    return text + tolerated_text(count, tolerated) if state is TaskState.FAILED else text


def tolerated_text(failed: int, tolerated: int) -> str:
    """Return the words behind a number of failures: `, 1 of them tolerated`; empty if none is."""
    if not tolerated:
        return ""
    return f", {'' if tolerated == failed else f'{tolerated:,} of them '}tolerated"


def mean_text(seconds: float | None) -> str:
    """Return the mean run time of a stage's tasks: `40µs`, `12ms`, `3m05s`; empty if none was measured."""
    if seconds is None:
        return ""
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f}µs"
    return f"{seconds * 1000:.0f}ms" if seconds < 0.1 else format_duration(seconds)


def task_of(record: "Failed") -> str:
    """Return the first task of a verdict: `simulate/17`."""
    return f"{record['stage']}/{record['tasks'][0][0]}"


def named_task(record: "Failed") -> str:
    """Return the task of a failure for people: `simulate/17 (depth=2.5, seed=1)`."""
    return printable(task_text(task_of(record), record.get("point")))


def failure_document(record: "Failed") -> dict[str, Any]:
    """Return a failure as JSON, with the same keys whatever failed."""
    return {
        "task": task_of(record),
        "point": record.get("point", {}),
        "class": record.get("class"),
        "message": record.get("message", ""),
        "exit_code": record.get("exit_code"),
        "attempt": record.get("attempt"),
        "stderr_tail": record.get("stderr_tail") or "",
        "headline": record.get("headline", ""),
        "time": record.get("time"),
        "tolerated": record.get("tolerated", ""),
    }


def failure_lines(record: "Failed") -> list[str]:
    """Return a failure in a few lines: task, class, message, and what its output names as the cause."""
    texts = [line for line in str(record.get("message", "")).splitlines() if line.strip()] or [""]
    message, *more = (shorten(printable(line), LONGEST) for line in texts[:LINES])
    tolerated = f" (tolerated by {record['tolerated']})" if record.get("tolerated") else ""
    lines = [f"{paint(named_task(record), fg='red')}  {record.get('class')}: {message}{tolerated}", *more]
    if cause := cause_of(record):
        lines.append(paint(f"    {shorten(cause, 200)}", dim=True))
    return lines


def group_failures(failures: "Iterable[Failed]", *, apart: bool = False) -> "list[list[Failed]]":
    """Return failures in groups: those of a stage that are alike together, or each `apart`."""
    groups: dict[tuple[str, ...], list[Failed]] = {}
    for record in failures:
        words = (record["class"], record["message"], record.get("headline"), record.get("tolerated"))
        own = (task_of(record),) if apart else ()
        groups.setdefault((record["stage"], *map(str, words), *own), []).append(record)
    return list(groups.values())


def more_text(alike: "Sequence[Failed]") -> str:
    """Return `and 3 more like it: simulate/4-6`; empty for one failure."""
    more = tasks_text(ranges(record["tasks"][0][0] for record in alike[1:]))
    return f"and {len(alike) - 1:,} more like it: {alike[0]['stage']}/{more}" if more else ""


def cause_of(failure: "Said") -> str:
    """Return the line of a task's output that names the cause, if no message does; else the last line."""
    cause = printable(failure.get("headline") or last_line(failure.get("stderr_tail") or ""))
    return "" if cause in printable(failure.get("message", "")) else cause


def used_text(usage: Mapping[str, Any], seconds: float | None, cores: int, memory: int | None = None) -> str:
    """Return what an attempt used of its `seconds`, and of the `memory` of all its nodes, if measured."""
    parts = []
    if "cpu_seconds" in usage and seconds:
        parts.append(
            f"{_number(usage['cpu_seconds'] / seconds)} of {cores} {'core' if cores == 1 else 'cores'}"
        )
    if "memory_bytes" in usage:
        bound = "at most " if usage.get("memory_at_most") else ""
        limit = "" if memory is None else f" of {format_size(memory)}"
        parts.append(f"{bound}{format_size(usage['memory_bytes'])}{limit}{' of memory' if not limit else ''}")
    if usage.get("gpu_seconds") is not None and seconds:
        parts.append(f"{_number(usage['gpu_seconds'] / seconds)} GPUs")
        if "gpu_memory_bytes" in usage:
            parts.append(f"{format_size(usage['gpu_memory_bytes'])} on them")
    return ", ".join([*parts, *_moved(usage)])


def _moved(usage: Mapping[str, Any]) -> Iterator[str]:
    """Yield how much was read and written, from a megabyte on."""
    for word, key in (("read", "read_bytes"), ("wrote", "written_bytes")):
        if usage.get(key, 0) >= 1 << 20:
            yield f"{word} {format_size(usage[key])}"


def stage_usage_text(sums: Mapping[str, Any]) -> str:
    """Return what the tasks of a stage used together, from sums in the fold; empty if none was measured."""
    if not sums.get("tasks"):
        return ""
    parts = [f"{format_duration(sums['cpu_seconds'])} of processor time"]
    if sums["seconds"]:
        parts.append(f"{_number(sums['cpu_seconds'] / sums['seconds'])} cores a task")
    if "memory_bytes" in sums:
        parts.append(f"at most {format_size(sums['memory_bytes'])} of memory")
    if "gpu_seconds" in sums:
        parts.append(f"{format_duration(sums['gpu_seconds'])} of GPUs")
        if "gpu_memory_bytes" in sums:
            parts.append(f"at most {format_size(sums['gpu_memory_bytes'])} on them")
    return ", ".join([*parts, *_moved(sums)])


def _number(value: float) -> str:
    return f"{value:.2g}" if value < 10 else f"{value:.0f}"
