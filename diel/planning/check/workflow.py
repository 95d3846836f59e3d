"""A checked workflow: spec, graph, modules and hyperparameters that fit together."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from diel.base.errors import MAX_PROBLEMS, SpecError, counted, did_you_mean
from diel.base.files import flaw_of
from diel.base.paths import registry_dir, runs_dir
from diel.planning.check.command import check_command
from diel.planning.check.contracts import (
    DECLARE,
    check_contracts,
    check_metrics,
    check_outputs,
    known_outputs,
)
from diel.planning.check.export import check_exports
from diel.planning.check.gathers import check_conditions, check_gathers
from diel.planning.check.launcher import check_launcher
from diel.planning.check.modules import check_designs, check_module, find_modules
from diel.planning.check.names import check_expressions, check_untils, check_values, visible_names
from diel.planning.check.search import check_searches, check_whens
from diel.planning.check.surrogate import check_surrogates
from diel.planning.check.violations import MOST, Check, Counts, KnownValues, check_axes
from diel.site.shape import nodes_of
from diel.store.registry import Hyperparameters, read_current, resolve
from diel.workflow.expressions import ExpressionError, Template, names_in, parse, parse_expression, walk
from diel.workflow.graph import Edge, Key, StageGraph, build
from diel.workflow.load import Document, examine, read_text
from diel.workflow.load.document import fill_templates, read_templates
from diel.workflow.models import Output, Stage, Workflow
from diel.workflow.models.data import TemplateContent
from diel.workflow.models.forms.axis import Points
from diel.workflow.models.model import quote
from diel.workflow.modules.catalogue import Module
from diel.workflow.modules.sources import SourceVersion

_SHOWN = 8


class CheckedWorkflow(NamedTuple):
    """A workflow with no known mistake."""

    document: Document
    graph: StageGraph
    modules: Mapping[str, Module]
    """Modules by stage, of the stages that run one."""
    hyperparameters: Hyperparameters
    counts: Counts
    points: Mapping[str, Points] = {}
    """Listed and computed points, by axis."""

    @property
    def workflow(self) -> Workflow:
        return self.document.spec

    def kind(self, stage: str) -> str:
        """Return the kind: simulation, training, inference or analysis."""
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
    recorded: Hyperparameters | None = None,
    templates: Mapping[str, TemplateContent] | None = None,
    sources: SourceVersion | None = None,
    kept: Callable[[str], Points | None] = lambda _: None,
) -> CheckedWorkflow:
    """Read a workflow file and check all of it.

    Files and modules are looked for in `folder`, by default the file's own directory. `text` replaces the
    file's content, `included` that of included workflows, `templates` that of templates. `runs` is the
    directory of the runs: their project has values of hyperparameters, which `recorded` replaces. `sources`
    replaces the modules, where a run has its own, and `kept` the points of axes with files. Raise
    SpecError with all problems, UsageError for settings that do not fit.
    """

    def settle(head: Document) -> Mapping[str, Any]:
        return (_resolve(head, settings, params_files, runs) if recorded is None else recorded).plain()

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
        hyperparameters = _resolve(document, settings, params_files, runs) if recorded is None else recorded
    except SpecError as error:
        raise SpecError([*problems, *error.problems]) from error
    examined = Check(document, folder, graph, problems, kept)
    examined.stop_at(MAX_PROBLEMS)
    counts = check_axes(examined)
    if document.spec.any_stage(lambda stage: stage.module):
        find_modules(examined, folder, cwd or Path.cwd(), sources)
    values = hyperparameters.plain()
    for name in document.spec.stages:
        _check_stage(examined, name, values, anew=recorded is None)
    whens = any(spec.when is not None for spec in document.spec.hyperparameters.values())
    unclear = check_whens(examined, values) if whens else ()
    _check_data(examined, counts, hyperparameters, whole=not flaws)
    settled = {**dict.fromkeys(unclear), **values}
    unread: set[str] = set()
    if document.spec.adaptive:
        unread = check_searches(examined, settled, () if recorded is not None else hyperparameters.settings)
    check_values(examined, settled, unread)
    examined.stop_at(0)
    return CheckedWorkflow(document, graph, examined.modules, hyperparameters, counts, examined.points)


def _check_stage(check: Check, name: str, values: Mapping[str, Any], *, anew: bool) -> None:
    stage = check.workflow.stages[name]
    names = visible_names(check, name)
    check_expressions(check, name, names)
    check_gathers(check, name, names)
    check_command(check, name)
    if stage.resources.mpi or "launcher" in str(stage.command).lower():  # DIEL_LAUNCHER too
        check_launcher(check, name)
    handed = check.graph.handed_to(name)
    if stage.files:
        _check_files(check, name, values, anew=anew)
    if name in check.modules:
        settled = {label: value for label, value in values.items() if label not in handed}
        check_module(check, name, names, settled)


def _check_data(check: Check, counts: Counts, values: Hyperparameters, *, whole: bool) -> None:
    workflow = check.workflow
    if workflow.adaptive:
        check_untils(check)
        check_conditions(check)
        check_metrics(check)
    check_outputs(check)
    check_designs(check)
    if check.modules or not all(stage.plain for stage in workflow.stages.values()):
        check_contracts(check)
    if workflow.any_stage(lambda stage: stage.publishes):
        _check_published(check)
    if workflow.any_stage(lambda stage: stage.moves_data):
        _check_staging(check)
    if workflow.any_stage(lambda stage: stage.surrogate):
        check_surrogates(check, whole=whole)
    if workflow.any_stage(lambda stage: stage.exports):
        check_exports(check, counts, values.plain(), values.files)


def _resolve(
    document: Document, settings: Sequence[str], params_files: Sequence[Path], runs: Path | None
) -> Hyperparameters:
    """Return the values for a new run, with those of its project. Raise SpecError and UsageError."""
    if runs is None:
        return resolve(document, settings, params_files)
    project = {} if flaw_of(registry_dir(runs)) == "is not there" else read_current(runs)[0]
    elsewhere = "" if runs.resolve() == runs_dir().resolve() else f" --runs {shlex.quote(str(runs))}"
    return resolve(document, settings, params_files, project, elsewhere)


def _check_published(check: Check) -> None:
    """Check that stages make the values that they publish, where the values are known."""
    for name, stage in check.workflow.stages.items():
        outputs = known_outputs(check, name)
        for label, output in stage.publishes.items() if not check.lacks_module(name) else ():
            key = ("stages", name, "publishes", label)
            if output in stage.outputs and stage.outputs[output].form not in (None, "value"):
                what = "stream" if stage.outputs[output].stream is not None else "file"
                message = f"'{output}' is a {what}, and a hyperparameter has a value"
                check.add(key, message, DECLARE.format(output))
            elif outputs is not None and output not in outputs:
                hint = did_you_mean(output, outputs) or (f"it makes: {', '.join(outputs)}" if outputs else "")
                check.add(key, f"'{name}' makes no value '{output}'", hint)


def _check_files(check: Check, name: str, values: Mapping[str, Any], *, anew: bool) -> None:
    """Check the paths of `files`; without `anew`, files of single points are left to their tasks."""
    stage = check.workflow.stages[name]
    hint = "paths are relative to the workflow file"
    folder = check.document.path.parent
    for label, text in stage.files.items():
        key = ("stages", name, "files", label)
        if not isinstance(text, str):
            continue  # a template, which is read with the workflow
        try:
            template = parse(text)
            if template.constant:
                path = template.text_value({})
                if flaw := flaw_of(check.folder / path):
                    absent = flaw == "is not there"
                    message = f"no file {quote(path)} in {folder}" if absent else f"{quote(path)} {flaw}"
                    check.add(key, message, hint)
            elif anew:
                missing, count = _missing(check, stage, template, KnownValues.of(check, name, values))
                if missing:
                    check.add(key, _listed(missing, count), hint)
        except ExpressionError as error:
            check.add(key, error.message, error.hint, error.offset)


def _listed(missing: list[str], count: int) -> str:
    if count == 1:
        return f"{missing[0]} cannot be read"
    more = f" and {len(missing) - _SHOWN:,} more" if len(missing) > _SHOWN else ""
    return f"{len(missing):,} of {counted(count, 'file')} cannot be read: {', '.join(missing[:_SHOWN])}{more}"


def _missing(check: Check, stage: Stage, template: Template, space: KnownValues) -> tuple[list[str], int]:
    """Return the unreadable paths, each with its point, and the number of paths that were looked up."""
    when = parse_expression(stage.when) if isinstance(stage.when, str) else None
    read = template.references | (when.references if when is not None else frozenset())
    axes = space.axes(read)
    missing: list[str] = []
    paths: set[str] = set()
    if axes is None or stage.when is False:
        return missing, 0
    for place in islice(space.unlike(axes), MOST):
        scope = space.scope(axes, place)
        if when is not None and not when.value(scope):
            continue
        path = template.text_value(scope)
        if path in paths:
            continue
        paths.add(path)
        if flaw := flaw_of(check.folder / path):
            point = ", ".join(f"{name} = {quote(scope[name])}" for names in axes.values() for name in names)
            why = "" if flaw == "is not there" else f" {flaw}"
            missing.append(f"{quote(path)}{why}" + (f" ({point})" if point else ""))
    return missing, len(paths)


def _check_staging(check: Check) -> None:
    """Check that `stage`, `shard` and `drain` are used where they work."""
    for name, stage in check.workflow.stages.items():
        edges = {edge.name: edge for edge in check.graph.into(name) if edge.name is not None}
        for label, source in stage.inputs.items():
            key: Key = ("stages", name, "inputs", label)
            edge = edges.get(label)
            if edge is not None and edge.stream:
                continue
            outputs = check.workflow.stages[edge.upstream].outputs if edge is not None else {}
            output = outputs.get(str(edge and edge.output))
            if source.stage is not None and source.source.startswith("hp."):
                message = f"{source.source} is a hyperparameter: there is no file to copy"
                check.add((*key, "stage"), message, "drop `stage`")
            elif source.stage is not None and output is not None and output.value is not None:
                message = f"{source.source} is a value: there is no file to copy"
                check.add((*key, "stage"), message, "drop `stage`: values come with the task")
            if source.shard is not None:
                for message, hint in _shard_flaws(check, stage, edge, output, source.source, source.shard.by):
                    check.add((*key, "shard"), message, hint)
        whole = stage.resources.mpi and (nodes_of(stage.resources) > 1 or stage.resources.nodes is not None)
        for label, own in stage.outputs.items():
            if own.drain and whole:
                message = (
                    "a task on whole nodes has several disks: an output cannot be drained from one of them"
                )
                hint = "drop `drain`; write to the run's directory, which all ranks see"
                check.add(("stages", name, "outputs", label, "drain"), message, hint)


def _shard_flaws(
    check: Check, stage: Stage, edge: Edge | None, output: Output | None, source: str, by: str
) -> Iterator[tuple[str, str]]:
    if source.startswith("hp."):
        yield f"{source} is a hyperparameter: there is nothing to split", "drop `shard`"
    elif output is not None and edge is not None and not edge.gathered and output.kind not in (None, "list"):
        hint = "split gathered results, a directory, a list of files, or an array"
        yield f"{source} is one value: there is nothing to split", hint
    elif by != "rank":
        yield from () if edge is None else _task_flaws(check, stage, edge)
    elif not stage.resources.mpi:
        hint = "write resources: {ranks: 4}, or split it among tasks: shard: task"
        yield "split by rank, but a task of this stage is one process", hint


def _absent(check: Check, stage: Stage, edge: Edge, own: list[str]) -> Iterator[tuple[str, str]]:
    """Check that it is known which tasks run when the first one gets its share."""
    name, stages = edge.downstream, check.workflow.stages
    late = check.graph.handed_to(name)
    for chain in names_in(stage.when) or ():
        read = params if chain[0] == "params" and (params := stage.params.get(chain[-1])) else None
        inner = [ref for _, text in walk(read) if isinstance(text, Template) for ref in text.references]
        for ref in (chain, *inner):
            if ref[0] in stages or ref[0] == "inputs" or (ref[0] == "hp" and late.intersection(ref[1:2])):
                hint = "let `when` read axis parameters and hyperparameters alone, or drop `shard`"
                yield f"`when` reads {'.'.join(ref)}: how many tasks share an input is known too late", hint
                return
    for other in check.graph.into(name):
        if not other.gathered and {*other.matched} & {*own} and check.graph.leaves_out(other.upstream):
            message = f"tasks that '{other.upstream}' leaves out by `when` would read a share of the input"
            yield message, f"write the `when` of '{other.upstream}' here, and let it run over other axes"


def _task_flaws(check: Check, stage: Stage, edge: Edge) -> Iterator[tuple[str, str]]:
    """Check an input that is split by task: it has several tasks, known when the first begins."""
    own = [axis for axis in stage.over if axis not in edge.matched]
    if not own:
        if stage.over:
            matched = ", ".join(edge.matched)
            hint = "drop `shard`: each task already reads its own; or run over one more axis"
            yield f"each task reads what was made at its own point of {matched}: no other shares it", hint
        else:
            yield "split by task, but the stage has one task", "write over: [AXIS], or drop `shard`"
        return
    for axis in own:
        form = check.workflow.axes.get(axis)
        if form is not None and form.adaptive:
            message = f"the points of '{axis}' come one by one ({form.word}): its tasks cannot split"
            hint = f"split it over another axis; each task of the {form.word} needs all of it"
            yield f"{message} an input", hint
    yield from _absent(check, stage, edge, own)
