"""Tables: a broken contract is told with the row and the column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from diel.artifacts import collect_files
from diel.errors import ModuleError
from diel.spec import Output
from tests.artifacts.conftest import Hold


def broken(hold: Hold, *args: Any, **contract: Any) -> str:
    with pytest.raises(ModuleError) as error:
        hold(*args, **contract)
    return str(error.value)


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
        (TABLE + "3,nan,d\n", {"columns": {"temperature": "float"}, "finite": True}, "row 4 (line 5): temperature is nan; expected a finite number"),
        (TABLE + "3,-inf,d\n", {"finite": True}, "row 4 (line 5): temperature is -inf; expected a finite number"),
        (TABLE + "3\n", {"columns": {"temperature": "float"}}, "row 4 (line 5): it has 1 cells, and none for temperature"),
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
        ("a,b,c\n1,2,inf\n", "row 1 (line 2): c is inf; expected a finite number"),
        ("a,b\n1e400,2\n", "a is 1e400; expected a finite number"),
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
