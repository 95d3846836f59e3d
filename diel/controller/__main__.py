"""A controller in the background.

    python -m diel.controller RUN_DIR --submission N [--end SECONDS]

Started by `diel submit` and `diel resume`, or by the job that they queued; --end is when its job ends,
in seconds since the epoch. What it says goes to the run's `logs/controller.log`.
"""

import argparse
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import FrameType

from diel.base.errors import DielError
from diel.base.paths import RunPaths
from diel.base.states import EXIT_CODES, RunState
from diel.base.values import task_text
from diel.controller.controller import Controller
from diel.controller.home import job_walltime, margin, persist, queue
from diel.controller.start import drive_on, take_over
from diel.site.scheduler import SchedulerBusy, scheduler_named
from diel.site.scheduler.allocation import END, KEPT
from diel.store.journal.history import History
from diel.store.journal.snapshot import read_run
from diel.store.project.submission import Submission, make_submission, refuse_unwanted, withdraw
from diel.worker.attempt.reaper import mark

AHEAD = 30.0
"""Seconds before a controller lets go of its run at which it asks for its successor."""


def main() -> int:
    """Take a run over and drives it; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m diel.controller")
    parser.add_argument("run", type=Path)
    parser.add_argument("--submission", type=int, required=True)
    parser.add_argument("--end", type=float)
    options = parser.parse_args()
    paths = RunPaths(options.run.absolute())
    try:
        submission = refuse_unwanted(paths, options.submission, read_run(paths).history)
        logging.raiseExceptions = False  # a line of a log that a full disk does not take is dropped
        os.environ.update(mark(paths.root))
        os.chdir(paths.root)  # the directory of the request may be gone tomorrow
        if submission.home == "inside" and options.end is not None:
            os.environ[END] = str(options.end)
        controller = take_over(paths)
        say(
            f"{paths.run_id}: process {os.getpid()} on {socket.gethostname()}, submission {submission.number}"
        )
        end = None if options.end is None else time.monotonic() + options.end - time.time()
        return drive_on(controller, lambda driven: _drive(driven, submission, end))
    except DielError as error:
        say(f"error: {error}")
        return error.exit_code


def say(message: str) -> None:
    """Write a line of the controller's log."""
    print(f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S} {message}", flush=True)  # noqa: T201 - its log


def _drive(controller: Controller, submission: Submission, end: float | None) -> int:
    """Drive a run until its end, a signal, or nearly `end` (time.monotonic); return its exit code."""
    watch = Signals(
        controller.let_go if submission.home != "inside" and controller.plan.site.scheduled else None
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, watch.interrupt)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    until = None
    successor = None
    if end is not None and submission.home == "inside":
        until = end - KEPT / 2
    elif end is not None:
        until = end - margin(job_walltime(controller.plan, submission.home), controller.plan.site.grace)
        successor = watch.successor = Successor(controller, submission, until - AHEAD, end)
    try:
        state = controller.drive(watch, until)
    except KeyboardInterrupt:
        state = controller.history.state  # what it wrote when it let go
        state = state if state.ended else RunState.INTERRUPTED
    if successor is not None:
        successor.settle(needed=state is RunState.INTERRUPTED)
    paths = controller.paths
    let_go = state is RunState.INTERRUPTED and not controller.history.state.ended
    say(f"{paths.run_id} {'let go: tasks in blocks continue' if let_go else state}")
    if controller.left:
        say(f"jobs {', '.join(controller.left)} may still exist; `diel cancel {paths.run_id}` ends them")
    return EXIT_CODES[state]


@dataclass
class Signals:
    """Called by the controller many times a second: here a signal and the walltime take effect."""

    _let_go: Callable[[], None] | None
    """Leaves tasks in blocks to the next controller; None if it cannot."""
    asked: bool = False
    """Whether a signal asked it to end: `scancel`, a reboot."""
    successor: "Successor | None" = None
    _told: set[tuple[str, int]] = field(default_factory=set)
    _raised: bool = False

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Note a signal; the second one leaves at once."""
        if self.asked:
            os._exit(130)
        self.asked = True

    def __call__(self, history: History) -> None:
        if self.asked and not self._raised and history.ended is None:
            self._raised = True
            if self._let_go is None:
                raise KeyboardInterrupt
            self._let_go()
        if self.successor is not None and history.ended is None:
            self.successor.look()
        if len(history.failures) != len(self._told):
            for key in history.failures.keys() - self._told:
                record = history.failures[key]
                task = task_text("{}/{}".format(*key), record.get("point"))
                say(f"{task} failed: {record.get('message', '')}")
            self._told = set(history.failures)


class Successor:
    """The next controller of a run: requested before this one's job ends, in a thread of its own."""

    def __init__(self, controller: Controller, submission: Submission, due: float, end: float) -> None:
        """`due` and `end` are time.monotonic seconds: when to ask, and when this job ends."""
        self._paths, self._home = controller.paths, submission.home
        self._plan = controller.plan
        self._scheduler = scheduler_named(controller.plan.site.scheduler)
        self._due, self._end = due, end
        self._thread: threading.Thread | None = None
        self._next: Submission | None = None

    def look(self) -> None:
        if self._thread is None and time.monotonic() >= self._due:
            self._thread = threading.Thread(target=self._ask, daemon=True)
            self._thread.start()

    def _ask(self) -> None:
        paths, submission = self._paths, None
        try:
            submission = make_submission(paths, self._home, successor=True)
            mine, patience = self._scheduler.job_id(), max(0.0, self._end - time.monotonic())
            self._next = queue(paths, self._plan, submission, after=mine, patience=patience)
            say(f"{paths.run_id}: its next controller is job {self._next.job}")
        except DielError as error:
            if submission is not None:
                withdraw(paths, submission)
            say(f"{paths.run_id}: its next controller cannot start, `diel resume` continues it: {error}")

    def settle(self, *, needed: bool) -> None:
        """Wait until the successor is queued, or withdraws it if the run does not need it."""
        if self._thread is not None:
            self._thread.join(max(1.0, self._end - time.monotonic()))
        if not needed and self._next is not None and (job := self._next.job) is not None:
            try:
                persist(lambda: self._scheduler.cancel([job]), max(1.0, self._end - time.monotonic()))
            except SchedulerBusy as error:
                say(f"job {job} is no longer needed and cannot be withdrawn: {error}")
            withdraw(self._paths, self._next)


if __name__ == "__main__":
    sys.exit(main())
