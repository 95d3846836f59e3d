"""What a trial job's report says of a pool: Python, packages, files, network, GPUs, launcher."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from typing import Any

from diel.doctor.finding import Finding
from diel.doctor.folder import MOST_SKEW
from diel.doctor.machine import CORE
from diel.doctor.probe import version_of
from diel.errors import counted
from diel.site import Site, cores_of
from diel.values import format_size


def read_report(site: Site, pool: str, report: dict[str, Any], digest: str) -> Iterator[Finding]:
    """The findings of one pool; `digest` is of the file that the doctor left for its job."""
    yield _python(pool, report)
    yield _packages(pool, report)
    yield _files(pool, report, digest)
    if "written" in report:
        yield _clock(pool, report)
    yield _network(site, pool, report)
    yield _node(site, pool, report)
    yield from _cores(site, pool, report)
    if "local" in report:
        yield _local(site, pool, dict(report["local"]))
    yield _launcher(site, pool, report)


def _local(site: Site, pool: str, disk: dict[str, Any]) -> Finding:
    name, folder = f"{pool}: local disk", disk.get("dir")
    if "error" in disk or "$" in str(folder):
        why = disk.get("error") if "$" not in str(folder) else "a variable in it is not set on the node"
        fix = "set `local: {dir: …}` in the site file to a directory that each node has for itself"
        return Finding(name, False, f"{folder}: {why}; inputs are not staged there", fix, required=False)
    free = int(disk.get("free") or 0)
    limit = site.local.size
    found = f"{folder}, {format_size(free)} free"
    if limit is not None and limit > free:
        fix = "set `local.size` in the site file to what the nodes have"
        return Finding(
            name, False, f"{found}, less than the {format_size(limit)} that diel may keep", fix, False
        )
    return Finding(name, True, found)


def _python(pool: str, report: dict[str, Any]) -> Finding:
    version, here = str(report.get("version")), platform.python_version()
    found = f"{version}, {report.get('python')}"
    if version.split(".")[:2] == here.split(".")[:2]:
        return Finding(f"{pool}: python", True, found)
    fix = f"let workers start the Python that controllers have ({here}, {sys.executable})"
    return Finding(f"{pool}: python", False, f"{found}, but {here} here", fix)


def _packages(pool: str, report: dict[str, Any]) -> Finding:
    there = dict(report.get("packages") or {})
    differing = []
    for name in ("diel", *CORE):
        here = version_of(name)
        if there.get(name) != here:
            differing.append(f"{name} {there.get(name) or 'not installed'} (here {here or 'not installed'})")
    if not differing:
        return Finding(f"{pool}: packages", True, f"diel {there.get('diel')} and what it needs, as here")
    fix = "use one installation on a file system that nodes share, or the same versions in both"
    return Finding(f"{pool}: packages", False, "; ".join(differing), fix)


def _files(pool: str, report: dict[str, Any], digest: str) -> Finding:
    if report.get("token") == digest and "written" in report:
        return Finding(f"{pool}: files", True, "the node reads and writes the same directory of the runs")
    reads = report.get("token") == digest
    found = (
        "the node reads the directory of the runs, but what it writes there is not seen here"
        if reads
        else "the node does not see what this host writes into the directory of the runs"
    )
    fix = "give a directory that nodes share with --runs DIR or DIEL_RUNS"
    return Finding(f"{pool}: files", False, found, fix)


def _clock(pool: str, report: dict[str, Any]) -> Finding:
    skew = float(report["written"]) - float(report.get("time") or 0.0)
    # Between looking round and writing it tried to reach this host, which takes time where it fails.
    ok = -MOST_SKEW <= skew <= MOST_SKEW + 6.0 * len(report.get("refused") or ())
    fix = "" if ok else "the node's clock and the file server's differ: tell those who run the cluster (NTP)"
    agree = f"the node's clock is within {max(abs(skew), 0.1):.1f} s of the files' times"
    return Finding(
        f"{pool}: clock", ok, agree if ok else f"the node's clock differs by {abs(skew):.0f} s", fix
    )


def _network(site: Site, pool: str, report: dict[str, Any]) -> Finding:
    if report.get("reached"):
        return Finding(f"{pool}: network", True, f"the node reaches this host by {report['reached']}")
    refused = dict(report.get("refused") or {})
    tried = "; ".join(f"{host}: {why}" for host, why in refused.items()) or "no address was to be tried"
    home = site.controller.home
    fix = (
        "set `address` in the site file to the interface or address by which nodes reach this host, let its "
        "firewall pass them, or let controllers live in jobs: controller: {home: job}"
    )
    found = f"the node cannot reach this host ({tried})"
    if home != "login":
        found += f"; controllers of this site live in jobs ({home}), not here"
    return Finding(f"{pool}: network", False, found, fix, required=home == "login")


def _node(site: Site, pool: str, report: dict[str, Any]) -> Finding:
    asked = site.pools[pool]
    gpus = dict(report.get("gpus") or {})
    cores, memory = (int(report.get(word) or 0) for word in ("cores", "memory"))
    found = f"{counted(cores, 'core')} given, {format_size(memory)} of memory"
    found += "".join(f", {name}={value}" for name, value in gpus.items())
    if asked.gpus and not gpus:
        found += "; no variable says which GPUs are given"
        fix = "see whether `gpus` and `options` of the pool ask for GPUs as this cluster wants it"
        return Finding(f"{pool}: node", False, found, fix, required=False)
    return Finding(f"{pool}: node", True, found)


def _cores(site: Site, pool: str, report: dict[str, Any]) -> Iterator[Finding]:
    """Whether a node has the cores that the pool says: a scheduler may know more of it than there are."""
    asked, there = cores_of(site.pools[pool]), int(report.get("host_cores") or 0)
    if 0 < there < asked:
        found = f"the node has {there}, and the pool says {asked}: its tasks share them"
        fix = f"write `cores: {there}` in the site file, where that is not on purpose"
        yield Finding(f"{pool}: cores", False, found, fix, required=False)


def _launcher(site: Site, pool: str, report: dict[str, Any]) -> Finding:
    if report.get("launcher"):
        return Finding(f"{pool}: launcher", True, str(report["launcher"]), required=False)
    fix = "load the module that has it in `setup` of the site or the pool, or correct `launcher`"
    return Finding(f"{pool}: launcher", False, f"no '{site.launcher[0]}' on the node", fix, required=False)
