"""Checks of units: what an input expects can be made of what is promised, where it is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from diel.modules.catalogue import Module
from diel.units import Columns, Rule, Units, UnitsError, conversions


class InputUse(NamedTuple):
    """Who reads data: the module of a stage and its input, and what the data is, as far as that is known."""

    input: str
    module: Module | None = None
    kind: str | None = None
    which: str | None = None
    """Which files no function gets the numbers of."""

    def refusal(self, rule: Rule, made: Units) -> tuple[str, str] | None:
        """Return why a rule cannot be followed, and what to do; None if it can.

        Values always can; files only where a Python function gets their numbers.
        """
        same, of_columns = f"write units: {_shown(made)} here", isinstance(rule, Columns)
        if self.kind in ("int", "float", "list", None):
            return ("a value has no columns", same) if of_columns and self.kind is not None else None
        if self.kind not in ("file", "array", "files"):
            return f"a {self.kind} is not converted", same
        if self.module is None or self.which is not None:
            return f"nothing converts a file {self.which}", f"{same}, and convert it in the program"
        parameters = {one.name: one.takes for one in self.module.signature.parameters}
        takes = parameters.get(self.input, frozenset({"any"}))
        if "any" in takes or takes & (_TABLES if of_columns else _ARRAYS):
            return None
        if takes & _TABLES:
            return "a table has no one unit", "say which columns, at both ends: units: {COLUMN: UNITS}"
        kind = "pandas.DataFrame" if of_columns else "numpy.ndarray"
        hint = f"{same}, or annotate '{self.input}' with {kind}"
        return "nothing converts a file that is read by its path", hint


_TABLES = {"frame", "arrow", "dataset", "frames", "arrows", "datasets"}
_ARRAYS = {"array", "arrays", "dataarray", "dataarrays"}


def unit_flaws(source: str, made: Units, wanted: Units, reader: InputUse) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with units at the two ends of an edge."""
    if made == wanted:
        return
    try:
        rule = conversions(made, wanted)
        wrong = None if rule is None else reader.refusal(rule, made)
    except UnitsError as error:
        wrong = error.message, error.hint
    if wrong is not None:
        yield f"{source} has units {_shown(made)}; expected {_shown(wanted)}: {wrong[0]}", wrong[1]


def _shown(units: Units) -> str:
    if isinstance(units, str):
        return f"'{units}'"
    return f"{{{', '.join(f'{name}: {one}' for name, one in units.items())}}}"
