"""An axis: an ordered sequence of points, each giving one or more parameters a value."""

import math
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, Strict, model_validator

from diel.errors import counted
from diel.spec.loop import Loop
from diel.spec.model import (
    MAX_POINTS,
    Flaw,
    Flaws,
    Items,
    Json,
    Label,
    Model,
    Number,
    Text,
    found,
    no_repeats,
    refuse,
)
from diel.spec.search import Search
from diel.values import as_float

MAX_SAMPLES = 10_000_000
"""The most points that one design may draw: they are drawn and kept before the run."""


class SampleRange(Model):
    """The range that one sampled parameter is drawn from."""

    low: Number = Field(description="Smallest value.")
    high: Number = Field(description="Largest value.")
    log: bool = Field(default=False, description="Whether to draw on a logarithmic scale.")
    type: Literal["int", "float"] = Field(default="float", description="Type of the values drawn.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for word in ("low", "high"):
            if not math.isfinite(as_float(getattr(self, word))):
                raise refuse("expected a finite number, found one that is beyond a double", "", word)
        if not self.low < self.high:
            raise refuse(f"expected low < high, found low {self.low} and high {self.high}", "", "low")
        if self.log and self.low <= 0:
            raise refuse(f"a logarithmic scale needs low > 0, found {self.low}", "", "low")
        if self.type == "int" and math.ceil(self.low) > math.floor(self.high):
            raise refuse(f"no whole number lies between {self.low} and {self.high}", "", "low")
        return self


def _list_or_ranges(value: Any) -> Any:
    if not isinstance(value, list | dict):
        raise refuse(
            f"expected ranges by parameter name, found {found(value)}", "write {NAME: {low: 0, high: 1}}"
        )
    if not value:
        raise refuse("expected at least one parameter", "write {NAME: {low: 0, high: 1}}")
    return value


class Sample(Model):
    """Points drawn from ranges: a design of experiments."""

    method: Literal["lhs", "sobol", "uniform"] = Field(
        description="Latin hypercube, scrambled Sobol sequence, or independent uniform draws."
    )
    points: int = Field(ge=1, le=MAX_SAMPLES, description="How many points to draw.")
    seed: int = Field(default=0, ge=0, description="Seed of the random numbers.")
    parameters: Annotated[
        Annotated[Items[Label], AfterValidator(no_repeats)] | dict[Label, SampleRange],
        BeforeValidator(_list_or_ranges),
    ] = Field(description="Ranges by parameter name, or names of hyperparameters that have bounds.")


Columns = Annotated[Items[Label], Field(min_length=1), AfterValidator(no_repeats)]


class FileForm(Model):
    """Points read from a CSV or JSONL file: one point a row."""

    path: Text = Field(min_length=1, description="The file, relative to the workflow file.")
    columns: Columns | None = Field(default=None, description="Columns to use; all where absent.")


def _path_to_file(value: Any) -> Any:
    if isinstance(value, str):
        return {"path": value}
    if value is not None and not isinstance(value, dict | FileForm):
        raise refuse(f"expected a file name, found {found(value)}", "for instance `points.csv`")
    return value


def _some(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if not values:
        raise refuse("an axis without points: its stages would have no tasks", "list at least one value")
    return values


def _spaced(value: Any) -> Any:
    """Checks [first, last, count] as one: each entry at its own place, with what it means."""
    if value is None:
        return None
    if not isinstance(value, list | tuple):
        raise refuse(f"expected [first, last, count], found {found(value)}")
    if len(value) != 3:
        raise refuse(f"expected [first, last, count], found {counted(len(value), 'value')}")
    flaws = []
    for place, word in enumerate(("first", "last")):
        end = value[place]
        if isinstance(end, bool) or not isinstance(end, int | float) or not math.isfinite(end):
            flaws.append(Flaw(f"{word}: expected a number, found {found(end)}", "", (place,)))
    count = value[2]
    if isinstance(count, bool) or not isinstance(count, int):
        hint = "the third entry is how many points there are, not the distance between them"
        flaws.append(Flaw(f"count: expected a whole number, found {found(count)}", hint, (2,)))
    elif not 1 <= count <= MAX_POINTS:
        flaws.append(Flaw(f"count: expected 1 to {MAX_POINTS} points, found {count}", "", (2,)))
    if flaws:
        raise Flaws(*flaws)
    if count > 1 and value[0] == value[1]:
        raise refuse(f"{count} points, and all of them the same", f"write values: [{value[0]}]")
    return value


def _exponents(value: tuple[float, float, int] | None) -> tuple[float, float, int] | None:
    """Refuses what overflows, and ends that look like values where exponents are meant."""
    if value is None:
        return None
    first, last, count = value
    flaws = [
        Flaw(
            f"10 to the power {end} is beyond a double",
            "logspace takes exponents of ten, -308 to 308",
            (place,),
        )
        for place, end in enumerate((first, last))
        if abs(end) > 308
    ]
    if flaws:
        raise Flaws(*flaws)
    if count > 1 and 10 ** abs(last - first) < 2:
        meant = (
            f"; write [{math.log10(first):g}, {math.log10(last):g}, {count}]"
            if first > 0 and last > 0
            else ""
        )
        raise refuse(
            f"logspace takes exponents of ten, as NumPy's does; [{first}, {last}, {count}] would run from "
            f"{10**first:.6g} to {10**last:.6g}{meant}",
            "where such a narrow span is meant, linspace says it better",
        )
    return value


def _python_range(value: Any) -> Any:
    """Checks a count, or the bounds of Python's range."""
    if value is None:
        return None
    bounds = list(value) if isinstance(value, list | tuple) else [value]
    if isinstance(value, dict | str) or not 1 <= len(bounds) <= 3:
        raise refuse(f"expected 4, [0, 4] or [0, 10, 2], found {_entries(value)}")
    flaws = []
    for place, bound in enumerate(bounds):
        if isinstance(bound, bool) or not isinstance(bound, int):
            hint = "range takes whole numbers only; linspace: [first, last, count] takes any"
            key = (place,) if isinstance(value, list | tuple) else ()
            flaws.append(Flaw(f"expected a whole number, found {found(bound)}", hint, key))
    if flaws:
        raise Flaws(*flaws)
    if bounds[2:] == [0]:
        raise refuse("a step of 0 never arrives", "write a step such as 1", 2)
    count = len_of_range(bounds)
    if count < 1:
        hint = "the last bound is left out, as in Python's range; counting down needs a step such as -1"
        raise refuse(f"{_entries(value)} holds no number: the axis would have no points", hint)
    if count > MAX_POINTS:
        raise refuse(f"{count} points are too many; an axis has at most {MAX_POINTS}")
    return value


def len_of_range(bounds: list[int]) -> int:
    """How many numbers Python's range holds; `len(range(...))` overflows beyond 2**63."""
    start, stop = (0, bounds[0]) if len(bounds) == 1 else (bounds[0], bounds[1])
    step = bounds[2] if len(bounds) == 3 else 1
    return max(0, -((start - stop) // step))


def _entries(value: Any) -> str:
    if isinstance(value, list | tuple):
        text = ", ".join(found(bound) for bound in value[:4])
        return f"[{text}]" if len(value) <= 4 else f"{len(value)} entries"
    return found(value)


RangeBounds = int | Items[int]
LinearSpace = Annotated[tuple[Number, Number, int], Strict(False)]


class StaticForm(Model):
    """One of the forms that list the values of a single parameter."""

    values: Annotated[Items[Json], AfterValidator(_some)] | None = Field(
        default=None, description="The values themselves."
    )
    linspace: Annotated[LinearSpace | None, BeforeValidator(_spaced)] = Field(
        default=None, description="[first, last, count]: evenly spaced, both ends included."
    )
    logspace: Annotated[LinearSpace | None, BeforeValidator(_spaced), AfterValidator(_exponents)] = Field(
        default=None,
        description="[first, last, count]: evenly spaced powers of ten, first and last being "
        "exponents: [-3, 0, 4] gives 0.001, 0.01, 0.1, 1.",
    )
    range: Annotated[RangeBounds | None, BeforeValidator(_python_range)] = Field(
        default=None, description="Whole numbers as Python's range: 4, [0, 4] or [0, 10, 2]."
    )

    @property
    def count(self) -> int:
        """How many values the form lists, without listing them."""
        if self.values is not None:
            return len(self.values)
        spaced = self.linspace or self.logspace
        if spaced is not None:
            return spaced[2]
        return len_of_range([self.range] if isinstance(self.range, int) else list(self.range or (0,)))

    @model_validator(mode="before")
    @classmethod
    def _mapping(cls, value: Any) -> Any:
        if isinstance(value, dict | cls):
            return value
        if isinstance(value, list):
            raise refuse(
                "expected one of the forms of an axis, found a list", f"write {{values: {_entries(value)}}}"
            )
        raise refuse(f"expected one of the forms of an axis, found {found(value)}", _forms_hint(cls))

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        forms = _forms(type(self))
        given = [form for form in forms if getattr(self, "source" if form == "from" else form) is not None]
        if len(given) > 1:
            raise refuse(f"expected one form, found {' and '.join(given)}", "drop all but one", given[1])
        if not given:
            raise refuse("found none of the forms of an axis", _forms_hint(type(self)))
        return self


def _forms(kind: type[StaticForm]) -> tuple[str, ...]:
    listed = ("values", "linspace", "logspace", "range")
    return (*listed, "zip", "file", "sample", "from", "search", "loop") if kind is Axis else listed


def _forms_hint(kind: type[StaticForm]) -> str:
    return f"give one of {', '.join(_forms(kind))}; for instance values: [1, 2, 3]"


def _zip_of_forms(value: Any) -> Any:
    if isinstance(value, dict) and not value:
        raise refuse("expected at least one parameter", "write {NAME: [1, 2], OTHER: [3, 4]}")
    return value


def _rounds(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        raise refuse(f"expected a mapping, found {value}", f"write loop: {{max: {value}}}")
    return value


class Axis(StaticForm):
    """An axis: exactly one of the forms, and the columns of a derived one where it matters."""

    zip: Annotated[
        dict[Label, Annotated[Items[Json], AfterValidator(_some)] | StaticForm] | None,
        BeforeValidator(_zip_of_forms),
    ] = Field(default=None, description="Several parameters that vary together; all of the same length.")
    file: Annotated[FileForm | None, BeforeValidator(_path_to_file)] = Field(
        default=None, description="A CSV or JSONL file: one point a row, one parameter a column."
    )
    sample: Sample | None = Field(default=None, description="Points drawn from ranges.")
    source: str | None = Field(
        default=None,
        alias="from",
        min_length=1,
        description="STAGE.OUTPUT: points known once that stage has made them "
        "(a list, or a CSV or JSONL file: one point a row).",
    )
    columns: Columns | None = Field(
        default=None, description="Parameters that each point of a derived axis gives; checked when known."
    )
    search: Search | None = Field(default=None, description="Points proposed by a hyperparameter search.")
    loop: Annotated[Loop | None, BeforeValidator(_rounds)] = Field(
        default=None, description="Rounds that follow one another."
    )
    description: str = Field(default="", description="What it means, for readers.")

    @property
    def given_parameters(self) -> tuple[str, ...]:
        """The parameters that the file says this axis gives, beyond its own name."""
        if self.zip is not None:
            return tuple(self.zip)
        if self.sample is not None:
            return tuple(self.sample.parameters)
        return self.columns or (self.file.columns if self.file is not None else None) or ()

    @model_validator(mode="after")
    def _zipped(self) -> Self:
        lengths = {
            name: column.count if isinstance(column, StaticForm) else len(column)
            for name, column in (self.zip or {}).items()
        }
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{name} has {count}" for name, count in lengths.items())
            raise refuse(f"the lists differ in length: {listed}", "a zip takes one value of each", "zip")
        if self.columns is not None and self.source is None:
            hint = "write file: {path: FILE, columns: [...]}" if self.file is not None else "drop it"
            raise refuse("`columns` goes with `from`", hint, "columns")
        return self
