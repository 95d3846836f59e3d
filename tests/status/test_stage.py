"""Stages and tasks of a run, by name and by state, and what is said of those that failed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from diel.base.errors import UsageError
from diel.base.states import TaskState
from diel.observe.status.columns import tasks_text
from diel.observe.status.stage import failure_lines, find_task, joined_lines, mean_text, tasks_by_state
from diel.store.journal.snapshot import read_run
from tests.cli.call import call
from tests.written import Written


def test_tasks_are_told_by_state_as_ranges(tmp_path: Path) -> None:
    run = Written(tmp_path, alive=True).done(0).done(1).failed(2).work("start", 3)
    stage = read_run(run.paths).history.stage("a")
    found = {state.label: pairs for state, pairs in tasks_by_state(stage).items()}
    assert found == {"running": [[3, 3]], "done": [[0, 1]], "failed": [[2, 2]]}
    assert tasks_by_state(stage, under_way=False)[TaskState.WAITING] == [[3, 3]]


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("aa/1", "did you mean 'a'"),
        ("a/4", "4 tasks, a/0 to a/3"),
        ("a/-1", "STAGE/INDEX"),
        ("a/1.2", "STAGE/INDEX"),
        ("a/" + "9" * 5000, "STAGE/INDEX"),
        ("a", "choose one"),
        ("late/0", "no tasks yet"),
    ],
)
def test_a_task_that_is_not_there_is_refused_with_what_there_is(tmp_path: Path, task: str, said: str) -> None:
    reader = read_run(Written(tmp_path).paths)
    with pytest.raises(UsageError, match=said):
        find_task(reader, task)


def test_a_stage_with_one_task_may_be_named_alone(tmp_path: Path) -> None:
    assert find_task(read_run(Written(tmp_path).paths), "b") == ("b", 0)


def test_ranges_are_cut_and_the_rest_is_counted() -> None:
    pairs = [[0, 46], [48, 48], [50, 95]]
    assert tasks_text(pairs) == "0-46,48,50-95"
    assert tasks_text(pairs, 1) == "0-46 and 47 more"


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, ""), (4e-5, "40µs"), (0.012, "12ms"), (0.4, "0.4s"), (185.0, "3m05s")]
)
def test_a_mean_is_shown_in_the_unit_that_fits(seconds: float | None, text: str) -> None:
    assert mean_text(seconds) == text


def test_a_failure_is_one_line_and_the_last_word_of_its_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    record: Any = {
        "event": "failed",
        "stage": "a",
        "tasks": [[3, 3]],
        "class": "app",
        "message": "exit code 1",
    }
    assert failure_lines(record | {"stderr_tail": "so\nthat is why\n"}) == [
        "a/3  app: exit code 1",
        "    that is why",
    ]
    far = "a long reason, " * 30 + "and what to do"
    told = failure_lines(record | {"message": f"{far}\n\n  \nso"})
    assert told == [f"a/3  app: {far}", "so"]
    assert failure_lines(record | {"tolerated": "min_success"}) == [
        "a/3  app: exit code 1 (tolerated by min_success)"
    ]


FLOW = """
diel: 1
name: w
axes: {x: {range: 4}}
stages:
  a: {over: [x], when: x != 1, command: 'echo "{\\"v\\": ${{ x }}}" > $DIEL_RESULT', outputs: {v: {value: int}}}
  b: {over: [x], when: x != 2, command: 'echo "{\\"v\\": ${{ x }}}" > $DIEL_RESULT', outputs: {v: {value: int}}}
  fit: {command: 'cat $DIEL_INPUTS', inputs: {p: a.v, q: b.v}}
"""
TOLD = "joined without x=1 of inputs.q, which a.v lacks; x=2 of inputs.p, which b.v lacks"


def test_status_and_explain_say_which_points_were_left_out_and_for_which_edge(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (workspace / "w.yaml").write_text(FLOW)
    assert TOLD in call(capsys, "run", "w.yaml").out
    several = (
        "status w-1",
        "status w-1 fit",
        "explain w-1",
        "explain w-1 fit",
        "explain w-1 fit/0",
        "report w-1",
    )
    for words in map(str.split, several):
        assert TOLD in call(capsys, *words).out, words
    left = json.loads(call(capsys, "status", "w-1", "fit", "--json").out)["left_out"]["0"]
    assert [(one["edges"], one["points"]) for one in left] == [(["a.v"], [{"x": 1}]), (["b.v"], [{"x": 2}])]
    told = json.loads(call(capsys, "explain", "w-1", "fit/0", "--json").out)
    assert told["left_out"] == left
    assert told["inputs"]["p"]["value"] == [0, 3]


def test_a_point_that_all_edges_lack_is_named_for_each(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = """
diel: 1
name: w
axes: {x: {range: 5}}
stages:
  a: {over: [x], hold: false, module: "own:a"}
  b: {over: [x], hold: false, module: "own:b"}
  fit: {command: 'true', inputs: {p: {from: a.v, min_success: 0.2}, q: {from: b.v, min_success: 0.2}}}
"""
    (workspace / "w.yaml").write_text(flow)
    (workspace / "own.py").write_text(
        "def a(x):\n    return {'v': 1 / (x not in (1, 2))}\n\n"
        "def b(x):\n    return {'v': 1 / (x not in (2, 3))}\n"
    )
    told = "joined without x=1 and x=2 of inputs.q, which a.v lacks; x=2 and x=3 of inputs.p, which b.v lacks"
    assert told in call(capsys, "run", "w.yaml").out


def test_of_many_the_first_are_named() -> None:
    points = [{"x": number, "y": 1} for number in range(5)]
    left = [{"edges": ["a.v"], "number": 5, "points": points}]
    lines = joined_lines([("fit", dict.fromkeys(range(5), left))])
    assert len(lines) == 4
    assert (
        lines[0] == "fit/0 was joined without (x=0, y=1), (x=1, y=1), (x=2, y=1) and 2 more, which a.v lacks"
    )
    assert lines[-1] == "fit: 2 more tasks were joined without some points"
