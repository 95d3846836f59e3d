"""An axis as a workflow file writes it: all the keys that it may have, of which one is its form."""

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from diel.spec.forms.axis import Axis
from diel.spec.forms.derived import Derived
from diel.spec.forms.file import Columns, FileForm
from diel.spec.forms.listed import Column, Inline, StaticForm, sequence_of
from diel.spec.forms.loop import Loop
from diel.spec.forms.sample import Sample
from diel.spec.forms.search import Search
from diel.spec.model import Label, found, refuse


def _path_to_file(value: Any) -> Any:
    if isinstance(value, str):
        return {"path": value}
    if not isinstance(value, dict | FileForm):
        raise refuse(f"expected a file name, found {found(value)}", "for instance `points.csv`")
    return value


def _zip_of_forms(value: Any) -> Any:
    if isinstance(value, dict) and not value:
        raise refuse("expected at least one parameter", "write {NAME: [1, 2], OTHER: [3, 4]}")
    return value


def _rounds(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        raise refuse(f"expected a mapping, found {value}", f"write loop: {{max: {value}}}")
    return value


class AxisForm(StaticForm):
    """An axis: exactly one of the forms, and the columns of a derived one where it matters."""

    zip: Annotated[dict[Label, Column], BeforeValidator(_zip_of_forms)] | None = Field(
        default=None, description="Several parameters that vary together; all of the same length."
    )
    file: Annotated[FileForm, BeforeValidator(_path_to_file)] | None = Field(
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
    loop: Annotated[Loop, BeforeValidator(_rounds)] | None = Field(
        default=None, description="Rounds that follow one another."
    )
    description: str = Field(default="", description="What it means, for readers.")

    @property
    def axis(self) -> Axis:
        """The one form that is there."""
        if self.zip is not None:
            return Inline(tuple(map(sequence_of, self.zip.values())), tuple(self.zip))
        if self.source is not None:
            return Derived(self.source, self.columns)
        form = self.file or self.sample or self.search or self.loop
        return Inline((self.sequence,)) if form is None else form

    @model_validator(mode="after")
    def _zipped(self) -> Self:
        lengths = {name: len(sequence_of(column)) for name, column in (self.zip or {}).items()}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{name} has {count}" for name, count in lengths.items())
            raise refuse(f"the lists differ in length: {listed}", "a zip takes one value of each", "zip")
        if self.columns is not None and self.source is None:
            hint = "write file: {path: FILE, columns: [...]}" if self.file is not None else "drop it"
            raise refuse("`columns` goes with `from`", hint, "columns")
        return self
