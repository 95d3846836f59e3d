"""Why a trial or round is not there yet, never came, or was picked."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.observe.explain import Explanation
from diel.observe.explain.run import explain_run
from diel.observe.explain.task import explain_task
from diel.observe.results import RunReader
from tests.searched import LOOP, SEARCH, Searched, loop, search


def task(run: Searched, stage: str, index: int) -> Explanation:
    return explain_task(RunReader(run.paths), stage, index)


def why(run: Searched, stage: str, index: int) -> str:
    return "; ".join(task(run, stage, index).document["why"])


def test_a_trial_that_is_not_asked_for_yet(tmp_path: Path) -> None:
    run = search(tmp_path, alive=True)
    assert why(run, "sub", 11) == "trial 5 was not requested yet: 1 of 2 run"


def test_a_trial_of_a_search_that_asks_for_no_more(tmp_path: Path) -> None:
    run = search(tmp_path, alive=True).about("stopped", number=2, message="")
    assert "will not be" in why(run, "f", 5)


def test_a_trial_of_a_run_without_its_controller(tmp_path: Path) -> None:
    assert "the run has no controller" in why(search(tmp_path), "f", 5)


def test_a_trial_of_a_search_that_has_not_begun(tmp_path: Path) -> None:
    run = Searched(tmp_path, SEARCH, alive=True)
    assert "the search 'trial' begins once" in why(run, "f", 0)


@pytest.mark.parametrize(
    ("index", "said"),
    [
        (4, "round 4 begins when check of round 3 is done; round 3 is not over: check/3 (round=3), waiting"),
        (7, "round 7 begins when check of round 6 is done; round 3 is not over: check/3 (round=3), waiting"),
    ],
)
def test_a_round_that_has_not_begun(tmp_path: Path, index: int, said: str) -> None:
    assert why(loop(tmp_path, over=False), "sim", index) == said


def test_a_round_that_waits_for_the_one_before(tmp_path: Path) -> None:
    run = loop(tmp_path, over=False)
    assert why(run, "check", 3) == "waits for sim of round 3"


def test_a_pruned_trial_tells_what_it_was_compared_with(tmp_path: Path) -> None:
    said = why(search(tmp_path, alive=True), "f", 3)
    assert said.startswith("trial 3 was pruned (median): f.loss was 200 at step 0")
    assert said.endswith("3 trials before it had there: best 2.5, median 40")  # 10 x², of x = 2, 0.5 and -3


def test_a_round_that_never_came(tmp_path: Path) -> None:
    said = "round 7 never came: the loop ended after round 2: `until` held in round 2"
    assert why(loop(tmp_path, over=True), "check", 7) == said


def test_what_waits_for_the_best_trial_or_the_last_round(tmp_path: Path) -> None:
    assert why(search(tmp_path / "a", alive=True), "end", 0) == (
        "waits for f of the best trial, known once the search is over: 4 of at most 6 trials have ended"
    )
    assert why(loop(tmp_path / "b", over=False), "end", 0) == (
        "waits for check of the last round, known once the loop is over: 3 judged so far"
    )


def test_what_reads_the_best_trial_tells_which_with_its_value(tmp_path: Path) -> None:
    run = search(tmp_path, alive=True).prune(4, "f.loss was 90 at step 0").skipped("f", 4, reason="axis")
    run.about("closed", points=5, reason="core_hours", failed=False).done("end", 0)
    found = task(run, "end", 0)
    document = found.document
    assert document["inputs"]["loss"]["picks"] == [
        {"axis": "trial", "point": 1, "values": [0.25], "text": "trial 1 with f.loss 0.25"}
    ]
    assert (document["inputs"]["loss"]["value"], document["inputs"]["x"]["value"]) == (0.25, 0.5)
    text = "\n".join(found.lines)
    assert "f.loss of f/1 (trial=1; picks trial = best: trial 1 with f.loss 0.25): 0.25" in text
    assert "hp.x of f/1 (trial=1; picks trial = best: trial 1 with f.loss 0.25): 0.5" in text


def test_a_task_of_a_trial_tells_its_hyperparameters(tmp_path: Path) -> None:
    found = task(search(tmp_path, alive=True), "f", 1)
    assert found.document["hp"] == {"x": 0.5}
    assert "hyperparameters of its trial\n    x  0.5" in "\n".join(found.lines)


def test_a_task_behind_what_never_came_is_not_blamed_on_it(tmp_path: Path) -> None:
    flow = LOOP + "  all: {command: [x], inputs: {e: check.error}}\n"
    run = Searched(tmp_path, flow, alive=True).about("begin", seed=0)
    run.failed("check", 0).skipped("check", *range(1, 100), reason="axis").skipped("all", 0, cause="check")
    run.about("closed", points=1, reason="check/0 has no result", failed=True)
    said = why(run, "all", 0)
    assert "check/0 (round=0) failed" in said
    assert "check/1" not in said


def test_a_run_tells_how_its_searches_and_loops_stand_and_why_they_ended(tmp_path: Path) -> None:
    said = "\n".join(explain_run(RunReader(loop(tmp_path / "a", over=True).paths)).lines)
    assert "round: over after 3 rounds: `until` held in round 2 (loop until check.error < 0.1)" in said
    assert "check: 97 tasks left out: round 3 never came: the loop ended after round 2" in said
    found = explain_run(RunReader(search(tmp_path / "b", alive=True).paths))
    document = found.document
    (axis,) = document["axes"]
    assert (axis["axis"], axis["trials"]["pruned"], axis["best"]["trial"]) == ("trial", 1, 1)
    text = "\n".join(found.lines)
    assert "trial: 5 of 6 trials: 3 complete, 1 running, 1 pruned; best trial 1: 0.25, x=0.5" in text
    assert "f: 1 task left out: pruned with their trial" in text
    assert "sub: 2 tasks waiting: trial 5 was not requested yet" in text
    assert document["stages"]["f"]["total"] == 5


def test_a_search_that_failed_says_so(tmp_path: Path) -> None:
    run = Searched(tmp_path, SEARCH).about("begin", seed=1).trial(0, 1.0)
    run.about("judged", number=0, state="failed", message="f/0 has no result")
    why = "no trial has a score; the last: f/0 has no result"
    run.about("closed", points=1, reason=why, failed=True).end("failed")
    said = "\n".join(explain_run(RunReader(run.paths)).lines)
    assert f"trial: 1 trial: 1 failed; failed: {why}" in said
