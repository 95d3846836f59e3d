"""What a machine, a site and its scheduler need to run workflows, checked one by one."""

import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from diel.base.errors import DielError, did_you_mean
from diel.base.states import FailureClass
from diel.base.values import MAX_DURATION, format_duration, format_size
from diel.controller.environment import kept_place
from diel.doctor import machine
from diel.doctor.machine import EXTRAS, Finding
from diel.planning.check.environment import definitions_of
from diel.site.find import find_program, find_site
from diel.site.scheduler import Dialect, NodeKind, Offer, Queue, Scheduler, SchedulerBusy, scheduler_named
from diel.site.scheduler.scheduler import find_dialects
from diel.site.shape import cores_of
from diel.site.site import Pool, Site
from diel.worker.attempt.bundle import Failure
from diel.worker.attempt.environment import enter, evaluate
from diel.worker.environments.make import make
from diel.workflow.load import examine as examine_text
from diel.workflow.load import read_text

PROGRAMS = frozenset({"mpi ranks", "mpi launcher", "lmp", "dot"})
"""Checks of programs that not every workflow needs."""
MOST_NAMES = 20
"""Queues to name."""


def examine(runs: Path, site: str | None, file: Path | None = None, *, deep: bool) -> Iterator[Finding]:
    """Yield all checks, in turn; some start a program and take a second. `file` is a workflow."""
    yield machine.check_python()
    yield from (machine.check_package(package, "", required=True) for package in machine.CORE)
    chosen = None
    try:
        chosen = find_site(site, Path())
    except DielError as error:
        yield Finding("site", False, str(error), "fix the site file, or choose another with --site")
    else:
        yield machine.check_site(chosen)
    yield machine.check_machine()
    yield machine.check_runs(runs)
    yield machine.check_clock(runs)
    yield machine.check_loopback()
    if chosen is not None and chosen.scheduled:
        yield machine.check_account(chosen)
        yield from check_scheduler(chosen)
        yield from machine.check_shared(runs, chosen)
        yield machine.check_addresses(chosen)
    elif chosen is not None:
        yield machine.check_local(chosen, runs)
    yield from machine.check_extras()
    if chosen is not None:
        yield from machine.check_launchers(chosen)
    yield machine.check_lammps()
    yield machine.check_dot()
    yield from _check_environments(chosen, file, runs)
    if deep:
        yield machine.check_deep()


def _check_environments(site: Site | None, file: Path | None, runs: Path) -> Iterator[Finding]:
    """Start a program in each environment of site and workflow, made as for a run; yield a finding each."""
    try:
        document = None if file is None else examine_text(read_text(file), file)[0]
    except DielError as error:
        yield Finding("workflow", False, str(error), "name a workflow file, or none")
        return
    if file is not None and document is None:
        yield Finding("workflow", False, f"{file} cannot be read", f"`diel validate {file}` says why")
        return
    if site is None:
        return
    folder = (Path.cwd() if document is None else document.path.parent).resolve()
    for name, entry in definitions_of(document, site, folder).items():
        label, where = f"environment {name}", kept_place(site, runs)
        try:
            setup = make(name, entry, runs.resolve(), where, lambda _: None, here=not site.scheduled)
            with tempfile.TemporaryDirectory(prefix="diel-doctor-") as trial:
                evaluated = evaluate(setup, trial, {**os.environ}, _run, lambda _: None)
                env, words = enter(setup, evaluated, trial, {})
                _run((*words, "true"), env)
        except (DielError, Failure, OSError) as error:
            reason = str(error).removeprefix(f"environment '{name}': ")
            elsewhere = "; nodes may have what this host lacks" if site.scheduled else ""
            fix = f"correct it where it is defined, by {entry.source}{elsewhere}"
            yield Finding(label, False, reason, fix, required=not site.scheduled)
        else:
            yield Finding(label, True, setup.text)


def _run(words: tuple[str, ...], env: Mapping[str, str]) -> None:
    code, output = machine.attempt(words, env=env)
    if code:
        raise Failure(FailureClass.APP, output.strip()[-300:] or f"exit code {code}", code)


def check_scheduler(site: Site) -> Iterator[Finding]:
    """Commands, dialect, queues, nodes; a scheduler that does not answer is not asked again."""
    scheduler = scheduler_named(site.scheduler)
    yield (commands := check_commands(scheduler))
    if not commands.ok:
        return
    yield (spoken := check_dialect(site, scheduler))
    if not spoken.ok:
        return
    try:
        offer = scheduler.offer()
    except SchedulerBusy as error:
        yield Finding("queues", False, str(error), "try again later: the scheduler is busy or down")
        return
    if offer is None:
        yield Finding("queues", True, "the scheduler does not report them", required=False)
        return
    yield check_queues(site, offer.queues)
    yield from check_nodes(site, offer, scheduler.elsewhere)


def check_commands(scheduler: Scheduler) -> Finding:
    """Return whether the commands that diel calls exist."""
    paths = {name: find_program(scheduler.program(name)) for name in scheduler.commands}
    lacking = [name for name, path in paths.items() if path is None]
    if lacking:
        fix = "work on a machine that has them (a login node), or load their module"
        return Finding("commands", False, f"no {', '.join(lacking)} on PATH", fix)
    places = ", ".join(str(path) for path in paths.values()) or "diel calls none of its commands itself"
    if hiding := [first for name, path in paths.items() if (first := find_program(name)) not in (path, None)]:
        places += f" (not {hiding[0]}, which is another scheduler's and comes first on PATH)"
    return Finding("commands", True, places)


def check_dialect(site: Site, scheduler: Scheduler) -> Finding:
    """Return whether the scheduler that answers is the one in the site file."""
    dialects = find_dialects()
    own = dialects.pop(site.scheduler, None)
    first = next(iter(dialects), "")
    if own is not None:
        answers = _named(site.scheduler, own)
        if own.wrapper and dialects:
            answers += f"; {_named(first, dialects[first])} is behind them: --site {first} asks it directly"
        return Finding("scheduler", True, answers)
    if not dialects:
        problem = f"no {site.scheduler} answers"
        try:
            scheduler.dialect()
        except SchedulerBusy as error:
            problem += f": {error}"
        fix = "try again later, or on another login node: the commands are here, but no server answers"
        return Finding("scheduler", False, problem, fix)
    answered = ", ".join(_named(name, dialect) for name, dialect in dialects.items())
    fix = f"write `scheduler: {first}` in the site file, or choose --site {first}"
    if scheduler.hidden and set(scheduler.commands) & set(scheduler_named(first).commands):
        fix = f"{scheduler.hidden}; or {fix}"
    return Finding("scheduler", False, f"the site says {site.scheduler}, but {answered} answers", fix)


def _named(name: str, dialect: Dialect) -> str:
    return dialect.version if dialect.version.startswith(name) else f"{name} {dialect.version}".strip()


def check_queues(site: Site, queues: Sequence[Queue]) -> Finding:
    """Return whether the queues that pools name exist."""
    queue_names = [queue.name for queue in queues]
    listed = ", ".join(queue_names[:MOST_NAMES]) + (" …" if len(queue_names) > MOST_NAMES else "")
    needed = {name: pool.queue for name, pool in site.pools.items() if pool.queue is not None}
    if site.controller.queue is not None:
        needed["the controller"] = site.controller.queue
    if not queue_names:
        names = "the scheduler lists none"
        return Finding("queues", not needed, names, "" if not needed else "ask the administrators")
    lacking = {who: queue for who, queue in needed.items() if queue not in queue_names}
    if not lacking:
        own = ", ".join(dict.fromkeys(needed.values())) or "the scheduler's default queue"
        return Finding("queues", True, f"{own}; there are {listed}")
    missing = "; ".join(f"'{queue}' of {who}" for who, queue in lacking.items())
    hints = [did_you_mean(queue, queue_names) for queue in lacking.values()]
    hint = next((hint for hint in hints if hint), f"queues here: {listed}")
    return Finding("queues", False, f"not there: {missing}", f"fix `queue` in the site file; {hint}")


def check_nodes(site: Site, offer: Offer, elsewhere: Sequence[str]) -> Iterator[Finding]:
    """Compare the cores, memory and GPUs of nodes in site file and scheduler: advice, not a failure."""
    if not offer.nodes:
        yield Finding("nodes", True, "the scheduler does not report their shape", required=False)
        return
    queues = {queue.name for queue in offer.queues}
    advice: list[str] = []
    for name, pool in site.pools.items():
        if pool.queue is None or pool.queue in queues:
            whole = pool.model_copy(update={"options": (*site.options, *pool.options)})
            advice += differences(name, whole, offer, elsewhere)
    if advice:
        fix = "fix the pools in the site file, unless that is on purpose"
        yield Finding("nodes", False, "; ".join(advice), fix, required=False)
    else:
        most = max(kind.sharing for kind in offer.nodes)
        shared = f"; up to {most} of its nodes share one host and its cores" if most > 1 else ""
        verdict = f"cores, memory, GPUs and walltimes match the scheduler's{shared}"
        yield Finding("nodes", True, verdict, required=False)


def differences(name: str, pool: Pool, offer: Offer, elsewhere: Sequence[str] = ()) -> Iterator[str]:
    """Yield claims of a pool that no node of its queue meets. `elsewhere` are options for other queues."""
    kinds = offer.nodes
    own = [kind for kind in kinds if kind.queue in ("", pool.queue)] if pool.queue else kinds
    if own:
        nearest = max(own, key=lambda kind: _likeness(pool, kind))
        yield from (f"{name}: {line}" for line in _differences(pool, nearest))
    if any(re.split(r"[ =]", option)[0] in elsewhere for option in pool.options):
        return
    for queue in offer.queues:
        meant = queue.name == pool.queue if pool.queue else queue.default
        if meant and queue.limit is not None and pool.longest > min(queue.limit, MAX_DURATION):
            longest, limit = format_duration(pool.longest), format_duration(queue.limit)
            which = "queue" if pool.queue else "the default queue"
            yield f"{name}: blocks of up to {longest}, but {which} '{queue.name}' allows {limit}"


def _likeness(pool: Pool, kind: NodeKind) -> tuple[bool, bool, int, int]:
    """Return how well nodes fit a pool: its GPUs first, then its cores, then by how little is left over."""
    cores, gpus = cores_of(pool), kind.gpus >= pool.gpus and bool(kind.gpus) == bool(pool.gpus)
    return gpus, max(kind.cores, kind.threads) >= cores, -abs(kind.cores - cores), kind.nodes


def _differences(pool: Pool, kind: NodeKind) -> Iterator[str]:
    cores = cores_of(pool)
    threads = f" ({kind.threads} hardware threads)" if kind.threads != kind.cores else ""
    if cores != kind.cores:
        yield f"cores: {cores}, a node has {kind.cores}{threads}"
    if 0 < kind.physical < cores:
        shared = f", and {kind.sharing} of the scheduler's nodes share one" if kind.sharing > 1 else ""
        yield f"cores: {cores}, but the host has {kind.physical}{shared}"
    if pool.memory is not None and kind.memory and pool.memory > kind.memory:
        yield f"memory: {format_size(pool.memory)}, jobs get {format_size(kind.memory)} of a node"
    if pool.gpus != kind.gpus:
        yield f"gpus: {pool.gpus}, the scheduler knows of {kind.gpus} on a node"
