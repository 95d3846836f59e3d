"""Addresses of this host at which the nodes of a block reach their controller."""

import ipaddress
import socket

import psutil

from diel.base.errors import UsageError


def is_own(address: str) -> bool:
    """Return whether an address means only this host, or only its network link."""
    parsed = ipaddress.ip_address(address)
    return parsed.is_loopback or parsed.is_link_local


def interfaces() -> dict[str, str]:
    """Return the IPv4 addresses at which others might reach this host, each with its interface."""
    up = {name for name, state in psutil.net_if_stats().items() if state.isup}
    return {
        address.address: name
        for name, listed in psutil.net_if_addrs().items()
        for address in listed
        if address.family == socket.AF_INET and name in up and not is_own(address.address)
    }


def addresses(place: str | None) -> tuple[str, ...]:
    """Find addresses of this host that nodes reach: an interface's, as given, or all. Raises UsageError."""
    here = interfaces()
    if place is None:
        return tuple(here) or ("127.0.0.1",)
    try:
        named = tuple(address for address, name in here.items() if name == place)
        return named or (socket.gethostbyname(place),)
    except (OSError, UnicodeError) as error:
        listed = ", ".join(f"{address} ({name})" for address, name in here.items()) or "127.0.0.1 alone"
        raise UsageError(
            f"address '{place}' is not an interface or address of this host; it has {listed}\n"
            "fix `address` in the site file, or omit it"
        ) from error
