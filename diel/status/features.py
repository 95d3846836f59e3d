"""What environments, exports, notices, streams and services add to the state of a run, and their lines."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from diel.errors import counted
from diel.journal.segment import read_segment
from diel.paths import RunPaths
from diel.services.endpoint import endpoint_file, read_endpoint
from diel.status.columns import paint, printable

_MOST_STREAMS = 10
"""The most channels to show; a run with matched axes can have thousands."""


def notices_of(paths: RunPaths) -> dict[str, dict[str, Any]]:
    """Return notices by `ended-1.mail-1`: kind, way, state (sending, sent, failed), time, message."""
    notices = {}
    for file in sorted(paths.notices.glob("*.jsonl")):
        records: list[Any] = [record for _, _, record in read_segment(file) if record is not None]
        if records:
            last = records[-1]
            keys = ("kind", "way", "state", "time", "message")
            notices[file.stem] = {key: last[key] for key in keys if key in last}
    return notices


def notice_lines(notices: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the kinds of notices sent, in one line, and each address that failed with its reason, once."""
    sent = {notice["kind"]: None for notice in notices.values() if notice.get("state") == "sent"}
    lines = [f"told: {', '.join(sent)}"] if sent else []
    reasons: dict[tuple[str, str], list[str]] = {}
    for notice in notices.values():
        if notice.get("state") == "failed":
            reason = str(notice["way"]), str(notice.get("message", ""))
            reasons.setdefault(reason, []).append(str(notice["kind"]))
    for (way, message), kinds in reasons.items():
        lines.append(paint(f"not told by {way} ({', '.join(kinds)}): {printable(message)}", fg="red"))
    return lines


def environments_in(paths: RunPaths) -> dict[str, str]:
    """Return the environments of a run in a few words, by name."""
    from diel.environments.prepared import read_prepared  # here: it loads what digests are made with

    return {name: prepared.text for name, prepared in read_prepared(paths.environments).items()}


def environment_lines(environments: Mapping[str, str]) -> list[str]:
    return [f"environment {name}: {printable(text)}" for name, text in environments.items()]


def unexported(exports: Mapping[str, Mapping[str, Any]]) -> str:
    """Return why something was not put in place, and what to do; empty if all was."""
    message = next((export["message"] for export in exports.values() if export["failed"]), "")
    return f"not exported: {message}; `diel resume` tries again" if message else ""


def export_lines(exports: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return where the files of each output went; why some did not."""
    lines = []
    for name, export in exports.items():
        if export["files"]:
            folder = os.path.relpath(export["folder"])
            folder = export["folder"] if folder.startswith("../..") else folder
            lines.append(f"exported: {counted(export['files'], 'file')} of {name} to {printable(folder)}")
        if refused := export.get("kept"):
            clash = f"{counted(refused, 'export')} of {name} met another file"
            lines.append(f"{clash}: {printable(export['why'])}")
        if export["failed"]:
            more = f", and {export['failed'] - 1:,} more" if export["failed"] > 1 else ""
            lines.append(paint(f"not exported: {printable(export['message'])}{more}", fg="red"))
    return lines


def facts_file(paths: RunPaths) -> Path:
    """Return the state of the channels, as the broker last reported it."""
    return paths.streams / "facts.json"


def streams_of(paths: RunPaths) -> dict[str, Mapping[str, Any]]:
    """Return by channel: items, whether it is closed, and how far each group of readers has come."""
    try:
        streams = json.loads(facts_file(paths).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {name: streams[name] for name in sorted(streams)} if isinstance(streams, dict) else {}


def stream_lines(streams: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a line for each channel: how many items, whether more can come, how far readers are behind."""
    lines = [_stream_line(name, facts) for name, facts in list(streams.items())[:_MOST_STREAMS]]
    more = len(streams) - _MOST_STREAMS
    return [*lines, *([f"and {more:,} more streams"] if more > 0 else [])]


def _stream_line(name: str, facts: Mapping[str, Any]) -> str:
    behind = [
        group.get("waiting", 0) for group in facts.get("groups", {}).values() if not group.get("settled")
    ]
    line = f"stream {name}: {counted(facts.get('items', 0), 'item')}"
    line += ", complete" if facts.get("closed") else ""
    line += f", broken: {facts['broken']}" if facts.get("broken") else ""
    return line + (f", {max(behind):,} of them unread" if behind and max(behind) else "")


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
    """Return the services of a run that has a folder for them.

    `driven`: whether it has a controller. Without one, none stays up.
    """
    names = sorted(entry.name for entry in os.scandir(paths.services) if entry.is_dir())
    return tuple(ServiceStatus(name, tuple(_replicas(paths, name, driven))) for name in names)


def _replicas(paths: RunPaths, name: str, driven: bool) -> Iterator[ReplicaStatus]:
    files = (paths.services / name).glob("*.json")
    for number in sorted(int(file.stem) for file in files if file.stem.isdecimal()):
        endpoint = read_endpoint(endpoint_file(paths, name, number))
        if endpoint is not None:
            is_gone = not driven and not endpoint.is_over
            state = "gone" if is_gone else endpoint.state
            url = endpoint.url if endpoint.is_ready and not is_gone else ""
            yield ReplicaStatus(f"{name}/{number}", state, url, endpoint.restarts, endpoint.message)


def service_lines(services: Iterable[ServiceStatus]) -> list[str]:
    """Return a line for each service, with its addresses while it is up."""
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
    """Return `2 of 2 replicas ready, restarted once`."""
    states = Counter(replica.state for replica in service.replicas)
    count = len(service.replicas)
    of = f" of {count}" if len(states) > 1 else ""
    word = "replica" if count == 1 else "replicas"
    parts = [f"{many}{of} {word} {state}" for state, many in states.items()]
    if service.restarts:
        parts.append("restarted once" if service.restarts == 1 else f"restarted {service.restarts} times")
    return ", ".join(parts)
