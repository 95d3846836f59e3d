"""A file that is made for each task: a template with expressions, filled in where the task runs."""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, NamedTuple

from pydantic import Field, PrivateAttr

from diel.spec.data import EXPRESSION, target_flaw
from diel.spec.model import Flaw, SpecModel, Text, found, optional

TEXT = "text"
"""Stands in the key of a mistake for the text of the template, which is in a file of its own."""


class Filling(NamedTuple):
    """What is in a template."""

    text: str
    executable: bool = False
    written: str | None = None
    """The text as its file has it, where names in it are others here."""
    edits: Sequence[Sequence[Sequence[int]]] = ()
    """What was replaced since."""


class Rendering(SpecModel):
    """A template, and where what it gives is written; its text is read once the file around it is."""

    template: Annotated[Text, Field(min_length=1)] = Field(
        description="A text with expressions, relative to the workflow file."
    )
    path: Annotated[Text, Field(min_length=1)] | None = optional(
        "Where it is written in the task's directory; under the template's own name if absent."
    )
    _filling: Filling = PrivateAttr(Filling(""))

    @property
    def target(self) -> str:
        """The path in the task's directory, which can hold expressions."""
        return self.template.rpartition("/")[2] if self.path is None else self.path

    @property
    def filling(self) -> Filling:
        return self._filling

    def fill(self, filling: Filling) -> None:
        """Notes what is in the template."""
        self._filling = filling

    def flaws(self) -> Iterator[Flaw]:
        flaw = target_flaw(EXPRESSION.sub("x", self.target))
        if "${{" in self.template:
            hint = "write one stage for each, as `extends` makes short, or put the choice into the template"
            yield Flaw("the name of a template takes no expressions", hint, ("template",))
        elif flaw:
            hint = "write another path, relative to the task's directory"
            yield Flaw(f"{flaw}: {found(self.target)}", hint, ("path",))


def rendering_flaws(files: Mapping[str, Rendering]) -> Iterator[Flaw]:
    """Templates that would be written to the same file."""
    owners: dict[str, str] = {}
    for name, given in files.items():
        if (owner := owners.setdefault(posixpath.normpath(given.target), name)) != name:
            message = f"'{owner}' and '{name}' are written to the same file {found(given.target)}"
            yield Flaw(message, "give one of them another `path`", ("files", name))
