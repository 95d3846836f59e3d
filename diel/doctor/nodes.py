"""What a scheduler says of its queues and nodes, and how that differs from a site file. Pure."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from diel.site import Pool, cores_of
from diel.values import MAX_DURATION, format_duration, format_size, parse_size

_ELSEWHERE = re.compile(r"(--partition|--qos|-p|-q)\b")
"""Options that send jobs elsewhere than `queue` says, or under other limits."""
_GPUS = re.compile(r"\bgpu(?::[^:,(]+)?:(\d+)")


@dataclass(frozen=True)
class NodeKind:
    """Nodes of one shape, as the scheduler gives them."""

    queue: str
    """Empty where the scheduler does not say which queue has them."""
    nodes: int
    cores: int
    threads: int
    """Hardware threads; what some schedulers count as CPUs."""
    memory: int
    """Bytes; 0 where it does not say."""
    gpus: int
    physical: int = 0
    """Cores that the host really has; 0 where the scheduler does not say."""
    sharing: int = 1
    """How many such nodes (vnodes) there are on one host: its cores are not their sum."""


@dataclass(frozen=True)
class Queue:
    """A queue, with the longest walltime that it allows."""

    name: str
    limit: float | None = None
    """Seconds; None where there is none, or the scheduler does not say."""
    default: bool = False
    """Whether jobs that name no queue go there."""


def parse_sinfo(text: str) -> tuple[list[Queue], list[NodeKind]]:
    """Of `sinfo -h -o %P|%D|%z|%m|%G|%l`: partitions, and their nodes. Memory there is in MiB."""
    queues: dict[str, Queue] = {}
    kinds = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) != 6:
            continue
        name, nodes, shape, memory, gres, limit = fields
        default, name = name.endswith("*"), name.rstrip("*")
        queues[name] = Queue(name, _days(limit), default)
        sockets, cores, threads = ([int(part) for part in re.findall(r"\d+", shape)] + [1, 1, 1])[:3]
        gpus = sum(int(number) for number in _GPUS.findall(gres))
        bytes_ = int(re.sub(r"\D", "", memory) or 0) * 2**20
        count = int(re.sub(r"\D", "", nodes) or 0)
        kinds.append(NodeKind(name, count, sockets * cores, sockets * cores * threads, bytes_, gpus))
    return list(queues.values()), kinds


def _days(text: str) -> float | None:
    """Seconds of Slurm's `1-12:00:00`, `30:00`, `infinite`."""
    days, _, clock = text.rpartition("-")
    parts = clock.split(":")
    if not all(part.isdigit() for part in parts) or not (days.isdigit() or not days):
        return None
    seconds = 0.0
    for part in parts if len(parts) > 1 else [*parts, "0"]:
        seconds = 60 * seconds + int(part)
    return seconds + 86400 * int(days or 0)


def parse_qstat(text: str) -> list[Queue]:
    """Of `qstat -Q -f`, or of the table that some answer with: the queues of PBS and Torque."""
    queues = []
    for block in re.split(r"^(?=Queue:)", text, flags=re.MULTILINE):
        name = re.match(r"Queue:\s*(\S+)", block)
        if name:
            limit = re.search(r"resources_max\.walltime\s*=\s*([\d:]+)", block)
            queues.append(Queue(name[1], _days(limit[1]) if limit else None))
    if queues:
        return queues
    rows = re.split(r"^-{3}.*$", text, maxsplit=1, flags=re.MULTILINE)
    return [Queue(line.split()[0]) for line in rows[-1].splitlines() if line.strip()] if len(rows) > 1 else []


def parse_server(text: str, queues: list[Queue]) -> list[Queue]:
    """Of `qstat -B -f`: the queues, with the one known to which jobs go that name none."""
    told = re.search(r"^\s*default_queue\s*=\s*(\S+)", text, re.MULTILINE)
    default = told[1] if told else None
    return [replace(queue, default=queue.name == default) for queue in queues]


def parse_pbsnodes_json(text: str) -> list[NodeKind]:
    """Of `pbsnodes -a -F json`, as PBS Pro and OpenPBS answer."""
    try:
        nodes = json.loads(text).get("nodes", {})
    except (ValueError, AttributeError):
        return []
    sharing = Counter(_host(node) for node in nodes.values())
    kinds = []
    for node in nodes.values():
        has: Mapping[str, Any] = node.get("resources_available", {})
        cpus, gpus = (int(has.get(name, 0) or 0) for name in ("ncpus", "ngpus"))
        physical, shared = int(node.get("pcpus", 0) or 0), sharing[_host(node)]
        kinds.append(NodeKind("", 1, cpus, cpus, _size(str(has.get("mem", ""))), gpus, physical, shared))
    return gathered(kinds)


def _host(node: Mapping[str, Any]) -> str:
    """The host of a vnode; a name of its own where that is not told."""
    return str(node.get("resources_available", {}).get("host") or node.get("Mom") or id(node))


def parse_pbsnodes(text: str) -> list[NodeKind]:
    """Of `pbsnodes -a`, as Torque answers."""
    kinds = []
    for block in re.split(r"^(?=\S)", text, flags=re.MULTILINE):
        cores = re.search(r"^\s+(?:np|pcpus|ncpus)\s*=\s*(\d+)", block, re.MULTILINE) or re.search(
            r"\bncpus=(\d+)", block
        )
        if cores is None:
            continue
        memory = re.search(r"\bphysmem=(\w+)", block)
        gpus = re.search(r"^\s+gpus\s*=\s*(\d+)", block, re.MULTILINE)
        count = int(cores[1])
        size = _size(memory[1]) if memory else 0
        kinds.append(NodeKind("", 1, count, count, size, int(gpus[1]) if gpus else 0))
    return gathered(kinds)


def gathered(kinds: list[NodeKind]) -> list[NodeKind]:
    """Nodes of the same shape counted together."""
    counts: Counter[NodeKind] = Counter()
    for kind in kinds:
        counts[replace(kind, nodes=0)] += kind.nodes
    return [replace(shape, nodes=count) for shape, count in counts.items()]


def _size(text: str) -> int:
    """Bytes of PBS's `527672492kb`, where k means 1024."""
    match = re.fullmatch(r"(\d+)([kmgtp]?)b?", text.lower())
    return parse_size(f"{match[1]}{match[2].upper()}{'i' if match[2] else ''}B") if match else 0


def differences(name: str, pool: Pool, kinds: list[NodeKind], queues: list[Queue]) -> Iterator[str]:
    """What a pool claims and no node of its queue has, as advice."""
    own = [kind for kind in kinds if kind.queue in ("", pool.queue)] if pool.queue else kinds
    if own:
        nearest = max(own, key=lambda kind: _likeness(pool, kind))
        yield from (f"{name}: {told}" for told in _differences(pool, nearest))
    queue = _queue_of(pool, queues)
    if queue is not None and queue.limit is not None and pool.longest > min(queue.limit, MAX_DURATION):
        longest, limit = format_duration(pool.longest), format_duration(queue.limit)
        which = "queue" if pool.queue else "the default queue"
        yield f"{name}: blocks of up to {longest}, but {which} '{queue.name}' allows {limit}"


def _queue_of(pool: Pool, queues: list[Queue]) -> Queue | None:
    """The queue that a pool names, or the scheduler's default one; None where that is not known."""
    if any(_ELSEWHERE.match(option) for option in pool.options):
        return None
    if pool.queue is None:
        return next((queue for queue in queues if queue.default), None)
    return next((queue for queue in queues if queue.name == pool.queue), None)


def _likeness(pool: Pool, kind: NodeKind) -> tuple[bool, bool, int, int]:
    """How well nodes fit a pool: its GPUs first, then its cores, then by how little is left over."""
    cores = cores_of(pool)
    return (
        kind.gpus >= pool.gpus and bool(kind.gpus) == bool(pool.gpus),
        kind.cores >= cores or kind.threads >= cores,
        -abs(kind.cores - cores),
        kind.nodes,
    )


def _differences(pool: Pool, kind: NodeKind) -> Iterator[str]:
    cores = cores_of(pool)
    threads = f" ({kind.threads} hardware threads)" if kind.threads != kind.cores else ""
    if cores != kind.cores:
        yield f"cores: {cores}, a node has {kind.cores}{threads}"
    if 0 < kind.physical < cores:
        shared = f", and {kind.sharing} nodes of the scheduler share one" if kind.sharing > 1 else ""
        yield f"cores: {cores}, but the host has {kind.physical}{shared}"
    if pool.memory is not None and kind.memory and pool.memory > kind.memory:
        yield f"memory: {format_size(pool.memory)}, jobs get {format_size(kind.memory)} of a node"
    if pool.gpus != kind.gpus:
        yield f"gpus: {pool.gpus}, the scheduler knows {kind.gpus} of a node"
