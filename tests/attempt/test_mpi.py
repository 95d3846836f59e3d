"""Which MPI a launcher is of, and which a program: as their own words tell it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from diel.attempt.mpi import MPICH, OPEN_MPI, launcher_of, library_of, starter_of

SAYS = {
    "Intel(R) MPI Library for Linux* OS, Version 2021.19 Build 2026": (MPICH, "Intel MPI 2021.19"),
    "HYDRA build details:\n    Version:      5.0.2": (MPICH, "MPICH 5.0.2"),
    "mpirun (Open MPI) 4.1.6\n\nReport bugs": (OPEN_MPI, "Open MPI 4.1.6"),
    "mpiexec.openmpi (OpenRTE) 4.1.4": (OPEN_MPI, "Open MPI 4.1.4"),
    "mpiexec version 1.2.11": (None, ""),
}


def program(path: Path, says: str) -> Path:
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{says}\nEND\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("says", SAYS)
def test_a_launcher_is_known_by_what_it_says_of_its_version(tmp_path: Path, says: str) -> None:
    family, told = SAYS[says]
    found = launcher_of([str(program(tmp_path / "mpiexec", says)), "-n", "2"], os.environ)
    assert found.family == family
    assert told in found.text
    assert found.fits(MPICH) is (None if family is None else family == MPICH)


@pytest.mark.parametrize(
    ("words", "environ", "family"),
    [
        (["srun", "--mpi=pmi2"], {}, MPICH),
        (["srun", "--mpi", "pmix_v4"], {}, OPEN_MPI),
        (["srun", "--mpi=none"], {}, ""),
        (["srun"], {"SLURM_MPI_TYPE": "pmix"}, OPEN_MPI),
        (["srun", "--mpi=cray_shasta"], {}, None),
        (["srun"], {}, None),
        (["aprun"], {}, None),
    ],
)
def test_srun_is_known_by_its_kind_of_pmi(
    words: list[str], environ: dict[str, str], family: str | None
) -> None:
    assert launcher_of(words, environ).family == family


def test_a_launcher_of_the_other_kind_is_found_on_the_path(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    program(first / "mpiexec", "HYDRA build details:\n Version: 5.0")
    program(second / "mpirun", "mpirun (Open MPI) 4.1.6")
    environ = {"PATH": f"{first}:{second}"}
    assert starter_of(OPEN_MPI, environ) == str(second / "mpirun")
    assert starter_of(MPICH, environ) == str(first / "mpiexec")
    assert starter_of(MPICH, {"PATH": str(second)}) is None


def test_programs_without_mpi_are_linked_to_none(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(f"#!/bin/sh\n{sys.executable} -c pass\n")
    assert library_of(["sh", "-c", "./run.sh | cat"], tmp_path, os.environ) is None
