"""Addresses of this host by which nodes may reach it."""

from __future__ import annotations

import pytest

from diel.base.errors import UsageError
from diel.worker.attempt import addresses as module
from diel.worker.attempt.addresses import addresses, interfaces


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host with two networks."""
    monkeypatch.setattr(module, "interfaces", lambda: {"10.1.0.5": "eth0", "10.2.0.5": "hsn0"})


def test_all_addresses_are_told_where_the_site_names_none(two: None) -> None:
    assert addresses(None) == ("10.1.0.5", "10.2.0.5")


def test_an_interface_is_taken_by_its_name_and_an_address_as_it_is(two: None) -> None:
    assert addresses("hsn0") == ("10.2.0.5",)
    assert addresses("10.1.0.5") == ("10.1.0.5",)


def test_what_is_not_here_is_told_with_what_is(two: None) -> None:
    with pytest.raises(
        UsageError, match=r"'none' is not an interface or address of this host; it has 10.1.0.5"
    ):
        addresses("none")


def test_a_host_without_a_network_has_its_loopback_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "interfaces", dict)
    assert addresses(None) == ("127.0.0.1",)


def test_loopback_is_none_of_this_hosts_addresses() -> None:
    assert not any(address.startswith("127.") for address in interfaces())
