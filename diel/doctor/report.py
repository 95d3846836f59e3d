"""What a trial job reports about its node, over TCP or in a file, and what that says about a pool."""

from __future__ import annotations

import hashlib
import hmac
import platform
import secrets
import socketserver
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from pydantic import BaseModel

from diel.doctor.launcher import first_word
from diel.doctor.machine import CORE, MOST_SKEW, Finding
from diel.doctor.probe import version_of
from diel.errors import counted
from diel.site import Site, cores_of
from diel.values import format_size

MOST = 1 << 16
PATIENCE = 10.0
"""Seconds that a connected job has to report."""


class NodeDisk(BaseModel):
    """A node's own disk, or why nothing can be kept there."""

    dir: str = ""
    free: int = 0
    error: str = ""


class Report(BaseModel):
    """What `diel/doctor/probe.py` found on a node."""

    pool: str = ""
    """Its stem in the doctor's folder."""
    host: str = ""
    python: str = ""
    version: str = ""
    packages: dict[str, str | None] = {}
    token: str = ""
    """The digest of the file that the doctor left."""
    cores: int = 0
    host_cores: int = 0
    memory: int = 0
    gpus: dict[str, str] = {}
    launcher: str | None = None
    local: NodeDisk | None = None
    time: float = 0.0
    reached: str = ""
    """The address by which the node reached the doctor."""
    refused: dict[str, str] = {}
    """Why it could not be reached, by address."""
    written: float | None = None
    """The time of its file; None if it came over the network alone."""


class Ear:
    """A port that is open inside the `with` block, and the reports heard there, by pool.

    It believes only what proves that it knows the token.
    """

    def __init__(self) -> None:
        self.token = secrets.token_hex(32)
        self.reports: dict[str, Report] = {}
        self._server = _Listener(("0.0.0.0", 0), _Talk)  # jobs come from other nodes
        self._server.ear = self

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def __enter__(self) -> Ear:
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Listener(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    ear: Ear

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignores whoever breaks off or sends something else than a report."""


class _Talk(socketserver.StreamRequestHandler):
    timeout = PATIENCE

    def handle(self) -> None:
        challenge, ear = secrets.token_hex(32).encode(), cast("_Listener", self.server).ear
        self.wfile.write(challenge + b"\n")
        self.wfile.flush()
        proof, _, body = self.rfile.readline(MOST).rstrip(b"\n").partition(b" ")
        wanted = hmac.new(ear.token.encode(), challenge + body, hashlib.sha256).hexdigest().encode()
        if hmac.compare_digest(proof, wanted):
            report = Report.model_validate_json(body)
            ear.reports[report.pool] = report
            self.wfile.write(b"ok\n")


# --- what it says -----------------------------------------------------------------------------------


def read_report(site: Site, pool: str, report: Report, digest: str) -> Iterator[Finding]:
    """The findings about one pool; `digest` is that of the file that the doctor left for its job."""
    for finding in _findings(site, pool, report, digest):
        yield replace(finding, name=f"{pool}: {finding.name}")


def _findings(site: Site, pool: str, report: Report, digest: str) -> Iterator[Finding]:
    yield _python(report)
    yield _packages(report)
    yield _files(report, digest)
    if report.written is not None:
        yield _clock(report, report.written)
    yield _network(site, report)
    yield _node(report, gpus=bool(site.pools[pool].gpus))
    # A scheduler can think that a node has more cores than it has.
    if 0 < report.host_cores < (asked := cores_of(site.pools[pool])):
        found = f"the node has {report.host_cores}, and the pool says {asked}: its tasks share them"
        fix = f"write `cores: {report.host_cores}` in the site file, unless that is on purpose"
        yield Finding("cores", False, found, fix, required=False)
    if report.local is not None:
        yield _local(site, report.local)
    if report.launcher:
        yield Finding("launcher", True, report.launcher, required=False)
    else:
        fix = "load the module that has it in `setup` of the site or the pool, or correct `launcher`"
        yield Finding("launcher", False, f"no '{first_word(site)}' on the node", fix, required=False)


def _python(report: Report) -> Finding:
    here, found = platform.python_version(), f"{report.version}, {report.python}"
    if report.version.split(".")[:2] == here.split(".")[:2]:
        return Finding("python", True, found)
    fix = f"let workers start the Python that controllers use ({here}, {sys.executable})"
    return Finding("python", False, f"{found}, but {here} here", fix)


def _packages(report: Report) -> Finding:
    there, here = report.packages, {name: version_of(name) for name in ("diel", *CORE)}
    differing = [
        f"{name} {there.get(name) or 'not installed'} (here {version or 'not installed'})"
        for name, version in here.items()
        if there.get(name) != version
    ]
    if not differing:
        return Finding("packages", True, f"diel {there.get('diel')} and what it needs, as here")
    fix = "use one installation on a file system that nodes share, or the same versions in both"
    return Finding("packages", False, "; ".join(differing), fix)


def _files(report: Report, digest: str) -> Finding:
    reads = report.token == digest
    if reads and report.written is not None:
        return Finding("files", True, "the node reads and writes the same directory of the runs")
    found = (
        "the node reads the directory of the runs, but this host does not see what it writes there"
        if reads
        else "the node does not see what this host writes into the directory of the runs"
    )
    return Finding("files", False, found, "give a directory that nodes share with --runs DIR or DIEL_RUNS")


def _clock(report: Report, written: float) -> Finding:
    skew = written - report.time
    # Between looking around and writing it tried to reach this host, which takes time if it fails.
    if -MOST_SKEW <= skew <= MOST_SKEW + 6.0 * len(report.refused):
        within = f"the node's clock is within {max(abs(skew), 0.1):.1f} s of the files' times"
        return Finding("clock", True, within)
    fix = "the node's clock and the file server's differ: tell the administrators (NTP)"
    return Finding("clock", False, f"the node's clock differs by {abs(skew):.0f} s", fix)


def _network(site: Site, report: Report) -> Finding:
    if report.reached:
        return Finding("network", True, f"the node reaches this host at {report.reached}")
    tried = (
        "; ".join(f"{host}: {why}" for host, why in report.refused.items()) or "there was no address to try"
    )
    home = site.controller.home
    fix = (
        "set `address` in the site file to the interface or address at which nodes reach this host, let its "
        "firewall pass them, or let controllers live in jobs: controller: {home: job}"
    )
    found = f"the node cannot reach this host ({tried})"
    if home != "login":
        found += f"; controllers of this site live in jobs ({home}), not here"
    return Finding("network", False, found, fix, required=home == "login")


def _node(report: Report, *, gpus: bool) -> Finding:
    found = f"{counted(report.cores, 'core')} given, {format_size(report.memory)} of memory"
    found += "".join(f", {name}={value}" for name, value in report.gpus.items())
    if not gpus or report.gpus:
        return Finding("node", True, found)
    fix = "check whether `gpus` and `options` of the pool ask for GPUs as this cluster expects"
    return Finding("node", False, f"{found}; no variable says which GPUs it got", fix, required=False)


def _local(site: Site, disk: NodeDisk) -> Finding:
    if disk.error or "$" in disk.dir:
        why = "a variable in it is not set on the node" if "$" in disk.dir else disk.error
        fix = "set `local: {dir: …}` in the site file to a directory that each node has to itself"
        found = f"{disk.dir}: {why}; inputs are not staged there"
        return Finding("local disk", False, found, fix, required=False)
    found, limit = f"{disk.dir}, {format_size(disk.free)} free", site.local.size
    if limit is None or limit <= disk.free:
        return Finding("local disk", True, found)
    found += f", less than the {format_size(limit)} that diel may keep"
    fix = "set `local.size` in the site file to what the nodes have"
    return Finding("local disk", False, found, fix, required=False)
