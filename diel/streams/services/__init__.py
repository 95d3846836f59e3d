"""Services as tasks see them: what a module may ask about them, where they are, and a client."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from diel.base.errors import ModuleError

if TYPE_CHECKING:
    from diel.streams.services.client import ServiceClient

REPLICA = "replica"
"""The axis of a service's tasks over which its replicas run; no axis of a workflow may have its name."""

_clients: "dict[tuple[Path, str, tuple[int, ...]], ServiceClient]" = {}


class ServiceUser:
    """The part of a task's context that is about services: those that it asks, or the one that it is."""

    run_dir: Path
    index: int
    services: Mapping[str, Sequence[int]]

    def service(self, name: str) -> "ServiceClient":
        """Return a client of a service, whose connections stay open here. Raise ModuleError."""
        from diel.streams.services.client import connect  # only here: it loads the HTTP client

        if name not in self.services:
            names = ", ".join(self.services) or "none"
            raise ModuleError(f"the stage does not name '{name}' in its `services`, which are: {names}")
        key = self.run_dir, name, tuple(self.services[name])
        if key not in _clients:
            _clients[key] = connect(*key, first=self.index)
        return _clients[key]

    @property
    def service_host(self) -> str:
        """The address at which a service listens."""
        return os.environ.get("DIEL_SERVICE_HOST", "127.0.0.1")

    @property
    def service_port(self) -> int:
        """The port at which a service listens; 0, meaning any free port, outside a service."""
        return int(os.environ.get("DIEL_SERVICE_PORT") or 0)

    @property
    def service_token(self) -> str:
        """What a service's consumers must show, as `Authorization: Bearer TOKEN`; empty outside a service."""
        return os.environ.get("DIEL_SERVICE_TOKEN", "")
