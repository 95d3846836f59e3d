"""Services as their consumers see them: where they are, and a client."""

from __future__ import annotations

REPLICA = "replica"
"""The axis of a service's tasks over which its replicas run; no axis of a workflow may have its name."""
