"""Loops, searches in loops and the other way round, as a user sees them.

A run costs most of a second, so that one run serves many tests.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.throwaway import Project, Run

KEEP = """
    from typing import Any

    @diel.module(kind="analysis")
    def keep(value: Any, other: Any = None) -> dict:
        return {"value": value}

    @diel.module(kind="analysis")
    def fail(value: Any, at: int = -1) -> dict:
        if value == at:
            raise ValueError(f"no {value}")
        return {"value": value}
"""
LOOPS = """
    hyperparameters:
      x: {type: float, low: 0, high: 1}
    axes:
      material: {values: [iron, gold]}
      fold: {range: 2}
      pick: {range: 3}
      round: {loop: {max: 6, until: "check.value >= 9"}}
      step: {loop: {max: 3}}
      own: {loop: {max: 4, until: "aged.value >= 2"}}
      trial: {search: {sampler: random, trials: 3, seed: 5, minimize: score.value, parameters: [x]}}
      inner: {loop: {max: 5, until: "grown.value > 2 * hp.x"}}
      outer: {search: {sampler: random, trials: 2, parallel: 2, seed: 6, maximize: last_grown.value, parameters: [x]}}
      each: {search: {sampler: random, trials: 4, seed: 7, minimize: judge.value, parameters: [x]}}
    stages:
      base: {module: "tools:keep", params: {value: 1}}
      grow:
        over: [round]
        module: "tools:keep"
        inputs: {value: {from: check.value, at: {round: previous}, initially: "${{ base.value * 2 }}"}}
      rare:
        over: [round, pick]
        when: ${{ round % 2 == 0 }}
        module: "tools:keep"
        params: {value: "${{ round * 10 + pick }}"}
      check: {over: [round], module: "tools:keep", params: {value: "${{ grow.value + 3 }}"}}
      seen:
        over: [round]
        module: "tools:keep"
        inputs:
          value: {from: rare.value, at: {round: last}}
          other: {from: rare.value, at: {round: previous, pick: 1}, initially: none yet}
      before:
        over: [round]
        module: "tools:keep"
        inputs: {value: {from: rare.value, at: {round: previous, pick: 1}, initially: none yet}}
      final: {module: "tools:keep", inputs: {value: {from: check.value, at: {round: last}}}}
      final_rare: {module: "tools:keep", inputs: {value: {from: rare.value, at: {round: last}}}}
      all_checks: {module: "tools:keep", inputs: {value: check.value}}
      pairs:
        module: "tools:keep"
        inputs: {value: {from: check.value, missing: null}, other: {from: check.round, missing: null}}
      third: {module: "tools:keep", inputs: {value: {from: check.value, at: {round: 1}}}}
      chain:
        over: [step, material]
        module: "tools:keep"
        inputs: {value: {from: link.value, at: {step: previous}, initially: "${{ material }}"}}
      link: {over: [step, material], module: "tools:keep", params: {value: "${{ chain.value }}-${{ step }}"}}
      chained: {over: [material], module: "tools:keep", inputs: {value: {from: link.value, at: {step: last}}}}
      aged: {over: [material, own], module: "tools:keep", params: {value: "${{ own + (material == 'gold') }}"}}
      ages: {over: [material], module: "tools:keep", inputs: {value: aged.value}}
      oldest: {module: "tools:keep", inputs: {value: {from: aged.value, at: {own: last}}}}
      score: {over: [round, trial], module: "tools:keep", params: {value: "${{ hp.x + round }}"}}
      best:
        over: [round]
        module: "tools:keep"
        inputs: {value: {from: score.value, at: {trial: best}}}
      bests: {module: "tools:keep", inputs: {value: {from: score.value, at: {trial: {top: 2}}}}}
      grown:
        over: [outer, inner]
        module: "tools:keep"
        params: {value: "${{ inner / 2 + hp.x * 0 }}"}
      last_grown: {over: [outer], module: "tools:keep", inputs: {value: {from: grown.value, at: {inner: last}}}}
      train: {over: [material, each, fold], module: "tools:keep", params: {value: "${{ hp.x + fold }}"}}
      judge: {over: [material, each], module: "tools:keep", params: {value: "${{ sum(train.value) }}"}}
      chosen:
        over: [material]
        module: "tools:keep"
        inputs:
          value: {from: train.value, at: {each: best}}
          other: {from: hp.x, at: {each: best}}
      chosen_x: {over: [material], module: "tools:keep", inputs: {value: {from: hp.x, at: {each: best}}}}
      all_x: {module: "tools:keep", inputs: {value: {from: hp.x, at: {each: best}}}}
"""


@pytest.fixture(scope="module")
def loops(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Project(tmp_path_factory.mktemp("loops")).workflow(LOOPS).module("tools", KEEP).run()


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        ("grow", [2, 5, 8]),
        ("check", [5, 8, 11]),
        ("rare", [0, 1, 2, 20, 21, 22]),
        ("seen", [[0, 1, 2], [0, 1, 2], [20, 21, 22]]),
        ("before", ["none yet", 1, 1]),
        ("final", [11]),
        ("final_rare", [[20, 21, 22]]),
        ("all_checks", [[5, 8, 11]]),
        ("pairs", [[5, 8, 11]]),
        ("third", [8]),
        ("chain", ["iron", "gold", "iron-0", "gold-0", "iron-0-1", "gold-0-1"]),
        ("chained", ["iron-0-1-2", "gold-0-1-2"]),
        ("aged", [0, 1, 2, 1, 2]),
        ("ages", [[0, 1, 2], [1, 2]]),
        ("oldest", [[2, 2]]),
    ],
)
def test_rounds_follow_one_another(loops: Run, stage: str, expected: list[Any]) -> None:
    assert loops.values(stage, "value") == expected


def trials(run: Run, axis: str) -> dict[tuple[int, ...], list[float]]:
    """The values of `x` that a search has set, by context."""
    found: dict[tuple[int, ...], list[float]] = {}
    for record in run.records("trial"):
        if record["axis"] == axis:
            found.setdefault(tuple(record["context"]), []).append(record["hp"]["x"])
    return found


def test_a_search_begins_anew_in_each_round(loops: Run) -> None:
    drawn = trials(loops, "trial")
    assert sorted(drawn) == [(0,), (1,), (2,)]
    assert len({x for values in drawn.values() for x in values}) == 9
    best = [round + min(drawn[(round,)]) for round in range(3)]
    assert loops.values("best", "value") == pytest.approx(best)
    few = [round + x for round in range(3) for x in sorted(drawn[(round,)])[:2]]
    assert loops.value("bests", "value") == pytest.approx(few)


def test_a_loop_runs_within_each_trial(loops: Run) -> None:
    (drawn,) = trials(loops, "outer").values()
    expected = [next((n / 2 for n in range(5) if n / 2 > 2 * x), 2.0) for x in drawn]
    assert loops.values("last_grown", "value") == expected


def test_a_search_runs_once_for_each_material_over_all_folds(loops: Run) -> None:
    drawn = trials(loops, "each")
    best = [min(drawn[(material,)]) for material in range(2)]
    assert loops.values("chosen_x", "value") == pytest.approx(best)
    assert loops.value("all_x", "value") == pytest.approx(best)
    for x, folds in zip(best, loops.values("chosen", "value"), strict=True):
        assert folds == pytest.approx([x, x + 1])


def test_rounds_and_trials_that_never_came_have_no_task(loops: Run) -> None:
    assert list(loops.results("check")) == [0, 1, 2]
    assert not (loops.root / "tasks" / "check" / "3").exists()


def test_a_round_does_not_wait_for_what_until_does_not_read(tmp_path: Path) -> None:
    """The next round begins while a stage of this one still works."""
    text = """
        axes:
          round: {loop: {max: 2, until: "quick.value > 5"}}
        stages:
          quick: {over: [round], module: "tools:keep", params: {value: "${{ round }}"}}
          slow: {over: [round], command: [sleep, "1.5"], after: [quick]}
    """
    run = Project(tmp_path).workflow(text).module("tools", KEEP).run()
    last_quick = max(r["time"] for r in run.records("done", "quick"))
    assert last_quick < min(r["time"] for r in run.records("done", "slow"))


def test_a_failure_in_a_round_ends_the_loop_and_resume_goes_on_with_it(tmp_path: Path) -> None:
    text = """
        axes:
          round: {loop: {max: 4, until: "check.value >= 2"}}
        stages:
          check: {over: [round], command: 'if [ ${{ round }} = 1 ]; then cat FLAG; fi; echo "{\\"value\\": ${{ round }}}" > "$DIEL_RESULT"', outputs: {value: {value: int}}}
          end: {module: "tools:keep", inputs: {value: {from: check.value, at: {round: last}}}}
    """.replace("FLAG", str(tmp_path / "flag"))
    project = Project(tmp_path).workflow(text).module("tools", KEEP)
    run = project.run(code=1)
    assert run.counts("check") == {"done": 1, "failed": 1}
    assert run.counts("end") == {"skipped": 1}
    (tmp_path / "flag").touch()
    project.diel("resume")
    assert run.values("check", "value") == [0, 1, 2]
    assert run.value("end", "value") == 2


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ('"text"', "`until` in round 0"),
        ("NaN", "check.value is NaN"),
        ("null", "`until` in round 0"),
    ],
)
def test_a_value_that_until_cannot_judge_fails_the_run_and_says_so(
    tmp_path: Path, value: str, why: str
) -> None:
    text = """
        axes:
          round: {loop: {max: 4, until: "check.value < 2"}}
        stages:
          check: {over: [round], command: 'echo "{\\"value\\": VALUE}" > "$DIEL_RESULT"'}
    """.replace("VALUE", value.replace('"', '\\"'))
    run = Project(tmp_path).workflow(text).run(code=1)
    (closed,) = run.records("closed")
    assert why in closed["reason"]
    assert closed["failed"]
