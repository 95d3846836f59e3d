"""This machine: what is wrong with it, where its runs are, and by which addresses nodes reach it."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from diel.doctor import machine
from diel.doctor.machine import Finding, attempt, check_dot, check_lammps, check_launcher, check_ranks, last
from diel.site.site import Site
from diel.worker.attempt import addresses
from tests.doctor.conftest import Install


def site(**more: Any) -> Site:
    return Site.model_validate({"name": "s", "scheduler": "slurm", "pools": {"p": {"cores": 4}}, **more})


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host with two networks; every address can be bound."""
    for module in (machine, addresses):
        monkeypatch.setattr(module, "interfaces", lambda: {"10.1.0.5": "eth0", "10.2.0.5": "hsn0"})
    monkeypatch.setattr(machine, "_bindable", lambda address: True)


def test_all_addresses_are_told_with_their_interfaces(two: None) -> None:
    found = machine.check_addresses(site())
    assert found.ok
    assert "10.2.0.5 (hsn0)" in found.found


def test_an_interface_that_is_not_here_is_told_with_those_that_are(two: None) -> None:
    found = machine.check_addresses(site(address="no interface"))
    assert (found.ok, found.required) == (False, True)
    assert "'no interface' is not an interface or address of this host; it has 10.1.0.5 (eth0)" in found.found


def test_an_interface_matters_on_the_node_where_a_controller_in_a_job_runs(two: None) -> None:
    found = machine.check_addresses(site(address="no interface", controller={"home": "job"}))
    assert (found.ok, found.required) == (False, False)


def test_an_address_that_cannot_be_bound_is_wrong(two: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_bindable", lambda address: False)
    assert "no port can be bound on 10.2.0.5" in machine.check_addresses(site(address="hsn0")).found


def test_a_host_without_a_network_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "interfaces", dict)
    monkeypatch.setattr(machine, "interfaces", dict)
    found = machine.check_addresses(site())
    assert (found.ok, found.required) == (False, False)
    assert "127.0.0.1 is a loopback or link-local address" in found.found
    assert "this host has 127.0.0.1 alone" in found.fix


def test_the_packages_of_all_extras_are_looked_for(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]

    def named(wanted: list[str]) -> set[str]:
        """Without MPICH, in whose place any MPI does: `mpi ranks` is looked at instead."""
        return {re.split(r"[\[<>=]", one)[0] for one in wanted} - {"diel", "mpich"}

    extras = {extra: named(wanted) for extra, wanted in project["optional-dependencies"].items()}
    del extras["dev"], extras["docs"]
    assert {extra: set(packages) for extra, packages in machine.EXTRAS.items()} == extras
    assert set(machine.CORE) == named(project["dependencies"])


def test_a_package_that_several_extras_have_is_told_once() -> None:
    names = [finding.name for finding in machine.check_extras()]
    assert len(names) == len(set(names))
    assert {"numpy", "optuna", "uvicorn", "torch"} <= set(names)


# --- the directory of the runs -------------------------------------------------------------------


def look(runs: Path, **filesystems: Any) -> dict[str, Finding]:
    site = Site.model_validate(
        {"name": "s", "scheduler": "slurm", "pools": {"p": {"cores": 4}}, "filesystems": filesystems}
    )
    return {each.name: each for each in machine.check_shared(runs, site)}


@pytest.mark.parametrize("kind", ["nfs4", "lustre", "gpfs", "beegfs", "fuse.glusterfs", "NFS"])
def test_a_file_system_of_several_hosts_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(machine, "file_system", lambda _: kind)
    assert look(tmp_path)["shared"].ok


@pytest.mark.parametrize(
    ("kind", "local", "said"),
    [
        ("tmpfs", (), "each host has its own"),
        ("ext4", ("/",), "each host has its own"),
        ("xfs", (), "only this host sees it"),
    ],
)
def test_a_file_system_of_one_host_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, local: tuple[str, ...], said: str
) -> None:
    monkeypatch.setattr(machine, "file_system", lambda _: kind)
    monkeypatch.setattr(machine, "OF_ONE_HOST", local)
    found = look(tmp_path)["shared"]
    assert (found.ok, found.required) == (False, False)
    assert said in found.found
    assert "--runs DIR" in found.fix


def test_the_runs_are_on_the_innermost_file_system_that_holds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAST", str(tmp_path / "fast"))
    (tmp_path / "fast").mkdir()
    places = {
        "all": {"path": str(tmp_path), "compute": "read"},
        "fast": {"path": "$FAST", "quota": "10TB", "files": 1000000, "purge": "30d"},
        "unset": {"path": "$NOT_SET_HERE/x"},
    }
    good, bad = look(tmp_path / "fast" / "runs", **places), look(tmp_path / "runs", **places)
    assert good["filesystem"].ok
    for word in ("fast", "9.1 TiB at most", "1,000,000 files at most", "30d00h are deleted"):
        assert word in good["filesystem"].found
    assert (bad["filesystem"].ok, bad["filesystem"].required) == (False, True)
    assert "compute nodes may read there, not write" in bad["filesystem"].found
    assert "choose one of fast ($FAST)" in bad["filesystem"].fix


def test_runs_on_no_file_system_of_the_site_are_warned_of(tmp_path: Path) -> None:
    found = look(tmp_path, scratch={"path": "/no/such/scratch"})["filesystem"]
    assert (found.ok, found.required) == (False, False)
    assert "on none of the file systems that the site file names (scratch)" in found.found


def test_a_site_that_names_no_file_systems_has_none_to_be_on(tmp_path: Path) -> None:
    assert "filesystem" not in look(tmp_path)


def test_a_umask_that_lets_others_write_is_warned_of(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        found = machine.check_private(tmp_path)
    finally:
        os.umask(before)
    assert (found.ok, found.required) == (False, False)
    assert "umask 0000" in found.found


def test_a_file_system_that_keeps_no_permissions_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    made = SimpleNamespace(TemporaryDirectory=lambda **_: nullcontext(str(open_to_all)))
    monkeypatch.setattr(machine, "tempfile", made)
    found = machine.check_private(tmp_path)
    assert (found.ok, found.required) == (False, True)
    assert "others could read the keys" in found.found


def test_a_program_is_tried_with_its_output_and_what_does_not_start_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert attempt(["sh", "-c", "echo out; echo err >&2; pwd; exit 3"], tmp_path) == (
        3,
        f"out\nerr\n{tmp_path}\n",
    )
    assert attempt(["/no/such/program"]) == (1, "No such file or directory")
    monkeypatch.setattr(machine, "PATIENCE", 0.05)
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


LAUNCHER = ["mpiexec", "-n", "{ranks}"]
POOLS = {"all": {"cores": 2}}
SITE = Site.model_validate({"name": "here", "scheduler": "local", "launcher": LAUNCHER, "pools": POOLS})


def test_a_launcher_that_is_not_here_is_named_with_the_site(install: Install) -> None:
    found = check_launcher(SITE)
    assert (found.ok, found.found) == (False, "no 'mpiexec' on this host")
    assert "the file of site 'here'" in found.fix
    install("mpiexec", "echo 'mpiexec (OpenRTE) 4.1.4'")
    found = check_launcher(SITE)
    assert found.ok
    assert "--job shows whether nodes have it" in found.found


@pytest.mark.parametrize(
    ("code", "said", "ok", "told"),
    [
        (0, "ranks=2;ranks=2;", True, "two started and met: "),
        (0, "ranks=1;ranks=1;", False, "two started, but did not meet: "),
        (1, "no slots\n", False, "mpi4py loads Open MPI v4: no slots"),
    ],
)
def test_two_ranks_have_to_meet(
    install: Install, monkeypatch: pytest.MonkeyPatch, code: int, said: str, ok: bool, told: str
) -> None:
    def answer(words: Sequence[str], folder: Path | None = None) -> tuple[int, str]:
        return (0, "Open MPI v4\n") if words[-1] == machine.LIBRARY else (code, said)

    install("mpiexec", "echo 'mpiexec (OpenRTE) 4.1.4'")
    monkeypatch.setattr(machine, "version_of", lambda name: "4.0")
    monkeypatch.setattr(machine, "attempt", answer)
    found = check_ranks(SITE)
    assert (found.ok, found.required) == (ok, False)
    assert told in found.found


def test_without_a_launcher_or_mpi4py_no_ranks_are_tried(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check_ranks(SITE).found == "no 'mpiexec'"
    program = install("mpiexec", "exit 9")
    monkeypatch.setattr(machine, "version_of", lambda name: None)
    assert check_ranks(SITE).found == f"{program}, but no mpi4py"
