"""The signature of a module's function, read from its source without importing it.

`diel validate` checks a workflow's `params` and `inputs` against it: a module may import libraries
that take seconds to load, or that the machine where a workflow is written does not have.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from diel.errors import did_you_mean
from diel.modules.decorator import Kind
from diel.modules.meaning import injected, is_artifact, outer, takes
from diel.modules.parameter import Parameter, hint
from diel.modules.source import SignatureError, Source, read_source, top_level

_RECORDS = ("TypedDict", "NamedTuple", "BaseModel")


@dataclass(frozen=True)
class Signature:
    """What a module takes and returns."""

    name: str
    kind: Kind | None
    """None for a function that is no `@diel.module`."""
    doc: str
    """The first paragraph of its docstring."""
    parameters: tuple[Parameter, ...]
    variadic: bool
    """Whether it takes further parameters by `**name`."""
    returns: Mapping[str, str] | None
    """The outputs and their types as written; None where the annotation does not tell."""
    artifacts: frozenset[str]
    """Outputs that are files or arrays."""
    arrays: frozenset[str] = frozenset()
    """Those of them that are arrays."""
    line: int = 1

    def check(self, given: Mapping[str, Any], deferred: Container[str]) -> list[tuple[str | None, str, str]]:
        """What is wrong with values for the parameters: (parameter or None, message, hint).

        Of the names in `deferred` the value is only known at run time, so just the name counts.
        """
        problems: list[tuple[str | None, str, str]] = []
        known = {parameter.name: parameter for parameter in self.parameters}
        open_names = [name for name, parameter in known.items() if not parameter.injected]
        for name, value in given.items():
            parameter = known.get(name)
            if parameter is None:
                if not self.variadic:
                    problems.append((name, *self._unknown(name, open_names)))
            elif parameter.injected:
                problems.append((name, f"'{name}' is filled in by diel", "remove it"))
            elif name not in deferred:
                message = parameter.check(value)
                if message:
                    problems.append((name, message, hint(message, value)))
        for parameter in self.parameters:
            absent = parameter.name not in given and parameter.name not in deferred
            if absent and parameter.required and not parameter.injected:
                problems.append((None, *self._absent(parameter)))
        return problems

    def _unknown(self, name: str, known: list[str]) -> tuple[str, str]:
        takes = ", ".join(known) or "none"
        return f"'{self.name}' has no parameter '{name}'", did_you_mean(name, known) or f"it takes: {takes}"

    def _absent(self, parameter: Parameter) -> tuple[str, str]:
        of = f" ({parameter.annotation})" if parameter.annotation else ""
        return f"missing parameter '{parameter.name}'{of} of '{self.name}'", "give it in params or inputs"


def read_signature(path: Path, function: str, decorated: bool = True) -> Signature:
    """The signature of a function in a Python file, which is not imported.

    With `decorated`, only a `@diel.module` will do; else the kind may be None. Raises
    SignatureError where the file cannot be parsed or the function cannot be a module.
    """
    source = read_source(path)
    node = _function(source, function)
    mark = source.mark(node)
    if mark is None and decorated:
        raise SignatureError(
            f"'{function}' is not a module", node.lineno, 'decorate it: @diel.module(kind="simulation")'
        )
    arguments = node.args
    if arguments.posonlyargs:
        raise SignatureError(
            f"'{function}' has parameters that cannot be given by name", node.lineno, "remove the `/`"
        )
    returns = _returns(source, node.returns)
    return Signature(
        name=function,
        kind=None if mark is None else _kind(source, mark),
        doc=_first_paragraph(node),
        parameters=tuple(_parameters(source, arguments)),
        variadic=arguments.kwarg is not None,
        returns=None if returns is None else {name: ast.unparse(type_) for name, type_ in returns.items()},
        artifacts=frozenset(
            name for name, type_ in (returns or {}).items() if is_artifact(source.names, type_)
        ),
        arrays=frozenset(
            name for name, type_ in (returns or {}).items() if "array" in takes(source.names, type_)
        ),
        line=node.lineno,
    )


def _function(source: Source, name: str) -> ast.FunctionDef:
    found = source.functions.get(name)
    if found is None:
        raise _no_function(source, name)
    if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in _own(found)):
        raise SignatureError(
            f"'{name}' is a generator, and a module returns its outputs", found.lineno, "return a dict"
        )
    return found


def _own(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """The nodes of a function's body, without those of functions inside it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(node))


def _no_function(source: Source, name: str) -> SignatureError:
    """Why a name is not a function that can be a module."""
    for node in top_level(source.tree.body):
        if isinstance(node, ast.AsyncFunctionDef) and node.name == name:
            return SignatureError(f"'{name}' is an async function", node.lineno, "write def without async")
        if isinstance(node, ast.ClassDef) and node.name == name:
            return SignatureError(f"'{name}' is a class", node.lineno, "write a function that uses it")
        if isinstance(node, ast.Import | ast.ImportFrom):
            if any((alias.asname or alias.name) == name for alias in node.names):
                hint = "name the file that defines it"
                return SignatureError(f"'{name}' is imported from elsewhere", node.lineno, hint)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                what = "a lambda" if isinstance(node.value, ast.Lambda) else "a variable"
                return SignatureError(f"'{name}' is {what}", node.lineno, "write a function with def")
    known = ", ".join(source.functions) or "none"
    return SignatureError(
        f"{source.path.name} has no function '{name}'",
        hint=did_you_mean(name, source.functions) or f"its functions: {known}",
    )


def _kind(source: Source, mark: ast.expr) -> Kind:
    kinds = get_args(Kind)
    example = 'write @diel.module(kind="simulation"), or one of ' + ", ".join(kinds)
    if not isinstance(mark, ast.Call):
        raise SignatureError("the decorator says no kind", mark.lineno, example)
    for argument in mark.keywords:
        if argument.arg == "kind":
            value = source.names.literal(argument.value)
            if value in kinds:
                kind: Kind = value
                return kind
            text = ast.unparse(argument.value)
            raise SignatureError(
                f"unknown kind {text}", mark.lineno, did_you_mean(str(value), kinds) or example
            )
    raise SignatureError("the decorator says no kind", mark.lineno, example)


def _first_paragraph(node: ast.FunctionDef) -> str:
    doc = ast.get_docstring(node) or ""
    return " ".join(doc.split("\n\n")[0].split())


def _parameters(source: Source, arguments: ast.arguments) -> Iterator[Parameter]:
    positional = arguments.args
    first_default = len(positional) - len(arguments.defaults)
    defaults = [None] * first_default + list(arguments.defaults)
    pairs = [*zip(positional, defaults, strict=True)]
    pairs += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    for argument, default in pairs:
        node = argument.annotation
        yield Parameter(
            name=argument.arg,
            annotation="" if node is None else ast.unparse(source.names.unquoted(node)),
            required=default is None,
            default=None if default is None else _default(default),
            injected=None if node is None else injected(source.names, node),
            node=node,
            names=source.names,
            takes=takes(source.names, node),
        )


def _default(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return f"<{ast.unparse(node)}>"


def _returns(source: Source, node: ast.expr | None) -> dict[str, ast.expr] | None:
    """The outputs that a return annotation names, with their types."""
    if node is None:
        return None
    node = source.names.unquoted(node)
    if isinstance(node, ast.Constant) and node.value is None:
        return {}
    classes = {found.name: found for found in top_level(source.tree.body) if isinstance(found, ast.ClassDef)}
    if isinstance(node, ast.Name) and node.id in classes:
        return _fields(source, classes[node.id], classes, ())
    return None


def _fields(
    source: Source, node: ast.ClassDef, classes: Mapping[str, ast.ClassDef], seen: tuple[str, ...]
) -> dict[str, ast.expr] | None:
    """The fields of a record class and its bases; None where one of them is not a record."""
    fields: dict[str, ast.expr] = {}
    record = any(_called_name(source, item).endswith("dataclass") for item in node.decorator_list)
    for base in node.bases:
        name = source.names.full_name(base)
        if name in classes and name not in seen:
            inherited = _fields(source, classes[name], classes, (*seen, node.name))
            if inherited is None:
                return None
            fields |= inherited
            record = True
        elif name.rpartition(".")[2] in _RECORDS:
            record = True
        else:
            return None
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            annotation = source.names.unquoted(item.annotation)
            if not source.names.full_name(outer(annotation)).endswith("ClassVar"):
                fields[item.target.id] = annotation
    return fields if record else None


def _called_name(source: Source, node: ast.expr) -> str:
    return source.names.full_name(node.func if isinstance(node, ast.Call) else node)
