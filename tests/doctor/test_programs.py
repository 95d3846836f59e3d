"""Programs that workflows start: what is told where one is there, is missing, or does not work."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.doctor import programs
from diel.doctor.programs import attempt, check_dot, check_lammps, last
from tests.doctor.conftest import Install


def test_a_program_is_tried_with_its_output_and_what_does_not_start_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert attempt(["sh", "-c", "echo out; echo err >&2; pwd; exit 3"], tmp_path) == (
        3,
        f"out\nerr\n{tmp_path}\n",
    )
    assert attempt(["/no/such/program"]) == (1, "No such file or directory")
    monkeypatch.setattr(programs, "PATIENCE", 0.05)
    assert attempt(["sleep", "60"]) == (1, "did not end within 0 s")


def test_the_last_words_are_the_last_line_that_says_something() -> None:
    assert last("one\n two  \n\n \n") == "two"
    assert last(" \n") == "no output"
    assert len(last("x" * 900)) == 200


def test_lammps_is_told_by_its_version(install: Install) -> None:
    assert (check_lammps().ok, check_lammps().found) == (False, "no 'lmp'")
    install("lmp", "echo; echo 'Large-scale Atomic/Molecular Massively Parallel Simulator - 2 Aug 2023'")
    found = check_lammps()
    assert (found.ok, found.required) == (True, False)
    assert found.found.endswith("2 Aug 2023")
    install("lmp", "echo 'lmp: no libmpi.so'; exit 127")
    assert check_lammps().found.endswith("/lmp: lmp: no libmpi.so")


def test_graphviz_is_told_by_its_version(install: Install) -> None:
    assert "apt-get install graphviz" in check_dot().fix
    install("dot", "echo 'dot - graphviz version 2.43.0' >&2")
    found = check_dot()
    assert (found.ok, found.found, found.fix) == (True, "dot - graphviz version 2.43.0", "")
