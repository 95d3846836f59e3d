"""Searches, loops and hyperparameters: what fits is taken, what does not is told once and at its place.

The messages themselves stand in tests/broken, in the files that begin with search-, loop- and hp-.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from diel.base.errors import SpecError
from diel.planning.check import check
from tests.check.asking import HEAD, checked, the_problem

HYPERPARAMETERS = """
hyperparameters:
  kind: {type: choice, choices: [sgd, adam]}
  hidden: {type: int, low: 1, high: 9}
  rate: {type: float, low: 0.0, high: 1.0}
  momentum: {type: float, low: 0.0, high: 1.0, default: 0.9, when: "hp.kind == 'sgd'"}
"""
SEARCH = "axes:\n  trial: {{search: {{trials: 8, minimize: train.loss, parameters: [{}]}}}}\n"


def searching(parameters: str, *stages: str) -> str:
    listed = "".join(f"  {stage}\n" for stage in stages)
    return f"{HYPERPARAMETERS}{SEARCH.format(parameters)}stages:\n{listed}"


TRAIN = "train: {over: [trial], command: [fit, %s], outputs: {loss: {value: float}}}"


@pytest.mark.parametrize(
    "stages",
    [
        pytest.param([TRAIN % '"${{ hp.hidden }}"'], id="command"),
        pytest.param([TRAIN % "\"${{ hp['hidden'] + 1 }}\""], id="by index"),
        pytest.param([TRAIN.replace("command", "env: {H: '${{ hp.hidden }}'}, command") % "x"], id="env"),
        pytest.param([TRAIN.replace("command", "when: hp.hidden > 1, command") % "x"], id="when"),
        pytest.param([TRAIN.replace("command", "inputs: {h: hp.hidden}, command") % "x"], id="input"),
        pytest.param(
            [
                TRAIN % '"${{ make.x }}"',
                'make: {over: [trial], command: [m, "${{ hp.hidden }}"], outputs: {x: {value: int}}}',
            ],
            id="another stage of the trial",
        ),
    ],
)
def test_a_parameter_is_connected_wherever_a_stage_of_the_trial_reads_it(
    folder: Path, stages: list[str]
) -> None:
    checked(folder, searching("hidden", *stages))


def test_a_parameter_that_only_the_condition_of_another_reads_is_connected(folder: Path) -> None:
    checked(folder, searching("kind, momentum", TRAIN % '"${{ hp.momentum }}"'))
    problem = the_problem(folder, searching("kind, hidden", TRAIN % '"${{ hp.hidden }}"'))
    assert problem.key == "axes.trial.search.parameters.0"
    assert "no stage over 'trial' reads hp.kind" in problem.message


def test_a_hyperparameter_picked_from_a_trial_does_not_connect_it(folder: Path) -> None:
    pick = "show: {command: [show], inputs: {h: {from: hp.hidden, at: {trial: best}}}}"
    problem = the_problem(folder, searching("hidden", TRAIN % "x", pick))
    assert "no stage over 'trial' reads hp.hidden" in problem.message
    assert problem.hint == "'show' reads it: add trial to the `over` of that stage"
    checked(folder, searching("hidden", TRAIN % '"${{ hp.hidden }}"', pick))


def test_a_misspelt_reader_is_told_and_not_that_nobody_reads(folder: Path) -> None:
    problem = the_problem(folder, searching("hidden", TRAIN % '"${{ hp.hiden }}"'))
    assert problem.message == "no 'hiden' in 'hp'"


def test_a_setting_gives_a_value_to_what_has_no_default(folder: Path) -> None:
    text = HYPERPARAMETERS + 'stages:\n  s: {command: [echo, "${{ hp.rate }}"]}\n'
    assert "hp.rate has no value" in the_problem(folder, text).message
    checked(folder, text, settings=["rate=0.5"])


def test_searches_that_no_stage_runs_over_together_may_set_the_same(folder: Path) -> None:
    text = """
        hyperparameters: {h: {type: int, low: 1, high: 9}}
        axes:
          one: {search: {trials: 8, minimize: a.loss, parameters: [h]}}
          two: {search: {trials: 8, minimize: b.loss, parameters: [h]}}
        stages:
          a: {over: [one], command: [a, "${{ hp.h }}"], outputs: {loss: {value: float}}}
          b: {over: [two], command: [b, "${{ hp.h }}"], outputs: {loss: {value: float}}}
        """
    checked(folder, text)


@pytest.mark.parametrize(
    ("conditions", "good"),
    [
        ({"b": "hp.a > 3"}, True),
        ({"b": "hp.a > 9"}, False),
        ({"b": "hp.a > 3", "c": "hp.a > 3 and hp.b > 0.5"}, True),
        ({"b": "hp.a > 3", "c": "hp.b > 0.5"}, False),
        ({"b": "hp.c > 2", "c": "hp.b > 2"}, False),
    ],
)
def test_conditions_are_tried_on_what_a_search_could_draw(
    folder: Path, conditions: dict[str, str], good: bool
) -> None:
    kinds: dict[str, dict[str, Any]] = {
        "a": {"type": "int", "low": 1, "high": 9},
        "b": {"type": "float", "low": 0.0, "high": 1.0},
        "c": {"type": "float", "low": 0.0, "high": 1.0, "default": 0.5},
    }
    for name, condition in conditions.items():
        kinds[name]["when"] = condition
    read = " + ".join(f"hp.{name}" for name in kinds if name != "b" or "b" not in conditions)
    text = yaml.safe_dump(
        {
            "hyperparameters": kinds,
            "axes": {"t": {"search": {"trials": 3, "minimize": "s.loss", "parameters": list(kinds)}}},
            "stages": {
                "s": {
                    "over": ["t"],
                    "command": ["fit", f"${{{{ {read} }}}}"],
                    "outputs": {"loss": {"value": "float"}},
                }
            },
        }
    )
    try:
        checked(folder, text)
    except SpecError as error:
        told = [problem.key for problem in error.problems if problem.key.endswith(".when")]
        assert good is not bool(told)
    else:
        assert good


def test_what_may_be_drawn_must_fit_the_module_at_both_ends(folder: Path) -> None:
    (folder / "modules" / "n.py").write_text(
        "from typing import Annotated, TypedDict\n"
        "from annotated_types import Le\n"
        "import diel\n"
        "class Loss(TypedDict):\n    loss: float\n"
        '@diel.module(kind="training")\n'
        "def fit(width: Annotated[int, Le(32)]) -> Loss: ...\n"
    )
    stage = 'train: {{module: "n:fit", over: [trial], params: {{width: "${{{{ {} }}}}"}}}}'
    checked(folder, searching("hidden", stage.format("hp.hidden * 3")))
    problem = the_problem(folder, searching("hidden", stage.format("hp.hidden * 4")))
    assert problem.message == "'width' at hp.hidden=9: expected at most 32, found 36"
    assert problem.key == "stages.train.params.width"
    assert "a search draws hp.hidden: narrow it to what fits" in problem.hint


def test_a_metric_that_a_script_may_write_is_taken(folder: Path) -> None:
    stage = 'train: {over: [trial], command: [python, fit.py, "${{ hp.hidden }}"]}'
    checked(folder, searching("hidden", stage))


def test_a_loop_waits_for_what_the_round_before_made_of_all_rounds(folder: Path) -> None:
    """A stage that gathers all rounds and is read by the next round could never begin."""
    text = """
        axes: {round: {loop: {max: 3}}}
        stages:
          one:
            over: [round]
            command: [work]
            inputs: {before: {from: %s, at: {round: previous}, initially: 1.0}}
            outputs: {x: {value: float}}
          all: {command: [mean, "${{ one.x }}"], outputs: {x: {value: float}}}
          two: {over: [round], command: [work, "${{ all.x }}"], outputs: {x: {value: float}}}
        """
    checked(folder, text % "one.x")
    assert "waits for every round of 'round'" in the_problem(folder, text % "two.x").message


# --- anything at all -----------------------------------------------------------------------------


def mostly(right: list[Any], *wrong: Any) -> st.SearchStrategy[Any]:
    """What is right on its own most of the time, so that much is wrong only in how it goes together."""
    return st.sampled_from([*right * max(1, 6 * len(wrong) // len(right)), *wrong])


REFERENCES = mostly(["one.x", "two.x"], "one.y", "two", "nothing.x", "hp.a", "fold")
EXPRESSIONS = mostly(
    ["one.x < 1", "two.x < hp.a", "one.x < two.x", "hp.a < 3", "hp.b and hp.a == 2"],
    "round > 2",
    "1 <",
    "fold",
    "hp.c < nothing.x",
)
CONDITIONS = mostly(["hp.a > 2", "hp.b == 1", "hp.b == 'x' or hp.a < 3"], "hp.c", "true", "one.x", "(")
PICKS = mostly(
    ["best", "last", "previous", 0, {"top": 2}],
    *("pareto", "worst", 9, -1, 1.5, True, None, [1], {"top": 0}, {"trial": 1}),
)


def optional(**entries: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=entries)


def with_more(
    given: st.SearchStrategy[dict[str, Any]], **entries: st.SearchStrategy[Any]
) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(lambda first, more: {**first, **more}, given, optional(**entries))


HYPERPARAMETERS_OF_ANY_KIND = with_more(
    mostly(
        [
            {"type": "int", "low": 1, "high": 9, "default": 2},
            {"type": "float", "low": 0.0, "high": 1.0},
            {"type": "choice", "choices": ["x", 1]},
        ],
        {"type": "float"},
    ),
    when=CONDITIONS,
)
SEARCHES = with_more(
    st.fixed_dictionaries(
        {
            "trials": st.integers(1, 9),
            "minimize": REFERENCES | st.just(["one.x", "two.x"]),
            "parameters": st.lists(st.sampled_from("ab"), min_size=1, max_size=2, unique=True),
        }
    ),
    until=EXPRESSIONS,
    sampler=st.sampled_from(["grid", "cmaes", "nsga2"]),
).map(lambda given: {"search": given})
LOOPS = with_more(st.just({"max": 3}), until=EXPRESSIONS).map(lambda given: {"loop": given})
STATIC = st.sampled_from([{"values": [1, 2]}, {"zip": {"top": [1, 2], "y": [3, 4]}}, {"from": "one.x"}])
OVER = st.lists(st.sampled_from(["trial", "round", "fold"]), max_size=3, unique=True)


def picking(source: str, at: dict[str, Any], first: Any) -> dict[str, Any]:
    return {"from": source, "at": at, **({"initially": first} if "previous" in at.values() else {})}


INPUTS = st.builds(
    picking,
    mostly(["one.x", "two.x", "hp.a"], "one", "three.x"),
    st.dictionaries(st.sampled_from(["trial", "round", "fold"]), PICKS, max_size=2),
    st.just(0) | EXPRESSIONS.map(lambda text: f"${{{{ {text} }}}}"),
)


def stage(over: list[str], read: str, inputs: dict[str, Any]) -> dict[str, Any]:
    outputs = {"x": {"value": "float"}, "y": "y.csv"}
    return {"over": over, "command": ["work", f"${{{{ {read} }}}}"], "outputs": outputs, "inputs": inputs}


STAGES = with_more(
    st.builds(
        stage,
        OVER,
        mostly(["hp.a", "hp.a + hp.b", "hp.b", "task.id"], "one.x", "two.x", "fold", "hp.c"),
        st.dictionaries(st.sampled_from(["x", "y"]), INPUTS, max_size=1),
    ),
    when=mostly(["hp.a > 1"], "two.x", "round"),
)
WORKFLOWS = st.fixed_dictionaries(
    {
        "hyperparameters": st.fixed_dictionaries(dict.fromkeys("ab", HYPERPARAMETERS_OF_ANY_KIND)),
        "axes": st.fixed_dictionaries({"trial": SEARCHES, "round": LOOPS | SEARCHES, "fold": STATIC | LOOPS}),
        "stages": st.fixed_dictionaries({"one": STAGES, "two": STAGES}),
    }
)


@given(WORKFLOWS)
def test_whatever_is_written_is_taken_or_refused_at_places_of_the_file(workflow: dict[str, Any]) -> None:
    text = HEAD + yaml.safe_dump(workflow)
    lines = text.splitlines()
    try:
        check(Path("w.yaml"), text=text)
    except SpecError as error:
        problems = error.problems
    else:
        return
    assert problems
    for problem in problems:
        assert problem.message
        assert 1 <= problem.line <= len(lines)
        assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1


def test_a_bound_that_no_double_holds_is_told_once(folder: Path) -> None:
    problem = the_problem(folder, searching("hidden", TRAIN % "x").replace("high: 9", "high: 1e400"))
    assert problem.key == "hyperparameters.hidden.high"


# --- what is set from outside --------------------------------------------------------------------

FIT = TRAIN % '"${{ hp.hidden }}"'


def test_a_value_that_no_task_would_get_is_refused(folder: Path) -> None:
    text = HEAD + searching("hidden", FIT)
    with pytest.raises(SpecError) as error:
        check(folder / "w.yaml", ["hp.hidden=3"], text=text)
    (problem,) = error.value.problems
    assert problem.key == "axes.trial.search.parameters.0"
    assert problem.message == "the search 'trial' sets 'hidden' in every trial: --set would change nothing"
    assert "remove 'hidden' from `parameters`" in problem.hint


@pytest.mark.parametrize(
    ("searched", "given", "stages"),
    [
        pytest.param(
            "hidden", "rate=0.5", [TRAIN % '"${{ hp.hidden }}", "${{ hp.rate }}"'], id="not searched"
        ),
        pytest.param(
            "hidden", "hidden=3", [FIT, 'end: {command: [e, "${{ hp.hidden }}"]}'], id="read outside"
        ),
        pytest.param(
            "kind, momentum",
            "momentum=0.5",
            [TRAIN % '"${{ hp.kind }}", "${{ hp.momentum }}"'],
            id="not drawn everywhere",
        ),
        pytest.param(
            "momentum", "kind=adam", [TRAIN % '"${{ hp.kind }}", "${{ hp.momentum }}"'], id="in a condition"
        ),
    ],
)
def test_a_value_that_a_task_gets_may_be_set_whatever_is_searched(
    folder: Path, searched: str, given: str, stages: list[str]
) -> None:
    check(folder / "w.yaml", [given], text=HEAD + searching(searched, *stages))
