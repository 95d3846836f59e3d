"""A hyperparameter: a typed, bounded value with a default, shared by all stages."""

import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from diel.base.errors import did_you_mean
from diel.base.values import as_float, spelled
from diel.workflow.models.model import (
    Items,
    Json,
    Number,
    SpecModel,
    Text,
    Violation,
    Violations,
    optional,
    quote,
    refuse,
)


def _expression(value: Any) -> Any:
    if isinstance(value, bool | int | float):
        hint = "write a comparison, such as `validate.error < 0.01`; a constant decides nothing"
        raise refuse(f"expected an expression, found {quote(value)}", hint)
    if isinstance(value, str) and not value.strip():
        raise refuse("expected an expression, found an empty text", "omit the key, or write one")
    return value


Condition = Annotated[Text, Field(min_length=1), BeforeValidator(_expression)]
"""The text of an expression, with or without `${{ }}` around it."""

_WORDS = {"int": "a whole number", "float": "a number", "str": "a text", "bool": "true or false"}
_KINDS: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "str": (str,), "bool": (bool,)}

MAX_LISTED = 1_000_000
"""The most values of one hyperparameter that a grid can list."""

MAX_STEPS = 2**52
"""The most steps in a float's range: with more, neighbours are the same number."""


class Hyperparameter(SpecModel):
    """One entry of the shared registry, read as `${{ hp.NAME }}`."""

    type: Literal["int", "float", "str", "bool", "choice"] = Field(
        description="Type of the value; `choice` takes one of `choices`."
    )
    default: Json = optional("Value if no search, file or --set gives one.")
    low: Number | None = optional("Smallest value allowed.")
    high: Number | None = optional("Largest value allowed.")
    log: bool = optional("Whether a search draws it on a logarithmic scale.", False)
    step: Number | None = optional("Distance between the values that a search draws.")
    choices: Items[Json] | None = optional("The values allowed.")
    when: Condition | None = optional(
        "Expression over other hyperparameters: a search draws it only if it holds."
    )
    description: str = optional("What it means, for readers.", "")

    @model_validator(mode="before")
    @classmethod
    def _mapping(cls, value: Any) -> Any:
        kind = next((kind for kind in ("bool", "int", "float", "str") if _is_of(value, kind)), None)
        if kind is None:
            return value
        shown = quote(value)
        raise refuse(f"expected a mapping, found {shown}", f"write {{type: {kind}, default: {shown}}}")

    @property
    def searchable(self) -> bool:
        """Whether a search knows what to draw from."""
        bounded = self.low is not None and self.high is not None
        return self.type in ("bool", "choice") or (self.type != "str" and bounded)

    @property
    def listed(self) -> tuple[Any, ...] | None:
        """All the values that a search can draw; None if they are endless."""
        if self.type == "choice":
            return tuple(self.choices or ())
        if self.type == "bool":
            return (False, True)
        last = self.last
        return None if last is None or last >= MAX_LISTED else tuple(map(self._nth, range(last + 1)))

    @property
    def last(self) -> int | None:
        """The place of the last value of its grid, from 0; None where its values have no grid."""
        step = self.step or (1 if self.type == "int" else None)
        if step is None or self.low is None or self.high is None or self.log:
            return None
        return int((Decimal(str(self.high)) - Decimal(str(self.low))) / Decimal(str(step)))

    def _nth(self, place: int) -> int | float:
        """Return a value of its grid, as decimals add up: after three steps of 0.3 comes 0.9."""
        value = Decimal(str(self.low)) + place * Decimal(str(self.step or 1))
        return int(value) if self.type == "int" else float(value)

    def nearest(self, value: float) -> int | float:
        """Return the nearest number that a search can draw."""
        low, high = (value if bound is None else bound for bound in (self.low, self.high))
        if self.step is not None and self.last is not None:
            place = round((Decimal(value) - Decimal(str(self.low))) / Decimal(str(self.step)))
            return self._nth(min(max(place, 0), self.last))
        inside = min(max(value, low), high)
        return round(inside) if self.type == "int" else float(inside)

    def accept(self, value: Any) -> Any:
        """Return the value in this type: whole numbers become floats if need be. Raise Flaws."""
        if self.type == "choice":
            return self._chosen(value)
        if not _is_of(value, self.type):
            raise refuse(f"expected {_WORDS[self.type]}, found {quote(value)}", _type_hint(self.type, value))
        if self.type in ("int", "float"):
            self._check_bounds(value)
        if self.type == "float" and float(value) != value:
            raise refuse(f"{value} is no double; the nearest is {float(value):.0f}")
        return float(value) if self.type == "float" else value

    def _chosen(self, value: Any) -> Any:
        choices = self.choices or ()
        for choice in choices:
            if choice == value and isinstance(choice, bool) == isinstance(value, bool):
                return choice
        listed = ", ".join(spelled(choices))
        hint = did_you_mean(str(value), [str(choice) for choice in choices])
        raise refuse(f"expected one of {listed}, found {quote(value)}", hint)

    def _check_bounds(self, value: float) -> None:
        if not abs(value) <= sys.float_info.max:  # integers have no bound of their own, and NaN is not below
            raise refuse(f"expected a finite number, found {quote(value)}")
        if self.low is not None and not value >= self.low:
            raise refuse(f"expected at least {self.low} (`low`), found {quote(value)}")
        if self.high is not None and not value <= self.high:
            raise refuse(f"expected at most {self.high} (`high`), found {quote(value)}")

    def flaws(self) -> Iterator[Violation]:
        flaws = _range_flaws(self) if self.type in ("int", "float") else _stray_flaws(self)
        if self.type == "choice" and not self.choices:
            flaws.append(Violation("type `choice` needs `choices`", "write choices: [a, b]", ("choices",)))
        if self.type != "choice" and self.choices is not None:
            flaws.append(Violation(f"`choices` goes with type `choice`, not `{self.type}`", "", ("choices",)))
        marks = set()
        for place, choice in enumerate(self.choices or ()):
            if (mark := _mark(choice)) in marks:
                flaws.append(Violation(f"{quote(choice)} is there twice", "", ("choices", place)))
            marks.add(mark)
        yield from flaws
        if not flaws and self.default is not None:
            try:
                self.accept(self.default)
            except Violations as error:
                yield from (Violation(flaw.message, flaw.hint, ("default",)) for flaw in error.flaws)


def undrawable(
    registry: Mapping[str, Hyperparameter], names: Iterable[str], *, numbers: bool = False
) -> Iterator[Violation]:
    """Yield flaws of names in `parameters` for which nothing, or with `numbers` no number, can be drawn."""
    for place, name in enumerate(names):
        key, spec = ("parameters", place), registry.get(name)
        numeric = spec is not None and spec.type in ("int", "float")
        if spec is None:
            hint = did_you_mean(name, registry) or f"hyperparameters: {', '.join(registry) or 'none'}"
            yield Violation(f"no hyperparameter '{name}'", hint, key)
        elif numeric and not spec.searchable:
            message = f"hyperparameter '{name}' has no bounds to draw from"
            yield Violation(message, "give it `low` and `high`", key)
        elif not spec.searchable or (numbers and not numeric):
            message = f"hyperparameter '{name}' is of type {spec.type}, which has no range to draw from"
            yield Violation(message, "" if numbers else "make it type choice, and list its `choices`", key)
        elif numeric and spec.log and spec.low is None:
            yield Violation(f"hyperparameter '{name}' needs `low` for its logarithmic scale", "", key)


def _is_of(value: Any, kind: str) -> bool:
    return isinstance(value, _KINDS[kind]) and (kind == "bool" or not isinstance(value, bool))


def _mark(value: Any) -> tuple[bool, Any]:
    """Return a hashable stand-in that is equal for equal values; 1 and true differ."""
    plain = isinstance(value, str | int | float | type(None))
    return isinstance(value, bool), value if plain else json.dumps(value, sort_keys=True)


def _type_hint(kind: str, value: Any) -> str:
    if kind == "int" and isinstance(value, float) and value.is_integer():
        return f"write {int(value)}"
    return "put it in quotes" if kind == "str" and isinstance(value, int | float) else ""


def _range_flaws(spec: Hyperparameter) -> list[Violation]:
    flaws = []
    for word in ("low", "high", "step"):
        bound = getattr(spec, word)
        if spec.type == "int" and isinstance(bound, float):
            flaws.append(Violation(f"expected a whole number, found {quote(bound)}", "", (word,)))
    if spec.low is not None and spec.high is not None and spec.low > spec.high:
        flaws.append(Violation(f"low ({spec.low}) is above high ({spec.high})", "swap them", ("low",)))
    if spec.log and spec.low is not None and spec.low <= 0:
        flaws.append(Violation(f"a logarithmic scale needs low > 0, found {spec.low}", "", ("low",)))
    if spec.log and spec.step is not None:
        flaws.append(Violation("`step` makes no sense on a logarithmic scale", "drop one of them", ("step",)))
    if spec.type == "float" and not flaws:
        flaws += _scale_flaws(spec)
    if spec.step is not None and spec.step <= 0:
        flaws.append(Violation(f"expected a step above zero, found {spec.step}", "", ("step",)))
    return flaws


def _scale_flaws(spec: Hyperparameter) -> list[Violation]:
    """Return flaws of ranges whose width or number of steps overflows a float."""
    if spec.low is None or spec.high is None or spec.log:
        return []
    width = as_float(spec.high) - as_float(spec.low)
    if not math.isfinite(width):
        return [Violation("the distance from low to high is beyond a float", "use smaller bounds", ("high",))]
    if spec.step is not None and 0 < spec.step < width / MAX_STEPS:
        return [
            Violation(f"a step of {spec.step} is lost between low and high", "use a larger one", ("step",))
        ]
    return []


def _stray_flaws(spec: Hyperparameter) -> list[Violation]:
    words = [word for word in ("low", "high", "step") if getattr(spec, word) is not None]
    words += ["log"] if spec.log else []
    return [
        Violation(f"`{word}` goes with int and float, not with type `{spec.type}`", "", (word,))
        for word in words
    ]
