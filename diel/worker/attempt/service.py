"""Under which key a result goes whose services may be given newer inputs meanwhile: that of who answered."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from diel.base.paths import RunPaths
from diel.store.artifacts import digest_of
from diel.streams.services.endpoint import answering

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
        """Return the key and the digest of what it reads, if these answered; both empty for None."""
        if models is None:
            return "", ""
        return digest_of([self.key, dict(models)]), digest_of([self.part, dict(models)])[:16]

    def now(self, paths: RunPaths) -> Models | None:
        """Return who answers now; None if that differs from replica to replica, or just changes."""
        return answering(paths, self.replicas, self.models)

    def key_since(self, before: Models | None, paths: RunPaths) -> tuple[str, str]:
        """Return the key with those who answered before, if they still do."""
        return self.key_with(before if before == self.now(paths) else None)
