"""Which MPI launchers and programs are of, and tasks whose ranks do not become one world: with real MPIs too."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from diel.worker.attempt.mpi import MPICH, OPEN_MPI, launcher_of, library_of, starter_of
from tests.cluster.cluster import Cluster
from tests.throwaway import Project, Run

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


SOURCE = """
#include <mpi.h>
#include <stdio.h>
int main(int count, char **words) {
    int rank, size;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    FILE *file = fopen("world", "a");
    fprintf(file, "%d of %d\\n", rank, size);
    fclose(file);
    MPI_Finalize();
    return 0;
}
"""
SCRIPT = "#!/bin/sh\nif true; then {program} > /dev/null 2>&1; fi\n"
PARENT = "import subprocess, sys\nsys.exit(subprocess.run([{program!r}]).returncode)\n"
MODULE = """
    from mpi4py import MPI

    @diel.module(kind="simulation")
    def size(communicator: MPI.Comm) -> dict:
        return {"size": communicator.Get_size()}
"""
PYTHON = "from mpi4py import MPI\nprint(MPI.COMM_WORLD.Get_size())\n"
RANKS = "resources: {ranks: 2}"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The same small program, linked to each MPI."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / "prog.c").write_text(SOURCE)
    compilers = {"mpich": str(Path(sys.executable).parent / "mpicc"), "open_mpi": "/usr/bin/mpicc.openmpi"}
    for name, compiler in compilers.items():
        if shutil.which(compiler) is None or shutil.which("mpirun.openmpi") is None:
            pytest.skip("no openmpi-bin or libopenmpi-dev, or no MPICH beside this Python")
        subprocess.run([compiler, "-o", name, "prog.c"], cwd=folder, check=True, capture_output=True)
    return {name: str(folder / name) for name in compilers}


@pytest.fixture(scope="module", autouse=True)
def as_root() -> Iterator[None]:
    """Open MPI's mpirun refuses root otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
        patch.setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        yield


def project(folder: Path, foreign: str, own: str, launcher: str) -> Project:
    """A workflow that runs a program of a foreign MPI in many ways, and one of the launcher's own."""
    made = Project(folder).module("mpi", MODULE)
    (folder / "script").write_text(SCRIPT.format(program=foreign))
    (folder / "script").chmod(0o755)
    (folder / "parent.py").write_text(PARENT.format(program=foreign))
    (folder / "size.py").write_text(PYTHON)
    (folder / "schedulers").mkdir()
    (folder / "schedulers" / "here.yaml").write_text(f"extends: local\nlauncher: {launcher}\n")
    return made.workflow(f"""
        stages:
          exec: {{command: "exec {foreign}", {RANKS}}}
          hidden: {{command: "{foreign} > log 2>&1 || true", {RANKS}}}
          script: {{command: [{folder / "script"}], {RANKS}}}
          parent: {{command: [python, {folder / "parent.py"}], {RANKS}}}
          lasting: {{command: "{foreign} || exec sleep 600", {RANKS}}}
          python: {{command: [python, {folder / "size.py"}], {RANKS}}}
          module: {{module: "mpi:size", {RANKS}}}
          own: {{command: "{own}", {RANKS}}}
          nothing: {{command: echo a rank, {RANKS}}}
    """)


@pytest.fixture(scope="module")
def under_mpich(programs: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("under_mpich")
    made = project(folder, programs["open_mpi"], programs["mpich"], '[mpiexec, -n, "{ranks}"]')
    return made.run("--site", "here", code=1)


@pytest.fixture(scope="module")
def under_open_mpi(programs: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("under_open_mpi")
    launcher = '[mpirun.openmpi, --oversubscribe, -n, "{ranks}"]'
    made = project(folder, programs["mpich"], programs["open_mpi"], launcher)
    return made.run("--site", "here", code=1)


@pytest.mark.parametrize("stage", ["exec", "hidden", "script", "parent", "lasting"])
def test_a_program_of_open_mpi_does_not_run_alone_under_mpich(under_mpich: Run, stage: str) -> None:
    failure = under_mpich.failure(stage)
    assert failure["class"] == "launch"
    assert "mpiexec (MPICH " in failure["message"]
    assert "Open MPI (" in failure["message"]
    assert "libmpi.so.40 of open_mpi)" in failure["message"]
    assert "write `launcher: [/usr/bin/mpi" in failure["message"]
    assert not (under_mpich.task_dir(stage) / "world").exists()  # nothing was computed
    assert not (under_mpich.task_dir(stage) / ".world").exists()


def test_what_is_right_under_mpich_goes_on(under_mpich: Run) -> None:
    assert sorted((under_mpich.task_dir("own") / "world").read_text().splitlines()) == ["0 of 2", "1 of 2"]
    assert under_mpich.value("module", "size") == 2
    assert "".join(under_mpich.stdout("python").split()) == "22"  # two processes write at the same time
    assert under_mpich.stdout("nothing").count("a rank") == 2
    assert not under_mpich.processes()


@pytest.mark.parametrize("stage", ["exec", "script", "parent", "python", "module"])
def test_a_program_of_mpich_that_finds_no_world_under_open_mpi_says_so(
    under_open_mpi: Run, stage: str
) -> None:
    failure = under_open_mpi.failure(stage)
    assert failure["class"] == "launch"
    assert "mpirun.openmpi (Open MPI 4" in failure["message"]
    assert "the MPI of what it starts is MPICH" in failure["message"]
    assert 'mpiexec, -n, "{ranks}"]`' in failure["message"]


def test_what_is_right_under_open_mpi_goes_on(under_open_mpi: Run) -> None:
    world = under_open_mpi.task_dir("own") / "world"
    assert sorted(world.read_text().splitlines()) == ["0 of 2", "1 of 2"]
    assert under_open_mpi.stdout("nothing").count("a rank") == 2
    assert not under_open_mpi.processes()


def test_a_launcher_that_starts_another_number_of_ranks_is_told(tmp_path: Path) -> None:
    made = Project(tmp_path).workflow("stages: {s: {command: echo a rank, resources: {ranks: 3}}}")
    (tmp_path / "schedulers").mkdir()
    text = "extends: local\nlauncher: [mpiexec, -n, '2']\npools: {local: {cores: 3}}\n"
    (tmp_path / "schedulers" / "here.yaml").write_text(text)
    failure = made.run("--site", "here", code=1).failure("s")
    assert failure["class"] == "launch"
    assert "3 ranks were asked for, and " in failure["message"]
    assert " started 2: " in failure["message"]
    assert "{ranks}" in failure["message"]


# --- on a cluster ----------------------------------------------------------------------------------

ON_SLURM = """
    stages:
      mpich: {{command: "{mpich} > /dev/null 2>&1 || true", {ranks}}}
      open_mpi: {{command: "exec {open_mpi}", {ranks}}}
      module: {{module: "mpi:size", {ranks}}}
      nothing: {{command: echo a rank, {ranks}}}
"""


def test_ranks_under_srun_without_their_pmi_are_told_what_to_write(
    cluster: Cluster, programs: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PATH", "SLURM_CONF"):
        monkeypatch.setenv(name, cluster.environment[name])
    cluster.clear()
    text = cluster.site("virtual").read_text()
    (tmp_path / "own.yaml").write_text(text.replace("--mpi=pmi2", "--mpi=none"))
    made = Project(tmp_path).module("mpi", MODULE).workflow(ON_SLURM.format(**programs, ranks=RANKS))
    run = made.run("--site", "own.yaml", code=1)
    for stage, kind, family in (
        ("mpich", "pmi2", "MPICH ("),
        ("open_mpi", "pmix", "Open MPI ("),
        ("module", "pmi2", "MPICH (mpi4py loads it)"),
    ):
        failure = run.failure(stage)
        assert failure["class"] == "launch"
        assert "Slurm's srun --mpi=none" in failure["message"]
        assert family in failure["message"]
        assert f"write --mpi={kind} in `launcher`" in failure["message"]
        assert not (run.task_dir(stage) / "world").exists()
    assert run.stdout("nothing").count("a rank") == 2
