"""Services as lines for people."""

from __future__ import annotations

from diel.status import Status
from diel.status.services import told


def service_lines(status: Status) -> list[str]:
    """A line a service; with its addresses while it is up."""
    lines: list[str] = []
    for service in status.services:
        urls = [replica.url for replica in service.replicas if replica.url]
        where = f": {', '.join(urls[:3])}{', …' if len(urls) > 3 else ''}" if urls else ""
        lines.append(f"service {service.name}: {told(service.document())}{where}")
        lines += [
            f"  {replica.task}: {replica.message}"
            for replica in service.replicas
            if replica.message and replica.state in ("restarting", "failed")
        ][:3]
    return ["", *lines] if lines else []
