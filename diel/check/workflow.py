"""A workflow that was checked: spec, graph, modules and hyperparameters that fit together."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diel.check.conditions import check_hyperparameter_conditions
from diel.check.contracts import check_contracts
from diel.check.files import check_files
from diel.check.flaws import Check
from diel.check.metrics import check_metrics
from diel.check.modules import check_module
from diel.check.names import Names, check_conditions, check_expressions, check_values, visible_names
from diel.check.outputs import check_outputs, check_published
from diel.check.points import check_axes, check_picks
from diel.check.program import check_programs
from diel.check.search import check_searches
from diel.check.shell import check_shell
from diel.check.staging import check_staging
from diel.check.surrogate import check_surrogates
from diel.errors import MAX_PROBLEMS, SpecError
from diel.graph import StageGraph, build
from diel.load import Document, examine, read_text
from diel.modules.catalogue import Module, ModuleNotFound, find, search_path
from diel.paths import registry_dir, runs_dir
from diel.registry import Hyperparameters, read_current, resolve
from diel.spec import Stage, Workflow


@dataclass(frozen=True)
class Checked:
    """A workflow in which nothing is known to be wrong."""

    document: Document
    graph: StageGraph
    modules: Mapping[str, Module]
    """By stage, for the stages that run a Python module."""
    hyperparameters: Hyperparameters
    counts: Mapping[str, int | None]
    """Points by axis; None where only a run will tell."""

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
    runs: Path | None = None,
    kept: Hyperparameters | None = None,
) -> Checked:
    """Reads a workflow file and checks all of it.

    `folder` is where its files and modules are looked for (the file's own directory), `text` stands
    in for the file's content. `runs` is the directory of the runs, whose project has values of
    hyperparameters; `kept` stands in for all values, where a run has its own already. Raises SpecError
    with every problem found, UsageError for settings that do not fit.
    """

    def settle(head: Document) -> Mapping[str, Any]:
        return (_resolve(head, settings, params_files, runs) if kept is None else kept).plain()

    document, problems = examine(read_text(path) if text is None else text, path, settle)
    if document is None:
        raise SpecError(problems)
    folder = (folder or path.parent).absolute()
    workflow = document.spec
    graph, flaws = build(workflow)
    problems += [document.problem(flaw.key, flaw.message, flaw.hint, offset=flaw.offset) for flaw in flaws]
    try:
        hyperparameters = _resolve(document, settings, params_files, runs) if kept is None else kept
    except SpecError as error:
        raise SpecError([*problems, *error.problems]) from error
    found = Check(document, folder, problems)
    found.stop_at(MAX_PROBLEMS)
    counts = check_axes(found)
    check_picks(found, graph)
    modules = dict(_find_modules(found, folder, cwd or Path.cwd()))
    values = hyperparameters.plain()
    _check_stages(found, graph, modules, values, anew=kept is None)
    unclear = _check_conditions(found, values)
    if workflow.adaptive:
        check_metrics(found, modules)
    _check_data(found, graph, modules, whole=not flaws)
    settled = {**dict.fromkeys(unclear), **values}
    unread: set[str] = set()
    if workflow.adaptive:
        given = () if kept is not None else hyperparameters.settings
        unread = check_searches(found, settled, given)
    check_values(found, graph, settled, unread)
    found.stop_at(0)
    return Checked(document, graph, modules, hyperparameters, counts)


def _check_stages(
    found: Check, graph: StageGraph, modules: Mapping[str, Module], values: Mapping[str, Any], *, anew: bool
) -> None:
    workflow = found.workflow
    for name, stage in workflow.stages.items():
        names: Names = visible_names(found, name)
        check_expressions(found, name, stage, names)
        check_shell(found, name, stage)
        check_programs(found, name, stage)
        published = {edge.published.name for edge in graph.into(name) if edge.published is not None}
        later = {*published, *_searched(workflow, stage)}
        if stage.files:
            check_files(found, name, names, values, later, anew=anew)
        if name in modules:
            known = {label: value for label, value in values.items() if label not in published}
            check_module(found, name, modules[name], names, known)


def _check_conditions(found: Check, values: Mapping[str, Any]) -> set[str]:
    """Gives the hyperparameters whose `when` is wrong."""
    if found.workflow.adaptive:
        check_conditions(found)
    if all(given.when is None for given in found.workflow.hyperparameters.values()):
        return set()
    return check_hyperparameter_conditions(found, values)


def _check_data(found: Check, graph: StageGraph, modules: Mapping[str, Module], *, whole: bool) -> None:
    """What is handed from stage to stage, and how."""
    workflow = found.workflow
    check_outputs(found, graph, modules)
    if modules or not all(stage.plain for stage in workflow.stages.values()):
        check_contracts(found, graph, modules)
    if workflow.any_stage(lambda stage: stage.publishes):
        check_published(found, modules)
    if workflow.any_stage(lambda stage: stage.moves_data):
        check_staging(found, graph)
    if workflow.any_stage(lambda stage: stage.surrogate):
        check_surrogates(found, graph, modules, whole=whole)


def _resolve(
    document: Document, settings: Sequence[str], params_files: Sequence[Path], runs: Path | None
) -> Hyperparameters:
    """The values for a new run, with those of its project. Raises SpecError and UsageError."""
    if runs is None:
        return resolve(document, settings, params_files)
    project = read_current(runs)[0] if _is_there(registry_dir(runs)) else {}
    elsewhere = "" if runs.resolve() == runs_dir().resolve() else f" --runs {shlex.quote(str(runs))}"
    return resolve(document, settings, params_files, project, elsewhere)


def _is_there(path: Path) -> bool:
    """Whether there is something, readable or not."""
    try:
        os.stat(path)
    except OSError as error:
        return not isinstance(error, FileNotFoundError)
    return True


def _searched(workflow: Workflow, stage: Stage) -> Iterator[str]:
    """The hyperparameters that a trial sets for a stage."""
    for label in stage.over:
        yield from workflow.axes[label].sets if label in workflow.axes else ()


def _find_modules(found: Check, folder: Path, cwd: Path) -> Iterator[tuple[str, Module]]:
    named = {name: stage.module for name, stage in found.workflow.stages.items() if stage.module is not None}
    folders = search_path(folder, cwd) if named else ()
    for name, module in named.items():
        try:
            yield name, find(module, folders)
        except ModuleNotFound as error:
            found.add(("stages", name, "module"), error.message, error.hint)
