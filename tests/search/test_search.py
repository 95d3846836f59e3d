"""A search while its run goes on, without workers: when trials are asked for, and what is told of them."""

from __future__ import annotations

import json
import math
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from diel.base.states import TaskState, TrialState
from diel.controller.search.optuna import OptunaSearcher
from diel.controller.search.search import Memory
from diel.store.journal.axis_history import Course, Trial
from diel.store.journal.segment import SegmentWriter
from diel.store.journal.snapshot import read_run
from diel.store.project.requests import ask_cancel, read_stops
from diel.tasks.link import Verdict
from diel.tasks.points.adaptive import PointState
from diel.workflow.models import Search
from tests.controller.bench import Bench
from tests.record import as_record
from tests.search.playing import EVERYTHING, Play, search, space

SEARCH = """
hyperparameters: {{x: {{type: float, low: 0, high: 1}}}}
axes:
  trial:
    search: {{sampler: random, seed: 1, trials: 6, minimize: f.value, parameters: [x]{more}}}
stages:
  f: {{command: 'run > $DIEL_RESULT', over: [trial], params: {{x: "${{{{ hp.x }}}}"}}}}
  after: {{command: [echo, "${{{{ f.value }}}}"], over: [trial]}}
  best: {{command: [echo, "${{{{ inputs.value }}}}"], inputs: {{value: {{from: f.value, at: {{trial: best}}}}}}}}
"""


def bench(folder: Path, more: str = "") -> Bench:
    return Bench(folder, SEARCH.format(more=f", {more}" if more else ""))


def course(of: Bench, *context: int) -> Course:
    return of.ledger.history.axis("trial").courses[context]


def running(of: Bench, *context: int) -> list[int]:
    return [trial.number for trial in course(of, *context).trials if trial.state is TrialState.RUNNING]


# --- when trials are asked for --------------------------------------------------------------------


def test_as_many_trials_run_as_may(workspace: Path) -> None:
    here = bench(workspace, "parallel: 3")
    assert running(here) == [0, 1, 2]
    here.done("f", 1, value=1.0)
    assert running(here) == [0, 2, 3]


def test_a_slow_trial_holds_no_other_back(workspace: Path) -> None:
    here = bench(workspace, "parallel: 2")
    for number in (1, 2, 3, 4, 5):
        assert running(here) == [0, number]
        here.done("f", number, value=1.0)
    assert running(here) == [0]
    assert not course(here).over
    here.done("f", 0, value=1.0)
    assert (course(here).points, course(here).reason) == (6, "trials")


def test_a_trial_has_ended_when_it_is_judged_whatever_else_is_in_it(workspace: Path) -> None:
    here = bench(workspace)
    here.done("f", 0, value=1.0)
    assert running(here) == [1], "`after` of trial 0 is still to come"


def test_points_that_never_came_are_closed_and_those_that_did_are_not(workspace: Path) -> None:
    here = bench(workspace, 'until: "f.value < 1"')
    for number, value in enumerate((3.0, 2.0, 0.5)):
        here.done("f", number, value=value)
    assert (course(here).points, course(here).reason) == (3, "until")
    stage = here.stages.runs["f"]
    assert [stage.standing(index) for index in range(6)] == [PointState.OPEN] * 3 + [PointState.CLOSED] * 3


def test_what_runs_when_until_holds_ends_and_counts(workspace: Path) -> None:
    here = bench(workspace, 'parallel: 3, until: "f.value < 1"')
    here.done("f", 1, value=0.5)
    assert running(here) == [0, 2], "and no new one"
    here.done("f", 2, value=0.25)
    assert not course(here).over
    here.done("f", 0, value=2.0)
    assert course(here).points == 3
    assert here.resolve("best").command == ("echo", "0.25")


def test_an_until_that_cannot_be_worked_out_stops_the_search_and_says_why(workspace: Path) -> None:
    here = bench(workspace, 'until: "f.other < 1"')
    here.done("f", 0, value=1.0)
    assert course(here).points == 1
    assert course(here).reason == "`until`: f.other is missing: f/0 made value"


def test_a_controller_killed_between_a_score_and_what_until_says_of_it_changes_nothing(
    workspace: Path,
) -> None:
    here = bench(workspace, 'parallel: 2, until: "f.value < 1"')
    here.done("f", 1, value=0.5)
    here.killed_before("stopped")
    assert running(here) == [0], "and no new one"
    here.done("f", 0, value=2.0)
    assert (course(here).points, course(here).reason) == (2, "until")


def test_a_search_ends_after_its_time(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = bench(workspace, "timeout: 10s")
    stepped, later = time.time() + 3600, time.monotonic() + 11
    monkeypatch.setattr("diel.controller.search.search.time.time", lambda: stepped)
    assert not course(here).over, "the clock made a step"
    monkeypatch.setattr("diel.controller.search.search.time.monotonic", lambda: later)
    assert running(here) == [0]
    here.done("f", 0, value=1.0)
    assert (course(here).points, course(here).reason) == (1, "timeout")


@pytest.mark.parametrize("over", [False, True])
def test_the_time_without_a_controller_is_not_that_of_a_search(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, *, over: bool
) -> None:
    """Driven for four seconds and four more, killed for an hour in between; or for four and eight."""
    here, began, at = bench(workspace, "timeout: 10s"), time.time(), time.monotonic()
    monkeypatch.setattr("time.time", lambda: began + 3604)
    here.resumed(idle=3600)
    monkeypatch.setattr("time.monotonic", lambda: at + (8 if over else 4))
    here.done("f", 0, value=1.0)
    assert (course(here).over, course(here).reason) == ((True, "timeout") if over else (False, ""))


def test_a_search_that_gets_more_trials_has_not_gone_on_meanwhile(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, began = bench(workspace, "timeout: 10s"), time.time()
    for number in range(6):
        here.done("f", number, value=1.0)
    monkeypatch.setattr("time.time", lambda: began + 3600)
    search = here.plan.workflow.axes["trial"]
    assert isinstance(search, Search)
    here.plan.workflow.axes["trial"] = search.model_copy(update={"trials": 8})
    here.resumed(idle=3000)
    assert running(here) == [6]


def test_each_combination_of_the_other_axes_has_a_search_of_its_own(workspace: Path) -> None:
    text = SEARCH.format(more=", parallel: 2").replace("over: [trial]", "over: [material, trial]")
    text = text.replace("axes:", "axes:\n  material: {values: [cu, fe]}")
    text = text.replace("best: {", "best: {over: [material], ")
    here = Bench(workspace, text)
    assert running(here, 0) == running(here, 1) == [0, 1]
    first, second = (course(here, place).trials for place in (0, 1))
    assert first[0].hp != second[0].hp, "their random numbers differ"
    for number in range(6):
        here.done("f", number, value=float(number))
    assert course(here, 0).over
    assert running(here, 1) == [0, 1]
    assert here.stages.runs["best"].standing(0) is PointState.OPEN


# --- what becomes of a trial ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ({"value": math.nan}, "f.value is nan; expected a finite number"),
        ({"value": -math.inf}, "f.value is -inf; expected a finite number"),
        ({"value": 10**400}, "f.value is 100000000000000000...0000000000000000000; expected a finite number"),
        ({"value": "good"}, "f.value is 'good'; expected a number"),
        ({"value": "x" * 10**6}, "f.value is 'xxxxxxxxxxxx...xxxxxxxxxxxxx'; expected a number"),
        ({"value": None}, "f.value is None; expected a number"),
        ({"value": True}, "f.value is True; expected a number"),
        ({"value": [1.0]}, "f.value is [1.0]; expected a number"),
        ({"values": 1.0}, "f.value is missing: f/0 made values"),
        ({}, "f.value is missing: f/0 made nothing"),
    ],
)
def test_a_trial_without_a_number_has_failed_and_the_search_goes_on(
    workspace: Path, made: dict[str, Any], message: str
) -> None:
    here = bench(workspace)
    here.done("f", 0, **made)
    trial = course(here).trials[0]
    assert (trial.state, trial.message, trial.values) == (TrialState.FAILED, message, [])
    assert running(here) == [1]


def test_a_trial_whose_task_failed_has_failed(workspace: Path) -> None:
    here = bench(workspace)
    here.fail("f", 0)
    trial = course(here).trials[0]
    assert trial.state is TrialState.FAILED
    assert trial.message == "f/0 (trial=0) has no result"
    assert trial.lost == [["f", 0]]
    assert running(here) == [1]


def test_a_trial_that_was_cancelled_with_its_run_has_not_failed(workspace: Path) -> None:
    here = bench(workspace, "parallel: 6")
    here.done("f", 0, value=1.0)
    ask_cancel(here.paths)
    for number in range(1, 6):
        here.cancelled("f", number)
    assert running(here) == [1, 2, 3, 4, 5]
    assert not course(here).over, "who resumes the run goes on with them"


def test_a_trial_of_which_one_task_was_cancelled_has_failed(workspace: Path) -> None:
    here = bench(workspace)
    ask_cancel(here.paths, ["f/0"])
    here.cancelled("f", 0)
    assert course(here).trials[0].state is TrialState.FAILED
    assert running(here) == [1]


def cancelled(folder: Path) -> Bench:
    """A search that is over, of which the first trial was cancelled."""
    here = bench(folder)
    here.cancelled("f", 0)
    for number in range(1, 6):
        here.done("f", number, value=float(number))
    assert (course(here).points, course(here).trials[0].state) == (6, TrialState.FAILED)
    return here


def test_a_cancelled_trial_is_tried_again_while_nobody_has_used_what_its_search_found(
    workspace: Path,
) -> None:
    here = cancelled(workspace)
    here.resumed()
    assert running(here) == [0]
    assert not course(here).over
    here.done("f", 0, value=0.5)
    assert (course(here).points, course(here).trials[0].values) == (6, [0.5])
    assert here.resolve("best").command == ("echo", "0.5")
    again = read_run(here.paths)
    assert again.history.axis("trial").courses == here.ledger.history.axis("trial").courses


def test_a_cancelled_trial_of_a_search_that_others_have_used_stays_without_a_score(workspace: Path) -> None:
    here = cancelled(workspace)
    here.done("best")
    here.resumed()
    assert course(here).trials[0].state is TrialState.FAILED
    assert course(here).over
    assert here.stages.runs["f"].history.state(0) is TaskState.FAILED


def test_a_search_without_any_score_has_failed_and_says_why(workspace: Path) -> None:
    here = bench(workspace)
    for number in range(6):
        here.done("f", number, value=math.nan)
    assert course(here).failed
    reason = (
        "no trial has a score: the first 4 all failed; the last: f.value is nan; expected a finite number"
    )
    assert course(here).reason == reason
    assert here.stages.into["best"][0].verdict(()).name == "FAILED"


def test_several_objectives_are_scored_each(workspace: Path) -> None:
    text = SEARCH.format(more=", maximize: [f.speed]").replace("best}", "pareto}")
    here = Bench(workspace, text.replace("random", "nsga2"))
    for number, (error, speed) in enumerate([(1, 1), (2, 2), (3, 1), (0, 0), (2, 2.5), (5, 0)]):
        here.done("f", number, value=error, speed=speed)
    assert course(here).trials[4].values == [2.0, 2.5]
    assert here.resolve("best").command == ("echo", "1", "0", "2")


def test_the_best_trial_keeps_the_constraints_and_how_far_others_are_beyond_is_known(workspace: Path) -> None:
    here = bench(workspace, "constraints: [f.size <= 10, f.speed >= 2]")
    for number, (value, size, speed) in enumerate(
        [(1, 20, 3), (2, 10, 2), (0, 5, 1), (3, 1, 9), (4, 1, 9), (5, 1, 9)]
    ):
        here.done("f", number, value=value, size=size, speed=speed)
    assert [trial.excess for trial in course(here).trials[:3]] == [[10, -1], [0, 0], [-5, 1]]
    assert here.resolve("best").command == ("echo", "2")
    assert read_run(here.paths).history.axis("trial").courses == here.ledger.history.axis("trial").courses


def test_a_search_in_which_every_trial_breaks_a_constraint_has_failed(workspace: Path) -> None:
    here = bench(workspace, "constraints: [f.size <= 10]")
    for number in range(6):
        here.done("f", number, value=1.0, size=11)
    assert (course(here).failed, course(here).reason) == (
        True,
        "no trial keeps its constraints: f.size <= 10",
    )


@pytest.mark.parametrize(
    ("more", "over"), [("", True), (", failures: 11", False), (", failures: 0.9", False)]
)
def test_a_search_that_says_how_many_trials_may_fail_is_not_given_up_before(
    workspace: Path, more: str, over: bool
) -> None:
    here = Bench(workspace, SEARCH.replace("trials: 6", "trials: 30").format(more=more))
    for number in range(10):
        here.fail("f", number)
    assert course(here).over == over


# --- what is reported on the way ------------------------------------------------------------------


class Pruned(Bench):
    """A search with a median pruner that has five complete trials, each of which reported 1.0 three times."""

    def __init__(self, folder: Path, more: str = "", stages: str = "") -> None:
        told = f", pruner: median, trials: 9{more}"
        super().__init__(folder, SEARCH.replace(", trials: 6", "").format(more=told) + stages)
        for number in range(5):
            self.begin(number)
            self.report(number, *({"epoch": epoch, "value": 1.0} for epoch in range(3)))
            self.done("f", number, value=1.0)

    def begin(self, number: int, attempt: int = 1) -> None:
        """A worker is at a trial's task."""
        told = {"stage": "f", "index": number, "attempt": attempt}
        more = {"attempts": [attempt]} if attempt > 1 else {}
        self.ledger.append(
            as_record({"event": "queued", "stage": "f", "bundle": number, "tasks": [number], **more})
        )
        self.ledger.history.apply(
            as_record({"event": "start", "time": time.time() - 36, **told}), "worker-0001-a.jsonl"
        )
        self.paths.task_dir("f", number, attempt).mkdir(parents=True)

    def report(self, number: int, *metrics: dict[str, Any], attempt: int = 1, end: str = "\n") -> None:
        """What the task hands to `Context.report`."""
        with open(
            self.paths.task_dir("f", number, attempt) / ".metrics.jsonl", "a", encoding="utf-8"
        ) as file:
            file.write("\n".join(json.dumps(line) for line in metrics) + end)

    def trial(self, number: int) -> Trial:
        return course(self).trials[number]


@pytest.fixture
def pruned(workspace: Path) -> Pruned:
    return Pruned(workspace)


def test_what_running_tasks_report_is_told_step_by_step(pruned: Pruned) -> None:
    pruned.begin(5)
    pruned.report(5, {"epoch": 0, "value": 0.9, "other": 7})
    pruned.stages.tend()
    assert pruned.trial(5).reported == {0: 0.9}
    pruned.report(5, {"epoch": 1, "value": 0.8}, {"epoch": 2, "value": 0.7})
    pruned.stages.tend()
    assert pruned.trial(5).reported == {0: 0.9, 1: 0.8, 2: 0.7}
    assert pruned.trial(5).state is TrialState.RUNNING


def test_a_bad_trial_is_stopped_and_the_next_begins_when_nothing_of_it_runs(pruned: Pruned) -> None:
    pruned.begin(5)
    pruned.report(5, {"epoch": 0, "value": 3.5})
    pruned.stages.tend()
    assert pruned.trial(5).state is TrialState.PRUNED
    assert pruned.trial(5).message == "f.value was 3.5 at step 0"
    assert [cancel.targets for cancel in read_stops(pruned.paths)] == [{"f/5"}]
    assert pruned.stages.runs["f"].standing(5) is PointState.CLOSED
    assert pruned.stages.runs["after"].standing(5) is PointState.CLOSED
    assert len(course(pruned).trials) == 6, "parallel: 1, and the task may still run"
    stage = pruned.stages.runs["f"]
    pruned.ledger.skip(stage, [[5, 5]], "axis", "")
    pruned.stages.note_end(stage, 5)
    assert running(pruned) == [6]
    assert read_stops(pruned.paths) == [], "workers would read it for ever"


def test_a_trial_that_ended_before_anybody_looked_is_pruned_all_the_same(pruned: Pruned) -> None:
    """Otherwise which trials there are would hang on when the controller looked."""
    pruned.begin(5)
    pruned.report(5, {"epoch": 0, "value": 3.5}, {"epoch": 1, "value": 0.1})
    pruned.done("f", 5, value=0.1)
    assert pruned.trial(5).state is TrialState.PRUNED
    assert pruned.trial(5).reported == {0: 3.5}
    assert running(pruned) == [6]


def test_what_is_read_at_the_end_of_a_trial_counts(pruned: Pruned) -> None:
    assert [pruned.trial(number).reported for number in range(5)] == [{0: 1.0, 1: 1.0, 2: 1.0}] * 5


def test_lines_without_a_step_are_counted_and_what_is_no_number_is_passed_over(pruned: Pruned) -> None:
    pruned.begin(5)
    lines: list[dict[str, Any]] = [
        {"value": 0.9},
        {"value": math.nan},
        {"value": "soon"},
        {"value": True},
        {"loss": 5.0},
        {"value": 0.8},
    ]
    pruned.report(5, *lines)
    with open(pruned.paths.task_dir("f", 5, 1) / ".metrics.jsonl", "ab") as file:
        file.write(b'no json\n[1]\n\xff\n{"value": 0.7')
    pruned.stages.tend()
    assert pruned.trial(5).reported == {0: 0.9, 1: 0.8}, "half a line waits for its other half"
    with open(pruned.paths.task_dir("f", 5, 1) / ".metrics.jsonl", "ab") as file:
        file.write(b"}\n")
    pruned.stages.tend()
    assert pruned.trial(5).reported == {0: 0.9, 1: 0.8, 2: 0.7}


def test_an_attempt_goes_on_where_the_one_before_it_was_lost(pruned: Pruned) -> None:
    pruned.begin(5)
    pruned.report(5, {"epoch": 0, "value": 0.9})
    pruned.stages.tend()
    pruned.report(5, {"epoch": 1, "value": 0.8})  # which nobody reads before the worker is gone
    pruned.begin(5, attempt=2)
    pruned.report(5, {"epoch": 1, "value": 0.8}, {"epoch": 2, "value": 0.7}, attempt=2)
    pruned.done("f", 5, value=0.7)
    assert pruned.trial(5).reported == {0: 0.9, 1: 0.8, 2: 0.7}
    assert pruned.trial(5).state is TrialState.COMPLETE


def test_core_hours_count_pruned_trials_too(workspace: Path) -> None:
    here = Pruned(workspace, ", core_hours: 0.015")  # 54 s; each of the trials began 36 s ago
    for number in (5, 6):
        assert running(here) == [number]
        here.begin(number)
        here.report(number, {"epoch": 0, "value": 3.5})
        here.stages.tend()
        stage = here.stages.runs["f"]
        here.ledger.skip(stage, [[number, number]], "axis", "")
        here.stages.note_end(stage, number)
    assert here.trial(6).core_seconds == pytest.approx(36, abs=5)
    assert (course(here).points, course(here).reason) == (7, "core_hours")
    assert here.stages.runs["f"].history.state(6) == TaskState.SKIPPED
    assert here.trial(5).state is here.trial(6).state is TrialState.PRUNED


# --- what a pruned trial has made -----------------------------------------------------------------

BESIDE = """\
  beside: {command: 'run > $DIEL_RESULT', over: [trial]}
  all: {command: [echo, "${{ inputs.value }}"], inputs: {value: {from: beside.value, min_success: 0.1}}}
"""


class Beside(Pruned):
    """With a stage in each trial that the pruner does not watch, and one that gathers what that makes."""

    def __init__(self, folder: Path, more: str = "") -> None:
        super().__init__(folder, more, BESIDE)

    def end(self) -> None:
        """Trials 6, 7 and 8 end, and the search with them."""
        for number in (6, 7, 8):
            self.begin(number)
            self.done("f", number, value=1.0)
        assert course(self).over

    def gathered(self) -> list[int]:
        """The trials that are read when the stage that gathers them may begin."""
        (link,) = self.stages.into["all"]
        assert link.verdict(()) is Verdict.READY
        return list(link.good_members(()))


def test_what_gathers_waits_for_the_search_that_may_still_prune(workspace: Path) -> None:
    here = Beside(workspace)
    for number in range(9):
        here.done("beside", number, value=1.0)
    (link,) = here.stages.into["all"]
    assert link.verdict(()) is Verdict.WAITING, "all that it reads is there"
    here.begin(5)
    here.report(5, {"epoch": 0, "value": 3.5})
    here.stages.tend()
    here.done("f", 5, value=3.5)
    here.end()
    assert here.gathered() == [0, 1, 2, 3, 4, 6, 7, 8]
    assert 0 in here.stages.runs["all"].candidates(0.0), "it is looked at when the search is over"


@pytest.mark.parametrize("first", ["done", "failed", "pruned"])
def test_what_is_made_beside_a_pruned_trial_counts_nowhere_whenever_that_was(
    workspace: Path, first: str
) -> None:
    here = Beside(workspace)
    for number in (0, 1, 2, 3, 4, 6, 7, 8):
        here.done("beside", number, value=1.0)
    if first == "done":
        here.done("beside", 5, value=1.0)
    elif first == "failed":
        here.fail("beside", 5)
    here.begin(5)
    here.report(5, {"epoch": 0, "value": 3.5})
    here.stages.tend()
    if first == "pruned":  # a worker's line that no controller has taken in before the next one begins
        record = {"event": "done", "stage": "beside", "index": 5, "key": "0" * 32, "values": {"value": 1.0}}
        with closing(SegmentWriter(here.paths.journal / "worker-0001-a-1.jsonl")) as worker:
            worker.append(as_record({**record, "attempt": 1, "seconds": 1.0}))
        here.resumed()
    stage = here.stages.runs["beside"]
    assert stage.history.state(5) == TaskState.SKIPPED
    assert ("beside", 5) not in here.ledger.history.failures
    here.stages.tend()
    if first != "pruned":
        here.stages.runs["f"].history.set(5, TaskState.SKIPPED)
        here.stages.note_end(here.stages.runs["f"], 5)
    here.end()
    assert here.gathered() == [0, 1, 2, 3, 4, 6, 7, 8]
    (left,) = [one for name, one in read_run(here.paths).history.stages.items() if name == "beside"]
    assert (left.state(5), left.never) == (TaskState.SKIPPED, 1)


def test_core_hours_count_what_a_pruned_trial_had_made(workspace: Path) -> None:
    here = Beside(workspace, ", core_hours: 1")
    record = {"event": "done", "stage": "beside", "index": 5, "key": "0" * 32, "values": {"value": 1.0}}
    here.commit("beside", 5, {**record, "attempt": 1, "seconds": 3000.0})
    here.begin(5)
    here.report(5, {"epoch": 0, "value": 3.5})
    here.stages.tend()
    assert here.trial(5).core_seconds == pytest.approx(3036, abs=5)
    here.resumed()
    assert here.trial(5).core_seconds == pytest.approx(3036, abs=5)


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Play:
    monkeypatch.setattr("diel.controller.search.search.SLOW", 0.0)
    return Play(search("tpe", startup=3, pruner="median"), space(EVERYTHING))


def keep(play: Play, path: Path, length: int) -> None:
    """After so many records, in the way of a controller that then is killed."""
    Memory(path).keep(play.take_over(length), play.course(length))


def found(play: Play, path: Path, length: int) -> tuple[OptunaSearcher, int]:
    """What the next controller finds, which reads so many records."""
    new = OptunaSearcher(play.given, play.over, play.seed)
    searcher, known = Memory(path).find(new, play.course(length))
    assert isinstance(searcher, OptunaSearcher)
    assert (searcher is new) == (known == 0)
    return searcher, known


def test_a_search_goes_on_where_it_was_and_draws_nothing_again(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play.run(12, parallel=2)
    length = len(play.records) - 8
    keep(play, tmp_path / "kept", length)
    searcher, known = found(play, tmp_path / "kept", length)
    assert known == length
    asked: list[Any] = []
    monkeypatch.setattr(searcher, "ask", lambda: asked.append(1))
    searcher.replay(play.course(length), known)
    monkeypatch.undo()
    assert asked == []
    play.go_on(searcher, length)


def test_what_came_after_it_was_kept_is_asked_and_told_again(play: Play, tmp_path: Path) -> None:
    play.run(12)
    keep(play, tmp_path / "kept", len(play.records) // 2)
    searcher, known = found(play, tmp_path / "kept", len(play.records) - 3)
    searcher.replay(play.course(len(play.records) - 3), known)
    play.go_on(searcher, len(play.records) - 3)


@pytest.mark.parametrize("damage", ["gone", "cut", "of another course"])
def test_what_cannot_be_used_is_passed_over(play: Play, tmp_path: Path, damage: str) -> None:
    play.run(6)
    path = tmp_path / "kept"
    keep(play, path, len(play.records))
    if damage == "gone":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-5])
    assert found(play, path, len(play.records) - (damage == "of another course"))[1] == 0


def test_what_is_drawn_at_once_leaves_no_file(tmp_path: Path) -> None:
    play = Play(search("random"), space(EVERYTHING)).run(3)
    keep(play, tmp_path / "kept", len(play.records))
    assert list(tmp_path.iterdir()) == []
