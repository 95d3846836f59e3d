"""The directory of the runs on a site with a scheduler."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from diel.doctor import folder
from diel.doctor.finding import Finding
from diel.site import Site


def look(runs: Path, **filesystems: Any) -> dict[str, Finding]:
    site = Site.model_validate(
        {"name": "s", "scheduler": "slurm", "pools": {"p": {"cores": 4}}, "filesystems": filesystems}
    )
    return {each.name: each for each in folder.check_shared(runs, site)}


@pytest.mark.parametrize("kind", ["nfs4", "lustre", "gpfs", "beegfs", "fuse.glusterfs", "NFS"])
def test_a_file_system_of_several_hosts_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(folder, "file_system", lambda _: kind)
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
    monkeypatch.setattr(folder, "file_system", lambda _: kind)
    monkeypatch.setattr(folder, "OF_ONE_HOST", local)
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
        found = folder.check_private(tmp_path)
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
    monkeypatch.setattr(folder, "tempfile", made)
    found = folder.check_private(tmp_path)
    assert (found.ok, found.required) == (False, True)
    assert "others could read the keys" in found.found
