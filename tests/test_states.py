"""The states of tasks and runs, as those who ask for them rely on them."""

from __future__ import annotations

import pytest

from diel.states import EXIT_CODES, RunState, TaskState


def test_a_task_that_has_ended_is_good_only_with_a_result() -> None:
    ended = {state.label for state in TaskState if state.ended}
    assert ended == {"done", "cached", "failed", "skipped", "cancelled"}
    assert {state.label for state in TaskState if state.good} == {"done", "cached"}


def test_a_tasks_state_is_one_byte_that_old_snapshots_have_too() -> None:
    labels = ["waiting", "ready", "queued", "running", "done", "cached", "failed", "skipped", "cancelled"]
    assert [state.label for state in TaskState] == labels
    assert bytes(TaskState) == bytes(range(9))


@pytest.mark.parametrize(
    ("state", "code", "ended"),
    [
        (RunState.PENDING, 4, False),
        (RunState.RUNNING, 4, False),
        (RunState.INTERRUPTED, 130, False),
        (RunState.SUCCEEDED, 0, True),
        (RunState.FAILED, 1, True),
        (RunState.CANCELLED, 3, True),
    ],
)
def test_a_script_knows_by_the_exit_code_how_a_run_stands(state: RunState, code: int, ended: bool) -> None:
    assert (EXIT_CODES[state], state.ended) == (code, ended)
