"""A search during its run: new trials, what became of them, and when it is over."""

import json
import math
import pickle
import random
import reprlib
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import starmap
from pathlib import Path

from diel.base.errors import counted
from diel.base.extensions import SEARCHERS, class_named
from diel.base.files import replacing
from diel.base.states import FailureClass, TaskState, TrialState
from diel.base.values import as_float, number_text
from diel.base.version import __version__
from diel.controller.search.decider import Decider, DeciderContext, Earlier, UnjudgedPoint
from diel.controller.search.searcher import END, Searcher, space_of
from diel.store.journal.axis_history import Context, Course, Trial
from diel.store.journal.records import JudgedRecord, TrialRecord
from diel.store.project.requests import ask_cancel
from diel.store.project.run_file import read_run_file
from diel.tasks.metrics import FILE, Metrics
from diel.tasks.points.adaptive import Adaptive, SearchAxis
from diel.tasks.results import origin_dirs
from diel.tasks.stage_run import StageRun
from diel.workflow.expressions import ExpressionError
from diel.workflow.models import Search

SLOW = 0.25
"""Seconds of drawing that are worth a file."""


@dataclass
class Memory:
    """What a searcher knows of a course, in its run's folder: what was drawn slowly is not drawn again. The
    journal is what counts: of a file that does not fit, all is asked and told again."""

    _path: Path
    _spent: float = 0.0

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Count the time that something is drawn in."""
        began = time.monotonic()
        yield
        self._spent += time.monotonic() - began

    def keep(self, searcher: Searcher, course: Course) -> None:
        """Write what it knows, if that took long."""
        if self._spent < SLOW or not searcher.version:
            return
        self._spent = 0.0
        with suppress(Exception):  # the disk may be full; a package's own may hold what cannot be pickled
            content = pickle.dumps((__version__, searcher.version, course.told, searcher))
            self._path.parent.mkdir(exist_ok=True)
            with replacing(self._path) as file:
                file.write(content)

    def find(self, new: Searcher, course: Course) -> tuple[Searcher, int]:
        """Return a searcher, and how much of a course it knows: the saved one, or a new one without any."""
        try:
            version, own, trials, searcher = pickle.loads(self._path.read_bytes())  # noqa: S301 - its own run wrote it
        except Exception:  # nothing was kept, or another version of a library cannot read it
            return new, 0
        fits = (version, own, trials) == (__version__, new.version, course.told[: len(trials)])
        if not fits or type(searcher) is not type(new):
            return new, 0
        searcher.search = new.search  # it may have been given more trials since
        return searcher, len(trials)


HOUR = 3600.0
LISTEN = 0.02
"""Seconds between two looks at what running tasks report."""
SHARE = 0.02
"""The most of the controller's time that looking may take."""
FIRST = 10
"""A search that does not say how many trials may fail ends if so many at its beginning all failed."""


class SearchDecider(Decider):
    """Asks for trials while there is room, and reports what became of them."""

    def __init__(self, axis: SearchAxis, outer: Iterable[Adaptive], run: DeciderContext) -> None:
        super().__init__(axis, outer, run)
        self.axis: SearchAxis = axis
        self.search: Search = axis.axis
        self._space = space_of(self.search.parameters, run.workflow.hyperparameters, run.hyperparameters)
        self._searchers: dict[Context, Searcher] = {}
        self._memories: dict[Context, Memory] = {}
        self._live: dict[Context, set[int]] = {}
        self._failed: dict[Context, int] = {}
        self._stopping: dict[Context, dict[int, Path]] = {}
        """Pruned trials that may still have running tasks, and what asks workers to stop these."""
        self._metrics: dict[tuple[Context, int], dict[Path, Metrics]] = {}
        self._core_seconds: dict[Context, float] = {}
        self._listen_at = 0.0
        self._epoch = time.time() - time.monotonic()
        """What to add to time.monotonic for seconds since the epoch: a step of the clock ends no search."""

    def _begin(self, context: Context) -> None:
        if context not in self.axis.history.courses:
            self._begin_course(context, self._seed(len(self.axis.history.courses)))
        course = self._course(context)
        # Lost tasks that a new controller tries again, for a user had stopped them.
        again = [
            trial.number
            for trial in course.trials
            if any(not self._stages[name].history.state(index).ended for name, index in trial.lost)
        ]
        if again and course.over and not self._run.is_used(self.label, self._coordinates(context)):
            self._ledger.append({"event": "reopened", **self._key(context), "trials": again})
        elif self.axis.is_extended(course):
            self._ledger.append({"event": "reopened", **self._key(context), "trials": []})
        live = {trial.number for trial in course.trials if trial.state is TrialState.RUNNING}
        self._live[context], self._stopping[context] = live, {}
        self._failed[context] = sum(trial.state is TrialState.FAILED for trial in course.trials)
        for trial in course.trials:
            self._open(context, trial.number)
        for trial in course.trials:
            if trial.state is TrialState.RUNNING:
                self._judge(context, trial)
            elif trial.state is TrialState.PRUNED:
                self._stop(context, trial)
            elif trial.state is TrialState.COMPLETE:
                self._look_at_until(context, trial)  # a controller may have been killed before it did
        self._fail_lost(course)
        self._fill(context)

    def _fail_lost(self, course: Course) -> None:
        """Keep losses final in this run if others went on without them."""
        for trial in course.trials:
            for name, index in trial.lost:
                stage = self._stages[name]
                if not stage.history.state(index).ended:
                    message = (
                        "it had no result when others went on with what the search found, which holds for "
                        "the whole run; `diel run` tries it again, and takes what is done from the cache"
                    )
                    self._ledger.fail(stage, index, {"class": FailureClass.UPSTREAM, "message": message})
                    self._run.note_end(stage, index)

    def _seed(self, place: int) -> int:
        """Return the file's seed, or its run's, for the first context; others draw other random numbers."""
        seed = self.search.seed
        if seed is None:
            seed = read_run_file(self._ledger.paths).seeds.get(self.label)
        return random.SystemRandom().randrange(2**32) if seed is None else (seed + place) % 2**32

    def _searcher(self, context: Context) -> Searcher:
        """Return the searcher of a course, made where one is needed: its library is slow to load."""
        if context not in self._searchers:
            course = self._course(context)
            # Slow: only where trials are asked for.
            kind: type[Searcher] = class_named(SEARCHERS, self.search.sampler.name, Searcher)
            memory = self._memories[context] = Memory(self._ledger.paths.searcher(self.label, context))
            new = kind(self.search, self._space, course.seed)
            if self.search.warm_start is not None:
                earlier = json.loads(self._ledger.paths.earlier(self.label).read_text(encoding="utf-8"))
                new.learn([trial for trial in earlier if trial["at"] == course.at])
            searcher, replayed = memory.find(new, course)
            with memory.drawing():
                searcher.replay(course, *(replayed,) * (replayed > 0))
            self._searchers[context] = searcher
        return self._searchers[context]

    def _fill(self, context: Context) -> None:
        """Request trials while there is room for them; close the search after its last one."""
        course = self._course(context)
        if course.over:
            return
        live, stopping = self._live[context], self._stopping[context]
        for number in [number for number in stopping if not self._under_way(context, number)]:
            stopping.pop(number).unlink(missing_ok=True)
        reason = self._reason_to_stop(context, course)
        while not reason and len(live) + len(stopping) < self.search.parallel:
            searcher = self._searcher(context)
            with self._memories[context].drawing():
                hp = searcher.ask()
            if hp is None:
                reason = "all"
                break
            number = len(course.trials)
            record: TrialRecord = {
                "event": "trial",
                "axis": self.label,
                "context": [*context],
                "number": number,
                "hp": hp,
            }
            if (parent := searcher.parent(number)) is not None:
                record["parent"] = parent
            self._ledger.append(record)
            self._memories[context].keep(searcher, course)
            live.add(number)
            self._open(context, number)
            reason = self._reason_to_stop(context, course)
        if reason and not live and not stopping:
            failed = self._why_failed(context)
            self._close(context, len(course.trials), failed or reason, failed=bool(failed))

    def _reason_to_stop(self, context: Context, course: Course) -> str:
        search = self.search
        if self._is_hopeless(context):
            return "failures"
        if course.stopped:
            return course.stopped
        if len(course.trials) >= self.axis.size:
            return "trials"
        if search.timeout is not None and self._now() - course.began - course.idle > search.timeout:
            return "timeout"
        if search.core_hours is not None and self._spent(context) >= search.core_hours:
            return "core_hours"
        return ""

    def _now(self) -> float:
        return self._epoch + time.monotonic()

    def _is_hopeless(self, context: Context) -> bool:
        failed = self._failed[context]
        if not self.search.tolerates(failed, self.axis.size):
            return True
        bad = (TrialState.FAILED, TrialState.RUNNING)
        return (
            "failures" not in self.search.model_fields_set
            and failed >= FIRST
            and all(trial.state in bad for trial in self._course(context).trials)
        )

    def _why_failed(self, context: Context) -> str:
        trials, failed = self._course(context).trials, self._failed[context]
        hopeless = self._is_hopeless(context)
        last = next((f"; the last: {trial.message}" for trial in reversed(trials) if trial.message), "")
        if hopeless and failed < len(trials):
            allowed = f"`failures: {self.search.failures}` allows"
            return f"{failed} of {counted(len(trials), 'trial')} failed, more than {allowed}{last}"
        if not any(trial.state is TrialState.COMPLETE for trial in trials):
            first = f": the first {failed} all failed" if hopeless else ""
            return f"no trial has a score{first}{last}"
        if not any(t.state is TrialState.COMPLETE and max(t.excess, default=0.0) <= 0 for t in trials):
            return f"no trial keeps its constraints: {', '.join(self.search.constraints or ())}"
        return ""

    def _note(self, context: Context, point: int, stage: StageRun, index: int) -> None:
        course = self._course(context)
        if context in self._core_seconds:
            self._core_seconds[context] += self._core_seconds_of(stage, index)
        if course.over:
            return
        judges = stage.name in self.axis.judge.stages
        if judges:
            self._judge(context, course.trials[point])
        if judges or self._stopping[context]:
            self._fill(context)

    def _judge(self, context: Context, trial: Trial) -> None:
        if trial.state is not TrialState.RUNNING or not self._is_judged(context, trial.number):
            return
        if self._take_reports(context, trial):
            # However soon its end came: which trials are pruned must not hang on when somebody looked.
            self._prune(context, trial)
            return
        try:
            values = [self._number(context, trial, reference) for reference, _ in self.search.objectives]
            excess = [
                sign * (self._number(context, trial, reference) - bound)
                for reference, sign, bound in self.search.bounds
            ]
        except UnjudgedPoint as error:
            lost = self._lost(context, trial.number)
            self._tell(context, replace(trial, state=TrialState.FAILED, message=str(error), lost=lost))
            return
        self._tell(context, replace(trial, state=TrialState.COMPLETE, values=values, excess=excess))
        self._look_at_until(context, trial)

    def _number(self, context: Context, trial: Trial, reference: str) -> float:
        bad = self._bad(context, trial.number)
        if bad:
            raise UnjudgedPoint(f"{', '.join(stage.task(index) for stage, index in bad)} has no result")
        value = self._value(context, trial.number, tuple(reference.rsplit(".", 1)))
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UnjudgedPoint(f"{reference} is {reprlib.repr(value)}; expected a number")
        number = as_float(value)
        if not math.isfinite(number):
            raise UnjudgedPoint(f"{reference} is {reprlib.repr(value)}; expected a finite number")
        return value if isinstance(value, int) and abs(value) >= 2**53 else number  # not rounded

    def _tell(self, context: Context, ended: Trial) -> None:
        self._searcher(context).hear(ended, END)  # once it has replayed what was told so far
        record: JudgedRecord = {
            "event": "judged",
            **self._key(context),
            "number": ended.number,
            "state": ended.state,
            "values": ended.values,
            "message": ended.message,
            "lost": ended.lost,
            "core_seconds": ended.core_seconds,
            "excess": ended.excess,
        }
        self._ledger.append(record)
        self._live[context].discard(ended.number)
        self._failed[context] += ended.state is TrialState.FAILED
        self._metrics.pop((context, ended.number), None)

    def _look_at_until(self, context: Context, trial: Trial) -> None:
        course, number = self._course(context), trial.number
        if self._until is None or course.stopped or course.over:
            return
        try:
            if not self._holds(context, number, self._read_by_until(context, number)):
                return
            message = ""
        except (UnjudgedPoint, ExpressionError) as error:
            message = f"`until`: {error}"
        self._ledger.append({"event": "stopped", **self._key(context), "number": number, "message": message})

    def _spent(self, context: Context) -> float:
        if context not in self._core_seconds:
            tasks = self._tasks(context)
            self._core_seconds[context] = sum(self._core_seconds_of(stage, index) for stage, index in tasks)
        pruned = sum(trial.core_seconds for trial in self._course(context).trials)
        return (self._core_seconds[context] + pruned) / HOUR

    def _core_seconds_of(self, stage: StageRun, index: int) -> float:
        """Return the core seconds of a task; none without a result, or with one of an earlier run."""
        if stage.history.state(index) != TaskState.DONE:
            return 0.0
        record = self._ledger.results.record(stage.name, index)
        assert record["event"] == "done"
        return record.get("seconds", 0.0) * stage.ran_as(index, record.get("attempt", 1)).resources.cores

    def tend(self) -> None:
        for context in self._begun:
            self._hear(context)
            self._fill(context)

    def listen(self) -> float:
        if not self.search.prunes:
            return math.inf
        began = time.monotonic()
        if began >= self._listen_at:
            for context in self._begun:
                self._hear(context)
            now = time.monotonic()
            self._listen_at = now + max(LISTEN, (now - began) / SHARE)
        return self._listen_at if any(self._live.values()) else math.inf

    def _hear(self, context: Context) -> None:
        """Read what running tasks have reported, and stop the trials that the pruner gives up."""
        course = self._course(context)
        if self.search.prunes and not course.over:
            for number in sorted(self._live[context]):
                trial = course.trials[number]
                if self._take_reports(context, trial):
                    self._prune(context, trial)

    def recall(self, stage: StageRun, index: int, reported: Earlier) -> None:
        if not self.search.prunes or (stage, index) != self._watched(stage.domain.coordinates(index)):
            return
        coordinates = stage.domain.coordinates(index)
        context, number = self.axis.context(coordinates), coordinates[self.label]
        trial = self._course(context).trials[number]
        if trial.state is TrialState.RUNNING and self._tell_reports(context, trial, reported(self._metric)):
            self._prune(context, trial)
            self._fill(context)

    @property
    def _metric(self) -> str:
        return self.search.watched.rpartition(".")[2]

    def _watched(self, coordinates: Mapping[str, int]) -> tuple[StageRun, int | None]:
        stage = self._stages[self.search.watched.rpartition(".")[0]]
        return stage, stage.domain.index(coordinates)

    def _take_reports(self, context: Context, trial: Trial) -> bool:
        """Report what is new to the searcher; return whether the trial should be pruned."""
        if not self.search.prunes:
            return False
        if trial.reported and self._searcher(context).is_given_up(trial.number):
            return True
        return self._tell_reports(context, trial, self._reports(context, trial))

    def _tell_reports(self, context: Context, trial: Trial, reported: Iterable[tuple[int, float]]) -> bool:
        key, number = self._key(context), trial.number
        for step, value in reported:
            if step in trial.reported:
                continue
            given_up = self._searcher(context).report(number, step, value)
            self._ledger.append({"event": "reported", **key, "number": number, "step": step, "value": value})
            if given_up:
                return True
        return False

    def _reports(self, context: Context, trial: Trial) -> Iterator[tuple[int, float]]:
        """Yield what is new in the metrics of a trial, attempt by attempt: each may continue another."""
        stage, index = self._watched(self._coordinates(context, trial.number))
        if index is None:
            return
        files = self._metrics.setdefault((context, trial.number), {})
        for folder in self._folders(stage, index):
            path = folder / FILE
            yield from files.setdefault(path, Metrics(path)).read(self._metric)

    def _folders(self, stage: StageRun, index: int) -> Iterator[Path]:
        """Yield the directories of a task's attempts, oldest first; of a cached one, where it was made."""
        paths, state = self._ledger.paths, stage.history.state(index)
        if state == TaskState.CACHED:
            record = self._ledger.results.record(stage.name, index)
            yield from (folder for _, folder in origin_dirs(record, paths.root.parent))
            return
        for number in range(1, stage.history.latest(index) + 1):
            yield paths.task_dir(stage.name, index, number)

    def _prune(self, context: Context, trial: Trial) -> None:
        """Prune a trial: its running tasks are stopped, the rest never begins."""
        last = max(trial.reported)
        message = f"{self.search.watched} was {number_text(trial.reported[last], 15)} at step {last}"
        running = [
            (stage, index, stage.history.under_way[index])
            for stage, index in self._under_way(context, trial.number)
            if stage.history.state(index) == TaskState.RUNNING
        ]
        spent = sum(
            max(0.0, self._now() - attempt.time) * stage.ran_as(index, attempt.number).resources.cores
            for stage, index, attempt in running
        )
        spent += sum(starmap(self._core_seconds_of, self._tasks(context, trial.number)))
        self._core_seconds.pop(context, None)
        pruned = replace(trial, state=TrialState.PRUNED, message=message, core_seconds=round(spent, 3))
        self._tell(context, pruned)
        self._stop(context, trial)
        stage, index = self._watched(self._coordinates(context, trial.number))
        if index is not None:
            self._run.keep_pruned(stage, index, self._metric, trial.reported)
        self._open(context, trial.number)

    def _stop(self, context: Context, trial: Trial) -> None:
        """Stop what runs of a pruned trial, and leave out what has ended, however soon that was."""
        for stage in self._stages.values():
            if self.label in stage.spec.over:
                tasks = stage.domain.matching(self._coordinates(context, trial.number))
                ended = (index for index in tasks if stage.history.state(index).ended)
                self._run.leave_out(stage, [index for index in ended if index not in stage.omitted])
        running = self._under_way(context, trial.number)
        if running:
            targets = [f"{stage.name}/{index}" for stage, index in running]
            self._stopping[context][trial.number] = ask_cancel(self._ledger.paths, targets, kind="stop")

    def _under_way(self, context: Context, number: int) -> list[tuple[StageRun, int]]:
        return [
            (stage, index)
            for stage, index in self._tasks(context, number)
            if stage.history.state(index) in (TaskState.QUEUED, TaskState.RUNNING)
        ]
