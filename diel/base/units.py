"""Units: conversions of numbers between them, by pint, which is loaded only where two differ."""

import math
import re
from collections.abc import Mapping
from difflib import get_close_matches
from fractions import Fraction
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, NamedTuple

from diel.base.errors import HintedError, UsageError, did_you_mean
from diel.base.values import BEYOND

Units = str | Mapping[str, str]
"""As a workflow writes them: of all numbers, or of columns by name."""
_USUAL = (
    *("eV", "meV", "keV", "J", "kJ/mol", "kcal/mol", "hartree", "rydberg", "K", "degC", "angstrom", "nm"),
    *("bohr", "fs", "ps", "ns", "s", "Pa", "GPa", "bar", "atm", "kg", "amu", "g/mol", "elementary_charge"),
    *("debye", "tesla", "volt", "ampere", "kelvin", "electron_volt", "percent", "cm", "mm", "m", "Hz", "THz"),
)
_UDUNITS: tuple[tuple[str, Any], ...] = (
    (r"(?i)\bdeg(rees?)?[ _]?c(elsius)?\b|\bcelsius\b", "degC"),
    (r"(?i)\bdegrees?_(north|east|south|west|true|[nesw])\b", "degree"),
    (r"^(unitless|none|-)$", "1"),
    (r"(?<!\d[eE])(?<=[^\W\d])([+-]?\d+)\b", r"**\1"),
    (r"(?<=\w)\.(?=[^\W\d])", " "),
    (r"[A-Z][a-z]{4,}", lambda word: word[0].lower()),
)
"""What UDUNITS and the CF conventions write, as pint reads it."""
_LEAST = {"float16": 2.0**-14, "float32": 2.0**-126, "complex64": 2.0**-126}
"""The least numbers of narrow types that have all their digits."""


class UnitsError(HintedError, UsageError):
    """Units that nobody knows, or of which one cannot be converted into the other."""


class Conversion(NamedTuple):
    """Numbers in one unit become those in another: times a factor, plus an offset, both exact."""

    factor: Fraction = Fraction(1)
    offset: Fraction = Fraction(0)
    unit: str = ""
    """The other unit, for objects that name the one they are in."""

    def apply(self, value: Any) -> Any:
        """Return a number, an array or a list of them in the other unit. Raise UnitsError."""
        if value is None or isinstance(value, list):
            return value if value is None else [self.apply(item) for item in value]
        if hasattr(value, "columns") or hasattr(value, "data_vars"):
            raise UnitsError("a table has no one unit", "say which columns: units: {COLUMN: UNITS}")
        try:
            if isinstance(value, bool | str):
                raise TypeError
            made = _scaled(value, self)
            if _is_labelled(value):
                made.attrs = {**value.attrs, **({"units": self.unit} if "units" in value.attrs else {})}
            return made
        except (TypeError, ValueError, OverflowError):
            plain = isinstance(value, bool | int | str)
            shown = f"{value!r:.40}" if plain else f"a {type(value).__name__}"
            raise UnitsError(f"{shown} is nothing to convert: expected numbers") from None


def _scaled(value: Any, rule: Conversion) -> Any:
    """Return numbers in another unit, as doubles where a narrower type would lose some. Raise UnitsError."""
    times, per = map(float, rule.factor.as_integer_ratio())
    if min(times, per) > 1 and max(times, per) > 1e6:  # which single precision might not hold
        times, per = float(rule.factor), 1.0
    if not hasattr(value, "dtype"):
        made = value * times / per + float(rule.offset) if rule.offset else value * times / per
        if abs(value) < math.inf and abs(made) == math.inf:
            raise UnitsError(f"in {rule.unit} {value!r:.40} would be {BEYOND}")
        is_exact = type(value) in (int, float) and math.isfinite(value)
        return float(Fraction(str(value)) * rule.factor + rule.offset) if is_exact else made
    import numpy  # here: it is loaded

    with numpy.errstate(all="ignore"):
        made = value * times / per + float(rule.offset) if rule.offset else value * times / per
        if made.dtype == object:  # whose items may be no numbers
            return made
        least = _LEAST.get(str(made.dtype).lower(), 0.0)
        lost = (abs(value) < math.inf) & (abs(made) == math.inf)
        if least and not rule.offset:
            lost |= (abs(value) >= least) & (abs(made) < least)
        if not lost.any():
            return made
    if not least:
        raise UnitsError(f"in {rule.unit} it would hold {BEYOND}")
    wide = {"F": "Float64", "c": "complex128"}.get(str(made.dtype)[0], "float64")
    return _scaled(value.astype(wide), rule)


class Columns(NamedTuple):
    """The same for columns of tables, and variables of datasets, by name."""

    rules: Mapping[str, Conversion]

    def apply(self, value: Any) -> Any:
        """Return a table or dataset in other units; lists item by item. Raise UnitsError."""
        if isinstance(value, list):
            return [self.apply(item) for item in value]
        if not any(hasattr(value, attribute) for attribute in ("columns", "data_vars", "column_names")):
            raise UnitsError(f"a {type(value).__name__} has no columns", "make a table, or convert it there")
        if _is_labelled(value):
            has = [str(name) for name in value.variables]
        else:
            has = [str(name) for name in getattr(value, "column_names", None) or value.columns]
        if missing := [name for name in self.rules if name not in has]:
            raise UnitsError(f"it has no column '{missing[0]}' to convert", f"it has: {', '.join(has)}")
        if hasattr(value, "set_column"):  # pyarrow's
            for name, rule in self.rules.items():
                column = rule.apply(value.column(name).to_numpy())
                value = value.set_column(value.column_names.index(name), name, [column])
            return value.replace_schema_metadata()  # which told the units of before
        table = value.copy()
        for name, rule in self.rules.items():
            table[name] = rule.apply(table[name])
        if not _is_labelled(value) and isinstance(own := table.attrs.get("units"), Mapping):
            table.attrs["units"] = {**own, **{name: rule.unit for name, rule in self.rules.items()}}
        return table


def _is_labelled(value: Any) -> bool:
    return type(value).__module__.startswith("xarray")


Rule = Conversion | Columns


def conversions(source: Units, need: Units) -> Rule | None:
    """Return the conversion into the needed units; None where they are the same. Raise UnitsError."""
    if isinstance(need, str) and isinstance(source, str):
        single = conversion(source, need)
        return None if single == Conversion() else single
    if isinstance(need, str):
        if set(source.values() if isinstance(source, Mapping) else ()) == {need}:
            return None
        raise UnitsError("its columns have units of their own", "write units: {COLUMN: UNITS} here too")
    found_all: dict[str, Conversion] = {}
    for column, units in need.items():
        own = source if isinstance(source, str) else source.get(column)
        if own is None:
            hint = did_you_mean(column, source) or "add them where it is made"
            raise UnitsError(f"no units are promised for its column '{column}'", hint)
        found_all[column] = conversion(own, units)
    rules = {name: rule for name, rule in found_all.items() if rule != Conversion()}
    return Columns(rules) if rules else None


@lru_cache
def conversion(source: str, need: str) -> Conversion:
    """Return the conversion between units, if need be by a mole: eV becomes kJ/mol. Raise UnitsError."""
    if source == need:
        return Conversion()
    if find_spec("pint") is None:
        raise UnitsError(
            f"{source} and {need} differ, and to compare them takes pint",
            "pip install 'diel[units]', or write the same units at both ends",
        )
    registry = _registry()
    texts = [source, need]
    first, second = map(_parsed, texts)
    moles = [any(word.endswith("mole") for word in str(unit).split()) for unit in (first, second)]
    if first.dimensionality != second.dimensionality and moles[0] != moles[1]:
        texts[moles[0]] += "/particle"
        first, second = map(_parsed, texts)
    angles = ["radian" in str(registry.get_root_units(unit)[1]) for unit in (first, second)]
    if angles[0] != angles[1] and first.dimensionality:  # else a turn would count as 2π hertz
        raise UnitsError(f"only one of {source} and {need} has an angle", "write Hz, or rad/s, at both ends")
    try:
        exact, ends = _registry(Fraction), [_parsed(text, Fraction) for text in texts]
        low, mid, top = (Fraction(exact.convert(Fraction(number), *ends)) for number in (0, 1, 2))
    except Exception as error:
        if type(error) is not TypeError:
            what = f"{source} ({first:P}) cannot be converted into {need} ({second:P})"
            raise UnitsError(what, "fix the units of one end") from error
        low, mid, top = Fraction(0), Fraction(0), Fraction(1)  # no fraction has a logarithm
    if not math.isclose(top - mid, mid - low):
        raise UnitsError(f"{source} is no linear scale of {need}", "convert it in a function of your own")
    return Conversion() if low == 0 and mid == 1 else Conversion(mid - low, low, need)


def differ(first: str, second: str, or_apart: bool = True) -> bool:
    """Return whether units are not the same; `or_apart`, whether nothing converts them."""
    try:
        return conversion(first, second) != Conversion()
    except UnitsError:
        return or_apart


def product(first: str, second: str, sign: str = "*") -> str | None:
    """Return the units of a product, a quotient or a power, empty for a plain number; None without pint."""
    if not second or (first == second and sign == "/"):
        return first if not second else ""
    if not first and sign == "*":
        return second
    if find_spec("pint") is None:
        return None
    first, second = (unit if unit.isalnum() else f"({unit})" for unit in (first or "1", second))
    return f"{first}{sign}{second}"


def contradict(own: str, promised: str) -> bool:
    """Return whether the units that an object names are not the promised ones; dates have none."""
    if own in ("", promised) or " since " in own or find_spec("pint") is None:
        return False
    try:
        rule = conversion(own, promised)
    except UnitsError:
        return True
    return rule.offset != 0 or not math.isclose(rule.factor, 1, rel_tol=1e-8)  # amu is g/mol but for digits


@lru_cache
def _registry(number: type = float) -> Any:
    """Return the units, with factors of a type: fractions are exact, and cannot be written in texts."""
    import pint  # here: it takes a third of a second

    registry = pint.UnitRegistry(non_int_type=number)
    registry.define("atom = particle")
    registry.define("@alias hartree = Ha")
    return registry


def _parsed(text: str, number: type = float) -> Any:
    """Return a unit by its text. Raise UnitsError with the nearest known one."""
    registry = _registry(number)
    try:
        unit = registry.parse_units(text)
        if number is Fraction or "astronomical_unit" not in str(unit) or "astronomical" in text:
            return unit
    except Exception as error:  # its parser has no class for a bad text
        plain = text
        for pattern, spelling in _UDUNITS:
            plain = re.sub(pattern, spelling, plain)
        if plain != text:
            return _parsed(plain, number)
        names = getattr(error, "unit_names", None)
        if not names:
            hint = "write them as in eV, kJ/mol or m/s**2"
            raise UnitsError(f"the units '{text}' cannot be read", hint) from error
        word = names if isinstance(names, str) else names[0]
        spellings = {name.lower(): name for name in (*dir(registry), *_USUAL)}
        near = get_close_matches(word.lower(), [*(name.lower() for name in _USUAL), *spellings], n=1)
        hint = (
            f"did you mean '{spellings[near[0]]}'?"
            if near
            else "write a unit that pint knows, such as eV or kJ/mol"
        )
        raise UnitsError(f"the unit '{word}' is not known", hint) from error
    raise UnitsError(f"'au' in '{text}' has two meanings", "write bohr, hartree, … or astronomical_unit")
