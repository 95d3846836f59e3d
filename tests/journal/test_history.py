"""The fold: whatever order workers' records come in, they add up to the same history."""

from __future__ import annotations

from dataclasses import asdict
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diel.base.states import RunState, TaskState
from diel.store.journal.history import MAX_FAILURES, History
from tests.journal.story import TASKS, Line, Record, Story
from tests.record import as_record

STORIES = st.builds(Story, st.integers(0, 10**9), st.integers(0, 120))


def told(history: History) -> dict[str, Any]:
    """All that a history says."""
    document = asdict(history)
    for name, stage in history.stages.items():
        document["stages"][name]["states"] = [stage.state(index) for index in range(stage.total)]
        document["stages"][name]["counts"] = stage.counts()
    return document


def fold(lines: list[Line]) -> History:
    history = History()
    for name, record in lines:
        history.apply(as_record(record), name if name.startswith("worker") else "")
    return history


def in_order(story: Story, workers: list[str], times: int = 1) -> list[Line]:
    """The lines of the controllers' segments, then those of these workers' segments."""
    found = story.segments()
    controllers = sorted(name for name in found if name.startswith("controller"))
    lines = [(name, record) for name in controllers for record in found[name]]
    return lines + [(name, record) for name in workers for record in found[name] for _ in range(times)]


def workers_of(story: Story) -> list[str]:
    return sorted(name for name in story.segments() if name.startswith("worker"))


@settings(max_examples=150)
@given(STORIES, st.randoms(use_true_random=False))
def test_workers_segments_may_be_read_in_any_order(story: Story, dice: Any) -> None:
    workers = workers_of(story)
    expected = told(fold(in_order(story, workers)))
    dice.shuffle(workers)
    assert told(fold(in_order(story, workers))) == expected


@settings(max_examples=150)
@given(STORIES)
def test_the_order_in_which_things_happened_gives_the_same(story: Story) -> None:
    assert told(fold(story.lines)) == told(fold(in_order(story, workers_of(story))))


@given(STORIES)
def test_workers_records_may_be_read_twice(story: Story) -> None:
    workers = workers_of(story)
    once = fold(in_order(story, workers))
    assert told(fold(in_order(story, workers, times=2))) == told(once)
    assert told(fold(in_order(story, [*workers, *workers]))) == told(once)


@given(STORIES)
def test_each_committed_result_and_no_other_is_good(story: Story) -> None:
    history = fold(story.lines)
    done = [
        r for _, r in story.lines if r["event"] == "done" and (r["index"], r["attempt"]) not in story.fenced
    ]
    committed = {r["index"] for r in done} | {r["index"] for _, r in story.lines if r["event"] == "cached"}
    stage = history.stages["s"]
    assert {index for index in range(TASKS) if stage.state(index).good} == committed
    assert sum(stage.counts().values()) == stage.total == TASKS
    assert (stage.timed, stage.seconds) == (len(done), sum(r["seconds"] for r in done))


@given(STORIES)
def test_a_failure_is_told_where_the_task_has_failed_and_nowhere_else(story: Story) -> None:
    history = fold(story.lines)
    failed = {("s", i) for i in range(TASKS) if history.stages["s"].state(i) == TaskState.FAILED}
    assert set(history.failures) == failed


# --- one by one ---------------------------------------------------------------------------------

CONTROLLER: Record = {"event": "controller", "epoch": 1, "time": 10.0}
STAGE: Record = {"event": "stage", "stage": "s", "kind": "training", "total": 5, "time": 10.0}
QUEUED: Record = {"event": "queued", "stage": "s", "bundle": 1, "tasks": [0, 1, 2], "time": 11.0}
START: Record = {"event": "start", "stage": "s", "index": 0, "attempt": 1, "time": 12.0, "bundle": 1}
DONE: Record = {"event": "done", "stage": "s", "index": 0, "attempt": 1, "seconds": 2.0, "time": 14.0}
FAIL: Record = {"event": "fail", "stage": "s", "index": 0, "attempt": 1, "time": 14.0, "class": "app"}
FAILED: Record = {"event": "failed", "stage": "s", "tasks": [[0, 0]], "time": 15.0, "message": "m"}
END: Record = {"event": "end", "state": "failed", "time": 20.0}
WORKER = "worker-0001-node-1-a.jsonl"


def after(*records: Record) -> History:
    worker = {"worker", "start", "done", "fail", "release"}
    return fold([(WORKER if r["event"] in worker else "controller-0001.jsonl", r) for r in records])


FENCED: Record = {"event": "fenced", "stage": "s", "tasks": [[0, 1]], "time": 13.0}


@pytest.mark.parametrize("order", [(FENCED, DONE), (DONE, FENCED)])
def test_a_result_of_an_attempt_that_was_given_up_never_counts(order: tuple[Record, ...]) -> None:
    """Nor does one that was read before its fence."""
    history = after(CONTROLLER, STAGE, QUEUED, START, *order)
    assert states(history)[0] == "waiting"
    again = {**QUEUED, "bundle": 2, "tasks": [0], "attempts": [2]}
    history = after(CONTROLLER, STAGE, QUEUED, START, *order, again, {**DONE, "attempt": 2})
    assert states(history)[0] == "done"
    assert history.stages["s"].result_attempt(0) == 2


def test_a_result_from_the_cache_counts_whatever_was_given_up() -> None:
    cached = {"event": "cached", "stage": "s", "index": 0, "run": "w-1", "seconds": 1.0, "time": 15.0}
    for records in ((FENCED, cached), (cached, FENCED)):
        assert states(after(CONTROLLER, STAGE, QUEUED, START, *records))[0] == "cached"


def states(history: History) -> list[str]:
    return [history.stages["s"].state(index).label for index in range(5)]


def test_a_task_goes_from_waiting_over_queued_and_running_to_done() -> None:
    seen = [
        states(after(CONTROLLER, STAGE, *rest))[0]
        for rest in ([], [QUEUED], [QUEUED, START], [QUEUED, START, DONE])
    ]
    assert seen == ["waiting", "queued", "running", "done"]


def test_what_is_under_way_is_known_with_its_worker_and_since_when() -> None:
    attempt = after(CONTROLLER, STAGE, QUEUED, START).stages["s"].under_way[0]
    assert (attempt.number, attempt.state, attempt.time, attempt.worker) == (
        1,
        TaskState.RUNNING,
        12.0,
        WORKER,
    )


def test_a_failed_attempt_waits_for_its_next_one() -> None:
    history = after(CONTROLLER, STAGE, QUEUED, START, FAIL)
    assert states(history)[0] == "ready"
    history.apply(as_record({**QUEUED, "tasks": [0], "attempts": [2], "bundle": 2}))
    assert states(history)[0] == "queued"
    assert history.stages["s"].attempts[0] == 1
    assert history.stages["s"].latest(0) == 2


def test_a_committed_result_beats_a_verdict_in_either_order() -> None:
    for records in ((DONE, FAILED), (FAILED, DONE)):
        history = after(CONTROLLER, STAGE, QUEUED, START, *records)
        assert states(history)[0] == "done"
        assert history.failures == {}


def test_a_result_taken_from_an_earlier_run_names_it() -> None:
    history = after(CONTROLLER, STAGE, {**DONE, "event": "cached", "run": "w-7"})
    assert states(history)[0] == "cached"
    assert history.uses == {"w-7"}


def test_tasks_that_a_worker_hands_back_are_ready() -> None:
    release = {"event": "release", "stage": "s", "bundle": 1, "tasks": [1, 2]}
    history = after(CONTROLLER, STAGE, QUEUED, START, release)
    assert states(history)[:3] == ["running", "ready", "ready"]


def test_what_was_handed_back_and_handed_out_again_is_queued() -> None:
    """The worker's segment is read after the controller's, which already tells the next bundle."""
    again = {**QUEUED, "tasks": [1, 2], "bundle": 2}
    release = {"event": "release", "stage": "s", "bundle": 1, "tasks": [1, 2]}
    assert states(after(CONTROLLER, STAGE, QUEUED, again, START, release))[:3] == [
        "running",
        "queued",
        "queued",
    ]


def test_verdicts_are_packed_and_keep_their_message() -> None:
    skipped = {"event": "skipped", "stage": "s", "tasks": [[1, 2], [4, 4]], "time": 15.0}
    history = after(CONTROLLER, STAGE, FAILED, skipped)
    assert states(history) == ["failed", "skipped", "skipped", "waiting", "skipped"]
    assert history.failures[("s", 0)]["message"] == "m"


def test_the_next_controller_tries_again_what_has_no_result() -> None:
    skipped = {"event": "skipped", "stage": "s", "tasks": [[3, 3]], "time": 15.0}
    fail = {**FAIL, "index": 2}
    history = after(CONTROLLER, STAGE, QUEUED, START, DONE, fail, {**FAILED, "tasks": [[1, 1]]}, skipped, END)
    history.apply(as_record({**CONTROLLER, "epoch": 2, "time": 30.0}))
    assert states(history) == ["done", "waiting", "waiting", "waiting", "waiting"]
    assert history.failures == {}
    assert (history.state, history.ended, history.began, history.epoch) == (RunState.RUNNING, None, 10.0, 2)


def test_what_an_earlier_controllers_worker_began_counts_as_an_attempt_and_no_more() -> None:
    second = {**CONTROLLER, "epoch": 2}
    history = after(CONTROLLER, STAGE, QUEUED, second, START)
    assert states(history)[0] == "waiting"
    assert history.stages["s"].attempts[0] == 1
    history.apply(as_record(DONE), WORKER)
    assert states(history)[0] == "done"


def test_nothing_runs_once_the_controller_let_go() -> None:
    interrupted = {**END, "state": "interrupted"}
    for records in ((START, interrupted), (interrupted, START)):
        history = after(CONTROLLER, STAGE, QUEUED, *records)
        assert states(history) == ["waiting"] * 5
        assert history.stages["s"].under_way == {}
        assert (history.state, history.ended) == (RunState.INTERRUPTED, 20.0)


def test_events_of_a_newer_diel_are_left_alone() -> None:
    assert told(after(CONTROLLER, STAGE, {"event": "teleported", "to": 1})) == told(after(CONTROLLER, STAGE))


def test_only_so_many_failures_are_kept_but_all_are_counted() -> None:
    many = MAX_FAILURES + 5
    failed = [{**FAILED, "tasks": [[index, index]]} for index in range(many)]
    history = after(CONTROLLER, {**STAGE, "total": many}, *failed)
    assert len(history.failures) == MAX_FAILURES
    assert history.stages["s"].counts()["failed"] == many


def made(attempt: int, event: str = "done", **more: Any) -> Record:
    return {"event": event, "stage": "s", "index": 3, "attempt": attempt, "time": 1.0, "seconds": 1.0, **more}


LOST: Record = {"event": "gone", "stage": "s", "tasks": [[3, 1]]}
FIRST, SECOND = ("worker-0001-a.jsonl", made(1)), ("worker-0002-a.jsonl", made(2))
BEGAN = ("worker-0001-a.jsonl", made(1, "start"))


@pytest.mark.parametrize("lines", [*permutations([BEGAN, FIRST, ("worker-0001-b.jsonl", LOST), SECOND])])
def test_a_result_that_lost_its_files_counts_no_more_and_the_next_one_does(lines: list[Line]) -> None:
    stage = fold(list(lines)).stage("s")
    assert stage.state(3) is TaskState.DONE
    assert stage.result_attempt(3) == 2
    assert not stage.under_way
    before = fold([line for line in lines if line is not SECOND]).stage("s")
    if lines.index(BEGAN) < lines.index(FIRST):  # a segment's own lines stay in their order
        assert before.state(3) is TaskState.WAITING
        assert (before.attempts[3], before.under_way) == (1, {})


def test_a_result_from_the_cache_may_lose_its_files_too() -> None:
    taken = ("controller-0001.jsonl", made(0, "cached", run="w-1"))
    lost = ("worker-0001-b.jsonl", {"event": "gone", "stage": "s", "tasks": [[3, 0]]})
    assert fold([taken]).stage("s").state(3) is TaskState.CACHED
    for lines in ([taken, lost], [lost, taken]):
        assert fold(lines).stage("s").state(3) is TaskState.WAITING
        assert fold([*lines, FIRST]).stage("s").state(3) is TaskState.DONE


def test_tasks_that_were_never_named_are_waiting() -> None:
    history = after(CONTROLLER, {**STAGE, "total": 10**6}, {**DONE, "index": 3})
    counts = history.stages["s"].counts()
    assert (counts["waiting"], counts["done"]) == (10**6 - 1, 1)
