"""The network: whether processes reach each other here, and by which addresses nodes reach this host."""

from __future__ import annotations

import ipaddress
import socket

import psutil

from diel.doctor.finding import Finding
from diel.site import Site


def check_loopback() -> Finding:
    """A port on this machine can be bound and reached: Parsl's workers talk to it."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), timeout=5).close()
            return Finding("loopback", True, "a port on 127.0.0.1 can be bound and reached")
    except OSError as error:
        fix = "let processes of this machine reach each other on 127.0.0.1 (a firewall or container rule?)"
        return Finding("loopback", False, f"127.0.0.1: {error.strerror or error}", fix)


def interfaces() -> dict[str, str]:
    """This host's addresses by which others might reach it, with the interface of each: IPv4, no loopback."""
    up = {name for name, state in psutil.net_if_stats().items() if state.isup}
    return {
        each.address: name
        for name, addresses in psutil.net_if_addrs().items()
        for each in addresses
        if each.family == socket.AF_INET and name in up and not _local(each.address)
    }


def _local(address: str) -> bool:
    known = ipaddress.ip_address(address)
    return known.is_loopback or known.is_link_local


def addresses(site: Site) -> list[str]:
    """The addresses that nodes get for this host; empty where the site's own is not here."""
    here = interfaces()
    if site.address is None:
        return [*here] or ["127.0.0.1"]
    by_name = [address for address, name in here.items() if name == site.address]
    if by_name:
        return by_name
    try:
        found = socket.getaddrinfo(site.address, None, socket.AF_INET, socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def check_addresses(site: Site) -> Finding:
    """An address of this host can be bound by which nodes may reach a controller here."""
    here = interfaces()
    listed = ", ".join(f"{address} ({name})" for address, name in here.items()) or "127.0.0.1 alone"
    wanted = addresses(site)
    if not wanted:
        found = f"address '{site.address}' is no interface or address of this host; it has {listed}"
        fix = "correct `address` in the site file, or leave it out"
        # A controller in a job looks for the address on the node where it runs.
        return Finding("address", False, found, fix, required=site.controller.home == "login")
    bound = [address for address in wanted if _bindable(address)]
    if not bound:
        found = f"no port can be bound on {', '.join(wanted)}; this host has {listed}"
        return Finding("address", False, found, "correct `address` in the site file, or leave it out")
    if all(_local(address) for address in bound):
        found = f"{', '.join(bound)} is this host's own: no other node reaches a controller here by it"
        fix = f"give an `address` that nodes reach (this host has {listed}), or let controllers live in jobs"
        return Finding("address", False, found, fix, required=False)
    return Finding("address", True, f"a port can be bound on {', '.join(bound)}; this host has {listed}")


def _bindable(address: str) -> bool:
    try:
        socket.create_server((address, 0)).close()
    except OSError:
        return False
    return True
