"""The signature of a module's function, read from its source without importing it.

`diel validate` checks a workflow's `params` and `inputs` against it: a module may import libraries
that take seconds to load, or that the machine where a workflow is written does not have.
"""

import ast
import re
import warnings
from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple, get_args

from diel.base.errors import HintedError, UsageError, did_you_mean
from diel.base.files import flaw_of
from diel.base.terms import RESULT
from diel.workflow.modules.annotations import Annotations, outer, outer_call
from diel.workflow.modules.decorator import Kind
from diel.workflow.modules.parameter import Parameter, Passed, hint

_DECORATORS = frozenset({"diel.module", "diel.workflow.modules.decorator.module"})
_TRANSPARENT = _DECORATORS | {
    *(
        "classmethod",
        "staticmethod",
        "functools.cache",
        "functools.lru_cache",
        "typing.no_type_check",
        "dataclasses.dataclass",
    ),
    *("set_module", "array_function_dispatch", "numpy._utils.set_module"),
}
"""Decorators that leave a function's parameters as they are."""
_RECORDS = ("TypedDict", "NamedTuple", "BaseModel")


class Signature(NamedTuple):
    """The parameters and outputs of a module."""

    name: str
    kind: Kind | None = None
    """None for a function that is not a `@diel.module`."""
    doc: str = ""
    """The first paragraph of its docstring."""
    parameters: tuple[Parameter, ...] = ()
    variadic: bool = False
    """Whether it takes further parameters by `**name`."""
    returns: Mapping[str, str] | None = None
    """The outputs and their types as written; None if the annotation does not say."""
    artifacts: frozenset[str] = frozenset()
    """Outputs that are files or arrays."""
    arrays: frozenset[str] = frozenset()
    """The outputs that are arrays."""
    line: int = 1
    loose: bool = False
    """Whether it may take other parameters than these: a decorator or compiled code hides them."""

    def named(self, declared: Collection[str]) -> "Signature":
        """Return the same for a stage with these outputs: a result without a name is their only one."""
        if self.returns is None or set(self.returns) != {RESULT} or len(declared) != 1:
            return self
        (name,) = declared
        types = {name: self.returns[RESULT]}
        artifacts, arrays = (frozenset(types) if kind else kind for kind in (self.artifacts, self.arrays))
        return self._replace(returns=types, artifacts=artifacts, arrays=arrays)

    def check(self, params: Mapping[str, Any], deferred: Container[str]) -> list[tuple[str | None, str, str]]:
        """Return what is wrong with values, but `deferred` ones: (parameter or None, message, hint)."""
        if self.loose:
            return []
        problems: list[tuple[str | None, str, str]] = []
        parameters = {parameter.name: parameter for parameter in self.parameters}
        for name, value in params.items():
            parameter = parameters.get(name)
            if parameter is None:
                if not self.variadic:
                    takes = [entry.name for entry in self.parameters if not entry.injected]
                    near = did_you_mean(name, takes) or f"it takes: {', '.join(takes) or 'none'}"
                    problems.append((name, f"'{self.name}' has no parameter '{name}'", near))
            elif parameter.injected:
                problems.append((name, f"'{name}' is filled in by diel", "remove it"))
            elif message := parameter.flaw if name in deferred else parameter.check(value):
                problems.append((name, message, hint(message, value)))
        for parameter in self.parameters:
            if re.match(r"<(\w+\.)*Field\(", str(parameter.default)):
                message = f"the default of '{parameter.name}' is an object of pydantic, which a function gets"
                hint_ = f"write {parameter.name}: Annotated[{parameter.annotation}, Field(…)] = its default"
                problems.append((None, message, hint_))
            absent = parameter.name not in params and parameter.name not in deferred
            if absent and parameter.required and not parameter.injected:
                of = f" ({parameter.annotation})" if parameter.annotation else ""
                message = f"missing parameter '{parameter.name}'{of} of '{self.name}'"
                problems.append((None, message, "give it in params or inputs"))
        return problems


def read_signature(path: Path, function: str, data: bytes | None = None) -> Signature:
    """Return the signature of a function or class in a Python file, or in its bytes `data`; nothing is
    imported. Raise SignatureError where it cannot be parsed or the function cannot be a module."""
    source = read_source(path, data)
    node, names = _callable(source, function), source.names
    mark = source.mark(node) if isinstance(node, ast.FunctionDef) else None
    marks = {names.full_name(outer_call(part)) for part in node.decorator_list}
    hidden = not marks <= _TRANSPARENT
    hidden = hidden and mark is None
    returned = node.returns if isinstance(node, ast.FunctionDef) and not hidden else None
    inherited = "." in function and isinstance(node, ast.ClassDef)
    first = (part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__")
    called = node if isinstance(node, ast.FunctionDef) else None if inherited else next(first, None)
    returns = _returns(source, returned)
    types = returns or {}
    return Signature(
        name=function,
        kind=None if mark is None else _kind(source, mark),
        doc=" ".join((ast.get_docstring(node) or "").split("\n\n")[0].split()),
        parameters=()
        if called is None
        else tuple(_parameters(names, called, method=called is not node or "classmethod" in marks)),
        variadic=called is not None and called.args.kwarg is not None,
        returns=None if returns is None else {name: ast.unparse(type_) for name, type_ in types.items()},
        artifacts=frozenset(name for name, type_ in types.items() if names.is_artifact(type_)),
        arrays=frozenset(name for name, type_ in types.items() if "array" in names.takes(type_)),
        line=node.lineno,
        loose=called is None or hidden,
    )


Definition = ast.FunctionDef | ast.ClassDef


def _callable(source: "PythonFile", name: str) -> Definition:
    owner, _, method = name.partition(".")
    target = source.functions.get(owner) or source.classes.get(owner)
    if target is None:
        raise _no_function(source, owner)
    if method:
        return _method(target, method)
    waiting: list[ast.AST] = list(target.body) if isinstance(target, ast.FunctionDef) else []
    while waiting:  # the nodes of its body, without those of functions inside it
        node = waiting.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            message = f"'{name}' is a generator, and a module returns its outputs"
            raise SignatureError(message, target.lineno, "return a dict")
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(node))
    return target


def _method(owner: Definition, name: str) -> Definition:
    """Return a method of a class; the class itself for a method that only its bases can have."""
    own = [function for function in owner.body if isinstance(function, ast.FunctionDef)]
    match = next((function for function in own if function.name == name), None)
    if isinstance(owner, ast.FunctionDef) or (match is None and not owner.bases):
        names = [function.name for function in own if not function.name.startswith("_")]
        hint = did_you_mean(name, names) or f"its methods: {', '.join(names) or 'none'}"
        raise SignatureError(f"'{owner.name}' has no method '{name}'", owner.lineno, hint)
    return match or owner


def _no_function(source: "PythonFile", name: str) -> "SignatureError":
    for node in top_level(source.tree.body):
        what, advice = "", "write a function with def"
        if isinstance(node, ast.AsyncFunctionDef) and node.name == name:
            what, advice = "an async function", "write def without async"
        elif isinstance(node, ast.Import | ast.ImportFrom):
            if any((alias.asname or alias.name) == name for alias in node.names):
                what, advice = "imported from elsewhere", "name the file that defines it"
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                what = "a lambda" if isinstance(node.value, ast.Lambda) else "a variable"
        if what:
            return SignatureError(f"'{name}' is {what}", node.lineno, advice)
    listing = f"its functions: {', '.join(source.functions) or 'none'}"
    message = f"{source.path.name} has no function '{name}'"
    return SignatureError(message, hint=did_you_mean(name, source.functions) or listing)


def _kind(source: "PythonFile", mark: ast.expr) -> Kind:
    kinds = get_args(Kind)
    example = 'write @diel.module(kind="simulation"), or one of ' + ", ".join(kinds)
    for argument in mark.keywords if isinstance(mark, ast.Call) else ():
        if argument.arg == "kind":
            value = source.names.literal(argument.value)
            if value in kinds:
                kind: Kind = value
                return kind
            message = f"unknown kind {ast.unparse(argument.value)}"
            raise SignatureError(message, mark.lineno, did_you_mean(str(value), kinds) or example)
    raise SignatureError("the decorator says no kind", mark.lineno, example)


def _parameters(names: Annotations, function: ast.FunctionDef, *, method: bool) -> Iterator[Parameter]:
    arguments = function.args
    places = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(places) - len(arguments.defaults)) + list(arguments.defaults)
    pairs: list[tuple[ast.arg, ast.expr | None, Passed]] = [
        (arg, default, "place" if arg in arguments.posonlyargs and arg.arg != "self" else "name")
        for arg, default in zip(places, defaults, strict=True)
    ][method:]
    if arguments.vararg is not None:
        pairs.append((arguments.vararg, ast.Tuple([]), "spread"))
    pairs += [(o, d, "name") for o, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    for argument, default, passed in pairs:
        node = argument.annotation if passed != "spread" else None
        yield Parameter(
            name=argument.arg,
            annotation="" if node is None else ast.unparse(names.unquoted(node)),
            required=default is None and argument.arg != "self",
            default=None if default is None else _default(default),
            injected=None if node is None else names.injected(node),
            node=node,
            names=names,
            takes=names.takes(node),
            passed=passed,
        )


def _default(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return f"<{ast.unparse(node)}>"


def _returns(source: "PythonFile", node: ast.expr | None) -> dict[str, ast.expr] | None:
    node = None if node is None else source.names.unquoted(node)
    if isinstance(node, ast.Constant) and node.value is None:
        return {}
    classes = source.classes
    if isinstance(node, ast.Name) and node.id in classes:
        return _fields(source.names, classes[node.id], classes, ())
    return None if node is None or not source.names.is_single(node) else {RESULT: node}


def _fields(
    names: Annotations, node: ast.ClassDef, classes: Mapping[str, ast.ClassDef], visited: tuple[str, ...]
) -> dict[str, ast.expr] | None:
    """Return the fields of a record class and its bases; None if one of them is not a record."""
    fields: dict[str, ast.expr] = {}
    record = any(names.full_name(outer_call(mark)).endswith("dataclass") for mark in node.decorator_list)
    for base in node.bases:
        name = names.full_name(base)
        if name in classes and name not in visited:
            inherited = _fields(names, classes[name], classes, (*visited, node.name))
            if inherited is None:
                return None
            fields |= inherited
        elif name.rpartition(".")[2] not in _RECORDS:
            return None
        record = True
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            annotation = names.unquoted(item.annotation)
            if not names.full_name(outer(annotation)).endswith("ClassVar"):
                fields[item.target.id] = annotation
    return fields if record else None


class SignatureError(HintedError, UsageError):
    """A function whose signature cannot be used. `line` (from 1) says where in the file."""

    def __init__(self, message: str, line: int = 1, hint: str = "") -> None:
        super().__init__(message, hint)
        self.line = line


@dataclass(frozen=True)
class PythonFile:
    """A parsed Python file."""

    path: Path
    tree: ast.Module = field(repr=False)
    data: bytes = field(repr=False)

    @cached_property
    def names(self) -> Annotations:
        return Annotations(self.tree)

    @cached_property
    def functions(self) -> dict[str, ast.FunctionDef]:
        """The functions at the top level, by name; of two with the same name, the last counts."""
        return {node.name: node for node in top_level(self.tree.body) if isinstance(node, ast.FunctionDef)}

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        """The classes at the top level, by name."""
        return {node.name: node for node in top_level(self.tree.body) if isinstance(node, ast.ClassDef)}

    def modules(self) -> list[str]:
        """Return the functions that a workflow can name: the decorated ones, or all public ones."""
        marked = [name for name, node in self.functions.items() if self.mark(node) is not None]
        return marked or [name for name in self.functions if not name.startswith("_")]

    def mark(self, function: ast.FunctionDef) -> ast.expr | None:
        """Return the decorator that makes a function a module."""
        full_name, decorators = self.names.full_name, function.decorator_list
        return next((call for call in decorators if full_name(outer_call(call)) in _DECORATORS), None)


def read_source(path: Path, data: bytes | None = None) -> PythonFile:
    """Return a Python file, parsed once for each content. Raise SignatureError."""
    if data is None and (flaw := flaw_of(path)):
        raise SignatureError(f"the file {flaw}")
    try:
        return _parsed(path, path.read_bytes() if data is None else data)
    except OSError as error:
        raise SignatureError(f"{path} cannot be read: {error.strerror}") from None


@lru_cache(maxsize=64)
def _parsed(path: Path, data: bytes) -> PythonFile:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a file's style is not our matter
            return PythonFile(path, ast.parse(data), data)
    except SyntaxError as error:
        raise SignatureError(f"not valid Python: {error.msg}", error.lineno or 1) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise SignatureError(f"not valid Python: {error}") from None


def top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a file, those under `if`, `try` and `with` included."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With):
            yield from top_level(node.body)
            if not isinstance(node, ast.With):
                yield from top_level(node.orelse)
        if isinstance(node, ast.Try):
            for handler in node.handlers:
                yield from top_level(handler.body)
