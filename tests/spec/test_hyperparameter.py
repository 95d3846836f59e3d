"""A hyperparameter: the values that fit, those that a search draws, and what cannot be one."""

from __future__ import annotations

from typing import Any

import pytest

from diel.workflow.models import Hyperparameter, Violations
from diel.workflow.models.hyperparameter import undrawable
from tests.spec.flawed import flaws_of


@pytest.mark.parametrize(
    ("given", "value", "kept"),
    [
        ({"type": "float"}, 1, 1.0),
        ({"type": "int", "low": 1}, 1, 1),
        ({"type": "bool"}, True, True),
        ({"type": "str"}, "1", "1"),
        ({"type": "choice", "choices": [1, "a", True]}, True, True),
    ],
)
def test_a_hyperparameter_keeps_a_value_of_its_type(given: dict[str, Any], value: Any, kept: Any) -> None:
    found = Hyperparameter.model_validate(given).accept(value)
    assert found == kept
    assert type(found) is type(kept)


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ({"type": "int"}, 1.5),
        ({"type": "int"}, "1"),
        ({"type": "int"}, True),
        ({"type": "float", "high": 1}, 1.5),
        ({"type": "float", "low": 0}, float("nan")),
        ({"type": "float"}, 2**53 + 1),
        ({"type": "str"}, 1),
        ({"type": "bool"}, 1),
        ({"type": "choice", "choices": [1, 2]}, True),
        ({"type": "choice", "choices": [[1], [2]]}, [3]),
    ],
)
def test_a_hyperparameter_refuses_what_does_not_fit(given: dict[str, Any], value: Any) -> None:
    with pytest.raises(Violations):
        Hyperparameter.model_validate(given).accept(value)


@pytest.mark.parametrize(
    ("given", "listed"),
    [
        ({"type": "bool"}, (False, True)),
        ({"type": "choice", "choices": ["a", [1]]}, ("a", [1])),
        ({"type": "int", "low": 2, "high": 5}, (2, 3, 4, 5)),
        ({"type": "int", "low": 2, "high": 7, "step": 2}, (2, 4, 6)),
        ({"type": "float", "low": 0, "high": 0.3, "step": 0.1}, (0.0, 0.1, 0.2, 0.3)),
        ({"type": "float", "low": 0, "high": 1}, None),
        ({"type": "int", "low": 1, "high": 9, "log": True}, None),
        ({"type": "int", "low": 1}, None),
        ({"type": "int", "low": 1, "high": 10**9}, None),
        ({"type": "str"}, None),
    ],
)
def test_a_grid_lists_the_values_that_can_be_listed(given: dict[str, Any], listed: Any) -> None:
    found = Hyperparameter.model_validate(given).listed
    assert found == listed


@pytest.mark.parametrize(
    ("given", "message", "key"),
    [
        ({"type": "float", "low": 2, "high": 1}, "low (2) is above high (1)", ("low",)),
        ({"type": "int", "low": 0.5}, "expected a whole number, found 0.5", ("low",)),
        ({"type": "float", "low": 0, "high": 1, "log": True}, "a logarithmic scale needs low > 0", ("low",)),
        ({"type": "int", "step": 0}, "expected a step above zero, found 0", ("step",)),
        ({"type": "choice"}, "type `choice` needs `choices`", ("choices",)),
        ({"type": "choice", "choices": [1, 1.0]}, "1.0 is there twice", ("choices", 1)),
        ({"type": "str", "low": 1}, "`low` goes with int and float", ("low",)),
        ({"type": "int", "high": 3, "default": 4}, "expected at most 3 (`high`), found 4", ("default",)),
    ],
)
def test_a_range_without_sense_is_refused_at_its_key(
    given: dict[str, Any], message: str, key: tuple[object, ...]
) -> None:
    (flaw,) = flaws_of(Hyperparameter, given)
    assert flaw.message.startswith(message)
    assert flaw.key == key


def test_a_bare_value_is_shown_as_the_default_that_it_was_meant_to_be() -> None:
    (flaw,) = flaws_of(Hyperparameter, 0.5)
    assert flaw.hint == "write {type: float, default: 0.5}"


def test_a_search_is_told_which_of_its_parameters_cannot_be_drawn() -> None:
    registry: dict[str, dict[str, Any]] = {
        "good": {"type": "int", "low": 1, "high": 2},
        "open": {"type": "float", "low": 0},
        "text": {"type": "str"},
        "flag": {"type": "bool"},
    }
    known = {name: Hyperparameter.model_validate(given) for name, given in registry.items()}
    flaws = list(undrawable(known, [*known, "god"]))
    assert [flaw.key for flaw in flaws] == [("parameters", place) for place in (1, 2, 4)]
    assert "has no bounds to draw from" in flaws[0].message
    assert flaws[2].hint == "did you mean 'good'?"
    assert [flaw.key for flaw in undrawable(known, ["flag"], numbers=True)] == [("parameters", 0)]
