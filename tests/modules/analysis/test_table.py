"""A table on the standard output."""

from __future__ import annotations

import pytest

from modules.analysis.table import table


def test_columns_stand_side_by_side_sorted(capsys: pytest.CaptureFixture[str]) -> None:
    result = table(sort="error", width=[4, 16], error=[0.123456, 0.01], name=["small", "large"])
    assert result["count"] == 2
    assert result["rows"][0] == {"width": 16, "error": 0.01, "name": "large"}
    assert capsys.readouterr().out.splitlines() == [
        "width   error   name",
        "   16    0.01  large",
        "    4  0.1235  small",
    ]


def test_without_a_column_to_sort_by_rows_stay_as_they_came() -> None:
    assert [row["x"] for row in table(x=[3, 1, 2])["rows"]] == [3, 1, 2]


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        table(x=[1], y=[1, 2])
    with pytest.raises(ValueError, match="no column 'z' to sort by; the columns are x"):
        table(sort="z", x=[1])
    with pytest.raises(ValueError, match="expected columns"):
        table()
