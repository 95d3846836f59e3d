"""Results of searches and loops: trials with their hyperparameters, and what is picked of them."""

from __future__ import annotations

from pathlib import Path

import pytest

import diel
from diel.base.errors import UsageError
from diel.observe.results import RunReader, make_table, summarize
from tests.searched import MATERIALS, Searched, loop, search


def test_a_row_a_trial_with_its_hyperparameters_and_none_for_what_never_was(tmp_path: Path) -> None:
    found = make_table(RunReader(search(tmp_path).paths), ["f.loss"])
    assert found.columns == ("trial", "hp.x", "f.loss")
    assert found.rows == [(0, 2.0, 4.0), (1, 0.5, 0.25), (2, -3.0, 9.0)]
    assert found.missing == {"f": "2 of 5 tasks of 'f' have no result: 2 waiting"}  # none of the pruned one


def test_stages_within_a_trial_are_joined_with_it(tmp_path: Path) -> None:
    found = make_table(RunReader(search(tmp_path).paths), ["sub.v", "f.loss"], limit=3)
    assert found.columns == ("trial", "fold", "hp.x", "sub.v", "f.loss")
    assert found.rows == [(0, 0, 2.0, 2.0, 4.0), (0, 1, 2.0, 3.0, 4.0), (1, 0, 0.5, 0.5, 0.25)]


def test_a_row_a_round_that_was(tmp_path: Path) -> None:
    run = RunReader(loop(tmp_path, over=True).paths)
    found = make_table(run, ["check.error"])
    assert (found.columns, found.rows) == (("round", "check.error"), [(0, 0.8), (1, 0.4), (2, 0.05)])
    assert found.missing == {}
    assert [row[2] for row in summarize(run).rows] == ["2 of 3", "3 of 3"]


def test_python_picks_the_best_trial_and_the_last_round(tmp_path: Path) -> None:
    run = diel.open_run(search(tmp_path / "a").paths.root)
    assert run.value("f.loss", at={"trial": "best"}) == 0.25
    assert run.artifact("f.model", at={"trial": "best"}).read_text() == "model 1"
    assert [path.read_text() for path in run.artifact("f.model", at={"trial": {"top": 2}})] == [
        "model 1",
        "model 0",
    ]
    assert run.value("f.loss", at={"trial": 2}) == 9.0
    looped = diel.open_run(loop(tmp_path / "b", over=True).paths.root)
    assert looped.value("check.error", at={"round": "last"}) == 0.05
    assert looped.value("sim.v", at={"round": "last"}) == 0.05


def test_python_picks_once_for_each_of_the_other_axes(tmp_path: Path) -> None:
    run = Searched(tmp_path, MATERIALS)
    for place in range(2):
        run.about("begin", place, seed=1)
        for number, scores in enumerate([(1.0, 3.0), (2.0, 2.0), (3.0, 3.0)]):
            run.trial(number, 0.0, place).done(
                "f", 4 * place + number, loss=scores[0] + place, time=scores[1]
            )
            run.score(number, *scores, context=(place,))
    read = diel.open_run(run.paths.root)
    front = read._outputs("f.loss", {"trial": "pareto"})
    assert front == [1.0, 2.0, 2.0, 3.0]  # trials 0 and 1 of each
    assert read._outputs("f.loss", {"trial": "pareto", "material": "Ge"}) == [2.0, 3.0]


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ({"trail": "best"}, "no axis parameter 'trail'; did you mean 'trial'"),
        ({"trial": "pareto"}, "one objective"),
        ({"trial": 5}, "no result of 'f' at trial = 5"),
        ({"trial": "last"}, "no result of 'f' at trial = 'last'"),
        ({"trial": {"top": 0}}, "no result of 'f' at trial"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, at: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        diel.open_run(search(tmp_path).paths.root).value("f.loss", at=at)
