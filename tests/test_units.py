"""Units that differ are converted as physics says, or refused; equal texts need no library."""

from __future__ import annotations

import subprocess
import sys

import pytest

import diel.units
from diel.units import Columns, Conversion, UnitsError, conversion, conversions

pytest.importorskip("pint", reason="units that differ are compared by diel[units]")


@pytest.mark.parametrize(
    ("made", "wanted", "value", "expected"),
    [
        ("eV", "kJ/mol", 1.0, 96.485332),
        ("kJ/mol", "eV", 96.485332, 1.0),
        ("eV/atom", "kJ/mol", 1.0, 96.485332),
        ("amu", "g/mol", 12.0, 12.0),
        ("kcal/mol", "kJ/mol", 1.0, 4.184),
        ("hartree", "eV", 1.0, 27.211386),
        ("angstrom", "nm", 5.0, 0.5),
        ("degC", "K", 20.0, 293.15),
        ("degF", "degC", 212.0, 100.0),
        ("K", "degC", 0.0, -273.15),
        ("eV/angstrom**3", "GPa", 1.0, 160.21766),
        ("percent", "1", 50.0, 0.5),
    ],
)
def test_numbers_are_converted(made: str, wanted: str, value: float, expected: float) -> None:
    assert conversion(made, wanted).apply(value) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize(
    ("made", "wanted", "words"),
    [
        ("eV", "K", "eV .* cannot be converted into K"),
        ("eV/atom", "eV", "cannot be converted"),
        ("eV/A**3", "GPa", r"ampere"),
        ("ev", "kJ/mol", "the unit 'ev' is not known; did you mean 'eV'"),
        ("kj/mol", "eV", "the unit 'kj' is not known"),
        ("m s-1", "m/s", "the units 'm s-1' cannot be read"),
        ("10 eV", "J", "the units '10 eV' cannot be read"),
        ("dBm", "W", "is no linear scale of W"),
    ],
)
def test_what_cannot_be_converted_is_refused(made: str, wanted: str, words: str) -> None:
    with pytest.raises(UnitsError, match=words):
        conversion(made, wanted)


def test_columns_have_units_of_their_own() -> None:
    found = conversions({"e": "eV", "t": "K"}, {"e": "meV", "t": "K"})
    assert found == Columns({"e": Conversion(1000.0)})
    assert conversions("eV", {"e": "eV"}) is None
    with pytest.raises(UnitsError, match="no units are promised for its column 'x'"):
        conversions({"e": "eV"}, {"x": "eV"})
    with pytest.raises(UnitsError, match="its columns have units of their own"):
        conversions({"e": "eV"}, "meV")


def test_a_column_that_is_not_there_is_told() -> None:
    pandas = pytest.importorskip("pandas", reason="diel[tables] is not installed")
    table, rule = pandas.DataFrame({"e": [1.0], "n": [3]}), Columns({"e": Conversion(2.0)})
    assert rule.apply(table).to_dict("list") == {"e": [2.0], "n": [3]}
    assert table["e"][0] == 1.0
    with pytest.raises(UnitsError, match="it has no column 'x' to convert; it has: e, n"):
        Columns({"x": Conversion(2.0)}).apply(table)


def test_lists_are_converted_item_by_item_and_texts_stay() -> None:
    assert Conversion(2.0, 1.0).apply([1, [2.0], "a", None, True]) == [3.0, [5.0], "a", None, True]
    with pytest.raises(UnitsError, match="has no columns"):
        Columns({}).apply(1.0)


def test_equal_units_load_no_library_and_others_say_which(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys; from diel.units import conversions; conversions('fooo', 'fooo'); print('pint' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told == "False\n"
    monkeypatch.setattr(diel.units, "find_spec", lambda name: None)
    with pytest.raises(UnitsError, match=r"takes pint; pip install 'diel\[units\]'"):
        conversion("eV", "meV ")
