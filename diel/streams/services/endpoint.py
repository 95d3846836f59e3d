"""Where a replica of a service is, and its state: one small file, written by the worker that runs it.

Consumers, the controller and `status` read it. The token lies beside these files; only its owner may read it.
"""

import contextlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from diel.base.files import put
from diel.base.paths import RunPaths

STOP, INPUTS, EXECUTED = "stop", "inputs.json", "executed"
TOKEN = "token"
"""The file beside the replicas' folders that only its owner may read."""


class Endpoint(NamedTuple):
    """One replica, as last reported."""

    state: str
    """`starting`, `ready`, `restarting`, `stopped` or `failed`."""
    url: str
    """`http://127.0.0.1:41234`; empty before its first start."""
    attempt: int
    """The attempt of its task."""
    restarts: int = 0
    """How often it was restarted within this attempt."""
    message: str = ""
    """Why it is not ready, if that needs saying."""
    inputs: str = ""
    """Key of the inputs with which it answers; empty while it is given newer ones."""
    refused: str = ""
    """Key of the newer inputs that it did not take."""
    time: float = 0.0

    @property
    def is_ready(self) -> bool:
        return self.state == "ready"

    @property
    def is_over(self) -> bool:
        """Whether its worker has ended this attempt."""
        return self.state in ("stopped", "failed")


def endpoint_file(paths: RunPaths, stage: str, index: int) -> Path:
    """Return the file in which a replica says where it is."""
    return paths.services / stage / f"{index}.json"


def counts_file(paths: RunPaths, stage: str, index: int) -> Path:
    """Return what a replica last said at /metrics, in Prometheus' text format: it may be gone."""
    return paths.services / stage / f"{index}.metrics"


def message_file(paths: RunPaths, stage: str, index: int, attempt: int, word: str) -> Path:
    """Return what the worker of a replica is told: to STOP it, or newer INPUTS; or says that it EXECUTED."""
    return paths.services / stage / f"{index}.{attempt}.{word}"


def notes_of(paths: RunPaths, services: Mapping[str, Iterable[int]] | None) -> Iterator[str]:
    """Yield the files in which the replicas that answer now note what they execute."""
    for name, replicas in (services or {}).items():
        for replica in replicas:
            if (endpoint := read_endpoint(endpoint_file(paths, name, replica))) is not None:
                yield str(message_file(paths, name, replica, endpoint.attempt, EXECUTED))


def answering(
    paths: RunPaths, services: Mapping[str, Iterable[int]], names: Iterable[str]
) -> dict[str, str] | None:
    """Return the key of the inputs with which each service answers now, by its replicas' task indices; None
    where replicas do not all answer with the same, or one is just given newer ones."""
    models: dict[str, str] = {}
    for name in names:
        read = (read_endpoint(endpoint_file(paths, name, replica)) for replica in services[name])
        keys = {endpoint.inputs for endpoint in read if endpoint is not None and endpoint.is_ready}
        if len(keys) != 1 or "" in keys:
            return None
        models[name] = keys.pop()
    return models


def write_endpoint(path: Path, endpoint: Endpoint) -> None:
    """Put a replica's file in place in one step. Raise OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    put(path, json.dumps({**endpoint._asdict(), "time": time.time()}))


def read_endpoint(path: Path) -> Endpoint | None:
    """Return what a replica's file says; None if there is no readable one."""
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return Endpoint(**document)
    except (OSError, ValueError, TypeError):
        return None


def make_token(paths: RunPaths) -> str:
    """Return the token of a run's services, made on first use. Raise OSError."""
    import secrets  # here, for it loads hashes that `diel validate` does not need

    with contextlib.suppress(FileNotFoundError):
        return read_token(paths)
    paths.services.mkdir(parents=True, exist_ok=True)
    put(paths.services / TOKEN, secrets.token_urlsafe(32), 0o600)
    return read_token(paths)


def read_token(paths: RunPaths) -> str:
    """Return the token of a run's services. Raise OSError if it has none."""
    return (paths.services / TOKEN).read_text(encoding="ascii").strip()


def variable_of(service: str) -> str:
    """Return the prefix of a service's variables: `DIEL_SERVICE_SERVE`."""
    return f"DIEL_SERVICE_{service.upper()}"


def variables(paths: RunPaths, services: Mapping[str, Iterable[int]] | None, index: int) -> dict[str, str]:
    """Return the variables of a consumer about its services, by their replicas' task indices. Consumers take
    turns by their own `index`. Without a ready replica, the URLs are the last or coming ones."""
    env: dict[str, str] = {}
    for name, replicas in (services or {}).items():
        read = (read_endpoint(endpoint_file(paths, name, replica)) for replica in replicas)
        present = [endpoint for endpoint in read if endpoint is not None]
        urls = [endpoint.url for endpoint in present if endpoint.is_ready] or [
            endpoint.url for endpoint in present if endpoint.url
        ]
        begin = variable_of(name)
        env[f"{begin}_URL"] = urls[index % len(urls)] if urls else ""
        env[f"{begin}_URLS"] = ",".join(urls)
        env[f"{begin}_TOKEN"] = read_token(paths)
    return env
