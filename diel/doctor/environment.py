"""Environments: each is made as for a run, entered, and `true` is run in it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from diel.attempt.bundle import Failure
from diel.attempt.environment import enter, evaluate
from diel.check.environment import definitions_of
from diel.controller.environment import kept_place
from diel.doctor.machine import Finding, attempt
from diel.environments.make import make
from diel.errors import DielError
from diel.load import Document
from diel.site import Site
from diel.states import FailureClass


def check_environments(site: Site, document: Document | None, runs: Path) -> Iterator[Finding]:
    """Whether programs start in the environments of a site and of a workflow, if one is given."""
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
    code, said = attempt(words, env=env)
    if code:
        raise Failure(FailureClass.APP, said.strip()[-300:] or f"exit code {code}", code)
