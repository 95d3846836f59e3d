"""The state of runs: `status` prints one, `view` shows it while it changes, `list` has all of a project."""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from diel.base.errors import DielError, UsageError, counted
from diel.base.paths import RunPaths, here
from diel.base.states import EXIT_CODES, RunState, TaskState
from diel.base.values import clock, format_duration, format_size, json_value
from diel.cli.options import Output, duration, json_option, runs_option
from diel.cli.target import named_tasks, run_and_rest, run_argument, words_argument
from diel.observe.status.columns import columns, paint, paint_state, printable, tasks_text, width_of
from diel.observe.status.run import Status, read_status
from diel.observe.status.sections import SECTIONS, WIDE, View, never_lines, next_steps
from diel.observe.status.stage import (
    UNDER_WAY,
    StageStatus,
    count_text,
    failure_document,
    failure_lines,
    find_stage,
    group_failures,
    joined_lines,
    mean_text,
    more_text,
    never_came,
    stage_usage_text,
    tasks_by_state,
)
from diel.store.journal.segment import Reader
from diel.store.journal.snapshot import look_at
from diel.store.journal.stage_history import ranges, spread
from diel.store.project.runs import all_runs, find_run

if TYPE_CHECKING:
    from diel.store.journal.records import Failed

SHOWN_FAILURES = 5
MOST_RANGES = 12
_ORDER = ("CACHED", "RUNNING", "QUEUED", "READY", "WAITING", "FAILED", "SKIPPED", "CANCELLED")
_STATES = tuple(TaskState[name] for name in _ORDER)


@click.command("status")
@words_argument("[RUN] [STAGE]")
@runs_option
@json_option
@click.option(
    "--state",
    type=click.Choice([state.label for state in TaskState]),
    help="With STAGE: only the tasks in this state.",
)
@click.option(
    "--all", "show_all", is_flag=True, help="Show all blocks, trials and failures, not the first few."
)
@click.option("--watch", is_flag=True, help="Keep showing it until the run ends.")
@click.option("--interval", default="2s", type=duration, metavar="2s", help="With --watch: how often (2s).")
@click.option(
    "--exit-code",
    is_flag=True,
    help="Exit with 0 succeeded, 1 failed, 3 cancelled, 4 still running, 130 interrupted.",
)
def command(
    words: tuple[str, ...],
    runs: Path,
    out: Output,
    state: str | None,
    show_all: bool,
    watch: bool,
    interval: float,
    exit_code: bool,
) -> int:
    """Show a row for each stage, and what failed. With STAGE, show the states of its tasks."""
    paths, rest = run_and_rest(runs, words)
    if any("/" in word or "=" in word for word in rest):
        task = " ".join(rest)
        steps = f"`diel explain {paths.run_id} {task}` tells the state of a task, `diel logs` what it printed"
        raise UsageError(f"status is of a run or a stage; {steps}")
    if len(rest) > 1:
        raise UsageError(f"expected a run and a stage, found {len(words)} words: {' '.join(words)}")
    stage = rest[0] if rest else None
    if state is not None and stage is None:
        raise UsageError(f"--state needs a stage: `diel status {paths.run_id} STAGE --state {state}`")
    reader = look_at(paths)

    def view(status: Status, rows: int | None = None, *, brief: bool = False) -> str:
        if stage is not None:
            return _stage_view(status, reader, stage, state, out.as_json, show_all)
        if out.as_json:
            return json.dumps(json_value(status.document()))
        return _run_view(status, paths, show_all, rows, brief)

    read = partial(read_status, paths, reader)
    if watch:
        status = _watch(read, view, interval, redraw=not out.as_json and sys.stdout.isatty())
    else:
        status = read()
        click.echo(view(status))
    return EXIT_CODES[status.state] if exit_code else 0


Draw = Callable[..., str]
"""Return a status as text, with a limit on rows of stages; `brief` puts its blocks on one line."""


def _watch(read: Callable[[], Status], view: Draw, interval: float, *, redraw: bool) -> Status:
    """Show a view until the run has ended: in place on a terminal, elsewhere after each change of a task."""
    shown: object = None
    lines = 0
    while True:
        status = read()
        blocks = [(block["block"], block["state"], block["reason"]) for block in status.blocks]
        points = [(len(item.trials), item.done, item.state) for axis in status.axes for item in axis.courses]
        counts = [stage.counts for stage in status.stages]
        now = (status.state, counts, points, blocks, status.silent, status.trouble)
        if redraw:
            width, height = shutil.get_terminal_size()
            text = _fit(view, status, height)
            click.echo((f"\033[{lines}F\033[J" if lines else "") + text)
            lines = sum(max(1, -(-width_of(line) // width)) for line in text.splitlines())
        elif now != shown:
            click.echo(view(status))
        shown = now
        if not status.state.live:
            return status
        time.sleep(max(0.1, interval))


def _fit(view: Draw, status: Status, height: int) -> str:
    """As many lines as the terminal has, because what scrolled out could not be drawn over."""
    room = max(height - 2, 1)
    over = 0
    for brief in (False, True):
        text = view(status, brief=brief)
        over = text.count("\n") + 1 - room
        if over <= 0:
            return text
    lines = view(status, max(len(status.stages) - over - 1, 1), brief=True).splitlines()
    rest = len(lines) - room
    return "\n".join(lines if rest <= 0 else [*lines[: room - 1], f"… {counted(rest + 1, 'line')} more"])


def _run_view(status: Status, paths: RunPaths, show_all: bool, rows: int | None, brief: bool) -> str:
    lines = [*_head(status), "", *_table(status, rows)]
    lines += [f"{stage.name}: no tasks, {printable(stage.void)}" for stage in status.stages if stage.void]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDE
    view = View(width, brief, show_all)
    for section in SECTIONS:
        part = section.lines(status, view) if section.used(status) else []
        lines += ["", *part] if part else []
    lines += _failures(status, paths, show_all)
    lines += _next_step(status, here(paths))
    return "\n".join(lines)


def _head(status: Status) -> list[str]:
    stillborn = status.state is RunState.CANCELLED and all(stage.total is None for stage in status.stages)
    total = "? tasks" if status.total is None else counted(status.total, "task")
    parts = [
        f"{paint(status.run, bold=True)} {paint_state(status.state)}",
        "before it began" if stillborn else f"{status.good:,} of {total}",
        *(
            paint(count_text(state, status.count(state), status.tolerated), fg=colour)
            for state, colour in ((TaskState.FAILED, "red"), (TaskState.SKIPPED, "yellow"))
            if status.count(state)
        ),
        format_duration(status.elapsed),
    ]
    lines = [" · ".join(parts)]
    lease, coming = status.lease, status.submission
    if status.awaited and coming is not None:
        ago = format_duration(max(0.0, status.now - coming.made))
        what = f"as job {coming.job}" if coming.job else f"on {coming.host}"
        lines.append(f"waits for its controller, requested {what} {ago} ago")
    elif lease is not None and not status.state.ended:
        age = format_duration(status.heartbeat_age or 0.0)
        word = "alive" if status.alive else "gone"
        lines.append(f"controller {word}: process {lease.pid} on {lease.host}, heartbeat {age} ago")
    return [*lines, *([f"uses results of {', '.join(status.uses)}"] if status.uses else [])]


def _table(status: Status, room: int | None) -> list[str]:
    """One row for each stage; if there is no room for all, stages under way come first."""
    stages = list(status.stages)
    if room is not None and len(stages) > room:
        first = sorted(stages, key=_rank)[:room]
        stages = [stage for stage in stages if stage in first]
    states = [state for state in _STATES if any(stage[state] for stage in status.stages)]
    header = ["stage", "kind", "", "done", *(state.label for state in states), "mean"]
    rows = [[paint(cell, dim=True) for cell in header]]
    rows += [_row(stage, states) for stage in stages]
    hidden = len(status.stages) - len(stages)
    more = [paint(f"… {counted(hidden, 'stage')} more", dim=True)] if hidden else []
    return columns(rows, right=range(3, len(header))) + more


def _rank(stage: StageStatus) -> int:
    """Return the order for little room: what runs, what is to come, what is done."""
    open_ = sum(stage[state] for state in (TaskState.WAITING, *UNDER_WAY))
    if open_ == 0:
        return 2
    return 0 if stage.good or any(stage[state] for state in UNDER_WAY) else 1


def _row(stage: StageStatus, states: list[TaskState]) -> list[str]:
    """Return a stage's name, kind, bar (full only when all is done), counts, and mean task."""
    counts = [
        paint(f"{stage[state]:,}", fg="red" if state is TaskState.FAILED else None) if stage[state] else ""
        for state in states
    ]
    filled = min(10 * stage.good // stage.total, 10) if stage.total else 0
    bar, done = "█" * filled + "░" * (10 - filled), f"{stage.good:,}/{stage.total_text}"
    return [stage.name, stage.kind, bar, done, *counts, mean_text(stage.mean_seconds)]


def _failures(status: Status, paths: RunPaths, show_all: bool) -> list[str]:
    """List each kind of failure of a stage with its first task, and what the tasks share."""
    if not status.failures:
        return []
    lines, shown = [""], 0
    for alike in group_failures(status.failures, apart=show_all)[: None if show_all else SHOWN_FAILURES]:
        shown += len(alike)
        lines += failure_lines(alike[0])
        if text := more_text(alike):
            complete = len(status.failures) >= status.count(TaskState.FAILED)
            share = _shared(paths, alike[0]["stage"], alike) if complete else ""
            lines.append(paint("    " + "; ".join(filter(None, (text, share))), dim=True))
    failed = status.count(TaskState.FAILED)
    if failed > len(status.failures):  # the others are only counted, so that those known prove nothing
        run = (stage for stage in status.stages if stage[TaskState.FAILED])
        lines += [f"{stage.name}: {text} failed" for stage in run if (text := _shared(paths, stage.name))]
    if failed > shown:
        most = "all" if len(status.failures) == failed else f"the first {len(status.failures)}"
        how = f"; `diel status {status.run} --all{here(paths)}` shows {most}"
        lines.append(f"{failed - shown} more failed{'' if show_all else how}")
    return lines


def _shared(paths: RunPaths, stage: str, alike: "Sequence[Failed] | None" = None) -> str:
    """Say what these failed tasks share, or all failed ones, if the run's workflow can be read."""
    from diel.observe.results import RunReader  # reads the workflow: only where several tasks failed alike

    run = RunReader(paths)
    try:
        states = enumerate(run.history.stage(stage).states if alike is None else ())
        failed = [index for index, state in states if state == TaskState.FAILED]
        return run.shared(stage, failed or [record["tasks"][0][0] for record in alike or ()])
    except DielError:
        return ""


def _next_step(status: Status, where: str) -> list[str]:
    if status.state is RunState.RUNNING:
        return never_lines(status, where)
    if status.state is RunState.INTERRUPTED and "refuse" in status.trouble:
        again = f"`diel resume {status.run} --site {status.site or 'NAME'}{where}`"
        return ["", f"next: fix the site file, then {again} reads it again and continues"]
    steps = [(f"`diel {step}{where}`", why) for step, why in next_steps(status)]
    if len(steps) == 1:
        return ["", f"next: {' '.join(steps[0])}"]
    return ["", f"next: {', '.join(step for step, _ in steps)}"] if steps else []


def _stage_view(
    status: Status, reader: Reader, name: str, selected: str | None, as_json: bool, show_all: bool
) -> str:
    stage = find_stage(reader, name)
    tasks = tasks_by_state(stage, under_way=status.state.live)
    omitted = [] if selected is not None else never_came(stage)
    if selected is not None:
        tasks = {state: pairs for state, pairs in tasks.items() if state.label == selected}
    suspect = [] if selected is not None else _suspect(reader, name)
    failures = [r for r in status.failures if r["stage"] == name and selected in (None, "failed")]
    if as_json:
        document = {
            "run": status.run,
            "stage": name,
            "state": status.state.value,
            "tasks": {state.label: pairs for state, pairs in tasks.items()},
            "omitted": omitted,
            "suspect": suspect,
            "left_out": {str(index): entries for index, entries in stage.joined.items()},
            "usage": stage.usage,
            "failures": [failure_document(record) for record in failures],
        }
        return json.dumps(json_value(document))
    if not tasks and not omitted:
        return f"{status.run} {name}: no tasks" + (f" {selected}" if selected else "")
    limit = sys.maxsize if show_all or selected else MOST_RANGES
    groups = [(paint_state(state.label), pairs, _number(pairs)) for state, pairs in tasks.items()]
    groups += [(paint("omitted", dim=True), omitted, stage.never)] if omitted else []
    groups += [(paint("suspect", fg="red"), suspect, _number(suspect))] if suspect else []
    rows = [[name, f"{count:,}", tasks_text(pairs, limit)] for name, pairs, count in groups]
    running = [*islice(spread(tasks.get(TaskState.RUNNING, ())), SHOWN_FAILURES)]
    head = f"{paint(status.run, bold=True)} {name}: {counted(stage.expected, 'task')}"
    lines = [head, *columns(rows, right=(1,))]
    if used := stage_usage_text(stage.usage):
        lines.append(f"used: {used}")
    if running:
        of = len(running) < _number(tasks[TaskState.RUNNING])
        lines += ["", f"running: {', '.join(named_tasks(reader.paths, name, running))}{' …' if of else ''}"]
    lines += joined_lines([(name, stage.joined)], sys.maxsize if show_all else SHOWN_FAILURES)
    mine = tuple(row for row in status.stages if row.name == name)
    lines += _failures(replace(status, failures=tuple(failures), stages=mine), reader.paths, show_all)
    return "\n".join(lines)


def _number(pairs: Sequence[Sequence[int]]) -> int:
    return sum(last - first + 1 for first, last in pairs)


def _suspect(reader: Reader, stage: str) -> list[list[int]]:
    """Return the tasks of a stage whose results are suspect or read such, as [first, last] pairs."""
    if not reader.history.has_suspects():
        return []
    from diel.observe.results import (  # reads the workflow: only where audits doubt answers
        RunReader,
        suspects,
    )

    try:
        return ranges(sorted(suspects(RunReader(reader.paths)).get(stage, ())))
    except DielError:
        return ranges(find_stage(reader, stage).suspect())


@click.command("view")
@run_argument
@runs_option
@click.option("--interval", default="1s", type=duration, metavar="1s", help="How often to look (1s).")
@click.option("--web", is_flag=True, help="Serve its page to a browser, on a socket that only you can open.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="With --web: on this port of 127.0.0.1, behind a token; 0 takes a free one.",
)
@click.option(
    "--idle", default="30m", type=duration, metavar="30m", help="With --web: end when unasked for so long."
)
def view(run: str, runs: Path, interval: float, web: bool, port: int | None, idle: float) -> int:
    """Show stages, tasks, charts, blocks and failures as they change, and follow what tasks print. It only
    reads files, and nothing that runs knows of it.

    Keys: 1 to 6 choose stages, tasks, charts, blocks, failures, and the panels of the page in text. Tab leads
    to the next part, Enter opens, Esc leads back and to the other runs. `e` starts `diel explain`; `c` and
    `r` start `diel cancel` and `diel resume`, after asking. `q` leaves. A mouse does as well.
    """
    paths = find_run(runs, run)
    if web:
        from diel.ui.view.server import serve  # the page, which the terminal does not need

        return serve(paths, port, idle)
    if port is not None:
        raise UsageError("--port is of the page for a browser: add --web")
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM", "dumb") == "dumb":
        other = f"`diel status {paths.run_id}` prints the state, `--watch` follows it"
        raise UsageError(f"view needs a terminal whose cursor moves; {other}")
    lacking = [name for name in ("textual", "plotext") if find_spec(name) is None]
    if lacking:
        get = f"{sys.executable} -m pip install 'diel[view]'"
        raise UsageError(f"view draws with {' and '.join(lacking)}: {get}")
    from diel.ui.view.app import ViewApp  # an extra, and slow to load

    ViewApp(runs, paths, max(0.1, interval)).run()
    return 0


@click.command("list")
@runs_option
@json_option
@click.option("--size", "with_size", is_flag=True, help="Add the space that each run takes on disk.")
def list_(runs: Path, out: Output, with_size: bool) -> None:
    """`last` means the bottom one."""
    rows = []
    for paths in all_runs(runs):
        size = size_of(paths.root)[0] if with_size else None
        try:
            status = read_status(paths, look_at(paths))
            rows.append((status, size))
            for damaged in status.damaged:
                click.echo(damaged, err=True)
        except UsageError as error:
            click.echo(f"{paths.run_id}: {error}", err=True)
    header = ["run", "state", "done", "failed", "started", "took", *(["size"] if with_size else [])]
    table = [[paint(cell, dim=True) for cell in header], *(_run_row(*row) for row in rows)]
    none = [f"no runs in {runs}: start one with `diel run FILE`, or give --runs DIR"]
    lines = columns(table, right=(2, 3, 5, 6)) if rows else none
    out.show(lambda: {"runs": [_run_document(*row) for row in rows]}, lines)


def size_of(root: Path) -> tuple[int, int]:
    """Return bytes on disk and number of files below a directory, without files that vanish meanwhile."""
    size = files = 0
    for folder, _, names in os.walk(root):
        for name in names:
            with suppress(OSError):
                size += os.lstat(os.path.join(folder, name)).st_size
                files += 1
    return size, files


def _run_row(status: Status, size: int | None) -> list[str]:
    failed = status.count(TaskState.FAILED)
    return [
        status.run,
        paint_state(status.state),
        f"{status.good:,}/{status.total_text}",
        paint(f"{failed:,}", fg="red") if failed else "",
        "" if status.began is None else clock(status.began)[:-3],
        format_duration(status.elapsed),
        *([] if size is None else [format_size(size)]),
    ]


def _run_document(status: Status, size: int | None) -> dict[str, Any]:
    document = status.document()
    facts = ("run", "workflow", "state", "began", "ended", "elapsed_s")
    own = {key: document[key] for key in facts} | document["tasks"]
    return own if size is None else {**own, "size": size}
