"""Where the broker of a run listens, and the keys that it asks for: `streams/broker.json`.

Only its owner can read the file (mode 0600): whoever has the keys may take part.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from diel.files import put
from diel.streams.message import VERSION

SILENCE = 600.0
"""Seconds without a controller's heartbeat after which a broker ends: nobody is left to start tasks."""


@dataclass(frozen=True)
class Contact:
    """One broker process. Keys are Z85 texts, as ZeroMQ writes CURVE keys."""

    epoch: int
    """Counts the brokers of the run."""
    host: str
    pid: int
    addresses: tuple[str, ...]
    port: int
    key: str
    """The broker's public key."""
    client_key: str
    client_secret: str
    version: int = VERSION


def contact_file(root: Path) -> Path:
    return root / "broker.json"


def write_contact(root: Path, contact: Contact) -> None:
    """Replaces the file in one step; it can never be read by others, nor half."""
    put(contact_file(root), json.dumps(asdict(contact)), 0o600)


def read_contact(root: Path) -> Contact | None:
    """The broker of the run; None where none has listened yet, or it ended as it was asked to."""
    try:
        with open(contact_file(root), encoding="utf-8") as file:
            found = json.load(file)
        return Contact(**{**found, "addresses": tuple(found["addresses"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None
