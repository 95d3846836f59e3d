"""Values out of what a command wrote: as programs of this field write them, and what is refused."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from diel.base.errors import ModuleError
from diel.store.artifacts.promise import check_table
from diel.worker.attempt import extraction
from diel.worker.attempt.extraction import extract
from diel.workflow.models import Output
from diel.workflow.models.forms.rows import read_points
from diel.workflow.models.model import plain

SCF = """     total energy              =     -15.10 Ry
!    total energy              =     -15.84 Ry
     convergence has been achieved
!    total energy              =     -15.85 Ry
"""
TABLE = "# run of today\n# step  energy\n1  2.5\n\n2  3.5D+00\n# a remark\n3  -4.5\n"


def take(
    folder: Path, text: str, *, file: str = "x.out", own: dict[str, Any] | None = None, **how: Any
) -> Any:
    """What an output takes out of a file with this text."""
    (folder / file).write_text(text)
    output = Output.model_validate({"value": "float", "file": file, **how})
    return extract({"e": plain(output)}, {"e": output.file or ""}, str(folder), own or {})["e"]


@pytest.mark.parametrize(
    ("how", "value"),
    [
        ({"match": r"!\s+total energy\s+=\s+(\S+)"}, -15.85),
        ({"match": r"!\s+total energy\s+=\s+(\S+)", "pick": "first"}, -15.84),
        ({"match": r"!\s+total energy\s+=\s+(\S+)", "pick": "all"}, [-15.84, -15.85]),
        ({"match": r"(!?) +total.*= +(?P<ry>\S+)", "pick": "first"}, -15.10),
        ({"match": r"^     \w+ energy", "value": "str", "pick": "first"}, "     total energy"),
        ({"match": r"achieved\n!\s+total energy += +(\S+)"}, -15.85),
        ({"match": "convergence has been achieved", "value": "bool"}, True),
        ({"match": "not achieved", "value": "bool"}, False),
    ],
)
def test_a_pattern_is_searched_in_each_line(tmp_path: Path, how: dict[str, Any], value: object) -> None:
    assert take(tmp_path, SCF, **how) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.0D-03", 1e-3),
        ("-.5", -0.5),
        ("5.", 5.0),
        ("0.1-102", 1e-103),
        ("-.5+101", -5e100),
        ("10e-2", 0.1),
        ("+1d+2", 100.0),
        ("-Infinity", -1e999),
    ],
)
def test_numbers_are_read_as_fortran_and_c_write_them(tmp_path: Path, text: str, value: float) -> None:
    assert take(tmp_path, f"E = {text}\n", match=r"E = (\S+)") == value


@pytest.mark.parametrize(
    ("how", "value"),
    [
        ({"column": "energy"}, -4.5),
        ({"column": 2, "pick": "all"}, [2.5, 3.5, -4.5]),
        ({"column": "step", "value": "int", "pick": "first"}, 1),
    ],
)
def test_a_column_is_named_in_a_comment_or_counted(
    tmp_path: Path, how: dict[str, Any], value: object
) -> None:
    assert take(tmp_path, TABLE, **how) == value


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_a_column_of_csv_may_hold_blanks_and_quotes(tmp_path: Path, mark: str) -> None:
    table = f'name{mark}e\n"a{mark} b"{mark} 1.5\n"c"{mark}2.5\n'
    assert take(tmp_path, table, file="x.csv", column="e", pick="all") == [1.5, 2.5]
    assert take(tmp_path, table, file="x.csv", column=2, pick="all") == [1.5, 2.5]
    assert take(tmp_path, table, file="x.csv", column="name", value="str", pick="first") == f"a{mark} b"


@pytest.mark.parametrize(
    "table", ["a;b;c\n1;2,5;x\n3;4,5;y\n", "1;2,5;x\n3;4,5;y\n", "# a,b,c\n1;2,5;x\n3;4,5;y\n"]
)
def test_a_comma_within_numbers_divides_nothing_where_semicolons_do(tmp_path: Path, table: str) -> None:
    column = "b" if "a" in table else 2
    name = "x.dat" if table.startswith("#") else "x.csv"
    assert take(tmp_path, table, file=name, column=column, value="str", pick="all") == ["2,5", "4,5"]


def test_a_csv_file_is_read_as_contracts_and_axes_read_it(tmp_path: Path) -> None:
    table = 'name,e\n#1,1\n" a ",2\n'
    names = take(tmp_path, table, file="x.csv", column="name", value="str", pick="all")
    assert names == ["#1", " a "] == list(read_points(tmp_path / "x.csv", "p", None).columns[0])
    assert take(tmp_path, table, file="x.csv", column="e", pick="all") == [1, 2]
    check_table(str(tmp_path / "x.csv"), Output.model_validate({"path": "x.csv", "rows": 2}))
    assert take(tmp_path, table, file="x.dat", column="e", pick="all") == [2]
    (tmp_path / "X.TSV").write_text("\na\tb\n7\t 8\n")
    assert read_points(tmp_path / "X.TSV", "p", None, types={"b": "int"}).columns == ([7], [8])


def test_a_key_leads_into_json_and_through_its_lines(tmp_path: Path) -> None:
    text = json.dumps({"a": {"b": [{"e": 1}, {"e": 2.5}]}})
    assert take(tmp_path, text, file="x.json", key="a.b[-1].e") == 2.5
    assert take(tmp_path, text, file="x.json", key="a.b.0", value="dict") == {"e": 1}
    odd = '{"x.y [eV]": {"it\\u0027s": [7]}}'
    assert take(tmp_path, odd, file="x.json", key="""["x.y [eV]"]["it's"][0]""") == 7
    lines = '{"loss": 1.5}\n\n{"note": "x"}\n{"loss": 0.5}\n'
    assert take(tmp_path, lines, file="x.jsonl", key="loss", pick="all") == [1.5, 0.5]
    assert take(tmp_path, '{"loss": 1.5}\n\n{"loss": 0.5}\n', file="x.jsonl", column="loss") == 0.5


@pytest.mark.parametrize(
    ("text", "how", "told"),
    [
        (
            "E = ******\n",
            {"match": "E = (.*)"},
            "x.out, line 1: ******; the number did not fit into the width",
        ),
        ("\nE = 1.5 Ry\n", {"match": "E = (.*)"}, "x.out, line 2: '1.5 Ry'; expected a number"),
        ("n = 1.5\n", {"match": "n = (.*)", "value": "int"}, "line 1: '1.5'; expected a whole number"),
        ("2024-01\n", {"match": ".+"}, "'2024-01'; expected a number"),
        ("", {"match": "E"}, "nothing in x.out matches 'E'; it is empty"),
        ("a\nb\n", {"match": "E = "}, "nothing in x.out matches 'E = '\n    it ends with:\n      a\n      b"),
        (
            "\x1b[1mx",
            {"match": r"!\s'+"},
            r"nothing in x.out matches '!\s''+'" + "\n    it ends with:\n      \ufffd[1mx",
        ),
        ("atoms 10-200\n", {"match": r"atoms (\S+)"}, "'10-200'; expected a number"),
        ("a\n", {"match": "E = ", "pick": "all"}, "nothing in x.out matches"),
        ("step e\n1 2\n", {"column": "f"}, "x.out has no column 'f'; it has: step, e"),
        ("step e\n1 2\n3\n", {"column": "e"}, "line 3: it has 1 cells, and none for column 2"),
        ("step e\n", {"column": "e"}, "x.out has no rows"),
        ("step e\n1 2\n3\n", {"column": "step"}, "line 3: it has 1 cells, and those before it 2"),
        ("a,b,c\n1,2,3\n4,5\n", {"column": "a"}, "line 3: it has 2 cells, and those before it 3"),
        ("a,b\n1,2\n3,4,5\n", {"column": "a"}, "line 3: it has 3 cells, and those before it 2"),
        ("1,2\n3\n", {"column": 1}, "line 2: it has 1 cells, and those before it 2"),
        ("name e\na 1\nmy own 2\n", {"column": "e"}, "line 3: it has 3 cells, and those before it 2"),
        (
            "e,e\n1,2\n",
            {"column": "e"},
            "x.out has two columns 'e'; write the number of the one that is meant",
        ),
        ("e\n1e400\n", {"column": "e"}, "line 2: a number beyond 1.8e308"),
        ("e\n1e-400\n", {"column": "e"}, "line 2: a number below 4.9e-324"),
        ("E = -1.5D-400\n", {"match": "E = (.*)"}, "line 1: a number below 4.9e-324"),
        ('{"e": 1e-400}', {"key": "e"}, "holds no JSON: a number below 4.9e-324"),
        ("E = -1.5D+400\n", {"match": "E = (.*)"}, "line 1: a number beyond 1.8e308"),
        ('{"e": 1e400}', {"key": "e"}, "holds no JSON: a number beyond 1.8e308"),
        ('{"e": 1, "e": 2}', {"key": "e"}, 'holds no JSON: the key "e" is there twice'),
        ('{"a": {"b": 1}}', {"key": "a.c"}, "x.out has no a.c: 'c' is asked of an object with b"),
        (
            '{"e": 1}\n{"e": 1, "e": 2}\n',
            {"key": "e", "file": "x.jsonl"},
            'line 2 holds no JSON: the key "e" is there',
        ),
        (
            '{"e": 1}\n{"f": 2}\n',
            {"column": "e", "pick": "all", "file": "x.jsonl"},
            "x.jsonl, line 2: no 'e': 'e' is asked of an object with f",
        ),
        ('{"e": null}', {"column": "e", "file": "x.jsonl"}, "line 1: None; expected a number"),
        ("# step,e\n1,2\n", {"column": "step", "file": "x.csv"}, "no column 'step'; it has: # step, e"),
        ('{"a": "1"}', {"key": "a", "value": "dict"}, "x.out: '1'; expected dict"),
        ('{"a": "007"}', {"key": "a", "value": "int"}, "x.out: '007'; expected a whole number"),
        ('{"a": "nan"}', {"key": "a"}, "x.out: 'nan'; expected a number"),
        ('{"a": "true"}', {"key": "a", "value": "bool"}, "x.out: 'true'; expected true or false"),
        ('{"a": "1"}', {"column": "a", "file": "x.jsonl"}, "x.jsonl, line 1: '1'; expected a number"),
        ("{", {"key": "a"}, "x.out holds no JSON"),
    ],
)
def test_what_is_not_found_or_no_number_is_told_with_its_line(
    tmp_path: Path, text: str, how: dict[str, Any], told: str
) -> None:
    with pytest.raises(ModuleError) as raised:
        take(tmp_path, text, **how)
    assert str(raised.value).startswith("output 'e': ")
    assert told in str(raised.value)


def test_files_of_a_pattern_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    for number in (2, 1):
        (tmp_path / f"run{number}.out").write_text(f"E = {number}\n")
    output = plain(
        Output.model_validate({"value": "int", "file": "run*.out", "match": "E = (.)", "pick": "all"})
    )
    assert extract({"e": output}, {"e": "run*.out"}, str(tmp_path), {}) == {"e": [1, 2]}
    with pytest.raises(ModuleError, match=r"no file 'walk\*'; the task wrote run1.out, run2.out"):
        extract({"e": output}, {"e": "walk*"}, str(tmp_path), {})


def test_a_name_that_could_be_a_pattern_is_one_file_and_so_is_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "ru[ns] *"
    folder.mkdir()
    assert take(folder, "E=1\n", file="Al[fcc].out", match=r"E=(\d)") == 1
    assert take(folder, "E=2\n", file="Al?.out", match=r"E=(\d)") == 2
    (folder / "Al?.out").rename(folder / "Alx.out")
    (folder / "Al.out").mkdir()
    os.mkfifo(folder / "Al-.out")
    with pytest.raises(ModuleError, match=r"no ordinary file 'Al-\.out'"):
        extract(
            {"e": plain(Output.model_validate({"value": "int", "file": "Al-.out", "match": "E"}))},
            {"e": "Al-.out"},
            str(folder),
            {},
        )
    output = plain(
        Output.model_validate({"value": "int", "file": "Al*.out", "match": r"E=(\d)", "pick": "all"})
    )
    assert extract({"e": output}, {"e": "Al*.out"}, str(folder), {}) == {"e": [1, 2]}


def test_a_value_that_the_command_wrote_itself_is_not_found_as_well(tmp_path: Path) -> None:
    with pytest.raises(ModuleError, match="wrote the value 'e' to DIEL_RESULT, and its `match` finds it too"):
        take(tmp_path, "E\n", match="E", own={"e": 1.0})


def test_a_pattern_that_would_never_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extraction, "PATIENCE", 0.05)
    began = time.process_time()
    with pytest.raises(ModuleError, match=r"takes more than 0.05 s; do not nest"):
        take(tmp_path, "a" * 60 + "\n", match="(?:a+)+b")
    assert time.process_time() - began < 5


def test_a_line_that_never_ends_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extraction, "_BLOCK", 64)
    assert take(tmp_path, "x" * 1000 + " E=7 " + "y" * 1000, match=r"E=(\d)") == 7
