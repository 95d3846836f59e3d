"""The launchers of a site: what is told where one is there, is missing, or starts ranks that do not meet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from diel.doctor import machine
from diel.doctor.machine import check_launcher, check_ranks
from diel.site import Site
from tests.doctor.conftest import Install

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
