"""Drives a controller in the foreground, and shows how far it is.

On a terminal a display is redrawn several times a second (diel/ui/terminal/bars.py); elsewhere a few plain
lines say when stages are complete and what failed.
"""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import click

from diel.base.errors import DielError
from diel.base.paths import here
from diel.base.states import EXIT_CODES, RunState, TaskState
from diel.base.values import format_duration
from diel.controller.controller import Controller
from diel.controller.start import drive_on
from diel.observe.status.axis import AxisStatus, axis_lines, end_text
from diel.observe.status.columns import one_line, paint, printable
from diel.observe.status.sections import WIDE, export_lines
from diel.observe.status.stage import count_text, failure_lines, task_of
from diel.store.journal.history import History
from diel.ui.terminal.meter import Meter, Row, blocks_text, start_line, summary

if TYPE_CHECKING:
    from diel.ui.terminal.bars import Bars

PAUSE = 0.12
"""The fewest seconds between two looks at the controller."""
SHARE = 20
"""Looking takes at most one part in this many of the time."""
MAX_FAILURES = 10
"""The most failures to show as they come; the rest are counted."""
MAX_COURSES = 10
"""The most courses of one search or loop whose end is shown; `status` has the rest."""
FIRST_NEWS = 30.0
MAX_NEWS = 600.0
"""Seconds between plain lines of a long run: doubling from the first to the longest."""


def drive(controller: Controller, *, quiet: bool) -> int:
    """Run a controller to its end and show how far it is; return the exit code. SIGINT, SIGTERM and SIGHUP
    leave the run interrupted; a second one leaves at once."""
    logging.raiseExceptions = False  # a line of Parsl's log that a full disk does not take is dropped
    return drive_on(controller, lambda controlled: _drive(controlled, quiet=quiet))


def _drive(controller: Controller, *, quiet: bool) -> int:
    began = time.monotonic()
    watch = Foreground(controller, _display(controller, quiet=quiet))
    with _interruptible(watch, controller):
        try:
            state = controller.drive(watch)
        except KeyboardInterrupt:
            state = controller.history.state  # what the controller wrote when it let go
            state = state if state.ended else RunState.INTERRUPTED
        except FileNotFoundError as error:
            if controller.paths.run_file.exists():
                raise
            gone = f"{controller.paths.root} was removed while the run was under way"
            raise DielError(f"{gone}: what it had done is lost; `diel run` begins it again") from error
        finally:
            watch.look(controller.history, last=True)
            watch.close()
    lines = summary(controller, state, time.monotonic() - began, quiet=quiet)
    if controller.left:
        again = f"`diel cancel {controller.paths.run_id}{here(controller.paths)}` ends them"
        lines.append(f"jobs {', '.join(controller.left)} may still exist; {again}")
    _echo(lines)
    missed = [line for line in export_lines(controller.history.exports) if not line.startswith("exported: ")]
    _echo(missed if quiet else [], err=True)
    return EXIT_CODES[state]


def _display(controller: Controller, *, quiet: bool) -> "QuietReporter | Bars":
    if quiet:
        return QuietReporter()
    if sys.stdout.isatty() and os.environ.get("TERM") not in (None, "dumb"):
        from diel.ui.terminal.bars import Bars  # imports rich: only if something is drawn

        return Bars(controller)
    return Plain(controller)


class Foreground:
    """Called by the controller many times a second: shows what failed, and now and then how far it is. It is
    also where an interrupt takes effect: between two steps of the controller, never within one."""

    def __init__(self, controller: Controller, display: "QuietReporter | Bars") -> None:
        self.interrupted = False
        """Whether the user asked it to end."""
        self._raised = False
        self._display = display
        """What the run is shown on."""
        self._meter = Meter(controller)
        self._reported: set[tuple[str, int]] = set()
        self._known_failures = 0
        self._known_trouble = ""
        self._next = 0.0
        self._run = controller.paths.run_id
        self._here = here(controller.paths)

    def __call__(self, history: History) -> None:
        if self.interrupted and not self._raised and history.ended is None:
            self._raised = True
            self._say(["interrupted: ending what runs; once more to leave at once"])
            raise KeyboardInterrupt
        now = time.monotonic()
        if now < self._next:
            return
        self._meter.begin(history)
        self.look(history)
        self._next = now + max(PAUSE, SHARE * (time.monotonic() - now))

    def look(self, history: History, *, last: bool = False) -> None:
        """Show what failed and how far the run is, or how it ended."""
        if len(history.failures) != self._known_failures:
            self._tell_failures(history)
        if history.trouble != self._known_trouble:
            self._known_trouble = history.trouble
            if history.trouble:
                self._say([paint(f"trouble: {one_line(history.trouble)}", fg="yellow")])
        self._show(lambda display: display.look(history, self._meter, last=last))

    def close(self) -> None:
        """Give the terminal back."""
        self._show(lambda display: display.close())

    def _say(self, lines: list[str]) -> None:
        self._show(lambda display: display.say(lines))

    def _show(self, show: "Callable[[QuietReporter | Bars], None]") -> None:
        """Show lines; if the terminal or the pipe's reader is gone, the run goes on without."""
        try:
            show(self._display)
        except OSError:
            self._display = QuietReporter()
            _silence()

    def _tell_failures(self, history: History) -> None:
        self._known_failures = len(history.failures)
        for key, record in history.failures.items():
            if key in self._reported:
                continue
            self._reported.add(key)
            if len(self._reported) <= MAX_FAILURES:
                hint = f"    diel logs {self._run} {task_of(record)}{self._here}"
                self._say([*failure_lines(record), paint(hint, dim=True)])
            elif len(self._reported) == MAX_FAILURES + 1:
                self._say([f"more tasks failed; `diel status {self._run} --all{self._here}` shows them"])


@contextmanager
def _interruptible(watch: Foreground, controller: Controller) -> Iterator[None]:
    """Make a signal note that the user wants to end; a second one leaves at once. A signal that is ignored
    (nohup, a background job of a script) stays so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def note(number: int, frame: FrameType | None) -> None:
        if watch.interrupted:
            watch.close()
            controller.abandon()
            os._exit(130)
        watch.interrupted = True

    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    before = {n: signal.getsignal(n) for n in numbers if signal.getsignal(n) != signal.SIG_IGN}
    for number in before:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class QuietReporter:
    """Shows only failures."""

    def look(self, history: History, meter: Meter, *, last: bool) -> None:
        pass

    def say(self, lines: list[str]) -> None:
        _echo(lines)

    def close(self) -> None:
        pass


class Plain(QuietReporter):
    """Shows a line when the run begins, one for each complete stage, and one now and then."""

    def __init__(self, controller: Controller) -> None:
        self._began = time.monotonic()
        self._news = FIRST_NEWS
        self._next = self._began + FIRST_NEWS
        self._complete: set[str] = set()
        self._over: set[tuple[str, int]] = set()
        self.say([start_line(controller)])

    def look(self, history: History, meter: Meter, *, last: bool) -> None:
        now = time.monotonic()
        rows = meter.rows(history)
        axes = meter.axes(history, last=last)
        self._tell_ends(axes, now)
        for row in rows:
            if row.complete and row.name not in self._complete:
                self._complete.add(row.name)
                self._tell(now, f"{row.name}: {stage_text(row)}")
        if now >= self._next and not last:
            self._next = now + self._news
            self._news = min(2 * self._news, MAX_NEWS)
            news = [f"{r.name} {r.good:,}/{r.total_text}" for r in rows if not r.complete and r.good]
            news = list(filter(None, [*news, blocks_text(meter.plan, history)])) or ["running"]
            self._tell(now, ", ".join(filter(None, [*news, meter.time_left_text(history)])))
            self.say([f"        {line}" for line in axis_lines(axes, WIDE, 1)] if axes else [])

    def _tell_ends(self, axes: Sequence[AxisStatus], now: float) -> None:
        for axis in axes:
            for place, course in enumerate(axis.courses[:MAX_COURSES]):
                if course.state in ("over", "failed") and (axis.label, place) not in self._over:
                    self._over.add((axis.label, place))
                    self._tell(now, printable(end_text(axis, course)))

    def _tell(self, now: float, text: str) -> None:
        self.say([f"{format_duration(now - self._began):>6}  {text}"])


def stage_text(row: Row) -> str:
    """Return a stage's tasks in words: `96 of 96 done (12 cached), 2 failed`."""
    cached = f" ({row[TaskState.CACHED]:,} cached)" if row[TaskState.CACHED] else ""
    bad = (state for state in (TaskState.FAILED, TaskState.SKIPPED, TaskState.CANCELLED) if row[state])
    rest = "".join(f", {count_text(state, row[state], 0)}" for state in bad)
    return f"{row.good:,} of {row.total_text} done{cached}{rest}"


def _echo(lines: list[str], *, err: bool = False) -> None:
    """Print lines if anybody reads them: a run goes on when its terminal or pipe is gone."""
    try:
        for line in lines:
            click.echo(line, err=err)
    except OSError:
        _silence()


def _silence() -> None:
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.close(silent)
