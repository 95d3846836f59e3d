"""Checks of environments: each that a stage names is defined, by the workflow or by the site."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from diel.errors import Problem, did_you_mean
from diel.load import Document
from diel.site import Site
from diel.spec import Environment


def definitions_of(document: Document, site: Site, folder: Path) -> Mapping[str, tuple[Environment, str]]:
    """The environments by name with absolute paths, and who defines each.

    A site knows its machine: its definition replaces the workflow's.
    """
    homes = {name: document.home(("environments", name)) or folder for name in document.spec.environments}
    known = document.spec.environments.items()
    own = {name: (one.beside(homes[name]), "the workflow") for name, one in known}
    return own | {name: (one, f"site '{site.name}'") for name, one in site.environments.items()}


def missing_environments(document: Document, site: Site) -> Iterator[Problem]:
    """Stages whose environment is defined neither by the workflow nor by the site."""
    known = {**document.spec.environments, **site.environments}
    for name, stage in document.spec.stages.items():
        wanted = stage.environment
        if wanted is None or wanted in known or "${{" in wanted:
            continue
        where = f"`environments` of this file, or of the file of site '{site.name}'"
        message = f"no environment '{wanted}' here or on site '{site.name}'"
        hint = did_you_mean(wanted, known) or f"define it under {where}: {{modules: […], setup: […]}}"
        yield document.problem(("stages", name, "environment"), message, hint)
