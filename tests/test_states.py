"""The states of tasks and runs, as those who ask for them rely on them; tables over them leave none out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

import pytest

from diel.base.states import EXIT_CODES, FailureClass, RunState, TaskState, TrialState
from diel.cli.commands import modules, plan
from diel.controller import stages
from diel.controller.search import optuna
from diel.observe.explain.attempts import ENDS
from diel.site.scheduler import JobState
from diel.store.project.submission import Home
from diel.workflow.models import Loop, Search
from diel.workflow.models.policy import Policies
from diel.workflow.modules.catalogue import Origin


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


ENDED = {state for state in JobState if state.ended}
WITHOUT_POLICY = {
    FailureClass.UPSTREAM,
    FailureClass.CHANGED,
    FailureClass.CANCELLED,
    FailureClass.INTERRUPTED,
}


@pytest.mark.parametrize(
    ("table", "all_kinds"),
    [
        pytest.param(EXIT_CODES, RunState, id="exit codes"),
        pytest.param(optuna.STATES, TrialState, id="states of Optuna"),
        pytest.param(Policies.model_fields, set(FailureClass) - WITHOUT_POLICY, id="policies"),
        pytest.param([*ENDS, JobState.TIMEOUT], ENDED, id="ends of blocks"),
        pytest.param(stages._DECIDERS, [Search.word, Loop.word], id="deciders"),
        pytest.param(plan.HOMES, get_args(Home), id="homes in a plan"),
        pytest.param(modules.ORIGINS, get_args(Origin), id="origins of modules"),
    ],
)
def test_a_table_has_an_entry_for_each_kind(table: Iterable[object], all_kinds: Iterable[object]) -> None:
    assert set(table) == set(all_kinds)
