"""Contracts: a broken promise is told with what was found, where it was found."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy
import pytest

from diel.base.errors import ModuleError
from diel.store.artifacts import check_values, collect_files, collect_returned
from diel.workflow.models import Output
from tests.artifacts.conftest import Hold


def broken(hold: Hold, *args: Any, **contract: Any) -> str:
    with pytest.raises(ModuleError) as error:
        hold(*args, **contract)
    return str(error.value)


# --- arrays -------------------------------------------------------------------------------------

GOOD = numpy.arange(12, dtype=numpy.float32).reshape(4, 3)
ODD = GOOD.copy()
ODD[2, 1] = math.nan


@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_that_keeps_its_contract_is_taken(hold: Hold, order: Any) -> None:
    hold("x.npy", numpy.array(GOOD, order=order), dtype="float32", shape=["*", 3], rows=">=4", finite=True)
    hold("y.npy", numpy.array(["a", "é"]), dtype="str", shape=["n"])
    hold("z.npy", numpy.zeros((0, 3)), dtype="float64", shape=["*", 3], finite=True)
    hold("b.npy", GOOD.astype(">f4"), dtype="float32")


ARRAYS = [
    ({"dtype": "float64"}, "is float32; expected float64"),
    ({"shape": ["*", 4]}, "has shape [4, 3]; expected [*, 4]"),
    ({"shape": ["*"]}, "has shape [4, 3]; expected [*]"),
    ({"shape": ["n", "n"]}, "has shape [4, 3], so n is 3; it is 4 too"),
    ({"rows": ">4"}, "has 4 rows (shape [4, 3]); expected >4"),
]


@pytest.mark.parametrize(("contract", "message"), ARRAYS)
def test_an_array_on_the_disk_that_breaks_its_contract_is_told(
    hold: Hold, contract: dict[str, Any], message: str
) -> None:
    assert f"output 'out': x.npy {message}" in broken(hold, "x.npy", GOOD, **contract)


@pytest.mark.parametrize(("contract", "message"), ARRAYS)
def test_an_array_in_memory_that_breaks_its_contract_is_not_even_written(
    task_dir: Path, contract: dict[str, Any], message: str
) -> None:
    promises = {"x": Output.model_validate(contract)}
    with pytest.raises(ModuleError) as error:
        collect_returned({"x": GOOD}, task_dir, task_dir.parents[2], promises)
    assert f"output 'x': the array {message}" in str(error.value)
    assert not list(task_dir.iterdir())


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("step", [1, 2])
def test_the_first_number_that_is_not_finite_is_told_with_its_place(
    hold: Hold, task_dir: Path, order: Any, step: int
) -> None:
    array = numpy.array(ODD, order=order)
    assert "x.npy[2, 1] is nan; expected a finite number" in broken(hold, "x.npy", array, finite=True)
    with pytest.raises(ModuleError, match=rf"output 'x': x\[{2 // step}, 1\] is nan"):
        collect_returned({"x": array[::step]}, task_dir, task_dir.parents[2], {"x": Output(finite=True)})


def test_a_place_far_into_a_large_array_is_right(task_dir: Path) -> None:
    array = numpy.zeros((3, 1000, 1000), dtype=numpy.float32)
    array[2, 345, 678] = math.inf
    with pytest.raises(ModuleError, match=r"x\[2, 345, 678\] is inf"):
        collect_returned({"x": array}, task_dir, task_dir.parents[2], {"x": Output(finite=True)})


def test_an_array_file_that_was_cut_short_is_told(hold: Hold, task_dir: Path) -> None:
    hold("x.npy", GOOD)
    whole = (task_dir / "x.npy").read_bytes()
    (task_dir / "x.npy").write_bytes(whole[:-8])
    promise = Output(path="x.npy", dtype="float32")
    with pytest.raises(ModuleError, match="x.npy is cut short: 168 bytes of 176"):
        collect_files({"out": "x.npy"}, task_dir, task_dir.parents[2], {"out": promise})


def test_text_that_claims_to_be_an_array_is_told(hold: Hold) -> None:
    assert "x.npy holds no array" in broken(hold, "x.npy", "1 2 3", dtype="float32")


def test_a_named_size_is_the_same_in_all_outputs(task_dir: Path) -> None:
    promises = {"a": Output(shape=("n", 3)), "b": Output(shape=("n",))}
    run_dir = task_dir.parents[2]
    collect_returned({"a": GOOD, "b": numpy.zeros(4)}, task_dir, run_dir, promises)
    with pytest.raises(ModuleError, match=r"'b': the array has shape \[5\], so n is 5; it is 4 of 'a'"):
        collect_returned({"a": GOOD, "b": numpy.zeros(5)}, task_dir, run_dir, promises)


# --- JSON, values, directories ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"energy": 1.0}, "has no key 'steps'; it has: energy"),
        ({"energy": "low", "steps": 3}, "energy is 'low'; expected float"),
        ({"energy": 1, "steps": 3.5}, "steps is 3.5; expected int"),
        ({"energy": math.nan, "steps": 3}, "energy is nan; expected a finite number"),
        ([1], "is [1]; expected a JSON object"),
    ],
)
def test_json_that_breaks_its_contract_is_told(
    hold: Hold, task_dir: Path, content: Any, message: str
) -> None:
    contract: dict[str, Any] = {"json": {"energy": "float", "steps": "int"}, "finite": True}
    hold("good.json", '{"energy": 1, "steps": 3, "more": [1.5]}', **contract)
    assert message in broken(hold, "a.json", json.dumps(content), **contract)
    value = Output.model_validate({"value": "dict", **contract})
    with pytest.raises(ModuleError) as error:
        check_values({"a": content}, {"a": value})
    assert message.removeprefix("has ") in str(error.value)


def test_a_value_that_is_not_finite_is_told(task_dir: Path) -> None:
    promises = {"loss": Output(finite=True)}
    collect_returned({"loss": 0.5}, task_dir, task_dir.parents[2], promises)
    with pytest.raises(ModuleError, match="output 'loss': the value is nan; expected a finite number"):
        collect_returned({"loss": math.nan}, task_dir, task_dir.parents[2], promises)


def test_what_is_of_another_kind_than_promised_is_told(task_dir: Path) -> None:
    promises = {"x": Output(dtype="float32")}
    run_dir = task_dir.parents[2]
    with pytest.raises(ModuleError, match="output 'x': 3 is a value; expected an array"):
        collect_returned({"x": 3}, task_dir, run_dir, promises)
    with pytest.raises(ModuleError, match="returned no 'x', which it promises; it returned: y"):
        collect_returned({"y": 3}, task_dir, run_dir, promises)
    with pytest.raises(ModuleError, match="output 'x': the array is an array; expected a table"):
        collect_returned({"x": GOOD}, task_dir, run_dir, {"x": Output(columns={"a": "float"})})


def test_the_files_of_a_directory_and_of_a_pattern_are_counted(task_dir: Path) -> None:
    (task_dir / "frames" / "late").mkdir(parents=True)
    for name in ("b.xyz", "a.xyz", "late/c.xyz", ".hidden"):
        (task_dir / "frames" / name).write_text(name)
    run_dir = task_dir.parents[2]

    def collect(pattern: str, **promise: Any) -> dict[str, Any]:
        output = Output.model_validate(promise)
        return collect_files({"out": pattern}, task_dir, run_dir, {"out": output})["out"]

    assert collect("frames", path="frames", files=">=4")["size"] == len("b.xyza.xyzlate/c.xyz.hidden")
    found = collect("frames/**/*.xyz", glob="frames/**/*.xyz", files=3)
    assert [Path(file["path"]).name for file in found["files"]] == ["a.xyz", "b.xyz", "c.xyz"]
    with pytest.raises(ModuleError, match="frames has 4 files; expected >4"):
        collect("frames", path="frames", files=">4")
    with pytest.raises(ModuleError, match=r"frames/\*.xyz has 2 files; expected 3"):
        collect("frames/*.xyz", glob="frames/*.xyz", files=3)
    with pytest.raises(ModuleError, match=r"no file matches '\*.pdb'; the task wrote frames"):
        collect("*.pdb", glob="*.pdb")
    assert collect("*.pdb", glob="*.pdb", files=">=0")["files"] == []


def test_a_pattern_goes_through_no_links_to_directories_on_its_own(task_dir: Path) -> None:
    (task_dir / "run [1]" / "deep").mkdir(parents=True)
    for name in ("top.xyz", "run [1]/a.xyz", "run [1]/deep/b.xyz"):
        (task_dir / name).write_text(name)
    for link in ("latest", "run [1]/again", "run [1]/deep/more"):
        (task_dir / link).symlink_to(task_dir)
    promise = Output.model_validate({"glob": "**/*.xyz"})

    def found(pattern: str) -> list[str]:
        made = collect_files({"out": pattern}, task_dir, task_dir.parents[2], {"out": promise})
        return [file["path"].removeprefix("tasks/s/0/") for file in made["out"]["files"]]

    assert found("**/*.xyz") == found("**") == ["run [1]/a.xyz", "run [1]/deep/b.xyz", "top.xyz"]
    assert found("run*/**/deep/*") == ["run [1]/deep/b.xyz"]
    assert found("latest/*.xyz") == ["latest/top.xyz"]


def test_a_directory_is_read_with_whatever_is_in_it(task_dir: Path) -> None:
    folder = task_dir / "d"
    folder.mkdir()
    (folder / "file").write_text("x")
    (folder / "self").symlink_to(folder)
    (folder / "loop").symlink_to("loop")
    (folder / "gone").symlink_to("nowhere")
    os.mkfifo(folder / "pipe")
    promise = Output.model_validate({"path": "d", "files": 1})
    made = collect_files({"out": "d"}, task_dir, task_dir.parents[2], {"out": promise})
    assert made["out"]["size"] == 1


def test_what_a_task_made_unreadable_is_its_own_failure(task_dir: Path) -> None:
    deep = task_dir / "d"
    deep.mkdir()
    here = os.open(deep, os.O_RDONLY)
    for _ in range(25):
        os.mkdir("n" * 200, dir_fd=here)
        inner = os.open("n" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    with pytest.raises(ModuleError, match="output 'out': d cannot be read: File name too long"):
        collect_files({"out": "d"}, task_dir, task_dir.parents[2])


# --- hostile files --------------------------------------------------------------------------------


def npy(text: str, data: bytes = bytes(48)) -> bytes:
    """A `.npy` file with a header of its own."""
    head = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + data


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (True, 3)}"), "shape is not valid: (True, 3)"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-4, 3)}"), "shape is not valid: (-4, 3)"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': ("), "holds no array"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (" + "9" * 20 + ", 3)}"), "is cut short"),
        (npy("{'descr': '|O', 'fortran_order': False, 'shape': (4,)}"), "holds pickled Python objects"),
        (b"\x93NUMPY\x09\x09" + bytes(100), "version 9.9 of the format is unknown"),
        (b"", "holds no array: EOF"),
    ],
)  # fmt: skip
def test_a_file_that_only_looks_like_an_array_is_told(task_dir: Path, content: bytes, message: str) -> None:
    (task_dir / "x.npy").write_bytes(content)
    promise = Output.model_validate({"path": "x.npy", "shape": ["*", 3], "finite": True})
    with pytest.raises(ModuleError) as error:
        collect_files({"out": "x.npy"}, task_dir, task_dir.parents[2], {"out": promise})
    assert str(error.value).startswith("output 'out': x.npy ")
    assert message in str(error.value)


def test_numbers_in_fields_and_without_dimensions_are_looked_at(hold: Hold, task_dir: Path) -> None:
    fields = numpy.zeros(5, dtype=[("a", "f4"), ("n", "i4"), ("v", "f8", (2,))])
    hold("x.npy", fields, finite=True)
    fields["v"][3, 1] = math.inf
    assert "x.npy[3, 1] is inf" in broken(hold, "x.npy", fields, finite=True)
    with pytest.raises(ModuleError, match=r"x\[3, 1\] is inf"):
        collect_returned({"x": fields}, task_dir, task_dir.parents[2], {"x": Output(finite=True)})
    assert "x.npy is nan; expected" in broken(hold, "x.npy", numpy.array(math.nan), finite=True)


@pytest.mark.parametrize("text", ["[" * 900 + "]" * 900, '{"a":' * 450 + "NaN" + "}" * 450])
def test_json_deeper_than_python_goes_is_told(hold: Hold, text: str) -> None:
    assert "expected" in broken(hold, "j.json", text, json={"a": "float"}, finite=True)
    assert "expected" in broken(hold, "j.jsonl", f'{{"a": {text}}}\n', columns={"a": "float"}, finite=True)
    if "NaN" in text:
        assert "is nan" in broken(hold, "j.json", text, finite=True)


# --- tables -------------------------------------------------------------------------------------

TABLE = "step,temperature,label\n0,1.5,a\n1,2,b\n2,2.5,c\n"


@pytest.mark.parametrize(
    "contract",
    [
        {"columns": {"step": "int", "temperature": "float"}, "rows": ">=3", "finite": True},
        {"columns": {"label": "str"}, "rows": 3},
        {"rows": "<4"},
        {"finite": True},
    ],
)
def test_a_table_that_keeps_its_contract_is_taken(hold: Hold, contract: dict[str, Any]) -> None:
    hold("t.csv", TABLE, **contract)
    hold("t.tsv", TABLE.replace(",", "\t"), **contract)
    hold("bom.csv", "\ufeff" + TABLE, **contract)


@pytest.mark.parametrize(
    ("content", "contract", "message"),
    [
        (TABLE, {"columns": {"pressure": "float"}}, "t.csv has no column 'pressure'; it has: step, temperature, label"),
        (TABLE, {"columns": {"label": "float"}}, "t.csv, row 1 (line 2): label is 'a'; expected float"),
        (TABLE, {"columns": {"temperature": "int"}}, "row 1 (line 2): temperature is '1.5'; expected int"),
        (TABLE, {"columns": {"step": "bool"}}, "row 3 (line 4): step is '2'; expected bool"),
        (TABLE, {"rows": ">=100"}, "t.csv has 3 rows; expected >=100"),
        (TABLE + "3,nan,d\n", {"columns": {"temperature": "float"}, "finite": True}, "row 4 (line 5): temperature is 'nan'; expected a finite number"),
        (TABLE + "3,-inf,d\n", {"finite": True}, "row 4 (line 5): temperature is '-inf'; expected a finite number"),
        (TABLE + "3\n", {"columns": {"temperature": "float"}}, "row 4 (line 5): it has 1 cells, and the header 3"),
        (TABLE + "3,,d\n", {"columns": {"temperature": "float"}}, "row 4 (line 5): temperature is ''; expected float"),
        (TABLE + "1_0,1.0,d\n", {"columns": {"step": "int"}}, "row 4 (line 5): step is '1_0'; expected int"),
        (TABLE + "3,1_0.5,d\n", {"columns": {"temperature": "float"}}, "temperature is '1_0.5'; expected float"),
        ('a,b\n"x\ny",1\n"z",?\n', {"columns": {"b": "int"}}, "row 2 (line 4): b is '?'"),
        ("", {"rows": 0}, "t.csv is empty; expected a header"),
    ],
)  # fmt: skip
def test_a_csv_that_breaks_its_contract_is_told_with_row_and_column(
    hold: Hold, content: str, contract: dict[str, Any], message: str
) -> None:
    said = broken(hold, "t.csv", content, **contract)
    assert said.startswith("output 'out': t.csv")
    assert message in said


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"t": 1.5}\n{"u": 2}\n', "t.jsonl, line 2: no 't'; it has: u"),
        ('{"t": 1.5}\n\n{"t": "x"}\n', "t.jsonl, line 3: t is 'x'; expected float"),
        ('{"t": true}\n', "line 1: t is True; expected float"),
        ('{"t": NaN}\n', "line 1: t is nan; expected a finite number"),
        ('{"t": 1, "more": [1, {"deep": Infinity}]}\n', "line 1: more[1].deep is inf"),
        ("[1]\n", "line 1: list; expected a JSON object"),
        ("{\n", "line 1: no JSON"),
    ],
)
def test_json_lines_that_break_their_contract_are_told_with_the_line(
    hold: Hold, content: str, message: str
) -> None:
    assert message in broken(hold, "t.jsonl", content, columns={"t": "float"}, finite=True)


def test_a_binary_file_is_no_table(hold: Hold, task_dir: Path) -> None:
    (task_dir / "t.csv").write_bytes(b"\xff\xfe\x00")
    promise = Output(path="t.csv", rows=">0")
    with pytest.raises(ModuleError, match="t.csv cannot be read as a table"):
        collect_files({"out": "t.csv"}, task_dir, task_dir.parents[2], {"out": promise})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b,a\n1,2,3\n", "t.csv has 2 columns 'a'; it has: a, b, a"),
        ("a,b\n1,2\n3,4,5\n", "row 2 (line 3): it has 3 cells, and the header 2"),
        ("a,b,c\n1,2,inf\n", "row 1 (line 2): c is 'inf'; expected a finite number"),
        ("a,b\n1e400,2\n", "a is '1e400'; expected a finite number"),
        ("a,b\n1e-400,2\n", "a is '1e-400'; expected a finite number"),
        ("a,b\n1," + "9" * 5000 + "\n", "b is '99999"),
        (",".join(f"c{number}" for number in range(5000)) + "\n", "no column 'a'; it has: c0, c1"),
    ],
)
def test_a_table_that_would_be_misread_is_told_in_a_few_words(hold: Hold, content: str, message: str) -> None:
    said = broken(hold, "t.csv", content, columns={"a": "float", "b": "int"}, finite=True)
    assert message in said
    assert len(said) < 300


def test_a_suffix_counts_in_whatever_letters(hold: Hold) -> None:
    hold("T.TSV", TABLE.replace(",", "\t"), columns={"temperature": "float"})
    hold("T.JSONL", '{"t": 1}\n', columns={"t": "float"})
