"""Addresses of this host at which the nodes of a block reach their controller."""

from __future__ import annotations

import ipaddress
import socket

import psutil

from diel.errors import UsageError


def is_own(address: str) -> bool:
    """Whether an address means only this host, or only its network link."""
    known = ipaddress.ip_address(address)
    return known.is_loopback or known.is_link_local


def interfaces() -> dict[str, str]:
    """The addresses at which others might reach this host, with the interface of each: IPv4, no loopback."""
    up = {name for name, state in psutil.net_if_stats().items() if state.isup}
    return {
        each.address: name
        for name, found in psutil.net_if_addrs().items()
        for each in found
        if each.family == socket.AF_INET and name in up and not is_own(each.address)
    }


def addresses(wanted: str | None) -> tuple[str, ...]:
    """Find addresses of this host that nodes reach: an interface's, as given, or all. Raises UsageError."""
    here = interfaces()
    if wanted is None:
        return tuple(here) or ("127.0.0.1",)
    try:
        named = tuple(address for address, name in here.items() if name == wanted)
        return named or (socket.gethostbyname(wanted),)
    except (OSError, UnicodeError) as error:
        listed = ", ".join(f"{address} ({name})" for address, name in here.items()) or "127.0.0.1 alone"
        raise UsageError(
            f"address '{wanted}' is not an interface or address of this host; it has {listed}\n"
            "fix `address` in the site file, or omit it"
        ) from error
