"""What stands in the rows of a run: its head, its stages, its tasks, what runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.terminal_theme import TerminalTheme
from rich.text import Text

from diel.errors import counted
from diel.states import RunState, TaskState
from diel.status import Status
from diel.status.columns import printable, shorten
from diel.status.stage import StageStatus, count_text, mean_text
from diel.values import bare, format_duration, point_text
from diel.view.watched import Watched

STAGE_COLUMNS = ("stage", "", "done", "running", "failed", "mean", "p95", "others")
LONGEST_NAME = 20
MOST_RUNNING = 200
_OTHERS = (TaskState.CACHED, TaskState.SKIPPED, TaskState.CANCELLED, TaskState.QUEUED)


def head(status: Status | None, flaws: Sequence[str], remaining: str | None = None) -> Text:
    """Return a line about a run: state, who drives it, what could not be read, how long it still takes."""
    wrong = [Text(f"✗ {flaw}", style="bold") for flaw in flaws[-2:]]
    if status is None:
        return Text("\n").join(wrong or [Text("reading …")])
    total = "? tasks" if status.total is None else counted(status.total, "task")
    counts = [(s.label, n) for s in (TaskState.RUNNING, TaskState.FAILED) if (n := status.count(s))]
    parts = [
        Text.assemble((status.run, "bold"), " ", state_text(status.state.value)),
        Text(f"{status.good:,} of {total}"),
        *(state_text(*count, status.tolerated) for count in counts),
        Text(format_duration(status.elapsed)),
    ]
    going = [Text(remaining, style="grey62")] if remaining else []
    return Text("\n").join([Text(" · ").join(parts), _driver(status), *wrong, *going])


def _driver(status: Status) -> Text:
    lease, coming = status.lease, status.submission
    if status.awaited and coming is not None:
        return Text(f"waits for its controller{f', job {coming.job}' if coming.job else ''}")
    if status.state is RunState.INTERRUPTED:
        ago = "" if status.heartbeat_age is None else f" ({format_duration(status.heartbeat_age)} ago)"
        return Text.assemble(state_text("interrupted"), f": its controller is gone{ago}; r continues it")
    if status.state.ended:
        hint = "" if status.state is RunState.SUCCEEDED else "; r continues it"
        return Text(f"it has ended{hint}", style="grey62")
    if lease is None:
        return Text("no controller yet", style="grey62")
    age = format_duration(status.heartbeat_age or 0.0)
    return Text(f"controller: process {lease.pid} on {lease.host}, heartbeat {age} ago", style="grey62")


def stage_cells(stage: StageStatus, p95: float | None, width: int) -> list[Text]:
    """Return the row of a stage; `p95` are the seconds within which 95 % of its attempts ended."""
    marks = [Text("held", style="bold")] if stage.held else []
    marks += [state_text(state.label, stage[state]) for state in _OTHERS if stage[state]]

    def count(state: TaskState) -> Text:
        mark, colour = MARKS[state.label]
        return Text(f"{mark} {stage[state]:,}" if stage[state] else "", style=colour)

    return [
        Text(shorten(stage.name, LONGEST_NAME)),
        bar(stage.counts, stage.total, width),
        Text(f"{stage.good:,}/{stage.total_text}", justify="right"),
        count(TaskState.RUNNING),
        count(TaskState.FAILED),
        Text(mean_text(stage.mean_seconds), justify="right"),
        Text(mean_text(p95), justify="right"),
        Text(" ").join(marks),
    ]


def task_row(watched: Watched, stage: str, index: int) -> Text:
    """Return the row of a task: `17  ▶ running  2.1s  attempt 2  depth=2.5, seed=1`."""
    history, status = watched.stage(stage), watched.status
    row = Text(f"{index:>{len(str(max(0, history.total - 1)))}}  ")
    if history.never_came(index):
        row.append("  omitted", style="grey62")
    else:
        row.append_text(state_text(watched.state(stage, index).label))
    row.pad_right(max(0, 22 - len(row)))
    attempt, number = history.under_way.get(index), history.latest(index)
    if attempt is not None and attempt.state == TaskState.RUNNING and status is not None and status.alive:
        row.append(format_duration(max(0.0, status.now - attempt.time)))
    row.pad_right(max(1, 29 - len(row)))
    row.append(f"attempt {number}  " if number > 1 else "")
    return row.append(point_text(watched.point(stage, index)), style="grey70")


def running_lines(watched: Watched, width: int) -> list[str]:
    """Return what runs at this moment, by worker."""
    status, reader = watched.status, watched.reader
    if status is None or reader is None or not status.alive:
        return []
    running = [
        (attempt.worker.removesuffix(".jsonl"), f"{stage}/{index}", attempt.time)
        for stage, history in dict(reader.history.stages).items()
        for index, attempt in history.under_way.copy().items()
        if attempt.state == TaskState.RUNNING
    ]
    half = max(10, (width - 10) // 2)
    lines = [
        f"{shorten(printable(worker), half):<{half}} {shorten(task, half - 1):<{half}}"
        f"{format_duration(max(0.0, status.now - since))}"
        for worker, task, since in sorted(running)[:MOST_RUNNING]
    ]
    return ["", f"{counted(len(running), 'task')} running:", *lines] if lines else []


MARKS = {
    "waiting": ("·", "grey62"),
    "ready": ("○", "grey62"),
    "queued": ("◔", "grey78"),
    "pending": ("◔", "grey78"),
    "running": ("▶", "#56b4e9"),
    "done": ("✓", "#2fc79a"),
    "succeeded": ("✓", "#2fc79a"),
    "cached": ("≡", "#2fc79a"),
    "failed": ("✗", "#ff8a3d"),
    "skipped": ("−", "#f0e442"),
    "cancelled": ("⊘", "#e69fc7"),
    "interrupted": ("‖", "#f0e442"),
}
"""By state of a task or run: its mark and its colour."""
_BLACK, _WHITE = (18, 18, 18), (224, 224, 224)
_WARM = [(255, 138, 61), (47, 199, 154), (240, 228, 66)]
_COLD = [(86, 180, 233), (230, 159, 199), (47, 199, 154)]
ANSI = TerminalTheme(_BLACK, _WHITE, [_BLACK, *_WARM, *_COLD, _WHITE])
"""The same colours for the text of commands: black, red, green, yellow, blue, magenta, cyan, white."""
_FILLS = {
    TaskState.DONE: "█",
    TaskState.CACHED: "▓",
    TaskState.RUNNING: "▶",
    TaskState.FAILED: "✗",
    TaskState.CANCELLED: "⊘",
    TaskState.SKIPPED: "−",
}
"""What fills the bar of a stage, in this order; the rest of it is to come."""


def state_text(state: str, count: int | None = None, tolerated: int = 0) -> Text:
    """Return a state in its colour, behind its mark: `✗ failed`, `✗ 3 failed, 1 of them tolerated`."""
    mark, colour = MARKS[state]
    words = state if count is None else count_text(TaskState[state.upper()], count, tolerated)
    return Text(f"{mark} {words}", style=colour)


def bar(counts: Mapping[str, int], total: int | None, width: int) -> Text:
    """Return a stage's tasks as a bar; a state that any task has gets a cell of it at least."""
    drawn, so_far, place = Text(), 0, 0
    for state, fill in _FILLS.items():
        count = counts[state.label]
        if count and total:
            so_far += count
            end = min(width, max(place + 1, width * so_far // total))
            drawn.append(fill * (end - place), style=MARKS[state.label][1])
            place = end
    return drawn.append("░" * (width - place), style="grey50")


def harmless(line: str) -> str:
    """Return a line that a task printed, safe to show: of a line that was drawn over, what was drawn last."""
    return printable(bare(line.rstrip("\r\n").rpartition("\r")[2]).expandtabs(4))
