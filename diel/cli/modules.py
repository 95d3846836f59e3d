"""`diel modules`: the modules that workflows can use."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from diel.catalogue import Module, ModuleNotFound, every, find, search_path
from diel.cli.options import json_option
from diel.errors import Problem, UsageError
from diel.parameter import Parameter
from diel.table import Table, render, short_path

ORIGINS = {
    "workflow": "modules/ here",
    "project": "modules/ here",
    "shipped": "diel",
    "installed": "an installed package",
}


@click.command("modules")
@click.argument("name", required=False)
@click.option(
    "--workflow",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also look into `modules/` beside this workflow file.",
)
@json_option
def command(name: str | None, workflow: Path | None, as_json: bool) -> int:
    """List the modules that workflows can use; with a NAME, tell what it takes and returns."""
    here = Path.cwd()
    folders = search_path(here if workflow is None else workflow.absolute().parent, here)
    if name is None:
        return _list(list(every(folders)), as_json)
    try:
        module = find(name, folders)
    except ModuleNotFound as error:
        raise UsageError(f"{error.message}\n    {error.hint}" if error.hint else error.message) from None
    click.echo(json.dumps(_document(module)) if as_json else "\n".join(_lines(module)))
    return 0


def _list(found: list[Module | Problem], as_json: bool) -> int:
    modules = [one for one in found if isinstance(one, Module)]
    problems = [one for one in found if isinstance(one, Problem)]
    if as_json:
        click.echo(json.dumps({"modules": [_document(module) for module in modules]}))
    elif modules:
        columns = ("name", "kind", "from", "what it does")
        rows = [
            (m.reference, m.signature.kind or "", ORIGINS[m.origin], _first_sentence(m.signature.doc))
            for m in modules
        ]
        click.echo("\n".join(render(Table(columns, rows, {}), width=100)))
        click.echo(f"\n`diel modules {modules[0].reference}` tells what it takes and returns")
    else:
        click.echo("no modules found")
    for problem in problems:
        click.echo(str(problem), err=True)
    return 0


def _first_sentence(doc: str) -> str:
    sentence, dot, _ = doc.partition(". ")
    return sentence + (dot.strip() or "")


def _document(module: Module) -> dict[str, Any]:
    signature = module.signature
    return {
        "name": module.reference,
        "kind": signature.kind,
        "doc": signature.doc,
        "origin": module.origin,
        "path": str(module.path),
        "line": signature.line,
        "function": module.function,
        "parameters": [_parameter(parameter) for parameter in signature.parameters if not parameter.injected],
        "filled_in": [parameter.name for parameter in signature.parameters if parameter.injected],
        "variadic": signature.variadic,
        "returns": None if signature.returns is None else dict(signature.returns),
        "artifacts": sorted(signature.artifacts),
    }


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "type": parameter.annotation,
        "required": parameter.required,
        "default": parameter.default,
    }


def _lines(module: Module) -> Iterator[str]:
    signature = module.signature
    yield f"{module.reference}  ({signature.kind or 'no kind'}, from {ORIGINS[module.origin]})"
    yield f"{short_path(str(module.path))}:{signature.line}"
    if signature.doc:
        yield ""
        yield from textwrap.wrap(signature.doc, 96)
    given = [parameter for parameter in signature.parameters if not parameter.injected]
    yield ""
    yield "takes"
    yield from _table((p.name, p.annotation, _default(p)) for p in given)
    if signature.variadic:
        yield "    and any others"
    if not given and not signature.variadic:
        yield "    nothing"
    for parameter in signature.parameters:
        if parameter.injected == "communicator":
            yield f"    {parameter.name}: MPI, filled in; the stage needs `resources: {{ranks: N}}`"
    yield ""
    yield "returns"
    if signature.returns is None:
        yield "    what its annotation does not tell"
    elif not signature.returns:
        yield "    nothing"
    else:
        files = signature.artifacts
        yield from _table((n, t, "a file" if n in files else "") for n, t in signature.returns.items())


def _default(parameter: Parameter) -> str:
    if parameter.required:
        return "required"
    default = parameter.default
    return f"default {json.dumps(default, ensure_ascii=False, default=str)}"


def _table(rows: Iterator[tuple[str, str, str]]) -> Iterator[str]:
    known = list(rows)
    widths = [max((len(row[place]) for row in known), default=0) for place in range(2)]
    for name, kind, more in known:
        yield f"    {name.ljust(widths[0])}  {kind.ljust(widths[1])}  {more}".rstrip()
