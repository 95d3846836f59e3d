"""A checked workflow: spec, graph, modules and hyperparameters that fit together."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from diel.check.command import check_command
from diel.check.contracts import check_contracts
from diel.check.export import check_exports
from diel.check.files import check_files
from diel.check.flaws import Check, check_axes
from diel.check.gathers import check_conditions, check_gathers
from diel.check.launcher import check_launcher
from diel.check.modules import check_module, find_modules
from diel.check.names import check_expressions, check_untils, check_values, visible_names
from diel.check.outputs import check_metrics, check_outputs
from diel.check.points import check_designs
from diel.check.publishing import check_published
from diel.check.search import check_searches, check_whens
from diel.check.staging import check_staging
from diel.check.surrogate import check_surrogates
from diel.errors import MAX_PROBLEMS, SpecError
from diel.files import flaw_of
from diel.graph import StageGraph, build
from diel.load import Document, examine, read_text
from diel.load.rendering import fill_templates, read_templates
from diel.modules.catalogue import Module
from diel.modules.sources import SourceVersion
from diel.paths import registry_dir, runs_dir
from diel.registry import Hyperparameters, read_current, resolve
from diel.spec import Workflow
from diel.spec.forms.axis import Points
from diel.spec.rendering import Filling

Counts = Mapping[str, int | None]


class Checked(NamedTuple):
    """A workflow with no known mistake."""

    document: Document
    graph: StageGraph
    modules: Mapping[str, Module]
    """By stage, for the stages that run a Python module."""
    hyperparameters: Hyperparameters
    counts: Mapping[str, int | None]
    """Points by axis; None if only a run will show them."""
    points: Mapping[str, Points] = {}
    """Those that are listed or computed, by axis."""

    @property
    def workflow(self) -> Workflow:
        return self.document.spec

    def kind(self, stage: str) -> str:
        """Simulation, training, inference or analysis."""
        module = self.modules.get(stage)
        own = self.workflow.stages[stage].kind
        return own or (module.signature.kind if module is not None else None) or "analysis"


def check(
    path: Path,
    settings: Sequence[str] = (),
    params_files: Sequence[Path] = (),
    *,
    folder: Path | None = None,
    cwd: Path | None = None,
    text: str | None = None,
    included: Mapping[str, str] | None = None,
    runs: Path | None = None,
    kept: Hyperparameters | None = None,
    templates: Mapping[str, Filling] | None = None,
    sources: SourceVersion | None = None,
) -> Checked:
    """Reads a workflow file and checks all of it.

    `folder` is where its files and modules are looked for (the file's own directory), `text` stands in for
    the file's content, `included` for those of workflows that it includes. `runs` is the directory of the
    runs, whose project has values of hyperparameters; `kept` stands in for all values, `templates` for
    such files, and `sources` for modules, where a run has its own already. Raises SpecError with all problems
    found, UsageError for settings that do not fit.
    """

    def settle(head: Document) -> Mapping[str, Any]:
        return (_resolve(head, settings, params_files, runs) if kept is None else kept).plain()

    document, problems = examine(read_text(path) if text is None else text, path, settle, included)
    if document is None:
        raise SpecError(problems)
    folder = (folder or path.parent).absolute()
    if document.spec.any_stage(lambda stage: stage.rendered):
        if templates is None:
            problems += read_templates(document, folder)
        else:
            fill_templates(document.spec, templates)
    graph, flaws = build(document.spec)
    problems += [document.problem(flaw.key, flaw.message, flaw.hint, offset=flaw.offset) for flaw in flaws]
    try:
        hyperparameters = _resolve(document, settings, params_files, runs) if kept is None else kept
    except SpecError as error:
        raise SpecError([*problems, *error.problems]) from error
    found = Check(document, folder, graph, problems)
    found.stop_at(MAX_PROBLEMS)
    counts = check_axes(found)
    if document.spec.any_stage(lambda stage: stage.module):
        find_modules(found, folder, cwd or Path.cwd(), sources)
    values = hyperparameters.plain()
    for name in document.spec.stages:
        _check_stage(found, name, values, anew=kept is None)
    whens = any(given.when is not None for given in document.spec.hyperparameters.values())
    unclear = check_whens(found, values) if whens else ()
    _check_data(found, counts, values, whole=not flaws)
    settled = {**dict.fromkeys(unclear), **values}
    unread: set[str] = set()
    if document.spec.adaptive:
        unread = check_searches(found, settled, () if kept is not None else hyperparameters.settings)
    check_values(found, settled, unread)
    found.stop_at(0)
    return Checked(document, graph, found.modules, hyperparameters, counts, found.points)


def _check_stage(found: Check, name: str, values: Mapping[str, Any], *, anew: bool) -> None:
    stage = found.workflow.stages[name]
    names = visible_names(found, name)
    check_expressions(found, name, names)
    check_gathers(found, name, names)
    check_command(found, name)
    if stage.resources.mpi or "launcher" in str(stage.command).lower():  # DIEL_LAUNCHER too
        check_launcher(found, name)
    handed = found.graph.handed_to(name)
    if stage.files:
        check_files(found, name, values, anew=anew)
    if name in found.modules:
        known = {label: value for label, value in values.items() if label not in handed}
        check_module(found, name, names, known)


def _check_data(
    found: Check, counts: Mapping[str, int | None], values: Mapping[str, Any], *, whole: bool
) -> None:
    workflow = found.workflow
    if workflow.adaptive:
        check_untils(found)
        check_conditions(found)
        check_metrics(found)
    check_outputs(found)
    check_designs(found)
    if found.modules or not all(stage.plain for stage in workflow.stages.values()):
        check_contracts(found)
    if workflow.any_stage(lambda stage: stage.publishes):
        check_published(found)
    if workflow.any_stage(lambda stage: stage.moves_data):
        check_staging(found)
    if workflow.any_stage(lambda stage: stage.surrogate):
        check_surrogates(found, whole=whole)
    if workflow.any_stage(lambda stage: stage.exports):
        check_exports(found, counts, values)


def _resolve(
    document: Document, settings: Sequence[str], params_files: Sequence[Path], runs: Path | None
) -> Hyperparameters:
    """The values for a new run, with those of its project. Raises SpecError and UsageError."""
    if runs is None:
        return resolve(document, settings, params_files)
    project = {} if flaw_of(registry_dir(runs)) == "is not there" else read_current(runs)[0]
    elsewhere = "" if runs.resolve() == runs_dir().resolve() else f" --runs {shlex.quote(str(runs))}"
    return resolve(document, settings, params_files, project, elsewhere)
