"""What all models have in common: frozen, strict, with flaws at their places."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, ValidationError

from diel.workflow.models import Resources, Violation
from diel.workflow.models.model import (
    Items,
    Label,
    Later,
    Size,
    SpecModel,
    Text,
    no_repeats,
    plain,
    quote,
    written_as,
)
from tests.spec.flawed import flaws_of


def test_models_cannot_be_changed() -> None:
    resources = Resources(ranks=2)
    with pytest.raises(ValidationError):
        resources.ranks = 3


class Inner(SpecModel):
    low: int = 0
    high: int = 9
    _short = written_as("a number in words", "write {low: 1}", true=True)

    @property
    def span(self) -> int:
        return self.high - self.low

    def flaws(self) -> Iterator[Violation]:
        if self.low > self.high:
            yield Violation("low is above high", "", ("low",))
        if self.high < 0:
            yield Violation("high is below zero", "", ("high",))


class Outer(SpecModel):
    name: Label = "x"
    words: Annotated[Items[Text], AfterValidator(no_repeats)] = ()
    size: Size | None = None
    inner: Later[Inner] | None = None


def test_all_that_fields_get_wrong_together_is_told_at_once() -> None:
    flaws = flaws_of(Outer, {"inner": {"low": 1, "high": -1}})
    assert [flaw.key for flaw in flaws] == [("low",), ("high",)]


@pytest.mark.parametrize(
    "given", [{"nme": "y"}, {"words": "abc"}, {"size": 3}, {"inner": {"low": "1"}}, {"inner": {"low": True}}]
)
def test_unknown_keys_and_values_of_another_type_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Outer.model_validate(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": "hp"}, "'hp' has its own meaning in expressions"),
        ({"name": "class"}, "'class' has its own meaning in expressions"),
        ({"words": ["a", "b", "a"]}, "'a' is there twice"),
        ({"words": ["a\0"]}, "a path, a word or a variable cannot hold a NUL character"),
        ({"inner": "x"}, "expected a number in words, found 'x'"),
        ({"inner": False}, "expected a number in words, found false"),
    ],
)
def test_what_would_mean_something_else_is_refused(given: dict[str, Any], message: str) -> None:
    assert [flaw.message for flaw in flaws_of(Outer, given)] == [message]


def test_a_short_form_is_the_defaults() -> None:
    assert Outer.model_validate({"inner": True}).inner == Inner()


def test_a_model_without_pydantic_has_its_fields_and_properties() -> None:
    bare: Any = plain(Outer.model_validate({"inner": {"low": 2}, "words": ["a"]}))
    assert not isinstance(bare, SpecModel)
    assert (bare.words, bare.inner.low, bare.inner.span) == (("a",), 2, 7)
    assert plain(3) == 3


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "nothing"),
        (True, "true"),
        (float("nan"), ".nan"),
        (-float("inf"), "-.inf"),
        ({}, "a mapping"),
        ((1,), "a list"),
        (1e-3, "0.001"),
        ("it's", '"it\'s"'),
        ("x" * 90, "'" + "x" * 56 + "…"),
    ],
)
def test_a_message_shows_a_value_as_yaml_would_and_keeps_it_short(value: object, shown: str) -> None:
    assert quote(value) == shown
