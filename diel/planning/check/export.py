"""Checks of exports: no two tasks write the same file, and none writes over the workflow's own."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any

from diel.base.errors import counted
from diel.base.files import resolved
from diel.planning.check.environment import own_places
from diel.planning.check.names import visible_names
from diel.planning.check.scripts import named_files
from diel.planning.check.violations import Check, Counts, KnownValues
from diel.workflow.expressions import ExpressionError, Template, parse
from diel.workflow.graph import Key
from diel.workflow.load import Document
from diel.workflow.models import Output, Stage
from diel.workflow.models.data import Rendering
from diel.workflow.models.forms.rows import FileForm
from diel.workflow.models.model import quote
from diel.workflow.modules.catalogue import Module

_LOOKED_AT = 10_000
"""The most paths to compare for one output; the others are compared as they are written."""
_VALUES = ("int", "float", "str", "bool", "None", "list", "dict")


def check_exports(check: Check, counts: Counts, values: Mapping[str, Any], files: Iterable[Path]) -> None:
    """Check every `export`; `counts` are the points of axes, `values` the hyperparameters, `files` theirs."""
    own = own_files(check.document, check.folder / check.document.path.name, check.modules)
    own |= {os.path.realpath(file): "a file of hyperparameters" for file in files}
    if check.workflow.any_stage(lambda stage: stage.exports):
        own |= _files_of_points(check, values)
    owners: dict[str, str] = {}
    for name, stage in check.workflow.stages.items():
        for label, output in stage.outputs.items():
            key: Key = ("stages", name, "outputs", label, "export")
            if output.export is None or check.is_wrong(key):
                continue
            _check_kind(check, name, label, key)
            try:
                template = parse(_whole(output))
                sure = stage.when is None  # else `when` may leave out tasks with the same path
                if not (sure and _check_axes(check, name, key, template, counts)):
                    _check_paths(check, f"{name}.{label}", key, template, values, own, owners)
            except ExpressionError:
                continue  # another check reports it


def _whole(output: Output) -> str:
    """Return the path with what is put below it: a file under its own name, those of a pattern."""
    export = str(output.export)
    if output.glob is not None:
        return f"{export}/{output.glob}"
    return export + (output.path or "").rpartition("/")[2] if export.endswith("/") else export


def _check_kind(check: Check, name: str, label: str, key: Key) -> None:
    """Check that what a module returns there can be a file."""
    module = check.modules.get(name)
    returns = None if module is None else module.signature.returns
    if module is None or returns is None or label not in returns or label in module.signature.artifacts:
        return
    if returns[label].partition("[")[0].strip() in _VALUES:
        hint = "drop it: `diel results --csv` prints values as a table"
        check.add(key, f"`export` is about files, and '{label}' is {returns[label]}", hint)


def _check_axes(check: Check, name: str, key: Key, template: Template, counts: Counts) -> bool:
    """Report axes that the path does not read: several tasks would write one file."""
    stage, names = check.workflow.stages[name], visible_names(check, name)
    read = {chain[0] for chain in template.references}
    unknown = names.open_axes and any(n not in names.parameters and n not in names.keyed for n in read)
    if unknown or {("task", "id"), ("task", "index")} & template.references:
        return False
    read |= {names.parameters[n] for n in read if n in names.parameters}
    apart = [axis for axis in stage.over if axis not in read and counts.get(axis) != 1]
    if not apart:
        return False
    tasks = prod(counts.get(axis) or 0 for axis in apart)
    who = counted(tasks, "task") if tasks else "several tasks"
    lacking = [next((n for n, of in names.parameters.items() if of == axis), axis) for axis in apart]
    check.add(key, f"{quote(template.text)} is written by {who}", _put(lacking))
    return True


def _put(names: Iterable[str]) -> str:
    return f"put {' and '.join(f'${{{{ {name} }}}}' for name in names)} in it"


def _check_paths(
    check: Check,
    place: str,
    key: Key,
    template: Template,
    values: Mapping[str, Any],
    own: Mapping[str, str],
    owners: dict[str, str],
) -> None:
    """Check known paths: none twice, none of another output, none of the workflow's own files."""
    name = str(key[1])
    stage: Stage = check.workflow.stages[name]
    space = KnownValues.of(check, name, values)
    axes = space.axes(template.references)
    if axes is None:
        return
    for axis, read in axes.items() if stage.when is None else ():
        points = check.points[axis]
        if len(points) <= _LOOKED_AT and sum(1 for _ in space.different(axis, read)) < len(points):
            unread = [n for n in points.parameters if n not in read]
            message = f"{quote(template.text)} is written by several tasks: points of '{axis}' have the same"
            check.add(key, f"{message} {' and '.join(read)}", _put(unread) if unread else "")
            return
    writers: dict[str, str] = {}
    for scope in (space.scope(axes, place) for place in islice(space.unlike(axes), _LOOKED_AT)):
        text = template.text_value(scope)
        path = resolved(os.path.normpath(check.folder / text))
        point = ", ".join(f"{n}={scope[n]}" for read in axes.values() for n in read)
        real = os.path.realpath(path)
        if path in writers and stage.when is not None:
            continue
        if path in writers:
            hint = f"the values {point} and {writers[path]} give the same path"
            check.add(key, f"{quote(text)} is written by several tasks", hint)
        elif (other := owners.get(path)) is not None:
            hint = "give each a path of its own"
            if "." in name:  # a stage of another workflow
                there = name.partition(".")[2]
                hint += f", or one none: stages: {{{there}: {{outputs: {{{key[3]}: {{export: null}}}}}}}}"
            check.add(key, f"{quote(text)} is written by '{other}' too", hint)
        elif what := next((own[n] for n in (real, *map(str, Path(real).parents)) if n in own), ""):
            check.add(key, f"{quote(text)} is {what}", "export to another path")
        else:
            writers[path] = point
            continue
        return
    owners |= dict.fromkeys(writers, place)


def _files_of_points(check: Check, values: Mapping[str, Any]) -> dict[str, str]:
    """Return the files of single points, as far as they are known, and what they are."""
    own: dict[str, str] = {}
    for name, stage in check.workflow.stages.items():
        for label, text in stage.files.items():
            with suppress(ExpressionError):  # another check reports it
                template = parse(text) if isinstance(text, str) else None
                if template is None or template.constant:
                    continue
                space = KnownValues.of(check, name, values)
                axes = space.axes(template.references)
                for place in islice(space.unlike(axes), _LOOKED_AT) if axes is not None else ():
                    path = check.folder / template.text_value(space.scope(axes or {}, place))
                    own[os.path.realpath(path)] = f"files.{label} of '{name}'"
    return own


def own_files(document: Document, path: Path, modules: Mapping[str, Module]) -> dict[str, str]:
    """Return the workflow's files by real path, and what they are to it: nothing is exported there."""
    workflow, owners = document.spec, {os.path.realpath(path): "the workflow file"}
    owners |= {os.path.realpath(source): "a workflow that this one reads" for source in document.included}
    for source in modules.values():
        files = (os.path.realpath(file) for file, _ in source.files)
        owners |= dict.fromkeys(files, f"a source of module '{source.reference}'")
        owners[os.path.realpath(source.path)] = f"module '{source.reference}'"
    owners |= own_places(document, path.parent.absolute())
    owners[os.path.realpath(path.parent / "modules")] = "in the directory of the modules"
    for name, stage in workflow.stages.items():
        home = document.home(("stages", name, "command")) or path.parent.absolute()
        for word, _ in named_files(stage, home):
            owners[os.path.realpath(home / word)] = f"read by the command of '{name}'"
        for label, entry in stage.files.items():
            file = entry.template if isinstance(entry, Rendering) else entry
            if "${{" not in file:
                owners[os.path.realpath(path.parent / file)] = f"files.{label} of '{name}'"
    for label, axis in workflow.axes.items():
        if isinstance(axis, FileForm):
            owners[os.path.realpath(path.parent / axis.path)] = f"the file of axis '{label}'"
    return owners
