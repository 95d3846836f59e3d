"""Checks of units: what an input expects can be made of what is promised, where it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from diel.modules.catalogue import Module
from diel.units import Columns, Rule, Units, UnitsError, conversions

Reason = Callable[[Rule], tuple[str, str] | None]
"""Why a rule cannot be followed, and what to do; None if it can."""


def unit_flaws(source: str, made: Units, wanted: Units, why_not: Reason) -> Iterator[tuple[str, str]]:
    """What is wrong with units at the two ends of an edge; `why_not` says why a rule cannot be followed."""
    if made == wanted:
        return
    try:
        rule = conversions(made, wanted)
    except UnitsError as error:
        yield f"{source} has units {_shown(made)}; expected {_shown(wanted)}: {error.message}", error.hint
        return
    wrong = None if rule is None else why_not(rule)
    if wrong is not None:
        yield f"{source} has units {_shown(made)}; expected {_shown(wanted)}: {wrong[0]}", wrong[1]


def not_converted(
    module: Module | None, name: str, word: str | None, made: Units, which: str | None
) -> Callable[[Rule], tuple[str, str] | None]:
    """Why an input of a stage cannot be converted, as far as that is known; `word` says what it is.

    Values always can; files only where a Python function gets their numbers: `which` are not.
    """

    def why(rule: Rule) -> tuple[str, str] | None:
        same = f"write units: {_shown(made)} here"
        if word in ("int", "float", "list", None):
            return (
                ("a value has no columns", same) if isinstance(rule, Columns) and word is not None else None
            )
        if word not in ("file", "array", "files"):
            return f"a {word} is not converted", same
        if module is None or which is not None:
            return f"nothing converts a file {which}", f"{same}, and convert it in the program"
        takes = next(
            (one.takes for one in module.signature.parameters if one.name == name), frozenset({"any"})
        )
        tables = {"frame", "arrow", "dataset", "frames", "arrows", "datasets"}
        arrays = {"array", "arrays", "dataarray", "dataarrays"}
        if "any" in takes or takes & (tables if isinstance(rule, Columns) else arrays):
            return None
        if takes & tables:
            return "a table has no one unit", "say which columns, at both ends: units: {COLUMN: UNITS}"
        kind = "pandas.DataFrame" if isinstance(rule, Columns) else "numpy.ndarray"
        return "nothing converts a file that is read by its path", f"{same}, or annotate '{name}' with {kind}"

    return why


def _shown(units: Units) -> str:
    if isinstance(units, str):
        return f"'{units}'"
    return f"{{{', '.join(f'{name}: {one}' for name, one in units.items())}}}"
