"""An axis as a workflow file writes it: its values, or one of the other forms."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Strict, model_validator

from diel.base.errors import counted
from diel.workflow.models.forms.axis import Axis, Known, Points, bare
from diel.workflow.models.forms.loop import Loop
from diel.workflow.models.forms.rows import Columns, DerivedAxis, FileForm, typed
from diel.workflow.models.forms.sample import Sample
from diel.workflow.models.forms.search import Search
from diel.workflow.models.model import (
    MAX_POINTS,
    Items,
    Json,
    Label,
    Later,
    Number,
    SpecModel,
    Violation,
    Violations,
    filled,
    optional,
    quote,
    refuse,
)


@dataclass(frozen=True)
class Inline(Axis):
    """Values by parameter, under the axis's own name if there is no other."""

    columns: tuple[Sequence[Any], ...]
    names: tuple[str, ...] = ()

    @property
    def gives(self) -> tuple[str, ...]:
        return self.names

    def size(self, registry: Known) -> int:
        return len(self.columns[0])

    def listed(self, label: str, folder: Path) -> Points:
        return Points(self.names or (bare(label),), self.columns)


@dataclass(frozen=True)
class SpacedNumbers(Sequence[float]):
    """Evenly spaced numbers, both ends included, or ten to the power of each."""

    first: float
    last: float
    size: int
    powers: bool = False

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: Any) -> Any:
        if not 0 <= index < self.size:
            raise IndexError(index)  # this ends an iteration over a sequence
        if index == self.size - 1 and self.size > 1:
            value = self.last
        else:
            gaps = max(self.size - 1, 1)
            step = (self.last - self.first) / gaps
            if math.isinf(step):  # the ends are too far apart for their distance to be a double
                step = self.last / gaps - self.first / gaps
            value = self.first + index * step
        return 10.0**value if self.powers else float(value)

    def place_of(self, value: float) -> float:
        """Return about where a number would be."""
        if self.powers:
            value = math.log10(value) if value > 0 else -math.inf
        return (value - self.first) / ((self.last - self.first) or 1) * (self.size - 1)


def _spaced(value: Any) -> Any:
    """Check [first, last, count]: report each entry at its own place, with its meaning."""
    if not isinstance(value, list | tuple):
        raise refuse(f"expected [first, last, count], found {quote(value)}")
    if len(value) != 3:
        raise refuse(f"expected [first, last, count], found {counted(len(value), 'value')}")
    flaws = []
    for place, word in enumerate(("first", "last")):
        end = value[place]
        if isinstance(end, bool) or not isinstance(end, int | float) or not math.isfinite(end):
            flaws.append(Violation(f"{word}: expected a number, found {quote(end)}", "", (place,)))
    count = value[2]
    if isinstance(count, bool) or not isinstance(count, int):
        hint = "the third entry is how many points there are, not the distance between them"
        flaws.append(Violation(f"count: expected a whole number, found {quote(count)}", hint, (2,)))
    elif not 1 <= count <= MAX_POINTS:
        flaws.append(Violation(f"count: expected 1 to {MAX_POINTS} points, found {count}", "", (2,)))
    if flaws:
        raise Violations(*flaws)
    if count > 1 and value[0] == value[1]:
        raise refuse(f"{count} points, and all of them the same", f"write values: [{value[0]}]")
    return value


def _exponents(value: tuple[float, float, int]) -> tuple[float, float, int]:
    """Refuse overflowing numbers, and ends that look like values instead of exponents."""
    first, last, count = value
    hint = "logspace takes exponents of ten, -308 to 308"
    flaws = [
        Violation(f"10 to the power {end} is beyond a double", hint, (place,))
        for place, end in enumerate((first, last))
        if abs(end) > 308
    ]
    if flaws:
        raise Violations(*flaws)
    if count > 1 and 10 ** abs(last - first) < 2:
        meant = ""
        if first > 0 and last > 0:
            meant = f"; write [{math.log10(first):.15g}, {math.log10(last):.15g}, {count}]"
        raise refuse(
            f"logspace takes exponents of ten, as NumPy's does; [{first}, {last}, {count}] would run from "
            f"{10**first:.6g} to {10**last:.6g}{meant}",
            "for such a narrow span, use linspace",
        )
    return value


def _python_range(value: Any) -> Any:
    bounds = list(value) if isinstance(value, list | tuple) else [value]
    if isinstance(value, dict | str) or not 1 <= len(bounds) <= 3:
        raise refuse(f"expected 4, [0, 4] or [0, 10, 2], found {_entries(value)}")
    flaws = []
    for place, bound in enumerate(bounds):
        if isinstance(bound, bool) or not isinstance(bound, int):
            hint = "range takes whole numbers only; linspace: [first, last, count] takes any"
            key = (place,) if isinstance(value, list | tuple) else ()
            flaws.append(Violation(f"expected a whole number, found {quote(bound)}", hint, key))
    if flaws:
        raise Violations(*flaws)
    if bounds[2:] == [0]:
        raise refuse("a step of 0 never ends", "write a step such as 1", 2)
    numbers = range(*bounds)
    count = (numbers[-1] - numbers[0]) // numbers.step + 1 if numbers else 0  # `len` overflows at 2**63
    if count < 1:
        hint = "the last bound is left out, as in Python's range; counting down needs a step such as -1"
        raise refuse(f"{_entries(value)} holds no number: the axis would have no points", hint)
    if count > MAX_POINTS:
        raise refuse(f"{count} points are too many; an axis has at most {MAX_POINTS}")
    return value


def _entries(value: Any) -> str:
    if isinstance(value, list | tuple):
        text = ", ".join(quote(bound) for bound in value[:4])
        return f"[{text}]" if len(value) <= 4 else f"{len(value)} entries"
    return quote(value)


_EMPTY = "an axis without points: its stages would have no tasks"
Values = Annotated[Items[Json], filled(list, _EMPTY, "list at least one value")]
Space = Annotated[tuple[Number, Number, int], Strict(False), BeforeValidator(_spaced)]
Exponents = Annotated[Space, AfterValidator(_exponents)]
Bounds = Annotated[int | Items[int], BeforeValidator(_python_range)]


class StaticForm(SpecModel):
    """One of the forms that list the values of a single parameter."""

    values: Values | None = optional("The values themselves.")
    linspace: Space | None = optional("[first, last, count]: evenly spaced, both ends included.")
    logspace: Exponents | None = optional(
        "[first, last, count]: evenly spaced powers of ten, first and last being "
        "exponents: [-3, 0, 4] gives 0.001, 0.01, 0.1, 1."
    )
    range: Bounds | None = optional("Whole numbers as Python's range: 4, [0, 4] or [0, 10, 2].")

    @property
    def sequence(self) -> Sequence[Any]:
        """The values, computed on demand."""
        if self.values is not None:
            return self.values
        if self.linspace is not None:
            return SpacedNumbers(*self.linspace)
        if self.logspace is not None:
            return SpacedNumbers(*self.logspace, powers=True)
        bounds = (self.range,) if isinstance(self.range, int) else self.range
        return () if bounds is None else range(*bounds)

    @model_validator(mode="before")
    @classmethod
    def _mapping(cls, value: Any) -> Any:
        if not isinstance(value, dict | cls):
            hint = f"write {{values: {_entries(value)}}}" if isinstance(value, list) else cls._hint()
            raise refuse(f"expected one of the forms of an axis, found {quote(value)}", hint)
        return value

    def flaws(self) -> Iterator[Violation]:
        forms = [form for form, field in self.forms().items() if getattr(self, field) is not None]
        if len(forms) > 1:
            yield Violation(
                f"expected one form, found {' and '.join(forms)}", "drop all but one", (forms[1],)
            )
        if not forms:
            yield Violation("found none of the forms of an axis", self._hint())

    @classmethod
    def forms(cls) -> dict[str, str]:
        """Return the keys of the forms, and the field of each."""
        fields = cls.model_fields.items()
        return {info.alias or name: name for name, info in fields if name not in ("columns", "description")}

    @classmethod
    def _hint(cls) -> str:
        return f"give one of {', '.join(cls.forms())}; for instance values: [1, 2, 3]"


Column = Values | Later[StaticForm]
_ZIP = "write {NAME: [1, 2], OTHER: [3, 4]}"


def sequence_of(column: tuple[Any, ...] | StaticForm) -> Sequence[Any]:
    """Return the values of one of several lists side by side."""
    return column.sequence if isinstance(column, StaticForm) else column


def _rounds(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        raise refuse(f"expected a mapping, found {value}", f"write loop: {{max: {value}}}")
    return value


class AxisForm(StaticForm):
    """An axis: exactly one of the forms, and perhaps the columns of a derived one."""

    zip: Annotated[dict[Label, Column], filled(dict, "expected at least one parameter", _ZIP)] | None = (
        optional("Several parameters that vary together; all of the same length.")
    )
    file: Later[FileForm] | None = optional(
        "A CSV, JSONL, NumPy or other table: one point in each row, one parameter in each column."
    )
    sample: Later[Sample] | None = optional("Points drawn from ranges.")
    source: str | None = optional(
        "STAGE.OUTPUT: points known once that stage has made them "
        "(a list, or a CSV or JSONL file: one point a row).",
        alias="from",
        min_length=1,
    )
    columns: Columns | None = optional(
        "Parameters that each point of a derived axis gives, perhaps with their types."
    )
    search: Later[Search] | None = optional("Points proposed by a hyperparameter search.")
    loop: Annotated[Later[Loop], BeforeValidator(_rounds)] | None = optional(
        "Rounds that follow one another."
    )
    description: str = optional("What it means, for readers.", "")

    @property
    def axis(self) -> Axis:
        """The one form that is given."""
        if self.zip is not None:
            return Inline(tuple(map(sequence_of, self.zip.values())), tuple(self.zip))
        if self.source is not None:
            named = None if self.columns is None else tuple(self.columns)
            return DerivedAxis(self.source, named, typed(self.columns))
        form = self.file or self.sample or self.search or self.loop
        return Inline((self.sequence,)) if form is None else form

    def flaws(self) -> Iterator[Violation]:
        wrong = [*super().flaws()]
        yield from wrong
        lengths = {name: len(sequence_of(column)) for name, column in (self.zip or {}).items()}
        if len(set(lengths.values())) > 1 and not wrong:
            listed = ", ".join(f"{name} has {count}" for name, count in lengths.items())
            yield Violation(
                f"the lists differ in length: {listed}", "a zip takes one value of each", ("zip",)
            )
        elif self.columns is not None and self.source is None and not wrong:
            hint = "write file: {path: FILE, columns: [...]}" if self.file is not None else "drop it"
            yield Violation("`columns` goes with `from`", hint, ("columns",))
