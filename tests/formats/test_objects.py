"""Objects of the field's libraries: what a function takes is read from files, what it returns is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from diel.base.errors import UsageError
from diel.base.formats.node import BadData
from diel.base.formats.objects import kind_of, load, make_frame, save
from diel.workflow.models.forms.rows import TEXTS, read_table
from tests.formats.made import N, T, frame, h5py, make, netCDF4, numpy, pandas

from ase.constraints import FixAtoms, FixBondLengths  # isort: skip

xarray = pytest.importorskip("xarray", reason="diel[data] is not installed")
pyarrow = pytest.importorskip("pyarrow", reason="diel[data] is not installed")


@pytest.mark.parametrize(
    ("name", "inside"),
    [("a.csv", None), ("a.tsv", None), ("a.jsonl", None), ("a.parquet", None), ("a.h5", "/group"), ("a.h5", "/table"),
     ("a.nc", "/group"), ("a.zarr", "/group")],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["frame", "arrow", "dataset"])
def test_a_table_is_read_from_files_of_every_kind(
    tmp_path: Path, name: str, inside: str | None, kind: str
) -> None:
    path, frame = tmp_path / name, pandas.DataFrame({"t": T, "n": N})
    match path.suffix:
        case ".csv" | ".tsv":
            frame.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
        case ".jsonl":
            frame.to_json(path, lines=True, orient="records")
        case _:
            make(tmp_path, name)
    if (kind, path.suffix, inside) in (("dataset", ".h5", "/table"), ("dataset", ".zarr", "/group")):
        pytest.skip("xarray reads no compound types of HDF5, and no Zarr without names of dimensions")
    found = load(kind, str(path), inside, read_table(path, None) if path.suffix in TEXTS else None)
    assert (
        type(found).__module__.partition(".")[0]
        == {"frame": "pandas", "arrow": "pyarrow", "dataset": "xarray"}[kind]
    )
    column = found["t"]
    assert (column.to_pylist() if kind == "arrow" else [float(one) for one in column]) == T


OBJECTS: list[tuple[str, Any, str]] = [
    ("frame", pandas.DataFrame({"t": T, 3: N}), ".parquet"),
    ("frame", pandas.Series(T, name="t"), ".parquet"),
    ("arrow", pyarrow.table({"t": T}), ".parquet"),
    ("dataset", xarray.Dataset({"t": ("x", T)}), ".nc"),
    ("dataset", xarray.DataArray(T, dims="x", name="t"), ".nc"),
]


@pytest.mark.parametrize(("kind", "value", "suffix"), OBJECTS)
def test_what_is_written_is_read_again(tmp_path: Path, kind: str, value: Any, suffix: str) -> None:
    assert kind_of(value) == kind
    path = save(kind, value, str(tmp_path / "made"))
    assert path == str(tmp_path / f"made{suffix}")
    assert [float(one) for one in load("frame", path)["t"]] == T


def test_an_index_that_means_something_is_kept_as_a_column(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"t": T}, index=pandas.Index(["a", "b", "c"], name="who"))
    assert list(load("frame", save("frame", frame, str(tmp_path / "made")))["who"]) == ["a", "b", "c"]


@pytest.mark.parametrize("years", [range(2001, 2004), range(0, 6, 2), range(2, -1, -1), range(1, 2)])
def test_an_evenly_spaced_index_is_kept_unless_it_is_row_numbers(tmp_path: Path, years: range) -> None:
    frame = pandas.DataFrame({"t": T[: len(years)]}, index=years)
    assert list(load("frame", save("frame", frame, str(tmp_path / "made")))["index"]) == list(years)
    rows = load("frame", save("frame", frame.reset_index(drop=True), str(tmp_path / "rows")))
    assert list(rows.columns) == ["t"]


def test_a_dataset_is_not_packed_as_the_file_that_it_came_from(tmp_path: Path) -> None:
    packing = {"t": {"dtype": "int16", "scale_factor": 0.1, "add_offset": 0.0, "_FillValue": -1}}
    xarray.Dataset({"t": ("x", [1.0, 2.0])}).to_netcdf(tmp_path / "packed.nc", encoding=packing)
    dataset = load("dataset", str(tmp_path / "packed.nc")) * 1
    dataset["t"].encoding = packing["t"]
    dataset["t"].values[:] = [1.23456, 98765.4]
    for name, value in (("set", dataset), ("array", dataset["t"])):
        assert list(load("dataset", save("dataset", value, str(tmp_path / name)))["t"].values) == [
            1.23456,
            98765.4,
        ]


def test_atoms_are_kept_with_what_was_computed(tmp_path: Path) -> None:
    frames = [frame(energy, number) for energy, number in zip(T, N, strict=True)]
    assert (kind_of(frames), kind_of(frames[0]), kind_of([1]), kind_of([])) == (
        "structures",
        "structure",
        None,
        None,
    )
    path = save("structures", frames, str(tmp_path / "made"))
    assert load("structure", path).get_potential_energy() == T[-1]
    assert [one.info["n"] for one in load("structures", path)] == N


def atoms_with(**changes: Any) -> Any:
    """Return atoms whose numbers take all digits."""
    atoms = frame(-1e5 / 3, 1)
    atoms.positions += numpy.random.default_rng(0).normal(size=(4, 3))
    atoms.calc.atoms = atoms.copy()
    atoms.calc.results |= {"forces": atoms.positions / 7, "stress": atoms.positions[0].repeat(2) / 3}
    for name, value in changes.items():
        getattr(atoms, name).update(value) if isinstance(value, dict) else getattr(atoms, name)(value)
    return atoms


INFO = {"id": "007", "no": None, "yes": True, "t": "T", "row": "1 2", "third": 1 / 3, "f4": numpy.float32(0.1), "empty": "",
        "far": "a\nb\\c \"d\"", "big": 2**62 + 1, "vector": numpy.array([0.1, 1 / 3]), "deep": {"a": [None, "1"]}}  # fmt: skip


def test_atoms_keep_all_digits_and_types(tmp_path: Path) -> None:
    atoms = atoms_with(info=INFO)
    atoms.set_array("who", numpy.array(["007", "T", "a", "b"]))
    atoms.set_array("w", numpy.array([0.1, 1e-30, 1 / 3, 2**0.5], "f4"))
    moved = atoms_with(set_constraint=FixAtoms([1, 3]))
    moved.positions[0, 0] += 1e-9
    path = save("structures", [atoms, moved], str(tmp_path / "made"))
    again, other = load("structures", path)
    for name in ("positions", "numbers", "who", "w"):
        assert (again.arrays[name] == atoms.arrays[name]).all()
    for name, value in atoms.calc.results.items():
        assert numpy.array_equal(again.calc.results[name], value), name
    for name, value in INFO.items():
        assert numpy.array_equal(again.info[name], value), name
        assert isinstance(again.info[name], str | None | bool) == isinstance(value, str | None | bool), name
    assert (other.positions == moved.positions).all()
    assert [*other.constraints[0].index] == [1, 3]
    assert other.calc is None, "the energy is that of other positions"


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"info": {"k": {1: 2}}}, r"info\['k'\]"),
        ({"info": {"": 1}}, "does not hold info"),
        ({"info": {"k": 1j}}, r"info\['k'\]"),
        ({"info": {"dipole": 1.0}}, r"info\['dipole'\]"),
        ({"arrays": {"k": numpy.zeros((4, 3, 3))}}, r"arrays\['k'\]"),
        ({"arrays": {"k": numpy.array(["a b", "", "c", "d"])}}, r"arrays\['k'\]"),
        ({"arrays": {"k": numpy.arange(4, dtype="u4")}}, r"arrays\['k'\]"),
        ({"arrays": {"k": numpy.array([2**40] * 4)}}, "a Atoms cannot be written"),
        ({"set_celldisp": [1, 0, 0]}, "the cell"),
        ({"set_constraint": FixBondLengths([[0, 1]])}, "the constraint FixBondLengths"),
    ],
)
def test_atoms_that_would_not_be_read_again_are_refused(
    tmp_path: Path, changes: dict[str, Any], name: str
) -> None:
    with pytest.raises(BadData, match=name):
        save("structure", atoms_with(**changes), str(tmp_path / "made"))


def test_a_result_that_the_format_does_not_know_is_refused_by_name(tmp_path: Path) -> None:
    atoms = atoms_with()
    atoms.calc.results["node_energy"] = numpy.ones(4)
    with pytest.raises(BadData, match=r"does not hold calc.results\['node_energy'\] of these atoms"):
        save("structure", atoms, str(tmp_path / "made"))


def test_an_array_and_a_variable_are_read_by_their_place(tmp_path: Path) -> None:
    path = str(make(tmp_path, "a.h5"))
    grid = load("array", path, "/grid")
    assert (grid.tolist(), grid.flags.writeable) == ([T, T], False)
    assert load("dataarray", str(make(tmp_path, "a.nc")), "/grid").shape == (2, 3)
    with pytest.raises(BadData, match="has several arrays: grid, table; name one: .*a.h5:/NAME"):
        load("array", path)


def test_a_file_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("text")
    with pytest.raises(BadData, match="a.parquet is no pandas frame"):
        load("frame", str(tmp_path / "a.parquet"))
    with pytest.raises(BadData, match="a DataFrame cannot be written"):
        save("frame", pandas.DataFrame({"t": [object()]}), str(tmp_path / "made"))
    assert kind_of(numpy.arange(2)) is None


LARGE = 2**53 + 1


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.csv", "id,v,n\n007,0.1234567890123456,1\n008,,\n",
         {"id": ("007", "008"), "v": (0.1234567890123456, None), "n": (1, None)}),
        ("a.csv", f"n,who,good\n{LARGE},NA,True\n2,,False\n",
         {"n": (LARGE, 2), "who": ("NA", None), "good": (True, False)}),
        ("a.csv", 'id,who,n,good,e\n,,,True,nan\n"","","","",nan\n"a,""","x\n",3,,nan\n',
         {"id": ("", "", 'a,"'), "who": (None, "", "x\n"), "n": (None, None, 3), "good": (True, None, None),
          "e": (None, None, None)}),
        ("a.tsv", '""\te\tq\n1\t\t""\n2\t\t\n', {"": (1, 2), "e": (None, None), "q": ("", None)}),
        ("a.csv", "v\n1.5\nnan\n", {"v": (1.5, None)}),
        ("a.csv", "c\n007\n\"\"\n", {"c": ("007", "")}),
        ("a.jsonl", f'{{"id": "007", "n": {LARGE}, "end_time": 5, "date": 2}}\n{{"id": "1", "end_time": 6, "date": 3}}',
         {"id": ("007", "1"), "n": (LARGE, None), "end_time": (5, 6), "date": (2, 3)}),
        ("a.json", f'[{{"b": true, "m": {LARGE}}}, {{"b": null, "m": 0.5}}]', {"b": (True, None), "m": (LARGE, 0.5)}),
    ],
)  # fmt: skip
def test_a_text_is_read_as_it_is_written(
    tmp_path: Path, name: str, text: str, expected: dict[str, tuple[Any, ...]]
) -> None:
    path = tmp_path / name
    path.write_text(text)
    found = load("frame", str(path), None, read_table(path, {"id": "str"}))
    assert {n: tuple(None if pandas.isna(one) else one for one in found[n]) for n in found} == expected


@pytest.mark.parametrize("text", ["a,b\n1,2,\n", "a,a\n1,2\n", "id,v\n1,x\n"])
def test_a_text_that_is_no_table_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(UsageError, match="a.csv:[12]: "):
        read_table(tmp_path / "a.csv", {"v": "float"})


def test_whole_numbers_that_lack_some_keep_their_digits(tmp_path: Path) -> None:
    save("arrow", pyarrow.table({"n": pyarrow.array([LARGE, None])}), str(tmp_path / "a"))
    filled = xarray.Variable("x", numpy.array([LARGE, -1]), {"_FillValue": numpy.int64(-1)})
    xarray.Dataset({"n": filled}).to_netcdf(tmp_path / "a.nc", engine="netcdf4")
    xarray.Dataset({"n": filled}).to_netcdf(tmp_path / "b.nc", engine="netcdf4", group="g")
    frames = [
        load("frame", str(tmp_path / "a.parquet")),
        load("frame", str(tmp_path / "a.nc")),
        load("frame", str(tmp_path / "b.nc"), "/g"),
        make_frame([{"n": LARGE}, {}]),
        make_frame([[LARGE], [None]], ["n"]),
        make_frame({"n": [LARGE, None]}),
    ]
    for column in (one["n"] for one in frames):
        assert (str(column.dtype), column[0], column[1] is pandas.NA) == ("Int64", LARGE, True)
    datasets = [
        load("dataset", str(tmp_path / "a.parquet")),
        load("dataset", "a.jsonl", None, [{"n": LARGE}, {}]),
    ]
    assert [one["n"].values[0] for one in datasets] == [LARGE] * 2
    with pytest.raises(BadData, match=r"n has gaps or a scale, and whole numbers beyond 2\^53"):
        load("dataset", str(tmp_path / "a.nc"))
    nested = {"l": pyarrow.array([[LARGE, None], []]), "s": pyarrow.array([{"x": LARGE}, {"x": None}])}
    save("arrow", pyarrow.table(nested), str(tmp_path / "n"))
    frame = load("frame", str(tmp_path / "n.parquet"))
    assert [frame["l"][0], frame["s"][0]] == [[LARGE, None], {"x": LARGE}]
    usual = make_frame([{"i": 1, "f": 1, "s": "a"}, {"i": 2, "f": 0.5}])
    assert [str(kind) for kind in usual.dtypes][:2] == ["int64", "float64"]


@pytest.mark.parametrize("other", ["sample-a", True, [1], None, 0.5])
def test_a_large_whole_number_stands_beside_anything(other: Any) -> None:
    frame = make_frame({"id": [other, 2**53 + 1]})
    assert frame["id"].tolist()[1] == 2**53 + 1
    assert make_frame([{"id": other}, {"id": 2**64}])["id"].tolist()[1] == 2**64


def test_what_no_table_can_hold_is_refused_with_its_column(tmp_path: Path) -> None:
    for numbers, told in (([1j], "column z with type complex128"), ([2**70], "too large")):
        with pytest.raises(BadData, match=f"a DataFrame cannot be written: .*{told}"):
            save("frame", pandas.DataFrame({"z": numbers}), str(tmp_path / "t"))
    path = tmp_path / "a.extxyz"
    path.write_text("1\nProperties=species:S:1:pos:R:3:v:R:3\nH 0 0 0 1 2 3\n")
    with pytest.raises(BadData, match=r"has shape .*, which is no column; annotate with .*list\[ase.Atoms\]"):
        load("frame", str(path))


def test_nan_stays_nan_in_every_table_and_null_stays_null(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("e\n9.5\nnan\n")
    (tmp_path / "gap.csv").write_text("e,n\n9.5,1\nnan,2\n,3\n")
    lines = '{"e": 9.5, "l": [1, NaN]}\n{"e": NaN, "l": []}\n'
    (tmp_path / "a.jsonl").write_text(lines)
    (tmp_path / "gap.jsonl").write_text(lines + '{"e": null}\n{}\n')
    numpy.savez(tmp_path / "a.npz", e=[9.5, numpy.nan])
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"e": [9.5, float("nan")]}), tmp_path / "a.parquet")
    parquet.write_table(pyarrow.table({"e": [9.5, float("nan"), None]}), tmp_path / "gap.parquet")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["e"] = numpy.array([9.5, numpy.nan], "f4")
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("n", 2)
        file.createVariable("e", "f8", ("n",))[:] = [9.5, numpy.nan]
    for path in sorted(tmp_path.iterdir()):
        text = read_table(path, None) if path.suffix in (".csv", ".jsonl") else None
        table = load("arrow", str(path), None, text)
        gaps = {"gap.csv": 1, "gap.jsonl": 2, "gap.parquet": 1}.get(path.name, 0)
        assert repr(table["e"].to_pylist()) == repr([9.5, float("nan"), *[None] * gaps]), path.name
        if path.suffix == ".jsonl":
            assert repr(table["l"].to_pylist()) == repr([[1.0, float("nan")], [], *[None] * gaps])
