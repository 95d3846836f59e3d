"""Addresses of this host, by which the nodes of a block reach their controller."""

from __future__ import annotations

import socket

import psutil

from diel.errors import UsageError


def addresses(wanted: str | None) -> tuple[str, ...]:
    """Addresses of this host that nodes may reach: one interface's, one as given, or all but loopback's."""
    known = {
        name: [one.address for one in found if one.family == socket.AF_INET]
        for name, found in psutil.net_if_addrs().items()
    }
    if wanted is not None:
        try:
            return tuple(known.get(wanted) or (socket.gethostbyname(wanted),))
        except OSError as error:
            names = ", ".join(sorted(known))
            raise UsageError(
                f"address: no interface or address '{wanted}' on this host; it has {names}\n"
                "correct `address` in the site file, or leave it out"
            ) from error
    found = [address for each in known.values() for address in each if not address.startswith("127.")]
    return tuple(found) or ("127.0.0.1",)
