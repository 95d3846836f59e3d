"""Commands that start their ranks themselves, and runs that mix launchers: with real MPIs."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from diel.worker.attempt.launcher import NOT_HERE, is_at_home
from tests.cluster.cluster import Cluster
from tests.throwaway import Project, Run, wait_for

SOURCE = """
#include <mpi.h>
#include <stdio.h>
int main(int count, char **words) {
    int rank, sum, one = 1;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("%s: %d ranks met\\n", count > 1 ? words[1] : "", sum);
    MPI_Finalize();
    return 0;
}
"""
MODULE = """
    from mpi4py import MPI

    @diel.module(kind="simulation")
    def size(communicator: MPI.Comm) -> dict:
        return {"size": communicator.Get_size(), "library": MPI.Get_library_version()[:5]}
"""
ALONE = 'python -c "from mpi4py import MPI; print(MPI.COMM_WORLD.Get_size(), end=chr(32))"'
FLOW = """
    stages:
      module: {{module: "mpi:size", resources: {{ranks: 2}}}}
      named: {{command: ["{mpich}"], resources: {{ranks: 2, launcher: mpich}}}}
      script:
        resources: {{ranks: 2, launcher: openmpi}}
        command: |
          {alone} > before
          echo out "of its ranks" > input
          cd ..; cd 0
          ${{{{ launcher }}}} {openmpi} "the first: $(cat input)" > out
          "$DIEL_LAUNCHER" {openmpi} second >> out
          echo "{{\\"met\\": $(grep -c '2 ranks met' out), \\"before\\": $(cat before)}}" > "$DIEL_RESULT"
        outputs: {{met: {{value: int}}, before: {{value: int}}}}
      words: {{command: ["${{{{ launcher }}}}", "{mpich}", "a b"], resources: {{ranks: 2}}}}
      file: {{command: [sh, {folder}/run.sh], env: {{MPI: "${{{{ launcher }}}}"}}, resources: {{ranks: 2}}}}
      argument: {{command: [sh, {folder}/run.sh, "${{{{ launcher }}}}"], resources: {{ranks: 2}}}}
      filled:
        resources: {{ranks: 2}}
        files: {{script: {{template: filled.sh}}}}
        command: [sh, "${{{{ files.script }}}}"]
      hidden: {{command: "${{{{ launcher }}}} {openmpi} > log 2>&1 || true", resources: {{ranks: 2}}}}
      second:
        resources: {{ranks: 2}}
        command: |
          ${{{{ launcher }}}} {mpich} one > out
          ${{{{ launcher }}}} {openmpi} two >> out 2>&1 || sleep 600
      unnamed: {{command: [sh, {folder}/other.sh], resources: {{ranks: 2}}}}
      option: {{command: "${{{{ launcher }}}} -n 1 {mpich}", resources: {{ranks: 2}}}}
      lasting:
        resources: {{ranks: 2}}
        command: "setsid ${{{{ launcher }}}} sleep 654 & ${{{{ launcher }}}} sleep 655 & sleep 0.1"
      killed: {{command: "${{{{ launcher }}}} sleep 656", timeout: 1s, resources: {{ranks: 2}}}}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One run with programs of both MPIs and a Python module, below a folder with a space and a quote."""
    folder = tmp_path_factory.mktemp("mixed")
    (folder / "prog.c").write_text(SOURCE)
    compilers = {"mpich": str(Path(sys.executable).parent / "mpicc"), "openmpi": "/usr/bin/mpicc.openmpi"}
    for name, compiler in compilers.items():
        if shutil.which(compiler) is None or shutil.which("mpirun.openmpi") is None:
            pytest.skip("no openmpi-bin or libopenmpi-dev, or no MPICH beside this Python")
        subprocess.run([compiler, "-o", name, "prog.c"], cwd=folder, check=True, capture_output=True)
    (folder / "run.sh").write_text(f'echo prepared\n"${{MPI:-$1}}" {folder}/mpich from a file\n')
    (folder / "filled.sh").write_text(f'echo prepared\n"${{{{ launcher }}}}" {folder}/mpich from a file\n')
    (folder / "other.sh").write_text(f"$DIEL_LAUNCHER {folder}/mpich\n")
    text = FLOW.format(folder=folder, alone=ALONE, **{name: folder / name for name in compilers})
    made = Project(folder).module("mpi", MODULE).workflow(text)
    made.diel("run", "flow.yaml", "--runs", "it's a run", code=1)
    return Run(next((folder / "it's a run").glob("flow-*")))


def test_one_run_mixes_launchers_and_a_module(run: Run) -> None:
    assert (run.value("module", "size"), run.value("module", "library")) == (2, "MPICH")
    assert run.stdout("named") == ": 2 ranks met\n"


def test_a_script_runs_once_prepares_launches_twice_and_reads_what_came(run: Run) -> None:
    assert run.value("script", "met") == 2
    assert run.value("script", "before") == 1  # what it runs besides is no rank
    assert "the first: out of its ranks: 2 ranks met" in (run.task_dir("script") / "out").read_text()


def test_the_launcher_is_a_word_a_variable_an_argument_or_in_a_script_that_is_filled_in(run: Run) -> None:
    assert run.stdout("words") == "a b: 2 ranks met\n"
    for stage in ("file", "argument", "filled"):
        assert run.stdout(stage) == "prepared\nfrom: 2 ranks met\n"


@pytest.mark.parametrize("stage", ["hidden", "second"])
def test_a_program_of_another_mpi_fails_whatever_the_script_makes_of_it(run: Run, stage: str) -> None:
    failure = run.failure(stage)
    assert failure["class"] == "launch"
    assert "the MPI of what it starts is Open MPI" in failure["message"]
    assert "`resources: {launcher: openmpi}`" in failure["message"]


def test_a_script_that_is_launched_as_a_whole_does_not_launch_again(run: Run) -> None:
    assert run.failure("unnamed")["exit_code"] == 127
    assert NOT_HERE in run.stderr("unnamed")


def test_what_follows_the_launcher_is_a_program(run: Run) -> None:
    assert run.failure("option")["exit_code"] == 2
    assert "expected a program after the launcher, found '-n'" in run.stderr("option")


def test_all_that_a_script_started_ends_with_it(run: Run) -> None:
    assert run.results("lasting")
    assert run.failure("killed")["class"] == "timeout"
    assert not run.processes()


def test_the_launcher_is_in_no_key(run: Run) -> None:
    Project(run.root.parent.parent).diel("run", "flow.yaml", "--runs", "it's a run", code=1)
    again = Run(run.root.with_name("flow-2"))
    assert again.counts("script")["cached"] == again.counts("file")["cached"] == 1


SAVES = """
    stages:
      s:
        checkpoint: true
        grace: 9s
        resources: {ranks: 2, walltime: 18s}
        command: |
          trap 'echo told >> "$DIEL_CHECKPOINT_DIR/script"' TERM
          ${{ launcher }} sh -c 'trap "touch $DIEL_CHECKPOINT_DIR/$PMI_RANK; exit 75" TERM
            [ -e $DIEL_CHECKPOINT_DIR/$PMI_RANK ] || while :; do sleep 0.1; done' || {
            until [ -e "$DIEL_CHECKPOINT_DIR/script" ]; do sleep 0.1; done
            exit 75
          }
"""


class InBlock(Project):
    """A project whose runs take this machine for a block."""

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "DIEL_BLOCK": "1-0", "DIEL_BLOCK_END": "9999999999"}


def test_ranks_that_a_script_started_save_in_time(tmp_path: Path) -> None:
    run = InBlock(tmp_path).workflow(SAVES).run()
    assert [record["class"] for record in run.records("fail", "s")] == ["interrupted"]
    kept = {path.name for path in (run.root / "tasks" / "s" / "0.checkpoint").iterdir()}
    assert kept == {"0", "1", "script"}


ON_SLURM = """
    stages:
      s:
        resources: {nodes: 2, ranks_per_node: 2}
        command: |
          hostname > once
          ${{ launcher }} sh -c 'echo $SLURMD_NODENAME' | sort | uniq -c > nodes
          $DIEL_LAUNCHER python -c "from mpi4py import MPI; print(MPI.COMM_WORLD.Get_size())" > sizes
"""


def test_a_script_in_a_block_launches_on_all_its_nodes(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PATH", "SLURM_CONF"):
        monkeypatch.setenv(name, cluster.environment[name])
    cluster.clear()
    (tmp_path / "own.yaml").write_text(cluster.site("virtual").read_text())
    run = Project(tmp_path).workflow(ON_SLURM).run("--site", "own.yaml")
    folder = run.task_dir("s")
    assert len((folder / "once").read_text().splitlines()) == 1
    assert [line.split()[0] for line in (folder / "nodes").read_text().splitlines()] == ["2", "2"]
    assert (folder / "sizes").read_text().split() == ["4"] * 4


# --- ports -------------------------------------------------------------------------------------------

RANK = """
import sys, time
from pathlib import Path
{start}
Path(sys.argv[1], f"up{{rank}}").touch()
while not Path(sys.argv[1], "go").exists():
    time.sleep(0.02)
"""
MEETING = "from mpi4py import MPI\nrank = MPI.COMM_WORLD.Get_rank()\nassert MPI.COMM_WORLD.allreduce(1) == 2"
APART = "import os\nrank = os.environ['OMPI_COMM_WORLD_RANK']"
LAUNCHERS = {
    "mpiexec": ("[mpiexec, -n, '{ranks}']", MEETING),
    "mpirun.openmpi": ("[mpirun.openmpi, --oversubscribe, -n, '{ranks}']", APART),
}


def own_address() -> str | None:
    """An address of this host that others may reach."""
    found = [a.address for each in psutil.net_if_addrs().values() for a in each if a.family == socket.AF_INET]
    return next((address for address in found if not address.startswith("127.")), None)


def listening(folder: Path) -> list[str]:
    """Where ranks of the tasks in a folder listen, as `ss` tells: they inherit their launcher's ports."""
    marks = (str(folder / "runs"),)
    pids = set()
    for process in psutil.process_iter():
        try:
            if str(process.environ().get("DIEL_TASK_DIR", "")).startswith(marks):
                pids.add(process.pid)
        except (psutil.Error, OSError):
            continue
    said = subprocess.run(
        ["ss", "-H", "-l", "-t", "-n", "-p"], capture_output=True, text=True, check=True
    ).stdout
    lines = [line for line in said.splitlines() if any(f"pid={pid}," in line for pid in pids)]
    lines = [line for line in lines if not re.search(r'"(mpi|hydra)', line)]
    return [line.split()[3] for line in lines]


@pytest.mark.parametrize(
    ("program", "itself"), [*((program, "") for program in LAUNCHERS), ("mpiexec", '"${{ launcher }}", ')]
)
def test_no_rank_on_one_machine_hears_other_hosts(
    program: str, itself: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = own_address()
    found = shutil.which(program) or shutil.which(program, path=str(Path(sys.executable).parent))
    if address is None or found is None or shutil.which("ss") is None:
        pytest.skip(f"no `ss`, no {program}, or no address besides loopback")
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    launcher, start = LAUNCHERS[program]
    (tmp_path / "rank.py").write_text(RANK.format(start=start))
    (tmp_path / "here.yaml").write_text(f"extends: local\nlauncher: {launcher}\n")
    made = Project(tmp_path).workflow(f"""
        stages:
          s: {{command: [{itself}python, {tmp_path}/rank.py, {tmp_path}], resources: {{ranks: 2}}}}
    """)
    run = made.start("run", "flow.yaml", "--site", "here.yaml")
    try:
        wait_for(lambda: (tmp_path / "up0").exists() and (tmp_path / "up1").exists())
        assert not _outside(listening(tmp_path))
    finally:
        (tmp_path / "go").touch()
        made.end(run)


def _outside(places: list[str]) -> list[str]:
    """Those that are not the loopback interface's."""
    hosts = [place.rpartition(":")[0] for place in places]
    return [
        host for host in hosts if not (host.startswith("127.") or host == "[::1]" or host.endswith("%lo"))
    ]


def test_launchers_that_reach_other_hosts_are_left_alone() -> None:
    assert is_at_home(("mpiexec", "-n", "2"), {})
    assert not is_at_home(("mpiexec", "-n", "2", "-hosts", "a,b"), {})
    assert not is_at_home(("mpiexec", "-n", "2"), {"SLURM_JOB_ID": "1"})
    assert not is_at_home(("mpiexec", "-n", "2"), {"DIEL_BLOCK": "b"})
