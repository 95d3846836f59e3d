"""Whether a scheduler's commands are here."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.scheduler.installed import lacking


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def have(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)


def test_what_is_not_on_the_path_is_named(programs: Path) -> None:
    have(programs, "squeue", "scancel")
    assert lacking("slurm") == ("sbatch",)
    have(programs, "sbatch")
    assert lacking("slurm") == ()


def test_the_commands_of_slurm_in_the_style_of_torque_are_no_pbs(programs: Path) -> None:
    have(programs, "qsub", "qstat", "qdel")
    assert lacking("torque") == ()
    assert lacking("pbs") == ("qselect",)


def test_a_site_without_a_scheduler_needs_none(programs: Path) -> None:
    assert lacking("local") == ()
