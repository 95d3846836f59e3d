"""A search or loop is taken or refused in words, whatever stands in it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from diel.workflow.models import AxisForm, Hyperparameter, Loop, Search, Violations

GOOD: dict[str, Any] = {"trials": 8, "minimize": "train.loss", "parameters": ["hidden"]}
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 10**12)
    | st.floats()
    | st.sampled_from(["", "tpe", "grid", "cmaes", "none", "median", "train.loss", "10m", "a.b < 1", "\0"])
    | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


def words_of(model: type[Any]) -> list[str]:
    return [info.alias or name for name, info in model.model_fields.items()]


@pytest.mark.parametrize("model", [Search, Loop, Hyperparameter, AxisForm])
@given(st.data())
def test_whatever_stands_in_one_is_taken_or_refused_and_nothing_else(
    model: type[Any], data: st.DataObject
) -> None:
    given = data.draw(st.dictionaries(st.sampled_from(words_of(model)), ANYTHING, max_size=6))
    start = GOOD if model is Search else {"type": "float"} if model is Hyperparameter else {}
    try:
        taken = model.model_validate({**start, **given})
    except ValidationError:
        return
    assert model.model_validate(taken.model_dump(by_alias=True)) == taken


@given(
    st.sampled_from(["random", "grid", "tpe", "cmaes", "nsga2", "gp", "qmc"]),
    st.sampled_from(["median", "hyperband", "none"]),
    st.lists(st.sampled_from(["train.loss", "train.time"]), unique=True, max_size=2),
    st.lists(st.sampled_from(["train.score", "check.score"]), unique=True, max_size=2),
)
def test_objectives_sampler_and_pruner_that_go_together_are_taken(
    sampler: str, pruner: str, small: list[str], large: list[str]
) -> None:
    given = {**GOOD, "sampler": sampler, "pruner": pruner, "minimize": small, "maximize": large}
    several = len(small) + len(large) > 1
    good = bool(small or large) and not (several and (sampler == "cmaes" or pruner != "none"))
    try:
        taken = Search.model_validate(given)
    except ValidationError:
        assert not good
    else:
        assert good
        assert taken.objectives == (*((name, True) for name in small), *((name, False) for name in large))


def test_more_trials_at_a_time_than_there_are_is_no_mistake() -> None:
    assert Search.model_validate({**GOOD, "parallel": 100}).parallel == 100


def test_only_a_grid_knows_its_size_without_trials() -> None:
    given = {**GOOD, "trials": None}
    assert Search.model_validate({**given, "sampler": "grid"}).trials is None
    with pytest.raises(ValidationError, match="needs `trials`"):
        Search.model_validate(given)


@pytest.mark.parametrize("model", [Search, Loop])
@pytest.mark.parametrize("until", [True, 0, 0.5, "", "  "])
def test_what_is_no_expression_cannot_end_anything(model: type[Any], until: object) -> None:
    start = GOOD if model is Search else {"max": 3}
    with pytest.raises(ValidationError) as caught:
        model.model_validate({**start, "until": until})
    flaws = caught.value.errors()[0]["ctx"]["error"]
    assert isinstance(flaws, Violations)
    assert flaws.flaws[0].message.startswith("expected an expression")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"pruner": {"name": "median", "reduction_factor": 4}}, "it goes with hyperband and asha"),
        ({"pruner": {"name": "percentile"}}, "percentile needs `percentile`"),
        (
            {"pruner": {"name": "hyperband", "min_resource": 9, "max_resource": 3}},
            "max_resource 3 is below min_resource 9",
        ),
        ({"pruner": {"name": "asha", "reduction_factor": 1}}, "greater than or equal to 2"),
        ({"pruner": {"name": "bracket"}}, "Input should be 'median'"),
        ({"pruner": ["median"]}, "expected a name or a mapping, found a list"),
        ({"sampler": {"name": "gp", "multivariate": True}}, "it goes with tpe"),
        ({"sampler": {"name": "tpe", "group": True, "multivariate": False}}, "`group` needs `multivariate`"),
        ({"sampler": {"name": "cmaes", "lr_adapt": True, "with_margin": True}}, "with_margin and lr_adapt"),
        ({"sampler": {"name": "annealing"}}, "Input should be 'random'"),
        ({"sampler": "grid", "enqueue": [{"hidden": 3}]}, "a grid has all its points"),
        ({"enqueue": []}, "at least 1 item"),
    ],
)
def test_an_option_that_does_not_fit_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(message)):
        Search.model_validate({**GOOD, **given})
