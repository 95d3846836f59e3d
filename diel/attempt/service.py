"""Under which key a result goes whose services may be given newer inputs while it is made.

A task asks for a service's newest model, and may be answered by another: the service can be given newer
inputs meanwhile, or refuse them. What counts is who answered: each replica's file says that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from diel.artifacts import digest_of
from diel.paths import RunPaths
from diel.services.endpoint import answering

Models = Mapping[str, str]
"""The keys of what services read, by service."""


class Answers(NamedTuple):
    """A task's key without what its services read, and what these should read."""

    key: str
    part: str
    """The digest of what it reads, without its services."""
    models: Models
    replicas: Mapping[str, Iterable[int]]
    """The task indices of the replicas that it asks, by service."""

    def key_with(self, models: Models | None) -> tuple[str, str]:
        """The key and the digest of what it reads, if these answered; both empty if nobody knows who did."""
        if models is None:
            return "", ""
        return digest_of([self.key, dict(models)]), digest_of([self.part, dict(models)])[:16]

    def now(self, paths: RunPaths) -> Models | None:
        """Who answers at this moment; None if that differs from replica to replica, or just changes."""
        return answering(paths, self.replicas, self.models)
