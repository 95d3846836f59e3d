"""An axis whose points a file lists."""

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from diel.spec.forms.axis import Axis
from diel.spec.forms.points import Points
from diel.spec.forms.rows import read_points
from diel.spec.model import Items, Label, Model, Text, no_repeats

Columns = Annotated[Items[Label], Field(min_length=1), AfterValidator(no_repeats)]


class FileForm(Model, Axis):
    """Points read from a CSV or JSONL file: one point a row."""

    word: ClassVar[str] = "file"
    kept: ClassVar[bool] = True

    path: Text = Field(min_length=1, description="The file, relative to the workflow file.")
    columns: Columns | None = Field(default=None, description="Columns to use; all where absent.")

    @property
    def gives(self) -> tuple[str, ...] | None:
        return self.columns

    def listed(self, label: str, folder: Path) -> Points:
        return read_points(folder / self.path, label, self.columns)
