"""The site's scheduler: whether it answers, which dialect it speaks, whether queues and nodes are as told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from diel.doctor.finding import Finding
from diel.doctor.nodes import (
    NodeKind,
    Queue,
    differences,
    parse_pbsnodes,
    parse_pbsnodes_json,
    parse_qstat,
    parse_server,
    parse_sinfo,
)
from diel.errors import did_you_mean
from diel.scheduler import pbs
from diel.scheduler.command import ask
from diel.scheduler.dialect import Dialect, find_dialects, silence
from diel.scheduler.scheduler import SchedulerBusy
from diel.site import Site, find_program

COMMANDS = {
    "slurm": ("sbatch", "squeue", "scancel"),
    "pbs": ("qsub", "qstat", "qdel"),
    "torque": ("qsub", "qstat", "qdel"),
}
TIMEOUT = 20.0
"""Seconds that a question to the scheduler may take."""
MOST_NAMES = 20
"""Names of queues in one line."""


def check_scheduler(site: Site) -> Iterator[Finding]:
    """Commands, dialect, queues, nodes; what does not answer is not asked more."""
    yield (commands := check_commands(site))
    if not commands.ok:
        return
    yield (spoken := check_dialect(site))
    if not spoken.ok:
        return
    try:
        queues, kinds = _queues_and_nodes(site)
    except SchedulerBusy as error:
        yield Finding("queues", False, str(error), "try again later: the scheduler is busy or down")
        return
    yield check_queues(site, queues)
    yield from check_nodes(site, queues, kinds)


def check_commands(site: Site) -> Finding:
    """The commands that diel calls are there."""
    found = {name: find_program(_program(site, name)) for name in COMMANDS[site.scheduler]}
    lacking = [name for name, path in found.items() if path is None]
    if lacking:
        fix = "work on a machine that has them (a login node), or load their module"
        return Finding("commands", False, f"no {', '.join(lacking)} on PATH", fix)
    told = ", ".join(str(path) for path in found.values())
    hiding = find_program("qsub")
    if site.scheduler == "pbs" and hiding != found["qsub"]:
        told += f" (not {hiding}, which is another scheduler's and comes first on PATH)"
    return Finding("commands", True, told)


def _program(site: Site, name: str) -> str:
    return pbs.program(name) if site.scheduler == "pbs" else name


def check_dialect(site: Site) -> Finding:
    """The scheduler that answers is the one that the site file says."""
    spoken = find_dialects()
    own = next((each for each in spoken if each.name == site.scheduler), None)
    others = [each for each in spoken if each.name != site.scheduler]
    if own is not None:
        told = _told(own)
        if own.wrapper and others:
            told += f"; {_told(others[0])} is behind them: --site {others[0].name} asks it without a detour"
        return Finding("scheduler", True, told)
    if not others:
        fix = "try again later, or on another login node: the commands are here, but no server answers"
        return Finding("scheduler", False, f"no {site.scheduler} answers: {silence(site.scheduler)}", fix)
    answered = ", ".join(_told(each) for each in others)
    fix = f"write `scheduler: {others[0].name}` in the site file, or choose --site {others[0].name}"
    if site.scheduler == "pbs" and others[0].name == "torque":
        fix = f"put PBS's own commands on PATH (their folder is often /opt/pbs/bin); or {fix}"
    return Finding("scheduler", False, f"the site says {site.scheduler}, but {answered} answers", fix)


def _told(dialect: Dialect) -> str:
    version = dialect.version.removeprefix("pbs_version =").strip()
    return version if version.startswith(dialect.name) else f"{dialect.name} {version}"


def _queues_and_nodes(site: Site) -> tuple[list[Queue], list[NodeKind]]:
    """Raises SchedulerBusy."""
    if site.scheduler == "slurm":
        return parse_sinfo(_answer(["sinfo", "--noheader", "--format=%P|%D|%z|%m|%G|%l"]))
    queues = parse_qstat(_answer([_program(site, "qstat"), "-Q", "-f"]))
    with suppress(SchedulerBusy):  # some have no such question: then none is known to be the default
        queues = parse_server(_answer([_program(site, "qstat"), "-B", "-f"]), queues)
    try:
        if site.scheduler == "pbs":
            return queues, parse_pbsnodes_json(_answer([_program(site, "pbsnodes"), "-a", "-F", "json"]))
        return queues, parse_pbsnodes(_answer(["pbsnodes", "-a"]))
    except SchedulerBusy:
        return queues, []  # many sites keep it from users


def _answer(words: Sequence[str]) -> str:
    answer = ask(words, timeout=TIMEOUT)
    if answer.code != 0:
        raise SchedulerBusy(f"`{' '.join(words)}`: {answer.words}")
    return answer.out


def check_queues(site: Site, queues: Sequence[Queue]) -> Finding:
    """The queues that pools name are there."""
    known = [queue.name for queue in queues]
    listed = ", ".join(known[:MOST_NAMES]) + (" …" if len(known) > MOST_NAMES else "")
    wanted = {name: pool.queue for name, pool in site.pools.items() if pool.queue is not None}
    if site.controller.queue is not None:
        wanted["the controller"] = site.controller.queue
    if not known:
        found = "the scheduler names none"
        return Finding("queues", not wanted, found, "" if not wanted else "ask those who run the cluster")
    lacking = {who: queue for who, queue in wanted.items() if queue not in known}
    if not lacking:
        own = ", ".join(dict.fromkeys(wanted.values())) or "the scheduler's default one"
        return Finding("queues", True, f"{own}; there are {listed}")
    told = "; ".join(f"'{queue}' of {who}" for who, queue in lacking.items())
    hints = [did_you_mean(queue, known) for queue in lacking.values()]
    hint = next((hint for hint in hints if hint), f"queues here: {listed}")
    return Finding("queues", False, f"not there: {told}", f"correct `queue` in the site file; {hint}")


def check_nodes(site: Site, queues: Sequence[Queue], kinds: Sequence[NodeKind]) -> Iterator[Finding]:
    """Cores, memory and GPUs of nodes as the site file and as the scheduler give them: advice, no failure."""
    if not kinds:
        yield Finding("nodes", True, "the scheduler does not tell their shape", required=False)
        return
    known = {queue.name for queue in queues}
    told = [
        difference
        for name, pool in site.pools.items()
        if pool.queue is None or pool.queue in known
        for difference in differences(
            name,
            pool.model_copy(update={"options": (*site.options, *pool.options)}),
            list(kinds),
            list(queues),
        )
    ]
    if told:
        fix = "correct the pools in the site file, where that is not on purpose"
        yield Finding("nodes", False, "; ".join(told), fix, required=False)
    else:
        most = max(kind.sharing for kind in kinds)
        shared = f"; up to {most} of its nodes are one host, with cores in common" if most > 1 else ""
        found = f"cores, memory, GPUs and walltimes are as the scheduler's{shared}"
        yield Finding("nodes", True, found, required=False)
