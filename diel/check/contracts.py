"""Checks of contracts: the two ends of an edge agree, and a module is promised what it can make."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from diel.check.flaws import Check
from diel.check.names import visible_names
from diel.check.outputs import known_outputs
from diel.errors import did_you_mean
from diel.graph import Edge, Key, StageGraph
from diel.modules.catalogue import Module
from diel.modules.parameter import Parameter
from diel.spec import Output, Stage
from diel.spec.contract import Expected
from diel.spec.model import found as shown
from diel.terms import ABOUT, format_of, shown_shape


def check_contracts(found: Check, graph: StageGraph, modules: Mapping[str, Module]) -> None:
    """Everything about contracts that can be known before a run."""
    for name, stage in found.workflow.stages.items():
        if name in modules:
            _check_returned(found, name, stage, modules[name])
        _check_kept(found, graph, name, stage)
    sizes: dict[str, dict[str, tuple[int, str]]] = {}
    for edge in graph.edges:
        if edge.output is None or edge.name is None or edge.published is not None:
            continue
        _check_expected(found, edge, modules, sizes.setdefault(edge.downstream, {}))
        _check_annotated(found, edge, modules)


# --- what a module promises -----------------------------------------------------------------------


def _check_returned(found: Check, name: str, stage: Stage, module: Module) -> None:
    """A module's contracts are of outputs that it returns, and of their kind."""
    returns = module.signature.returns
    for label, output in stage.outputs.items():
        if returns is None or output.stream is not None:
            continue
        key: Key = ("stages", name, "outputs", label)
        if label not in returns:
            hint = did_you_mean(label, returns) or f"it returns: {', '.join(returns) or 'nothing'}"
            found.add(key, f"'{module.reference}' returns no '{label}'", hint)
            continue
        kind = _returned(module, label)
        for promise in output.promises:
            about = ABOUT.get(promise)
            if kind is not None and about is not None and not _may_be(kind, about):
                told = f"`{promise}` is about {_ABOUT[about]}, and '{module.reference}' returns {label}: "
                hint = "drop it, or return what it promises: an array, or the Path of a file"
                found.add((*key, promise), told + returns[label], hint)


_ABOUT = {"table": "a table", "array": "an array", "json": "a JSON object", "files": "several files"}


def _may_be(kind: Kind, about: str) -> bool:
    if kind.word == "array":
        return about == "array"
    if kind.word == "dict":
        return about == "json"
    return kind.word == "file"


def _check_kept(found: Check, graph: StageGraph, name: str, stage: Stage) -> None:
    """What is not kept is read by a stage, and by no axis: its points are read again later."""
    for label, output in stage.outputs.items():
        if output.keep:
            continue
        key: Key = ("stages", name, "outputs", label, "keep")
        readers = [edge for edge in graph.out_of(name) if edge.output == label]
        axes = [edge.axis for edge in readers if edge.axis is not None]
        if axes:
            hint = "drop `keep: false`"
            found.add(key, f"the points of axis '{axes[0]}' are in it, and are read again by `resume`", hint)
        elif not readers:
            hint = "drop `keep: false`, or the output"
            found.add(key, f"no stage reads '{label}', so that it would be deleted at once", hint)


# --- what an input expects ------------------------------------------------------------------------


def _check_expected(
    found: Check, edge: Edge, modules: Mapping[str, Module], sizes: dict[str, tuple[int, str]]
) -> None:
    """What an input expects is what the output promises."""
    given = found.workflow.stages[edge.downstream].inputs.get(str(edge.name))
    maker = found.workflow.stages[edge.upstream]
    known = known_outputs(maker, modules.get(edge.upstream))
    if given is None or not given.expectations or (known is not None and edge.output not in known):
        return
    source = f"{edge.upstream}.{edge.output}"
    promised = maker.outputs.get(str(edge.output))
    for name in given.expectations:
        key: Key = (*edge.key, name)
        if promised is not None and promised.stream is not None:
            found.add(key, f"`{name}` is no promise that a stream can make: {source} is one", "drop it")
        elif promised is None or getattr(promised, name) is None:
            found.add(key, *_not_promised(edge, name, getattr(given, name), maker, promised))
        else:
            for message, hint in _disagreements(name, given, promised, source):
                found.add(key, message, hint)
    if promised is not None and given.shape is not None and promised.shape is not None:
        _check_sizes(found, edge, given.shape, promised.shape, sizes)


def _not_promised(
    edge: Edge, name: str, wanted: object, maker: Stage, promised: Output | None
) -> tuple[str, str]:
    message = f"'{edge.downstream}' expects {name} of {edge.upstream}.{edge.output}, which promises none"
    wanted = f"[{', '.join(map(_quoted, wanted))}]" if isinstance(wanted, tuple) else wanted
    if isinstance(wanted, dict):
        wanted = f"{{{', '.join(f'{key}: {kind}' for key, kind in wanted.items())}}}"
    says = f"{name}: {wanted}"
    if promised is not None or maker.module is not None:
        return message, f"add it to '{edge.upstream}': outputs: {{{edge.output}: {{{says}}}}}"
    return message, f"declare it in '{edge.upstream}': outputs: {{{edge.output}: {{path: FILE, {says}}}}}"


def _quoted(size: object) -> str:
    return '"*"' if size == "*" else str(size)


def _disagreements(name: str, given: Expected, promised: Expected, source: str) -> Iterator[tuple[str, str]]:
    if name == "columns":
        yield from _columns(given.columns or {}, promised.columns or {}, source)
    elif name == "shape":
        yield from _shapes(given.shape or (), promised.shape or (), source)
    elif (wanted := getattr(given, name)) != (made := getattr(promised, name)):
        hint = f"change one of the two ends, or convert it in a stage between them: {name}: {made}"
        yield f"{source} has {name} {shown(made)}; expected {shown(wanted)}", hint


def _columns(wanted: Mapping[str, str], made: Mapping[str, str], source: str) -> Iterator[tuple[str, str]]:
    for column, kind in wanted.items():
        if column not in made:
            hint = did_you_mean(column, made) or "promise it there, where it is made"
            yield f"{source} promises no column '{column}'; it has: {', '.join(made)}", hint
        elif made[column] != kind and (made[column], kind) != ("int", "float"):
            hint = f"write {column}: {made[column]}, or correct the promise"
            yield f"column '{column}' of {source} is {made[column]}; expected {kind}", hint


def _shapes(
    wanted: tuple[int | str, ...], made: tuple[int | str, ...], source: str
) -> Iterator[tuple[str, str]]:
    clash = len(wanted) != len(made) or any(
        isinstance(one, int) and isinstance(other, int) and one != other
        for one, other in zip(wanted, made, strict=True)
    )
    if clash:
        hint = f'change one of the two ends: shape: {shown_shape(made)}; "*" takes any size'
        yield f"{source} has shape {shown_shape(made)}; expected {shown_shape(wanted)}", hint


def _check_sizes(
    found: Check,
    edge: Edge,
    wanted: tuple[int | str, ...],
    made: tuple[int | str, ...],
    sizes: dict[str, tuple[int, str]],
) -> None:
    """A name for a size stands for one size in all inputs of a stage."""
    if len(wanted) != len(made):
        return
    source = f"{edge.upstream}.{edge.output}"
    for one, other in zip(wanted, made, strict=True):
        if isinstance(one, str) and one != "*" and isinstance(other, int):
            known, owner = sizes.setdefault(one, (other, source))
            if known != other:
                message = f"the size {one} is {known} in {owner}, and {other} in {source}"
                hint = f"they must be alike: give one of them another name than {one}, or correct a shape"
                found.add((*edge.key, "shape"), message, hint)


# --- what a function's annotation says ------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """What an output is: a file, an array, files, or a value of a type."""

    word: str
    told: str
    is_array: bool = False
    """Whether it may be a `.npy` file."""


def _check_annotated(found: Check, edge: Edge, modules: Mapping[str, Module]) -> None:
    """A Python function is annotated with what its input is, as far as both can be known."""
    module = modules.get(edge.downstream)
    if module is None or edge.stream:
        return
    parameter = next((p for p in module.signature.parameters if p.name == edge.name), None)
    kind = _kind_of(found, edge, modules)
    if parameter is None or parameter.injected or kind is None or "any" in parameter.takes:
        return
    wanted = _fitting(kind, gathered=bool(edge.gathered))
    if not wanted or parameter.takes & wanted:
        return
    what = f"a list of all ({kind.told} each)" if edge.gathered else kind.told
    message = f"{edge.upstream}.{edge.output} is {what}; '{edge.name}' of '{module.reference}' is annotated "
    found.add(edge.key, f"{message}{parameter.annotation}", _advice(edge, kind, parameter))


def _kind_of(found: Check, edge: Edge, modules: Mapping[str, Module]) -> Kind | None:
    """What is read along an edge; None where it cannot be known."""
    stage, label = found.workflow.stages[edge.upstream], str(edge.output)
    output, module = stage.outputs.get(label), modules.get(edge.upstream)
    if module is not None:
        return _returned(module, label) or (_promised(output) if output is not None else None)
    if output is None or label in visible_names(found, edge.upstream).parameters:
        return None
    if output.path is not None:
        kind = format_of(output.path)
        may = kind == "array" or output.path.rstrip().endswith("}}")
        return Kind("file", f"a file ({output.path})", may)
    if output.glob is not None:
        suffix = format_of(output.glob)
        return Kind("files", f"a list of files ({output.glob})", suffix in ("array", None))
    return None if output.value is None else Kind(output.value, _TOLD[output.value])


_TOLD = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "list": "a list of values",
    "dict": "a mapping",
}


def _returned(module: Module, label: str) -> Kind | None:
    """What a module's annotation says of an output."""
    signature = module.signature
    written = (signature.returns or {}).get(label)
    if written is None:
        return None
    if label in signature.arrays:
        return Kind("array", f"an array ({written})", True)
    if label in signature.artifacts:
        return Kind("file", f"a file ({written})", True)
    word = written.partition("[")[0].strip()
    return Kind(word, _TOLD[word]) if word in _TOLD else None


def _promised(output: Output) -> Kind | None:
    """What a contract says where the annotation says nothing."""
    if output.dtype is not None or output.shape is not None:
        return Kind("array", "an array", True)
    return Kind("file", "a table") if output.columns is not None else None


def _fitting(kind: Kind, *, gathered: bool) -> set[str]:
    """What a parameter may accept that gets this; nothing where that cannot be told."""
    if kind.word in ("file", "array"):
        arrays = kind.is_array
        if gathered:
            return {"list", "paths"} | ({"arrays"} if arrays else set())
        return {"path", "str"} | ({"array"} if arrays else set())
    if kind.word == "files":
        return {"list"} if gathered else {"list", "paths"} | ({"arrays"} if kind.is_array else set())
    if gathered:
        return {"list", "paths", "arrays", "array"}
    return {
        "int": {"int", "float"},
        "float": {"float"},
        "str": {"str", "path"},
        "bool": {"bool"},
        "list": {"list", "paths", "arrays", "array"},
        "dict": {"dict"},
    }[kind.word]


def _advice(edge: Edge, kind: Kind, parameter: Parameter) -> str:
    takes = parameter.takes
    plural = takes & {"list", "paths", "arrays"}
    item = {"array": "numpy.ndarray", "file": "Path", "files": "Path"}.get(kind.word, kind.word)
    if edge.gathered and not plural:
        axes = ", ".join(edge.gathered)
        return f"annotate it with list[{item}]; or run over {axes} too, or pick a point with `at`"
    if kind.word in ("file", "array") and plural:
        all_tasks = f"run '{edge.upstream}' over an axis, and read what all its tasks made"
        return f"annotate it with {item}; or {all_tasks}"
    if kind.word == "files" and not plural:
        return "annotate it with list[Path]"
    if kind.word == "file" and takes & {"array", "arrays"}:
        return "an array is read from a .npy file: write one, or annotate it with Path and read the file"
    if kind.word in ("file", "array"):
        return f"annotate it with {item}, or hand on a value instead"
    if takes & {"path", "array", "paths", "arrays"}:
        return f"make a file: outputs: {{{edge.output}: FILE}}; or annotate it with {kind.word}"
    return f"annotate it with {kind.word}, or make another value"
