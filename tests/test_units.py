"""Units that differ are converted as physics says, or refused; equal texts need no library."""

from __future__ import annotations

import math
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy
import pytest

import diel.base.units
from diel.base.units import (
    Columns,
    Conversion,
    UnitsError,
    contradict,
    conversion,
    conversions,
    differ,
    product,
)
from tests.throwaway import Project

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
        ("Å", "bohr", 1.0, 1.8897261),
        ("GPa", "bar", 1.0, 1e4),
        ("Ha/bohr", "eV/angstrom", 1.0, 51.4220675),
        ("kJ/mol/nm", "eV/Å", 1.0, 1.0364269656e-3),
        ("amu", "kg", 1.0, 1.66053907e-27),
        ("ps", "fs", 1.0, 1000.0),
        ("dimensionless", "percent", 0.5, 50.0),
        ("e*angstrom", "debye", 1.0, 4.80320471),
        ("delta_degC", "K", 20.0, 20.0),
        ("J/degC", "J/K", 2.0, 2.0),
        ("degree", "rad", 180.0, 3.14159265),
        ("rpm", "rad/s", 60.0, 6.28318531),
        ("planck_constant*speed_of_light/cm", "meV", 8.0655439, 1.0),
        ("boltzmann_constant*K", "eV", 11604.518, 1.0),
        ("cm s-1", "km/h", 150.0, 5.4),
        ("kg m-2 s-1", "g.m-2.s-1", 1.0, 1000.0),
        ("W/m2", "mW cm-2", 1.0, 0.1),
        ("degrees_celsius", "Kelvin", 20.0, 293.15),
    ],
)
def test_numbers_are_converted(made: str, wanted: str, value: float, expected: float) -> None:
    assert conversion(made, wanted).apply(value) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize(
    ("made", "wanted", "values", "expected"),
    [
        ("angstrom", "nm", [1.0, 2.0, 3], [0.1, 0.2, 0.3]),
        ("nm", "angstrom", [0.1, 0.3, 1.1], [1.0, 3.0, 11.0]),
        ("kJ/mol", "kcal/mol", [4.184, 8.368, 41.84], [1.0, 2.0, 10.0]),
        ("degC", "K", [0.1, 36.6], [273.25, 309.75]),
        ("degF", "degC", [98.6, 212.0], [37.0, 100.0]),
        ("fs", "s", [1.0, 3.0], [1e-15, 3e-15]),
    ],
)
def test_an_exact_factor_gives_the_nearest_double(
    made: str, wanted: str, values: list[float], expected: list[float]
) -> None:
    rule = conversion(made, wanted)
    assert rule.apply(values) == expected
    assert rule.apply([math.inf, -math.inf]) == [math.inf, -math.inf]
    arrays = rule.apply(numpy.array(values)), rule.apply(numpy.array(values, "f4"))
    assert [array.dtype for array in arrays] == ["f8", "f4"]
    assert numpy.allclose(arrays[0], expected, rtol=1e-15, atol=0)
    assert numpy.allclose(arrays[1], expected, rtol=3e-7, atol=0)


def test_arrays_are_divided_by_ten_where_numbers_are() -> None:
    assert conversion("angstrom", "nm").apply(numpy.array([1.0, 2.0, 3.0])).tolist() == [0.1, 0.2, 0.3]


@pytest.mark.parametrize(
    ("made", "wanted", "words"),
    [
        ("eV", "K", "eV .* cannot be converted into K"),
        ("eV/atom", "eV", "cannot be converted"),
        ("eV/A**3", "GPa", r"ampere"),
        ("ev", "kJ/mol", "the unit 'ev' is not known; did you mean 'eV'"),
        ("kj/mol", "eV", "the unit 'kj' is not known"),
        ("m s-1 foo-1", "m/s", "the unit 'foo' is not known"),
        ("1e-3", "1", "the units '1e-3' cannot be read"),
        ("10 eV", "J", "the units '10 eV' cannot be read"),
        ("dBm", "W", "is no linear scale of W"),
        ("cm^-1", "eV", "1/centimeter.* cannot be converted into eV"),
        ("A", "angstrom", "ampere"),
        ("rad/s", "Hz", "only one of rad/s and Hz has an angle"),
        ("Hz", "rpm", "has an angle"),
        ("au", "angstrom", "'au' has two meanings; write bohr"),
        ("1/fs", "au", "'au' has two meanings"),
    ],
)
def test_what_cannot_be_converted_is_refused(made: str, wanted: str, words: str) -> None:
    with pytest.raises(UnitsError, match=words):
        conversion(made, wanted)


def test_columns_have_units_of_their_own() -> None:
    found = conversions({"e": "eV", "t": "K"}, {"e": "meV", "t": "K"})
    assert found == Columns({"e": Conversion(Fraction(1000), unit="meV")})
    assert conversions("eV", {"e": "eV"}) is None
    with pytest.raises(UnitsError, match="no units are promised for its column 'x'"):
        conversions({"e": "eV"}, {"x": "eV"})
    with pytest.raises(UnitsError, match="its columns have units of their own"):
        conversions({"e": "eV"}, "meV")


def test_a_column_that_is_not_there_is_told() -> None:
    pandas = pytest.importorskip("pandas", reason="diel[tables] is not installed")
    table, rule = pandas.DataFrame({"e": [1.0], "n": [3]}), Columns({"e": Conversion(Fraction(2))})
    assert rule.apply(table).to_dict("list") == {"e": [2.0], "n": [3]}
    assert table["e"][0] == 1.0
    with pytest.raises(UnitsError, match="it has no column 'x' to convert; it has: e, n"):
        Columns({"x": Conversion(Fraction(2))}).apply(table)


def test_lists_are_converted_item_by_item_and_what_is_missing_stays() -> None:
    assert Conversion(Fraction(2), Fraction(1)).apply([1, [2.0], None]) == [3.0, [5.0], None]


@pytest.mark.parametrize(
    ("value", "words"), [("1.5", "'1.5'"), (True, "True"), ({"e": 1.0}, "a dict"), ([10**400], "1000.*")]
)
def test_what_is_no_number_is_refused(value: object, words: str) -> None:
    with pytest.raises(UnitsError, match=f"^{words} is nothing to convert: expected numbers"):
        Conversion(Fraction(2), Fraction(1)).apply(value)
    with pytest.raises(UnitsError, match="has no columns"):
        Columns({}).apply(value)


UNTYPED = """
    axes: {n: {range: 1}}
    stages:
      make:
        module: "made:untyped"
        outputs: {number: {units: eV}, array: {units: eV}, row: {units: eV}, rows: {units: {e: eV}}, huge: {units: eV}}
      right: {command: [echo, "${{ inputs.x }}"], inputs: {x: {from: make.number, units: kJ/mol}}}
      array: {command: [cat, "${{ inputs.x }}"], inputs: {x: {from: make.array, units: kJ/mol}}}
      row: {command: [echo, "${{ inputs.x }}"], inputs: {x: {from: make.row, units: kJ/mol}}}
      rows: {command: [echo, "${{ inputs.x }}"], inputs: {x: {from: make.rows, units: {e: kJ/mol}}}}
      huge: {command: [echo, "${{ inputs.x }}"], inputs: {x: {from: make.huge, units: kJ/mol}}}
      sharded: {over: [n], module: "made:take", inputs: {x: {from: make.array, units: kJ/mol, shard: task}}}
      handed: {module: "made:take", params: {path: "${{ inputs.x }}"}, inputs: {x: {from: make.array, units: kJ/mol}}}
"""
MADE = """
    import numpy

    def untyped():
        return {"number": 1.0, "array": numpy.ones(2), "row": {"e": 1.0}, "rows": [{"e": 1.0}], "huge": 10**400}

    def take(x, path=None):
        return {"sum": 1.0}
"""


def test_what_the_run_shows_is_converted_or_its_task_fails_alone(tmp_path: Path) -> None:
    run = Project(tmp_path).workflow(UNTYPED).module("made", MADE).run(code=1)
    told = {record["stage"]: record["message"] for record in run.records("failed")}
    assert {stage: message.partition(" is in other units: ")[2][:30] for stage, message in told.items()} == {
        "array": "nothing converts a file for a ",
        "row": "a dict is nothing to convert: ",
        "rows": "a dict has no columns; make a ",
        "huge": "1000000000000000000000000000000"[:30],
        "sharded": "nothing converts a file that i",
        "handed": "nothing converts a file whose ",
    }
    assert run.counts("right") == {"done": 1}


def test_equal_units_load_no_library_and_others_say_which(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys; from diel.base.units import conversions; conversions('fooo', 'fooo'); print('pint' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told == "False\n"
    monkeypatch.setattr(diel.base.units, "find_spec", lambda name: None)
    with pytest.raises(UnitsError, match=r"takes pint; pip install 'diel\[units\]'"):
        conversion("eV", "meV ")


THROUGH = """
axes: {p: {from: f.t%s}, s: {values: [1]}}
stages:
  f: {command: "printf 'e,n\\n2,1\\n3,1\\n' > t.csv", outputs: {t: {path: t.csv, units: {e: hartree}}}}
  g: {over: [p, s], command: [echo]}
  h: {inputs: {e: {from: g.%s, units: eV}}, command: "echo ${{ inputs.e }}"}
"""


@pytest.mark.parametrize("columns", ["", ", columns: [e]"])
def test_parameters_of_axes_have_the_units_of_what_made_the_axis(tmp_path: Path, columns: str) -> None:
    project = Project(tmp_path).workflow(THROUGH % (columns, "e"))
    project.diel("run", "flow.yaml")
    assert project.diel("logs", "last", "h/0").split()[-2:] == ["54.42277249196206", "81.63415873794308"]


@pytest.mark.parametrize(
    ("read", "units", "told"),
    [
        ("s", "eV", "g.s is a parameter of an axis, which has no units"),
        ("n", "eV", "g.n is a parameter of an axis, which has no units"),
        ("e", "K", "g.e has units 'hartree'; expected 'K'"),
    ],
)
def test_units_that_an_axis_cannot_have_are_refused(tmp_path: Path, read: str, units: str, told: str) -> None:
    text = THROUGH % ("", read)
    project = Project(tmp_path).workflow(text.replace("units: eV", f"units: {units}"))
    assert told in project.diel("validate", "flow.yaml", code=2)


LABELLED = """
    stages:
      make:
        module: "made:make"
        params: {says: "%s"}
        outputs: {d: {units: {T: degC, e: eV}}, a: {units: degC}, t: {units: {e: eV}}, f: {units: {e: eV}}}
      read:
        module: "made:read"
        inputs:
          d: {from: make.d, units: {T: K, e: meV}}
          a: {from: make.a, units: K}
          t: {from: make.t, units: {e: meV}}
          f: {from: make.f, units: {e: meV}}
"""
LABELS = """
    import pandas
    import pyarrow
    import xarray

    def make(says: str):
        x = ("x", [0.0, 1.0], {"units": "angstrom"})
        t = ("x", [20.0, 30.0], {"units": "degC", "long_name": "T"})
        field = pyarrow.field("e", "float64").with_metadata({"units": says})
        frame = pandas.DataFrame({"e": [1.0]})
        frame.attrs = {"units": {"e": says}}
        data = xarray.Dataset({"T": t, "e": ("x", [1.0, 2.0], {"units": says})}, {"x": x})
        return {"d": data, "a": data["T"], "t": pyarrow.table([[1.0]], pyarrow.schema([field])), "f": frame}

    def read(d: xarray.Dataset, a: xarray.DataArray, t: pyarrow.Table, f: pandas.DataFrame):
        names = [d[name].attrs["units"] for name in ("T", "e", "x")] + [a.attrs["units"], a.attrs["long_name"]]
        names += [str(t.schema.field("e").metadata), f.attrs["units"]["e"]]
        return {"names": names, "numbers": [*d["e"].values.tolist(), a.values.tolist()[0], t["e"][0].as_py(), f["e"][0]]}
"""


def test_an_object_names_the_units_that_its_numbers_are_in(tmp_path: Path) -> None:
    pytest.importorskip("xarray", reason="diel[data] is not installed")
    run = Project(tmp_path).workflow(LABELLED % "electron_volt").module("made", LABELS).run()
    values = run.results("read")[0]["values"]
    assert values["names"] == ["K", "meV", "angstrom", "K", "T", "None", "meV"]
    assert values["numbers"] == pytest.approx([1000, 2000, 293.15, 1000, 1000])


@pytest.mark.parametrize("says", ["kJ/mol", "K"])
@pytest.mark.parametrize("output", ["d", "t", "f"])
def test_an_object_that_names_other_units_than_promised_is_refused(
    tmp_path: Path, says: str, output: str
) -> None:
    pytest.importorskip("xarray", reason="diel[data] is not installed")
    text = f"stages: {{make: {{module: 'made:make', params: {{says: {says}}}, outputs: {{{output}: {{units: {{e: eV}}}}}}}}}}\n"
    run = Project(tmp_path).workflow(text).module("made", LABELS).run(code=1)
    assert f": e says that its units are '{says}'; expected 'eV'" in run.failure("make", 0)["message"]


def test_units_contradict_others_and_any_promise_if_nobody_can_read_them() -> None:
    assert not any(contradict(own, "eV") for own in ("", "eV", "electron_volt", "days since 2000-01-01"))
    same = {
        "amu": "g/mol",
        "m s-1": "m/s",
        "W.m-2": "W/m**2",
        "degrees_celsius": "degC",
        "-": "1",
        "psu": "psu",
    }
    assert not any(contradict(own, promised) for own, promised in same.items())
    assert all(contradict(own, "eV") for own in ("kJ/mol", "K", "W m-2", "fooo"))
    assert contradict("cm s-1", "m/s")


@pytest.mark.parametrize(
    ("source", "need", "value", "number"),
    [
        ("degC", "degF", 10, 50.0),
        ("degF", "degC", 50, 10.0),
        ("degC", "K", -273.15, 0.0),
        ("K", "degF", 0.0, -459.67),
    ],
)
def test_temperatures_are_converted_without_noise(
    source: str, need: str, value: float, number: float
) -> None:
    assert conversion(source, need).apply(value) == number
    assert conversion(source, need).apply(type("Reading", (float,), {})(value)) == pytest.approx(number)


def test_numbers_that_a_narrow_type_cannot_hold_become_doubles() -> None:
    numpy = pytest.importorskip("numpy", reason="diel[data] is not installed")
    mass, length = numpy.array([1.989e30, 5e30], "f4"), numpy.array([1000, 2], "f2")
    assert conversion("kg", "u").apply(mass).tolist() == pytest.approx([1.1978038e57, 3.0110703e57])
    assert conversion("m", "mm").apply(length).tolist() == [1e6, 2000]
    assert conversion("m", "mm").apply(length[0]) == 1e6
    assert conversion("m", "cm").apply(length[1:]).dtype == "float16"
    assert conversion("mm", "km").apply(length).tolist() == pytest.approx([1e-3, 2e-6])
    assert conversion("m", "mm").apply(numpy.array([numpy.inf, 2], "f2")).dtype == "float16"


@pytest.mark.parametrize("kind", ["float32", "Float32"])
def test_columns_that_a_narrow_type_cannot_hold_become_doubles(kind: str) -> None:
    pandas = pytest.importorskip("pandas", reason="diel[tables] is not installed")
    xarray = pytest.importorskip("xarray", reason="diel[data] is not installed")
    rule = Columns({"m": conversion("kg", "u")})
    frame = pandas.DataFrame({"m": pandas.Series([1.989e30], dtype=kind)})
    for table in (frame, xarray.Dataset({"m": ("x", frame["m"].to_numpy("f4"))})):
        assert rule.apply(table)["m"].values.tolist() == pytest.approx([1.1978038e57])


@pytest.mark.parametrize("value", [1e300, [1e300], 10**300])
def test_numbers_that_no_double_holds_are_refused(value: object) -> None:
    numpy = pytest.importorskip("numpy", reason="diel[data] is not installed")
    for numbers in (value, numpy.array([1.0, 1e300])):
        with pytest.raises(
            UnitsError, match="^in u .* a number beyond 1.8e308, the largest that a double holds"
        ):
            conversion("kg", "u").apply(numbers)


BEGUN = """
    axes: {r: {loop: {max: 3, until: "step.e < -1.0"}}}
    stages:
      start: {command: "echo '{\\"e\\": 1.5}' > $DIEL_RESULT", outputs: {e: {value: float, units: eV}}}
      step:
        over: [r]
        inputs: {e: {from: step.e, at: {r: previous}, units: meV, initially: "%s"}}
        command: "echo '{\\"e\\": ' ${{ inputs.e / 1000 }} '}' > $DIEL_RESULT; echo ${{ inputs.e }}"
        outputs: {e: {value: float, units: %s}}
"""


@pytest.mark.parametrize("units", ["eV", "J"])
def test_what_a_loop_begins_with_is_converted_as_later_rounds_are(tmp_path: Path, units: str) -> None:
    project = Project(tmp_path).workflow(BEGUN % ("${{ start.e }}", units))
    project.run()
    assert "1500.0" in project.diel("logs", "last", "step/0")


FROM_AXIS = """
    axes:
      p: {from: f.t, columns: [e]}
      r: {loop: {max: 2}}
    stages:
      f: {command: "printf 'e\\n2\\n' > t.csv", outputs: {t: {path: t.csv, units: {e: hartree}}}}
      step:
        over: [p, r]
        inputs: {e: {from: step.e, at: {r: previous}, units: eV, initially: "${{ %s }}"}}
        command: "echo '{\\"e\\": ' ${{ inputs.e }} '}' > $DIEL_RESULT; echo ${{ inputs.e }}"
        outputs: {e: {value: float, units: eV}}
"""


@pytest.mark.parametrize("name", ["e", "p.e"])
def test_a_loop_that_begins_with_the_parameter_of_an_axis_converts_it(tmp_path: Path, name: str) -> None:
    project = Project(tmp_path).workflow(FROM_AXIS % name)
    project.run()
    assert [project.diel("logs", "last", f"step/{n}").split()[-1] for n in (0, 1)] == [
        "54.42277249196206"
    ] * 2


def test_units_of_products_are_compared_only_where_pint_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (product("eV", ""), product("", "eV"), product("eV", "eV", "/")) == ("eV", "eV", "")
    assert not differ(str(product("eV/angstrom", "nm")), "eV*nm/angstrom")
    assert differ("eV", "meV")
    assert not differ("eV", "K", or_apart=False)
    assert not differ(str(product("", "fs", "/")), "1/fs")
    assert not differ(str(product("angstrom", "2", "**")), "angstrom**2")
    monkeypatch.setattr(diel.base.units, "find_spec", lambda name: None)
    assert product("eV", "K") is None


@pytest.mark.parametrize(
    ("begun", "told"),
    [
        ("${{ 2 * start.e }}", "start.e has units 'eV', which nothing converts in an expression"),
        (
            "${{ [start.e, 0.0] }}",
            "write ${{ start.e }} alone, or convert it in a stage that reads it with units: meV",
        ),
    ],
)
def test_an_expression_that_a_loop_begins_with_has_the_units_of_its_input(
    tmp_path: Path, begun: str, told: str
) -> None:
    project = Project(tmp_path).workflow(BEGUN % (begun, "eV"))
    assert told in project.diel("validate", "flow.yaml", code=2)
    good = (BEGUN % (begun, "eV")).replace("units: eV}}}\n      step", "units: meV}}}\n      step")
    Project(tmp_path).workflow(good).diel("validate", "flow.yaml")
