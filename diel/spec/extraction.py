"""Values that diel takes out of what a command wrote: by a pattern, a column of a table, a key of JSON."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, WithJsonSchema

from diel.spec.model import Flaw, SpecModel, Text, found, optional, refuse
from diel.terms import format_of, parts_of

WAYS = ("match", "column", "key")
_ONE = ("int", "float", "str", "bool")


def _column(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and value < 1:
        raise refuse(
            f"there is no column {value}", "columns are counted from 1; or write the name in the header"
        )
    return value


class Extracted(SpecModel):
    """Where a value stands in what a command wrote, if the command does not hand it over itself."""

    file: Text | None = optional(
        "File in the task's directory to take a value from; by default what it prints."
    )
    match: str | None = optional("Regular expression, searched in each line; its group is the value.")
    column: (
        Annotated[
            str | int,
            BeforeValidator(_column),
            WithJsonSchema({"type": ["string", "integer"], "minLength": 1, "minimum": 1}),
        ]
        | None
    ) = optional("Column of a table that holds the value: its name, or its number from 1.")
    key: str | None = optional("Place of the value in a JSON file: `energies.total`, `steps[-1].energy`.")
    pick: Literal["first", "last", "all"] = optional("Which of several is taken; `all` makes a list.", "last")

    @property
    def way(self) -> str | None:
        """How the value is found; None where it is not taken out of a file."""
        return next((name for name in WAYS if getattr(self, name) is not None), None)


def extraction_flaws(output: Extracted, value: str | None, outside: str) -> Iterator[Flaw]:
    """What is wrong with how a value is found; `outside` says why its file is not the task's own."""
    given = [name for name in WAYS if getattr(output, name) is not None]
    apart = next((name for name in ("file", "pick") if name in output.model_fields_set), None)
    if len(given) > 1:
        message = f"a value is found in one way, found both `{given[0]}` and `{given[1]}`"
        yield Flaw(message, "make two outputs of it, or drop one of them", (given[1],))
    elif given and value is None:
        hint = "write `value: float` beside it; the file itself can be another output"
        yield Flaw(f"`{given[0]}` finds a value, found no `value`", hint, (given[0],))
    elif not given and apart:
        hint = "add `match: 'PATTERN'`, `column: NAME` or `key: NAME`"
        if value is None:
            hint = "write `path: FILE` for an output that is a file" if apart == "file" else "drop it"
        yield Flaw(f"`{apart}` goes with a value that is taken out of a file", hint, (apart,))
    elif given and outside:
        yield Flaw(
            f"{outside}: {found(output.file)}", "write a path relative to the task's directory", ("file",)
        )
    elif given:
        if value not in _ONE and output.key is None:
            hint = "write the type of one of them, as in `value: float`; `pick: all` makes a list"
            yield Flaw(f"`{given[0]}` finds numbers and texts, found value: {value}", hint, ("value",))
        yield from _way_flaws(output)


def _way_flaws(output: Extracted) -> Iterator[Flaw]:
    if output.match is not None:
        yield from _pattern_flaws(output.match)
    elif output.column == "":
        yield Flaw(
            "an empty name of a column", "write the name in the header, or a number from 1", ("column",)
        )
    elif output.key is not None:
        file = output.file or "stdout"
        lines = "${{" in file or file in ("stdout", "stderr") or format_of(file) == "table"
        if parts_of(output.key) is None or output.key.startswith("$"):
            hint = 'write keys and indices as in energies.total, steps[-1].energy or units["m.s"]'
            yield Flaw(f"{found(output.key)} is no place in JSON", hint, ("key",))
        elif "pick" in output.model_fields_set and not lines:
            hint = "drop it, and write the place of one: steps[0].energy, steps[-1].energy"
            yield Flaw(
                "`pick` chooses among lines, and a JSON file holds one value at a key", hint, ("pick",)
            )


def _pattern_flaws(text: str) -> Iterator[Flaw]:
    try:
        pattern = re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        told, place = (error.msg, error.pos) if isinstance(error, re.error) else (str(error), None)
        hint = "a character that means itself takes a backslash: \\( \\* \\+ \\."
        yield Flaw(f"the pattern cannot be read: {told}", hint, ("match",), offset=place)
        return
    if pattern.groups > 1 and len(pattern.groupindex) != 1:
        hint = "write (?:...) for groups that are not the value, or name the one that is: (?P<value>...)"
        yield Flaw(f"one group is the value, found {pattern.groups} groups", hint, ("match",))
    elif pattern.search(""):
        hint = "write + instead of *, or text that must be there"
        yield Flaw("the pattern matches an empty line, and so every line", hint, ("match",))
