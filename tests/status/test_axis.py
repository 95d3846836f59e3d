"""Searches and loops as the journal tells them: trials, rounds, and tasks that will never be."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click
import pytest

from diel.observe.results import RunReader
from diel.observe.results.attempts import list_trials
from diel.observe.status.axis import axis_lines, drawn_course, last_metric
from diel.observe.status.columns import width_of
from diel.observe.status.run import read_status
from diel.store.journal.history import History
from diel.store.journal.segment import Reader
from diel.store.journal.snapshot import read_run
from tests.cli.call import call
from tests.record import as_record
from tests.screen import Terminal
from tests.searched import MATERIALS, SEARCH, Searched, loop, search
from tests.throwaway import Project


def snapshot(run: Searched) -> Searched:
    reader = Reader(run.paths, History())
    reader.catch_up()
    reader.save()
    return run


@pytest.mark.parametrize("with_snapshot", [True, False])
def test_a_search_tells_its_trials_its_best_one_and_those_that_run(
    tmp_path: Path, with_snapshot: bool
) -> None:
    run = search(tmp_path, alive=True)
    if with_snapshot:
        snapshot(run)
    found = read_status(run.paths).document()["axes"]["trial"]
    (running,), latest = found.pop("running"), found.pop("latest")
    assert [(one["trial"], one["state"], one["values"], one["step"], one["reported"]) for one in latest] == [
        (0, "complete", [4.0], 0, 40.0),
        (1, "complete", [0.25], 0, 2.5),
        (2, "complete", [9.0], 0, 90.0),
        (3, "pruned", [], 0, 200.0),
        (4, "running", [], None, None),
    ]
    assert latest[3]["message"] == "f.loss was 200 at step 0"
    assert found == {
        "kind": "search",
        "state": "running",
        "sampler": "tpe",
        "objectives": [{"value": "f.loss", "goal": "minimize"}],
        "trials": {"total": 6, "complete": 3, "running": 1, "waiting": 0, "pruned": 1, "failed": 0},
        "best": {"trial": 1, "values": [0.25], "hp": {"x": 0.5}},
        "reason": "",
        "tolerated": "",
    }
    assert running["trial"] == 4
    assert running["hp"] == {"x": 1.5}
    assert running["tasks"] == {"done": 1, "running": 1, "waiting": 1}
    assert running["seconds"] > 0
    assert (running["step"], running["reported"]) == (None, None)


def test_a_trial_runs_only_while_a_task_of_it_does(tmp_path: Path) -> None:
    run = search(tmp_path, alive=True).work("done", "sub", 9, seconds=1.0, key="k")
    found = read_status(run.paths).document()["axes"]["trial"]
    assert (found["trials"]["running"], found["trials"]["waiting"]) == (0, 1)
    assert found["latest"][-1]["state"] == "waiting"
    assert [row[1] for row in list_trials(RunReader(run.paths)).rows][-2:] == ["pruned", "waiting"]


def test_a_running_trial_tells_the_last_metric_that_its_task_wrote(tmp_path: Path) -> None:
    run = search(tmp_path, alive=True).work("done", "sub", 9, seconds=1.0, key="k").work("start", "f", 4)
    metrics = run.paths.task_dir("f", 4, 1) / ".metrics.jsonl"
    metrics.parent.mkdir(parents=True)
    metrics.write_text('{"epoch": 3, "loss": 0.5}\n{"epoch": 4, "loss": 0.25}\n{"epoch": 5, "lo')
    (running,) = read_status(run.paths).document()["axes"]["trial"]["running"]
    assert (running["step"], running["reported"]) == (4, 0.25)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", None),
        ('{"other": 1}\n', None),
        ('{"m": "text"}\n{"m": NaN}\n{"m": true}\nno json\n', None),
        ('{"m": 1}\n{"m": 2.5}\n', (1, 2.5)),  # lines are counted where none tells its step
        ('{"m": 1, "step": 10}\n{"n": 3}\n', (10, 1.0)),
        (f'{{"m": 1{"0" * 400}}}\n', None),
        ("[" * 60_000 + "\n", None),
    ],
)
def test_the_last_metric_of_a_file(tmp_path: Path, text: str, found: tuple[int | None, float] | None) -> None:
    (tmp_path / "m").write_text(text)
    assert last_metric(tmp_path / "m", "m") == found


def test_of_a_long_file_of_metrics_the_end_alone_is_read(tmp_path: Path) -> None:
    (tmp_path / "m").write_text("".join(f'{{"m": {number}}}\n' for number in range(20_000)))
    assert last_metric(tmp_path / "m", "m") == (None, 19_999.0)
    assert last_metric(tmp_path / "absent", "m") is None


def test_without_its_controller_a_search_waits(tmp_path: Path) -> None:
    found = read_status(search(tmp_path).paths).document()["axes"]["trial"]
    assert found["state"] == "waiting"
    assert found["running"][0]["tasks"]["done"] == 1


def test_a_pruned_trial_is_neither_skipped_nor_missing(tmp_path: Path) -> None:
    (f,) = [stage for stage in read_status(search(tmp_path).paths).stages if stage.name == "f"]
    assert (f.good, f.total, f.omitted, f.counts["skipped"]) == (3, 5, 1, 0)


@pytest.mark.parametrize("with_snapshot", [True, False])
def test_a_loop_that_ended_early_is_complete(tmp_path: Path, with_snapshot: bool) -> None:
    run = loop(tmp_path, over=True)
    if with_snapshot:
        snapshot(run)
    status = read_status(run.paths)
    check, sim = (next(s for s in status.stages if s.name == name) for name in ("check", "sim"))
    assert (check.good, check.total, check.counts["skipped"]) == (3, 3, 0)
    assert (sim.good, sim.total, sim.counts["skipped"]) == (2, 3, 1)  # one round left it out by `when`
    assert (status.good, status.total) == (6, 7)
    assert status.document()["axes"]["round"] == {
        "kind": "loop",
        "state": "over",
        "until": "${{ check.error < 0.1 }}",
        "rounds": {"max": 100, "done": 3},
        "round": 2,
        "course": [
            {"round": 0, "values": {"check.error": 0.8}, "holds": False},
            {"round": 1, "values": {"check.error": 0.4}, "holds": False},
            {"round": 2, "values": {"check.error": 0.05}, "holds": True},
        ],
        "reason": "until",
        "tolerated": "",
    }


def test_a_loop_under_way_has_all_its_rounds_before_it(tmp_path: Path) -> None:
    status = read_status(loop(tmp_path, over=False).paths)
    found = status.document()["axes"]["round"]
    assert (found["state"], found["round"], found["rounds"]) == ("running", 3, {"max": 100, "done": 3})
    assert status.stages[1].total == 100


def test_infinity_in_a_loops_values_is_a_text_in_json(tmp_path: Path) -> None:
    run = loop(tmp_path, over=False)
    values = {"check.error": float("inf"), "check.all": [{"one": float("nan")}, 1.0]}
    run.about("round", number=3, holds=False, values=values)
    document = read_status(run.paths).document()["axes"]["round"]
    assert document["course"][3]["values"] == {"check.error": "Infinity", "check.all": [{"one": "NaN"}, 1.0]}
    json.dumps(document, allow_nan=False)


def test_one_search_for_each_material_stands_under_each(tmp_path: Path) -> None:
    run = Searched(tmp_path, MATERIALS, alive=True).about("begin", 0, seed=1, at={"material": "Si"})
    run.about("begin", 1, seed=2, at={"material": "Ge"})
    for number, scores in enumerate([(1.0, 3.0), (2.0, 2.0), (3.0, 3.0)]):
        run.trial(number, float(number), 0).score(number, *scores, context=(0,))
    run.trial(0, 0.0, 1).work("start", "f", 4)
    found = read_status(run.paths).document()["axes"]["trial"]
    assert "trials" not in found
    silicon, germanium = found["each"]
    assert (silicon["at"], germanium["at"]) == ({"material": "Si"}, {"material": "Ge"})
    assert [trial["trial"] for trial in silicon["front"]] == [0, 1]
    assert silicon["best"] is None
    assert germanium["trials"]["running"] == 1
    assert germanium["running"][0]["tasks"] == {"done": 0, "running": 1, "waiting": 0}  # f/4 is its own


def test_a_search_that_has_not_begun_waits(tmp_path: Path) -> None:
    found = read_status(Searched(tmp_path, SEARCH, alive=True).paths).document()["axes"]["trial"]
    assert found["state"] == "waiting"
    assert found["trials"] == {
        "total": 6,
        "complete": 0,
        "running": 0,
        "waiting": 0,
        "pruned": 0,
        "failed": 0,
    }
    assert found["best"] is None


@pytest.mark.parametrize("done", [0, 1, 2])
def test_rounds_of_a_loop_that_nobody_judges_are_over_with_their_tasks(tmp_path: Path, done: int) -> None:
    text = """
    axes: {round: {loop: {max: 2}}}
    stages:
      a: {over: [round], command: [x]}
      b: {over: [round], command: [x], after: [a]}
    """
    run = Searched(tmp_path, text, alive=True)
    for number in range(done):
        run.done("a", number).done("b", number)
    run.done("a", min(done, 1))
    found = read_status(run.paths).document()["axes"]["round"]
    assert found["rounds"] == {"max": 2, "done": done}
    assert found["round"] == min(done, 1)
    assert (found["state"], found["reason"]) == (("over", "max") if done == 2 else ("running", ""))


def test_what_was_left_out_is_looked_at_anew_by_the_next_controller(tmp_path: Path) -> None:
    run = search(tmp_path)
    run.write("controller", epoch=2, host="h", pid=1, started=1.0)
    history = read_run(run.paths).history
    assert history.stage("f").never == 0
    run.done("f", 3, loss=1.0)  # whatever was said of it before
    history = read_run(run.paths).history
    assert history.stage("f").counts()["done"] == 4


def test_a_record_that_is_read_twice_leaves_nothing_out_twice() -> None:
    history = History()
    history.apply({"event": "stage", "stage": "a", "kind": "analysis", "total": 5, "time": 1.0})
    for _ in range(2):
        record = {"event": "skipped", "stage": "a", "tasks": [[3, 4]], "reason": "axis", "time": 2.0}
        history.apply(as_record(record))
    assert history.stage("a").expected == 3
    assert sum(history.stage("a").counts().values()) == 3


def test_the_status_of_500_trials_is_there_at_once(tmp_path: Path) -> None:
    run = Searched(tmp_path, SEARCH.replace("trials: 6", "trials: 500"), alive=True).about("begin", seed=1)
    for number in range(500):
        run.trial(number, number / 7)
        for step in range(5):
            run.about("reported", number=number, step=step, value=1.0 / (1 + step))
        run.score(number, float(number % 83))
    snapshot(run)
    took = []
    for _ in range(3):
        began = time.process_time()
        best = read_status(run.paths).document()["axes"]["trial"]["best"]
        took.append(time.process_time() - began)
    assert best["trial"] == 0
    assert min(took) < 0.5


Capture = pytest.CaptureFixture[str]


def lines(run: Searched, width: int = 100, rows: int = 8) -> list[str]:
    return [click.unstyle(line) for line in axis_lines(read_status(run.paths).axes, width, rows)]


def test_a_search_shows_counts_the_best_trial_and_a_row_a_running_one(tmp_path: Path) -> None:
    head, best, running, pruned = lines(search(tmp_path, alive=True))
    assert head == "trial  tpe, minimize f.loss · 5 of 6 trials: 3 complete, 1 running, 1 pruned"
    assert best.split() == ["best", "trial", "1", "0.25", "x=0.5"]
    assert running.split()[:3] == ["runs", "trial", "4"]
    assert running.split()[-3:] == ["1/3", "tasks", "x=1.5"]
    assert pruned.split(maxsplit=3) == ["pruned", "trial", "3", "f.loss was 200 at step 0  x=4.5"]


def test_a_pruner_that_heard_nothing_is_told_when_the_search_is_over(tmp_path: Path) -> None:
    run = Searched(tmp_path, SEARCH).about("begin", seed=1).trial(0, 1.0).score(0, 1.0)
    assert "no trial reported" not in lines(run, 200)[0]
    run.about("closed", points=1, reason="trials", failed=False)
    assert lines(run, 200)[0].endswith("; nothing was pruned, because no trial reported f.loss on its way")


def test_a_loop_shows_its_round_and_the_course_of_its_values(tmp_path: Path) -> None:
    assert lines(loop(tmp_path, over=False)) == [
        "round  loop until check.error < 0.1 · round 3 of at most 100, 3 done",
        "  check.error  █▃▁  0.8 → 0.4 → 0.2",
    ]


def test_a_loop_that_is_over_says_why(tmp_path: Path) -> None:
    assert lines(loop(tmp_path, over=True))[0].endswith("· over after 3 rounds: `until` held in round 2")


@pytest.mark.parametrize("width", [20, 40, 79])
def test_no_line_is_wider_than_the_terminal(tmp_path: Path, width: int) -> None:
    run = search(tmp_path, alive=True)
    assert all(width_of(line) <= width for line in lines(run, width))


def test_more_running_trials_than_there_is_room_for_are_counted(tmp_path: Path) -> None:
    run = search(tmp_path, alive=True).trial(5, -1.0)
    assert lines(run, rows=1)[-1] == "  … 1 more running"


def test_one_search_for_each_point_has_a_row_each(tmp_path: Path) -> None:
    run = Searched(tmp_path, MATERIALS, alive=True)
    for place, material in enumerate(("Si", "Ge")):
        run.about("begin", place, seed=1, at={"material": material})
        run.trial(0, 1.0, place).score(0, 1.0, 2.0, context=(place,))
    head, *rows = lines(run)
    assert head.endswith("for each material · 2 running")
    assert [row.split()[1] for row in rows] == ["Si", "Ge"]
    assert lines(run, rows=1)[-1] == "  … 1 more"


@pytest.mark.parametrize(
    ("values", "drawn"),
    [
        ([1.0, 0.5, 0.0], "█▅▁"),
        ([2, 2, 2], "▄▄▄"),
        ([1.0], ""),
        ([1.0, "text"], ""),
        ([1.0, float("inf")], ""),
        ([True, False], ""),
    ],
)
def test_a_sparkline_is_drawn_of_numbers_alone(values: list[object], drawn: str) -> None:
    assert drawn_course(values) == drawn


def test_status_tells_of_them_below_the_stages(tmp_path: Path, workspace: Path, capsys: Capture) -> None:
    loop(tmp_path, over=True)
    said = call(capsys, "status").out
    assert "w-1 succeeded · 6 of 7 tasks · 1 skipped" in said
    assert "check  analysis  ██████████   3/3" in said
    assert "check.error  █▄▁  0.8 → 0.4 → 0.05" in said
    assert "omitted  97  3-99" in call(capsys, "status", "check").out
    assert "6/7" in call(capsys, "list").out


def test_a_run_that_failed_with_all_tasks_done_is_not_told_to_resume(
    tmp_path: Path, workspace: Path, capsys: Capture
) -> None:
    run = Searched(tmp_path, SEARCH).about("begin", seed=1).trial(0, 1.0)
    run.about("judged", number=0, state="failed", message="f.loss is nan; expected a finite number")
    run.about("closed", points=1, reason="no trial has a score", failed=True).end("failed")
    said = call(capsys, "status").out
    assert "nothing was pruned" not in said
    assert (
        said.splitlines()[-1]
        == "next: `diel explain w-1` says why it failed; fix the workflow and run it again"
    )


FLOW = """
    hyperparameters:
      x: {type: float, low: -5, high: 5}
    axes:
      trial:
        search: {sampler: random, trials: 4, parallel: 2, seed: 1, minimize: f.loss, parameters: [x]}
      round: {loop: {max: 9, until: "${{ check.error < 0.3 }}"}}
    stages:
      f:
        over: [trial]
        command: echo '{"loss":' ${{ hp.x * hp.x }} '}' > "$DIEL_RESULT"
        outputs: {loss: {value: float}}
      check:
        over: [round]
        command: echo '{"error":' ${{ 1 / (1 + round) }} '}' > "$DIEL_RESULT"
        outputs: {error: {value: float}}
"""


def test_a_run_tells_of_them_without_a_terminal(tmp_path: Path) -> None:
    said = Project(tmp_path).workflow(FLOW).diel("run", "flow.yaml")
    assert said.splitlines()[0] == "flow-1: up to 13 tasks in 2 stages, on site local"
    assert "trial: 4 trials: 4 complete; best trial " in said
    assert "round: over after 4 rounds: `until` held in round 3" in said
    assert "check: 4 of 4 done" in said
    assert "skipped" not in said


def test_a_run_draws_them_below_its_bars(tmp_path: Path) -> None:
    terminal = Terminal(Project(tmp_path).workflow(FLOW), "run", "flow.yaml")
    assert terminal.end() == 0
    assert "trial  random, minimize f.loss · 4 trials: 4 complete" in terminal.text
    assert "check.error  █▃▂▁  … → 0.5 → 0.33333 → 0.25" in terminal.text
    assert "4/4" in terminal.text
