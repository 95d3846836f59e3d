"""Checks of environments: the workflow or the site defines each one that a stage names."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from diel.base.errors import Problem, did_you_mean
from diel.site.site import Site
from diel.workflow.load import Document
from diel.workflow.models import Stage, Workflow
from diel.workflow.models.environment import Definition


def definitions_of(document: Document | None, site: Site, folder: Path) -> Mapping[str, Definition]:
    """Return environments by name: those of the workflow in `folder`, and of the site, which come first."""
    definitions: dict[str, Definition] = {}
    for name, spec in document.spec.environments.items() if document is not None else ():
        home = (document and document.home(("environments", name))) or folder
        definitions[name] = Definition(spec.beside(home), "the workflow", home)
    source = f"site '{site.name}'"
    return definitions | {name: Definition(spec, source, folder) for name, spec in site.environments.items()}


def missing_files(document: Document, site: Site, folder: Path) -> Iterator[Problem]:
    """Yield missing files and directories of packages; a run that goes on has its own."""
    for name, (place, source, home) in definitions_of(document, site, folder).items():
        if source != "the workflow":
            continue
        prefix = place.prefix and ("" if site.scheduled else f"{place.prefix}/conda-meta")
        files = {
            ("python", "requirements"): place.python and place.python.requirements,
            ("conda",): place.conda if prefix is None else prefix,
        }
        for key, file in files.items():
            if file and not os.path.exists(file):
                hint = f"it is looked for in {home}: {file}"
                yield document.problem(("environments", name, *key), "no such file or directory", hint)


def own_places(document: Document, folder: Path) -> dict[str, str]:
    """Return the files and directories that environments are made of, each with a description."""
    owners = {}
    for name, own in document.spec.environments.items():
        spec = own.beside(document.home(("environments", name)) or folder)
        packages, image = spec.python and spec.python.requirements, spec.container and spec.container.image
        for file in (packages, spec.conda, spec.spack, image):
            if isinstance(file, str) and os.path.isabs(file):
                owners[os.path.realpath(file)] = f"what environment '{name}' is made of"
    return owners


def brings_packages(workflow: Workflow, stage: Stage) -> bool:
    """Return whether the packages of a stage's environment are its own, not those installed here."""
    own = workflow.environments.get(stage.environment or "")
    return own is not None and any((own.python, own.conda, own.container))


def missing_environments(document: Document, site: Site) -> Iterator[Problem]:
    """Report stages whose environment neither the workflow nor the site defines."""
    defined = {**document.spec.environments, **site.environments}
    for name, stage in document.spec.stages.items():
        environment = stage.environment
        if environment is None or environment in defined or "${{" in environment:
            continue
        where = f"`environments` of this file, or of the file of site '{site.name}'"
        message = f"no environment '{environment}' here or on site '{site.name}'"
        hint = did_you_mean(environment, defined) or f"define it under {where}: {{modules: […], setup: […]}}"
        yield document.problem(("stages", name, "environment"), message, hint)
