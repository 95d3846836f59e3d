"""The state of a run's services, from the files of their replicas."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from diel.paths import RunPaths
from diel.services.endpoint import endpoint_file, read_endpoint


class ReplicaStatus(NamedTuple):
    """One replica that was started at least once."""

    task: str
    state: str
    """`starting`, `ready`, `restarting`, `stopped` or `failed`; `gone` if its worker is."""
    url: str
    restarts: int
    """Within its latest attempt."""
    message: str


class ServiceStatus(NamedTuple):
    """One service, with its replicas in the order of their tasks."""

    name: str
    replicas: tuple[ReplicaStatus, ...]

    @property
    def restarts(self) -> int:
        return sum(replica.restarts for replica in self.replicas)

    def document(self) -> dict[str, Any]:
        return {
            "ready": sum(replica.state == "ready" for replica in self.replicas),
            "restarts": self.restarts,
            "replicas": [replica._asdict() for replica in self.replicas],
        }


def services_of(paths: RunPaths, *, driven: bool) -> tuple[ServiceStatus, ...]:
    """The services of a run that has a folder for them.

    `driven`: whether it has a controller. Without one, none stays up.
    """
    names = sorted(entry.name for entry in os.scandir(paths.services) if entry.is_dir())
    return tuple(ServiceStatus(name, tuple(_replicas(paths, name, driven))) for name in names)


def _replicas(paths: RunPaths, name: str, driven: bool) -> Iterator[ReplicaStatus]:
    files = (paths.services / name).glob("*.json")
    for number in sorted(int(file.stem) for file in files if file.stem.isdecimal()):
        endpoint = read_endpoint(endpoint_file(paths, name, number))
        if endpoint is not None:
            left = not driven and not endpoint.is_over
            state = "gone" if left else endpoint.state
            url = endpoint.url if endpoint.is_ready and not left else ""
            yield ReplicaStatus(f"{name}/{number}", state, url, endpoint.restarts, endpoint.message)


# --- in words -------------------------------------------------------------------------------------


def service_lines(services: Iterable[ServiceStatus]) -> list[str]:
    """A line for each service, with its addresses while it is up."""
    lines: list[str] = []
    for service in services:
        urls = [replica.url for replica in service.replicas if replica.url]
        where = f": {', '.join(urls[:3])}{', …' if len(urls) > 3 else ''}" if urls else ""
        lines.append(f"service {service.name}: {_line(service)}{where}")
        lines += [
            f"  {replica.task}: {replica.message}"
            for replica in service.replicas
            if replica.message and replica.state in ("restarting", "failed")
        ][:3]
    return lines


def _line(service: ServiceStatus) -> str:
    """`2 of 2 replicas ready, restarted once`."""
    states = Counter(replica.state for replica in service.replicas)
    count = len(service.replicas)
    of = f" of {count}" if len(states) > 1 else ""
    word = "replica" if count == 1 else "replicas"
    parts = [f"{many}{of} {word} {state}" for state, many in states.items()]
    if service.restarts:
        parts.append("restarted once" if service.restarts == 1 else f"restarted {service.restarts} times")
    return ", ".join(parts)
