"""This machine: what is wrong with it, and by which addresses nodes reach it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from diel.attempt import addresses
from diel.doctor import machine
from diel.site import Site


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
    assert "'no interface' is no interface or address of this host; it has 10.1.0.5 (eth0)" in found.found


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
    assert "127.0.0.1 is a loopback address" in found.found
    assert "this host has 127.0.0.1 alone" in found.fix


def test_the_packages_of_all_extras_are_looked_for(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]

    def named(wanted: list[str]) -> set[str]:
        """Without MPICH, in whose place any MPI does: `mpi ranks` is looked at instead."""
        return {re.split(r"[\[<>=]", one)[0] for one in wanted} - {"diel", "mpich"}

    extras = {extra: named(wanted) for extra, wanted in project["optional-dependencies"].items()}
    del extras["dev"]
    assert {extra: set(packages) for extra, packages in machine.EXTRAS.items()} == extras
    assert set(machine.CORE) == named(project["dependencies"])


def test_a_package_that_several_extras_have_is_told_once() -> None:
    names = [finding.name for finding in machine.check_extras()]
    assert len(names) == len(set(names))
    assert {"numpy", "optuna", "uvicorn", "torch"} <= set(names)
