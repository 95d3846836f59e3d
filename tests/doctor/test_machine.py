"""This machine: what is wrong with it, and by which addresses nodes reach it."""

from __future__ import annotations

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
    assert "127.0.0.1 is this host's own" in found.found
    assert "this host has 127.0.0.1 alone" in found.fix
