"""Scaling: the laws of Amdahl and Gustafson are found in times that follow them."""

from __future__ import annotations

import csv
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from modules.analysis.scaling import amdahl, gustafson, scaling

RANKS = [1.0, 2.0, 4.0, 8.0, 64.0]


@pytest.mark.parametrize("serial", [0.0, 0.05, 0.5, 1.0])
def test_the_serial_fraction_of_times_that_follow_a_law_is_found(serial: float) -> None:
    strong = [1 / (serial + (1 - serial) / n) for n in RANKS]
    weak = [n + (1 - n) * serial for n in RANKS]
    assert amdahl(RANKS, strong) == pytest.approx(serial, abs=1e-12)
    assert gustafson(RANKS, weak) == pytest.approx(serial, abs=1e-12)


def test_what_scales_better_than_any_law_has_no_serial_part() -> None:
    assert amdahl([1, 2], [1, 2.5]) == 0
    assert gustafson([1], [1]) == 0


def test_the_table_has_a_row_for_each_measurement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    context: Any = SimpleNamespace(task_dir=tmp_path)
    # the second size first, and the ranks in no order: points come in the order of the axes
    result = scaling(context, [64, 64, 32, 32], [4, 2, 2, 4], [5.0, 8.0, 4.0, 2.0], [8.0, 8.0, 4.0, 5.0])
    assert result["amdahl"] == pytest.approx([0.0, 0.25])
    assert result["gustafson"] == pytest.approx([0.4, 0.0])
    with open(result["table"], encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["kind"], row["size"], row["ranks"]) for row in rows[:4]] == [
        ("strong", "32", "2"),
        ("strong", "32", "4"),
        ("weak", "32", "2"),
        ("weak", "32", "4"),
    ]
    assert [float(row["efficiency"]) for row in rows] == pytest.approx([1, 1, 1, 0.8, 1, 0.8, 1, 1])
    assert "Amdahl 0.0%, 25.0%" in capsys.readouterr().out


def test_lists_of_different_lengths_are_refused(tmp_path: Path) -> None:
    context: Any = SimpleNamespace(task_dir=tmp_path)
    with pytest.raises(ValueError, match="expected lists of 1 values; found 2, 1 and 1"):
        scaling(context, [8], [1, 2], [1.0], [1.0])
