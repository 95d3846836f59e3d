"""Taking in what became of tasks: results, failures, lost workers."""

from __future__ import annotations

import pickle
import time
from concurrent.futures import Future

from diel.controller.dispatcher import Dispatcher, Sent, reset
from diel.controller.ledger import Ledger
from diel.controller.stage_run import StageRun
from diel.controller.stages import Stages
from diel.journal.history import Attempt
from diel.journal.segment import Record
from diel.states import FailureClass, TaskState
from diel.worker.bundle import Report
from diel.worker.reaper import kill_marked

MAX_LOST = 5
"""Workers that a task may lose before it counts as failed."""
MAX_BACKOFF = 300.0


class Intake:
    """Decides whether a task is done, tried again, or failed for good."""

    def __init__(self, stages: Stages, ledger: Ledger, dispatcher: Dispatcher) -> None:
        self._stages = stages
        self._ledger = ledger
        self._dispatcher = dispatcher

    def take(self, number: int, future: Future[bytes]) -> None:
        """Takes in a bundle that ended, or whose worker was lost."""
        sent = self._dispatcher.pop(number)
        if sent is None:
            return
        error = future.exception()
        if error is not None:
            self._take_lost(number, sent, error)
            return
        report: Report = pickle.loads(future.result())  # from our own worker
        for offset, record in report.records:
            self._take_record(report.segment, offset, record)
        self._ledger.read_until(report.segment, report.end)
        # All that the bundle still has in flight was not begun: the report may come before the line
        # that releases it was read.
        self._dispatcher.take_back(sent.stage, number, [request.index for request in sent.requests])

    def read_news(self) -> bool:
        """Takes in what workers wrote and did not report yet; says whether there was anything."""
        news = self._ledger.read_news()
        for segment, offset, record in news:
            self._take_record(segment, offset, record)
        return bool(news)

    def _take_record(self, segment: str, offset: int, record: Record) -> None:
        """Takes in what became of an attempt; what is not in flight any more is left alone."""
        event = record["event"]
        if event == "release":
            stage = self._stages.runs[record["stage"]]
            self._dispatcher.take_back(stage, record["bundle"], record["tasks"])
            return
        if event not in ("done", "fail"):
            return
        name, index = record["stage"], record["index"]
        task = self._dispatcher.in_flight.get((name, index))
        if task is None or (event == "fail" and task.attempt != record["attempt"]):
            return
        del self._dispatcher.in_flight[(name, index)]
        stage = self._stages.runs[name]
        if event == "done":
            stage.measure(record["seconds"])
            self._ledger.commit(stage, index, segment, offset, record)
            self._stages.note_end(stage, index)
        else:
            self._ledger.history.apply(record, segment)
            self._retry_or_fail(stage, index, record)

    def _take_lost(self, number: int, sent: Sent, error: BaseException) -> None:
        """A worker was lost: its segment tells which tasks were done and which one it was at."""
        self.read_news()
        stage = sent.stage
        for request in sent.requests:
            index = request.index
            task = self._dispatcher.in_flight.get((stage.name, index))
            if task is None or task.bundle != number:
                continue
            attempt = stage.history.under_way.get(index)
            if attempt is not None and attempt.state == TaskState.RUNNING:
                del self._dispatcher.in_flight[(stage.name, index)]
                left = self._ledger.paths.task_dir(stage.name, index, attempt.number)
                kill_marked("DIEL_TASK_DIR", str(left))  # a command outlives its worker
                if not self._ran_out_of_time(stage, index, attempt):
                    self._lose(stage, index, f"its worker was lost: {_first_line(error)}")
            else:
                self._dispatcher.take_back(stage, number, [index])

    def _ran_out_of_time(self, stage: StageRun, index: int, attempt: Attempt) -> bool:
        """Takes a worker that ended with a task beyond its timeout as ended by that."""
        limit = stage.spec.timeout
        if limit is None or time.time() - attempt.time < limit:
            return False
        message = f"ran longer than its timeout of {limit:g} s, and let nothing else run"
        record = {"class": FailureClass.TIMEOUT, "message": message, "attempt": attempt.number}
        self._retry_or_fail(stage, index, record)
        return True

    def _lose(self, stage: StageRun, index: int, message: str) -> None:
        """A worker ended under a task: not the task's fault, but not for ever."""
        lost = stage.lost[index] = stage.lost.get(index, 0) + 1
        if lost > MAX_LOST:
            self._fail(stage, index, {"class": FailureClass.NODE, "message": message})
        else:
            reset(stage, index)
            stage.later(index, time.monotonic() + 0.1 * 2**lost)

    def _retry_or_fail(self, stage: StageRun, index: int, record: Record) -> None:
        kind = record["class"]
        if kind == FailureClass.CANCELLED:
            self._ledger.verdict("cancelled", stage, [[index, index]])
            self._stages.note_end(stage, index)
            return
        if kind == FailureClass.NODE:
            self._lose(stage, index, record["message"])
            return
        retries = stage.spec.retries
        charged = stage.charged[index] = stage.charged.get(index, 0) + 1
        if charged > retries.limit:
            self._fail(stage, index, record)
            return
        reset(stage, index)
        stage.later(index, time.monotonic() + min(retries.backoff * 2 ** (charged - 1), MAX_BACKOFF))

    def _fail(self, stage: StageRun, index: int, record: Record) -> None:
        self._ledger.fail(stage, index, record)
        self._stages.note_end(stage, index)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
