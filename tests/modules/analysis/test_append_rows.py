"""A training set that grows."""

from __future__ import annotations

import pytest

from modules.analysis.append_rows import append_rows


def test_new_rows_come_after_the_old_ones() -> None:
    result = append_rows({"t": [1.0, 2.0], "m": [0.9, 0.1]}, {"m": [0.5], "t": [1.5]})
    assert result == {"columns": {"t": [1.0, 2.0, 1.5], "m": [0.9, 0.1, 0.5]}, "count": 3}


def test_other_columns_and_columns_of_other_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="the columns t; the new rows have h"):
        append_rows({"t": [1.0]}, {"h": [1.0]})
    with pytest.raises(ValueError, match="differ in length"):
        append_rows({"t": [1.0], "m": [1.0]}, {"t": [1.0], "m": []})
