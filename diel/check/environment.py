"""Checks of environments: each that a stage names is defined, by the workflow or by the site."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from diel.errors import Problem, did_you_mean
from diel.load import Document
from diel.site import Site
from diel.spec import Environment


def environments_of(document: Document, site: Site) -> Mapping[str, Environment]:
    """The environments by name; a site knows its machine, so that its definition replaces the workflow's."""
    return {**document.spec.environments, **site.environments}


def missing_environments(document: Document, site: Site) -> Iterator[Problem]:
    """Stages whose environment is defined neither by the workflow nor by the site."""
    known = environments_of(document, site)
    for name, stage in document.spec.stages.items():
        wanted = stage.environment
        if wanted is None or wanted in known or "${{" in wanted:
            continue
        where = f"`environments` of this file, or of the file of site '{site.name}'"
        message = f"no environment '{wanted}' here or on site '{site.name}'"
        hint = did_you_mean(wanted, known) or f"define it under {where}: {{modules: […], setup: […]}}"
        yield document.problem(("stages", name, "environment"), message, hint)
