"""A run in text: rows of its stages and tasks, and charts that plotext draws for the cells there are."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import plotext
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from diel.base.errors import DielError, counted
from diel.base.states import RunState, TaskState, TrialState
from diel.base.values import bare, format_duration, point_text, read_json
from diel.observe.status.axis import AxisStatus, CourseStatus, course_name, objectives_text, what_text
from diel.observe.status.columns import printable, shorten
from diel.observe.status.run import Status
from diel.observe.status.stage import StageStatus, count_text, mean_text
from diel.ui.page.panel import RunView
from diel.ui.page.timeline import allotments, busy_cores, steps_of, task_cores
from diel.ui.view.run_watch import RunWatch

MOST_CURVES = 12
"""Learning curves in one picture: the last ones of more."""
MOST_COURSES = 4
"""Courses of a search or loop that are drawn: the last ones."""
COLOURS = ((86, 180, 233), (230, 159, 0), (0, 158, 115), (204, 121, 167), (213, 94, 0), (240, 228, 66))
"""Those of Okabe and Ito (see marks.py)."""
POINTS = ("●", "x", "+", "o", "◆", "▴")


class Series(NamedTuple):
    """Points with a name; `joined` by a line, or each with a mark."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    joined: bool = True


class Chart(NamedTuple):
    """What a chart shows, whatever its size."""

    title: str
    x: str
    series: tuple[Series, ...]
    from_zero: bool = False


def draw(chart: Chart, width: int, height: int) -> Text:
    """Return a chart as text; what is not a finite number is left out."""
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plotsize(width, height)
    plotext.title(chart.title)
    plotext.xlabel(chart.x)
    plotext.yfrequency(
        max(2, min(7, height - 5))
    )  # beside title, frame, ticks and label: a tick has its own line
    for place, line in enumerate(chart.series):
        pairs = [
            (x, y) for x, y in zip(line.xs, line.ys, strict=False) if math.isfinite(x) and math.isfinite(y)
        ]
        if not pairs:
            continue
        xs, ys = zip(*pairs, strict=True)
        colour = COLOURS[place % len(COLOURS)]
        name = line.name if len(chart.series) > 1 else None
        if line.joined and len(xs) > 1:
            plotext.plot(xs, ys, label=name, marker="braille", color=colour)
        else:
            plotext.scatter(xs, ys, label=name, marker=POINTS[place % len(POINTS)], color=colour)
    if chart.from_zero:
        plotext.ylim(0, None)
    all_xs = [x for line in chart.series for x in line.xs if math.isfinite(x)]
    if all_xs and all(float(x).is_integer() for x in all_xs):
        low, high = int(min(all_xs)), int(max(all_xs))
        ticks = range(low, high + 1, max(1, math.ceil((high - low) * 8 / width)))
        plotext.xticks([*ticks], [f"{tick:,}" for tick in ticks])
    return Text.from_ansi(plotext.build().rstrip("\n"), no_wrap=True)


def axis_charts(axes: Sequence[AxisStatus]) -> Iterator[Chart]:
    """Yield the history of each search with its best so far, its learning curves, the values of each loop."""
    for axis in axes:
        for course in axis.courses[-MOST_COURSES:]:
            where = course_name(axis, course)
            if axis.facts.kind == "loop":
                yield from _loop_charts(f"{where}: {what_text(axis)}", course)
            else:
                yield from _search_charts(f"{where}: {objectives_text(axis)}", axis, course)


def _loop_charts(title: str, course: CourseStatus) -> Iterator[Chart]:
    for name in dict.fromkeys(name for entry in course.rounds for name in entry.values):
        course_values = [(entry.number, entry.values.get(name)) for entry in course.rounds]
        pairs = [(number, value) for number, value in course_values if _is_number(value)]
        if pairs:
            yield Chart(title, f"round ({name})", (Series(name, *zip(*pairs, strict=True)),))


def _search_charts(title: str, axis: AxisStatus, course: CourseStatus) -> Iterator[Chart]:
    complete = [trial for trial in course.trials if trial.state is TrialState.COMPLETE and trial.values]
    goals = [done["goal"] for done in axis.objectives]
    if complete and len(goals) == 1:
        numbers, values = [done.number for done in complete], [done.values[0] for done in complete]
        best = [(min if goals[0] == "minimize" else max)(values[: place + 1]) for place in range(len(values))]
        yield Chart(
            title, "trial", (Series("best so far", numbers, best), Series("trial", numbers, values, False))
        )
    elif complete and len(goals) == 2:
        chosen = {done.number for done in course.front}
        front = [done.values for done in complete if done.number in chosen]
        rest = [done.values for done in complete if done.number not in chosen]
        series = [Series("Pareto front", *_columns(front), False), Series("others", *_columns(rest), False)]
        yield Chart(title, axis.objectives[0]["value"], tuple(done for done in series if done.xs))
    reported = [trial for trial in course.trials if len(trial.reported) > 1][-MOST_CURVES:]
    curves = [
        Series(
            f"trial {done.number}{' pruned' * (done.state is TrialState.PRUNED)}",
            *_columns(sorted(done.reported.items())),
        )
        for done in reported
    ]
    if curves:
        yield Chart(f"{title}: what trials reported", "step", tuple(curves))


def _columns(rows: Sequence[Sequence[float]]) -> tuple[list[float], list[float]]:
    return [row[0] for row in rows], [row[1] for row in rows]


def metric_charts(lines: Sequence[str]) -> list[Chart]:
    """Return a chart for each number that a task reported, over its steps: the first of step, epoch, line."""
    rows = [row for line in lines if isinstance(row := _row(line), dict)]
    charts = []
    step = next((name for name in ("step", "epoch") if any(name in row for row in rows)), "")
    names = dict.fromkeys(name for row in rows for name in row if name not in ("time", "step", "epoch"))
    for name in names:
        pairs = [
            (row.get(step, place), row[name])
            for place, row in enumerate(rows)
            if _is_number(row.get(name)) and _is_number(row.get(step, place))
        ]
        if len(pairs) > 1:
            charts.append(Chart(name, step or "report", (Series(name, *_columns(pairs)),)))
    return charts


def _row(line: str) -> object:
    try:
        return read_json(line)
    except ValueError:
        return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def cores_charts(view: RunView) -> Iterator[Chart]:
    """Yield the cores that tasks had beside those that the run held."""
    timeline = view.timeline
    try:
        sizes, blocks = task_cores(view), allotments(view)
    except DielError:  # its site or workflow cannot be read
        sizes, blocks = {}, []
    wide, busy = busy_cores(view, sizes)
    whole = int((view.until - timeline.origin) / wide)  # the last bin is not yet full
    if not busy or whole < 2:
        return
    xs = [place * wide for place in range(whole)]
    used = [sum(shares.get(place, 0.0) for shares in busy.values()) for place in range(whole)]
    series = [Series("of tasks", xs, used)]
    steps = [*steps_of(blocks, view.until)]
    corners = [point for (a, c), (b, _) in pairwise(steps) for point in ((a, c), (b, c))]
    if corners:
        at = [max(0.0, when - timeline.origin) for when, _ in corners]
        series.append(Series("held", at, [count for _, count in corners]))
    yield Chart(
        "cores that tasks had, and that the run held",
        "seconds since the beginning",
        tuple(series),
        from_zero=True,
    )


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


def task_row(watched: RunWatch, stage: str, index: int) -> Text:
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


def running_lines(watched: RunWatch, width: int) -> list[str]:
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
