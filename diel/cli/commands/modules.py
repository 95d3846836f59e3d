"""`diel modules`: the modules that workflows can use."""

import ast
import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from diel.base.errors import Problem, UsageError
from diel.base.extensions import MODULES, package_of
from diel.cli.options import PATH, Output, json_option
from diel.observe.status.columns import columns
from diel.store.table import Listing, render, short_path
from diel.workflow.modules.catalogue import Module, ModuleNotFound, every, find, search_path
from diel.workflow.modules.signature import read_source

WIDTH = 96

ORIGINS = {
    "workflow": "modules/ here",
    "project": "modules/ here",
    "shipped": "diel",
    "installed": "an installed package",
}


@click.command("modules")
@click.argument("name", required=False)
@click.option(
    "--workflow", type=PATH, metavar="FILE", help="Also look in `modules/` beside this workflow file."
)
@json_option
def command(name: str | None, workflow: Path | None, out: Output) -> None:
    """With a NAME, shows what that one takes and returns."""
    here = Path.cwd()
    folders = search_path(here if workflow is None else workflow.absolute().parent, here)
    if name is None:
        entries = list(every(folders))
        modules = [entry for entry in entries if isinstance(entry, Module)]
        problems = [entry for entry in entries if isinstance(entry, Problem)]
        out.show(lambda: {"modules": list(map(_document, modules))}, _listing(modules), problems)
        return
    try:
        module = find(name, folders)
    except ModuleNotFound as error:
        raise UsageError(f"{error.message}\n    {error.hint}" if error.hint else error.message) from None
    out.show(lambda: _document(module), _lines(module))


def _listing(modules: list[Module]) -> Iterator[str]:
    if not modules:
        yield "no modules found"
        return
    header = ("name", "kind", "from", "what it does")
    docs = [module.signature.doc.partition(". ") for module in modules]
    rows = [
        (module.reference, module.signature.kind or "", _from(module), sentence + dot.strip())
        for module, (sentence, dot, _) in zip(modules, docs, strict=True)
    ]
    yield from render(Listing(header, rows, {}), width=100)
    yield f"\n`diel modules {modules[0].reference}` shows what it takes and returns"


def _from(module: Module) -> str:
    """Say where a module is from: diel, a folder, or the package that brings it."""
    return package_of(MODULES, module.reference) or ORIGINS[module.origin]


_NAMED = re.compile(r"(\w+): (.*)")
SIGNS: dict[str | None, str] = {
    "gt": "> {}",
    "ge": "≥ {}",
    "lt": "< {}",
    "le": "≤ {}",
    "min_length": "at least {} long",
    "max_length": "at most {} long",
}


def _docs(module: Module) -> tuple[dict[str, str], list[str]]:
    """Return what the docstring says about each parameter (lines `name: text`), and its other paragraphs."""
    function = None
    if module.path.suffix == ".py":
        source = read_source(module.path)
        function = source.functions.get(module.function) or source.classes.get(module.function)
    if function is None:  # compiled, or made while its package is imported
        return {}, [module.signature.doc] if module.signature.doc else []
    names = {parameter.name for parameter in module.signature.parameters}
    documented: dict[str, str] = {}
    rest: list[str] = []
    for paragraph in (ast.get_docstring(function) or "").split("\n\n"):
        current = ""
        body: list[str] = []
        for line in paragraph.splitlines():
            named = _NAMED.fullmatch(line)
            if named is not None and named[1] in names:
                current = named[1]
                documented[current] = named[2]
            elif current and line.startswith(" "):
                documented[current] += " " + line.strip()
            else:
                current = ""
                body.append(line.strip())
        if body:
            rest.append(" ".join(body))
    return documented, rest


def _type(annotation: str) -> str:
    """Return a type as people read it: `float, > 0` for `Annotated[float, Field(gt=0)]`."""
    try:
        tree = ast.parse(annotation, mode="eval").body
    except SyntaxError:
        return annotation
    head = ast.unparse(tree.value).rpartition(".")[2] if isinstance(tree, ast.Subscript) else ""
    if not isinstance(tree, ast.Subscript) or head not in ("Annotated", "Literal"):
        return annotation
    parts = tree.slice.elts if isinstance(tree.slice, ast.Tuple) else [tree.slice]
    if head == "Literal":
        return " | ".join(map(ast.unparse, parts))
    keywords = [keyword for part in parts[1:] if isinstance(part, ast.Call) for keyword in part.keywords]
    bounds = [SIGNS[pair.arg].format(ast.unparse(pair.value)) for pair in keywords if pair.arg in SIGNS]
    return ", ".join([ast.unparse(parts[0]), *bounds])


def _document(module: Module) -> dict[str, Any]:
    signature = module.signature
    docs, _ = _docs(module)
    return {
        "name": module.reference,
        "kind": signature.kind,
        "doc": signature.doc,
        "origin": module.origin,
        "package": package_of(MODULES, module.reference),
        "path": str(module.path),
        "line": signature.line,
        "function": module.function,
        "parameters": [
            {
                "name": parameter.name,
                "type": parameter.annotation,
                "required": parameter.required,
                "default": parameter.default,
                "doc": docs.get(parameter.name, ""),
            }
            for parameter in signature.parameters
            if not parameter.injected
        ],
        "filled_in": [parameter.name for parameter in signature.parameters if parameter.injected],
        "variadic": signature.variadic,
        "returns": None if signature.returns is None else dict(signature.returns),
        "artifacts": sorted(signature.artifacts),
    }


def _lines(module: Module) -> Iterator[str]:
    signature = module.signature
    yield f"{module.reference}  ({signature.kind or 'no kind'}, from {_from(module)})"
    yield f"{short_path(str(module.path))}:{signature.line}"
    docs, paragraphs = _docs(module)
    for paragraph in paragraphs:
        yield ""
        yield from textwrap.wrap(paragraph, WIDTH)
    parameters = [parameter for parameter in signature.parameters if not parameter.injected]
    yield ""
    yield "takes"
    defaults = [json.dumps(entry.default, ensure_ascii=False, default=str) for entry in parameters]
    rows = [
        (p.name, _type(p.annotation), "required" if p.required else f"default {d}", docs.get(p.name, ""))
        for p, d in zip(parameters, defaults, strict=True)
    ]
    yield from _table(rows)
    if signature.variadic:
        yield "    and any others"
    if signature.loose:
        yield "    whatever it shows once it is imported"
    elif not parameters and not signature.variadic:
        yield "    nothing"
    for parameter in signature.parameters:
        if parameter.injected == "communicator":
            need = "it needs" if parameter.required else "where the stage has"
            yield f"    {parameter.name}: an MPI communicator, filled in; {need} `resources: {{ranks: N}}`"
    yield ""
    yield "returns"
    if signature.returns is None:
        yield "    what its annotation does not say"
    elif not signature.returns:
        yield "    nothing"
    else:
        files = signature.artifacts
        returns = signature.returns.items()
        yield from _table([(n, _type(t), "a file" if n in files else "", "") for n, t in returns])


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Rows in columns; the last cell, which is prose, below its row."""
    for line, (*_, doc) in zip(columns([row[:-1] for row in rows]), rows, strict=True):
        yield f"    {line}"
        yield from textwrap.wrap(doc, WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 8)
