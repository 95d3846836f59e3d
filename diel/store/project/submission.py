"""Submissions: where controllers of a run were requested, and which of them is still awaited.

There is a file for each controller that `diel submit`, `diel resume` or the controller before asked for,
whose job's walltime was to end. Files are numbered, and making one lets one succeed. A controller that nobody
watches takes a run only as long as its own submission is the newest and no other controller came since.
"""

import base64
import hashlib
import json
import os
import re
import socket
from typing import Literal, NamedTuple

import psutil

from diel.base.errors import UsageError
from diel.base.files import put
from diel.base.paths import RunPaths
from diel.store.journal.history import History
from diel.store.project.lease import Lease, birth_of, is_alive, newest_epoch, time_at

Home = Literal["login", "job", "inside"]
_FILE = re.compile(r"([0-9]{4,})\.json")
STARTING = 10.0
"""Seconds from the request of a process until it must be known."""


class Submission(NamedTuple):
    """A controller that was requested."""

    number: int
    home: Home
    epoch: int
    """Epoch of the newest controller when this one was requested; 0 if there was none."""
    made: float
    """When it was requested, in seconds since the epoch, by the clock of the run's file system."""
    host: str
    """The host of the request."""
    job: str | None = None
    """Id of its job; None until it is queued, and for one without a job."""
    pid: int | None = None
    """Its process, if it has no job."""
    started: float | None = None
    """When that process began, by this host's clock."""
    birth: str = ""
    """Its birth (`diel.store.project.lease`)."""
    successor: bool = False
    """Whether the previous controller requested it."""

    def starts(self, now: float) -> bool:
        """Return whether its process, which has not taken the run yet, can still do so."""
        if self.pid is None:
            return abs(now - self.made) < STARTING
        lease = Lease(self.epoch, self.host, self.pid, self.started or 0.0, self.birth)
        return is_alive(lease, now - self.made)


def job_prefix(paths: RunPaths) -> str:
    """Return the prefix of a run's job names: a letter first, and short enough for every scheduler."""
    digest = hashlib.sha256(os.fsencode(paths.root)).digest()
    return "diel" + base64.b32encode(digest).decode()[:6].lower()


def job_name(paths: RunPaths, number: int) -> str:
    """Return the name of a controller's job."""
    return f"{job_prefix(paths)}-c{number}"


def make_submission(paths: RunPaths, home: Home, *, successor: bool = False) -> Submission:
    """Record that a controller is wanted, before anything is queued. Raise UsageError."""
    submission = Submission(
        number=max(_numbers(paths), default=0) + 1,
        home=home,
        epoch=newest_epoch(paths),
        made=time_at(paths.root),
        host=socket.gethostname(),
        successor=successor,
    )
    try:
        paths.submissions.mkdir(exist_ok=True)
        os.close(os.open(paths.submission(submission.number), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        return _write(paths, submission)
    except FileExistsError as error:
        raise UsageError(f"{paths.run_id} was just submitted by somebody else") from error
    except OSError as error:
        raise UsageError(f"{paths.run_id}: cannot write there: {error.strerror}") from error


def queued(paths: RunPaths, submission: Submission, job: str) -> Submission:
    """Note the job of a submission."""
    return _write(paths, submission._replace(job=job))


def begun(paths: RunPaths, submission: Submission, pid: int) -> Submission:
    """Note the process of a submission."""
    try:
        started = psutil.Process(pid).create_time()
    except psutil.Error:  # it has ended already
        started = 0.0
    return _write(paths, submission._replace(pid=pid, started=started, birth=birth_of(pid)))


def withdraw(paths: RunPaths, submission: Submission) -> None:
    """Forget a submission whose controller cannot be started."""
    paths.submission(submission.number).unlink(missing_ok=True)


def _write(paths: RunPaths, submission: Submission) -> Submission:
    put(paths.submission(submission.number), json.dumps(submission._asdict()))
    return submission


def _numbers(paths: RunPaths) -> list[int]:
    try:
        names = os.listdir(paths.submissions)
    except OSError:
        return []
    return sorted(int(match[1]) for name in names if (match := _FILE.fullmatch(name)))


def read_submissions(paths: RunPaths) -> list[Submission]:
    """Return all submissions of a run, the oldest first; one that is being written is left out."""
    submissions = []
    for number in _numbers(paths):
        try:
            submissions.append(Submission(**json.loads(paths.submission(number).read_text(encoding="utf-8"))))
        except (OSError, ValueError, TypeError):
            continue
    return submissions


def newest_submission(paths: RunPaths) -> Submission | None:
    """Return the last controller that was requested; None if a run was never submitted."""
    return next(reversed(read_submissions(paths)), None)


def submission_of(paths: RunPaths, epoch: int) -> Submission | None:
    """Return the submission that this controller came from; None if it was started in the foreground."""
    return next((submission for submission in read_submissions(paths) if submission.epoch == epoch - 1), None)


def awaited(paths: RunPaths, history: History) -> Submission | None:
    """Return the submission whose controller is still to come, as far as the run's files know."""
    last = newest_submission(paths)
    if last is None or newest_epoch(paths) > last.epoch:
        return None
    if last.successor and history.state.ended:
        return None  # asked for by a controller that then came to the run's end after all
    return last if last.home != "login" or last.starts(time_at(paths.root)) else None


def refuse_unwanted(paths: RunPaths, number: int, history: History) -> Submission:
    """Return the submission with this number. Raise UsageError where it may not take the run."""
    last = newest_submission(paths)
    if last is None or last.number != number:
        raise UsageError(f"{paths.run_id}: submission {number} was withdrawn or replaced")
    if newest_epoch(paths) > last.epoch:
        raise UsageError(f"{paths.run_id}: another controller came before that of submission {number}")
    if last.successor and history.state.ended:
        raise UsageError(f"{paths.run_id} has ended already ({history.state})")
    return last
