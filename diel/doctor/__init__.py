"""What a machine, or a site, needs to run workflows, checked one by one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from diel.attempt.bundle import Failure
from diel.attempt.environment import enter, evaluate
from diel.check.environment import definitions_of
from diel.controller.environment import kept_place
from diel.doctor import machine
from diel.doctor.machine import EXTRAS as EXTRAS
from diel.doctor.machine import Finding as Finding
from diel.environments.make import make
from diel.errors import DielError
from diel.load import examine as examine_text
from diel.load import read_text
from diel.site import Site, find_site
from diel.states import FailureClass

PROGRAMS = frozenset({"mpi ranks", "mpi launcher", "lmp", "dot"})
"""Checks of programs that not every workflow needs."""


def examine(runs: Path, site: str | None, file: Path | None = None, *, deep: bool) -> Iterator[Finding]:
    """All checks, in turn; some start a program and take a second. `file` is a workflow."""
    yield machine.check_python()
    yield from (machine.check_package(package, "", required=True) for package in machine.CORE)
    known = None
    try:
        known = find_site(site, Path())
    except DielError as error:
        yield Finding("site", False, str(error), "fix the site file, or choose another with --site")
    else:
        yield machine.check_site(known)
    yield machine.check_machine()
    yield machine.check_runs(runs)
    yield machine.check_clock(runs)
    yield machine.check_loopback()
    if known is not None and known.scheduled:
        from diel.doctor.scheduler import check_scheduler  # without a scheduler it need not be loaded

        yield machine.check_account(known)
        yield from check_scheduler(known)
        yield from machine.check_shared(runs, known)
        yield machine.check_addresses(known)
    elif known is not None:
        yield machine.check_local(known, runs)
    yield from machine.check_extras()
    if known is not None:
        yield from machine.check_launchers(known)
    yield machine.check_lammps()
    yield machine.check_dot()
    yield from _check_environments(known, file, runs)
    if deep:
        yield machine.check_deep()


def _check_environments(site: Site | None, file: Path | None, runs: Path) -> Iterator[Finding]:
    """Whether programs start in the environments of a site and of a workflow: each is made as for a run."""
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
    for name, one in definitions_of(document, site, folder).items():
        label, where = f"environment {name}", kept_place(site, runs)
        try:
            made = make(name, one, runs.resolve(), where, lambda _: None, here=not site.scheduled)
            with tempfile.TemporaryDirectory(prefix="diel-doctor-") as trial:
                evaluated = evaluate(made, trial, {**os.environ}, _run, lambda _: None)
                env, words = enter(made, evaluated, trial, {})
                _run((*words, "true"), env)
        except (DielError, Failure, OSError) as error:
            told = str(error).removeprefix(f"environment '{name}': ")
            elsewhere = "; nodes may have what this host lacks" if site.scheduled else ""
            fix = f"correct it where it is defined, by {one.source}{elsewhere}"
            yield Finding(label, False, told, fix, required=not site.scheduled)
        else:
            yield Finding(label, True, made.text)


def _run(words: tuple[str, ...], env: Mapping[str, str]) -> None:
    code, said = machine.attempt(words, env=env)
    if code:
        raise Failure(FailureClass.APP, said.strip()[-300:] or f"exit code {code}", code)
