"""`diel doctor`."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from diel.doctor import machine
from diel.site.find import find_site
from tests.cli.call import call

Capture = pytest.CaptureFixture[str]


def checks(capsys: Capture, *words: str, code: int = 0) -> dict[str, dict[str, Any]]:
    said = call(capsys, "doctor", "--json", *words)
    assert said.code == code, said.out + said.err
    document = json.loads(said.out)
    assert document["ok"] is (code == 0)
    return {check["name"]: check for check in document["checks"]}


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without MPI, LAMMPS and graphviz: nothing slow is started."""
    monkeypatch.setattr(machine, "find_program", lambda name: None)
    monkeypatch.setattr("shutil.which", lambda name, path=None: None)


def test_a_machine_that_lacks_extras_alone_is_ready(workspace: Path, bare: None, capsys: Capture) -> None:
    found = checks(capsys)
    assert {name for name, check in found.items() if not check["ok"]} >= {"mpi ranks", "lmp", "dot"}
    assert all(check["ok"] for check in found.values() if check["required"])
    assert "pip install 'diel[mpi]'" in found["mpi ranks"]["fix"]
    said = call(capsys, "doctor")
    assert said.code == 0
    assert "ready; extras that are missing: " in said.out
    assert os.listdir(workspace) == []  # it leaves nothing behind


def test_what_is_wrong_is_told_with_what_to_do(
    workspace: Path, bare: None, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "CORE", ("click", "no-such-package"))
    found = checks(capsys, "--runs", "/proc/nowhere", "--site", "nowhere", code=1)
    assert found["click"]["ok"]
    assert "pip install 'no-such-package'" in found["no-such-package"]["fix"]
    assert "no site 'nowhere'" in found["site"]["found"]
    assert "--runs DIR" in found["runs"]["fix"]
    said = call(capsys, "doctor", "--runs", "/proc/nowhere")
    assert said.code == 1
    assert "not ready: no-such-package, runs, clock" in said.out


def test_a_site_file_that_is_wrong_is_told_with_its_place(
    workspace: Path, bare: None, capsys: Capture
) -> None:
    (workspace / "schedulers").mkdir()
    (workspace / "schedulers" / "mine.yaml").write_text(
        "name: mine\nscheduler: local\npools: {p: {cores: 0}}\n"
    )
    found = checks(capsys, "--site", "mine", code=1)
    assert "mine.yaml:3:" in found["site"]["found"]


def test_a_python_that_is_too_old_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "LEAST_PYTHON", (99, 0))
    finding = machine.check_python()
    assert not finding.ok
    assert finding.fix == "install Python 99.0 or newer"


def test_a_disk_that_is_nearly_full_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "LEAST_SPACE", 2**70)
    finding = machine.check_runs(tmp_path / "runs")
    assert not finding.ok
    assert "diel clean" in finding.fix


def test_the_launcher_and_the_mpi_of_mpi4py_are_told_with_what_to_write_where_they_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = machine.check_ranks(find_site("local", tmp_path))
    assert found.ok
    assert re.search(r"mpiexec \(MPICH [\d.]+\), mpi4py loads MPICH", found.found)
    if not os.access("/usr/bin/mpirun.openmpi", os.X_OK):
        pytest.skip("no openmpi-bin")
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    file = tmp_path / "other.yaml"
    file.write_text("extends: local\nlauncher: [mpirun.openmpi, --oversubscribe, -n, '{ranks}']\n")
    found = machine.check_ranks(find_site(str(file), tmp_path))
    assert not found.ok
    assert "mpirun.openmpi (Open MPI 4" in found.found
    assert "mpi4py loads MPICH" in found.found
    assert 'mpiexec, -n, "{ranks}"]`' in found.fix


def test_deep_runs_a_workflow_through_the_engine(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", str(root))
    finding = machine.check_deep()
    assert finding.ok, finding.found
    assert "250 tasks in" in finding.found
