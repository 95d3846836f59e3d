"""Where an output is put for people: beside the workflow, once its task has succeeded."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from diel.spec.model import Flaw, SpecModel, Text, optional


class Exported(SpecModel):
    """The path under which an artifact is copied out of the run."""

    export: Annotated[Text, Field(min_length=1)] | None = optional(
        "Where it is copied to when its task has succeeded, relative to the workflow file."
    )


def export_flaws(output: Exported, form: str | None, *, kept: bool) -> Iterator[Flaw]:
    """What cannot be exported; `form` is that of the output."""
    if output.export is None:
        return
    if form not in (None, "path", "glob"):
        hint = "drop it: `diel results --csv` prints values as a table"
        yield Flaw(f"`export` is about files, found a {form}", hint, ("export",))
    elif not kept:
        hint = "drop one of them: what is exported is copied from the run, which may happen again"
        yield Flaw("what is exported is kept", hint, ("keep",))
    elif output.export.startswith("~"):
        yield Flaw("`~` is a directory of this name here", "write the path in full", ("export",))
