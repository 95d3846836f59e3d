"""Tells people what happens to a run, by processes of their own: no run waits for them or fails with them."""

import contextlib
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from diel.base.carried import PYTHON
from diel.base.errors import DielError
from diel.base.paths import RunPaths, here, user_file
from diel.base.states import RunState, TaskState
from diel.base.values import bare, format_duration, task_text
from diel.site.notify import addresses, notify_again
from diel.site.site import Site
from diel.store.journal.history import History
from diel.store.journal.segment import SegmentWriter
from diel.store.project.run_file import RunFile
from diel.tasks.ledger import Ledger
from diel.workflow.models.notify import Notify

EVERY = 1.0
"""Seconds between two looks at the history."""
LAST = 20.0
"""Seconds for which a controller in a job waits for its last notices, which end with the job."""
_JOBS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID")


class Notices:
    """What a controller tells. All methods are for its thread."""

    def __init__(self, ledger: Ledger, to: Sequence[Notify]) -> None:
        self._ledger, self._paths = ledger, ledger.paths
        self._to = [(f"{address.way}-{number}", address) for number, address in enumerate(to, 1)]
        self._asked: set[Path] = set()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._looked = 0.0

    def tend(self) -> None:
        """Tell what is to be told by now."""
        now = time.time()
        if abs(now - self._looked) < EVERY:
            return
        self._looked = now
        self._processes = [process for process in self._processes if process.poll() is None]
        self._tell_due(now)

    def _tell_due(self, now: float) -> None:
        for name, address in self._to:
            for notice in due(self._ledger.history, self._paths, now, address.after):
                self._tell(notice, name, address)

    def end(self, state: RunState) -> None:
        """Tell the end just before it is recorded: the processes wait for the record."""
        if state is RunState.INTERRUPTED:
            return
        now = time.time()
        self._tell_due(now + EVERY)
        segment = self._ledger.segment
        notice = ended(self._ledger.history, self._paths, state, self._ledger.history.epoch, now)
        for name, address in self._to:
            self._tell(notice, name, address, end_of=str(segment.path))

    def close(self) -> None:
        """Wait for what is still being told, where it would not outlive this process."""
        until = time.monotonic() + (LAST if any(name in os.environ for name in _JOBS) else 0.0)
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, until - time.monotonic()))
            process.returncode = process.returncode or 0  # nobody waits for it any more

    def _tell(self, notice: "Notice", name: str, address: Notify, end_of: str = "") -> None:
        file = self._paths.notices / f"{notice.key}.{name}.jsonl"
        if notice.kind not in address.on or file in self._asked:
            return
        self._asked.add(file)
        if file.exists():
            return
        facts = {"event": notice.kind, "run": self._paths.run_id, "subject": notice.subject}
        facts |= {"host": socket.gethostname(), "directory": str(self._paths.root)}
        text = "\n".join((*notice.lines, f"{facts['host']}:{facts['directory']}"))
        message = {
            "file": str(file),
            "about": notice.key,
            "kind": notice.kind,
            "way": name,
            "end_of": end_of,
            "address": address.model_dump(mode="json"),
            "message": {"subject": notice.subject, "text": text, "facts": facts},
        }
        try:
            self._paths.notices.mkdir(mode=0o700, exist_ok=True)
            self._processes.append(_start(json.dumps(message).encode("utf-8", "replace")))
        except OSError as error:
            self._note(file, notice, name, error)

    def _note(self, file: Path, notice: "Notice", name: str, error: OSError) -> None:
        with contextlib.suppress(OSError, DielError):  # a run goes on without this
            writer = SegmentWriter(file)
            writer.append(
                {
                    "event": "notice",
                    "about": notice.key,
                    "kind": notice.kind,
                    "way": name,
                    "state": "failed",
                    "message": str(error),
                    "time": time.time(),
                }
            )
            writer.close()


def _start(message: bytes) -> subprocess.Popen[bytes]:
    # Without diel's marks: what ends the processes of a run must not end it.
    env = {name: value for name, value in os.environ.items() if not name.startswith("DIEL_")}
    words = [*PYTHON, "-m", "diel.worker.notify"]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, env=env, cwd="/", start_new_session=True
    )
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin as file:
        file.write(message)  # less than a pipe holds
    return process


def notices_for(ledger: Ledger, site: Site, run_file: RunFile) -> Notices | None:
    """Return what a controller tells on its site; None for nobody, or a wrong address, which is a trouble."""
    notifying = (
        site if site.notify else site.model_copy(update={"notify": notify_again(run_file.notify_file)})
    )
    try:
        receivers = addresses(notifying, Path(run_file.user_file or user_file()))
    except DielError as error:
        ledger.trouble(f"nobody is told what happens: {error}")
        return None
    return Notices(ledger, receivers) if receivers else None


SETTLED = 1.0
"""Seconds after a failure in which others may still say that they go on without the task."""


class Notice(NamedTuple):
    """Something to tell, once in a run's life."""

    key: str
    """What it is about: no two of a run have the same, whoever drives it."""
    kind: str
    subject: str
    lines: tuple[str, ...]


def due(history: History, paths: RunPaths, now: float, after: float) -> Iterator[Notice]:
    """Yield the notices that a history gives at a time; of blocks those that wait `after` seconds."""
    run, where = paths.run_id, here(paths)
    for (stage, index), record in history.failures.items():
        if "tolerated" not in record and now - record.get("time", now) >= SETTLED:
            task = f"{stage}/{index}"
            message = bare(record.get("headline") or record["message"])
            named = task_text(task, record.get("point"))
            yield Notice(
                "failed",
                "failed",
                f"{run}: {named} failed",
                (f"class {record['class']}: {message}", f"diel explain {run} {task}{where}"),
            )
            break
    for name, held in history.stages.items():
        if held.held and held.held[0] == "hold":
            answer = f"go on with it? diel resume {run} --anyway{where}; see diel explain {run} {name}{where}"
            subject = f"{run} waits for an answer: '{name}' is held"
            yield Notice(f"held-{name}", "held", subject, (held.held[1], answer))
    for name, block in history.blocks.items():
        waited = now - block["asked"]
        if block["state"] == "pending" and waited > after:
            subject = f"{run}: job {block['job']} has waited for {format_duration(waited)}"
            why = block["reason"] or "the scheduler gives no reason"
            lines = (f"block {name} in pool {block['pool']}: {why}", f"diel explain {run}{where}")
            yield Notice(f"waiting-{name}", "waiting", subject, lines)


def ended(history: History, paths: RunPaths, state: RunState, epoch: int, now: float) -> Notice:
    """Return the notice of a run's end: one for each controller that ends it."""
    counts = [stage.counts() for stage in history.stages.values()]
    totals = {kind.label: sum(count[kind.label] for count in counts) for kind in TaskState}
    tasks = ", ".join(f"{count:,} {label}" for label, count in totals.items() if count)
    subject = f"{paths.run_id} {state} after {format_duration(max(0.0, now - history.began))}"
    command = "results" if state is RunState.SUCCEEDED else "explain"
    return Notice(
        f"ended-{epoch}",
        "ended",
        subject,
        (f"tasks: {tasks or 'none'}", f"diel {command} {paths.run_id}{here(paths)}"),
    )
