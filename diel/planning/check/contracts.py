"""Checks of contracts: the two ends of an edge agree, and a module can make what is promised."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin

from diel.base.errors import did_you_mean
from diel.base.terms import ABOUT, FITS, SIMULATED, format_of, lacking, shown_shape
from diel.base.units import Columns, Rule, Units, UnitsError, conversions
from diel.planning.check.names import visible_names
from diel.planning.check.violations import Check
from diel.workflow.expressions import Template, reference_of, walk
from diel.workflow.graph import Edge, Key
from diel.workflow.graph.judge import place_of_name, references_of
from diel.workflow.graph.uses import unread
from diel.workflow.models import Input, Output, Stage
from diel.workflow.models.contract import DataContract
from diel.workflow.models.forms.rows import DerivedAxis
from diel.workflow.models.model import quote
from diel.workflow.modules.annotations import OBJECTS
from diel.workflow.modules.catalogue import Module
from diel.workflow.modules.numpy_types import ToNumpy
from diel.workflow.modules.parameter import Parameter

Shape = tuple[int | str, ...]
Sizes = dict[str, tuple[int, str]]
"""The sizes behind names such as `n` in one stage, each with the first output that has it."""
_SCRIPT = r"files\.|(?<=[\w.-])\.(?:py|sh|bash|R|jl|pl|rb|js|lua|m|exe)\b|(?:^|\s)\.{0,2}/"
DECLARE = "declare a value that it writes to DIEL_RESULT: outputs: {{{0}: {{value: float}}}}"
_DECLARE_ANY = "declare outputs: {{{0}: PATH}}, a file or folder that it makes, or {{{0}: {{value: float}}}}"
_NO_NUMBERS = {
    "str": "a text",
    "list": "a list",
    "tuple": "a list",
    "dict": "a mapping",
    "bool": "true or false",
    "None": "nothing",
}
"""Types of values, as written, that cannot rank trials."""


def check_outputs(check: Check) -> None:
    """Check that stages make the outputs that others read, where the outputs are known."""
    for edge in check.graph.edges:
        if edge.output is None or edge.published is not None or edge.stream:
            continue
        names = visible_names(check, edge.upstream)
        outputs = known_outputs(check, edge.upstream)
        if outputs is None or edge.output in outputs or edge.output in names.parameters:
            continue
        if names.open_axes and not did_you_mean(edge.output, outputs):
            continue  # an axis may give it as a parameter
        message = f"'{edge.upstream}' makes no output '{edge.output}'"
        available, inside = (*outputs, *names.parameters), check.document.template_at(edge.key)
        offset = None if inside is None else place_of_name(inside.text, f"{edge.upstream}.{edge.output}")
        check.add(
            edge.key,
            message,
            _made_hint(check, edge.upstream, edge.output, available, "it has", _DECLARE_ANY),
            offset,
        )


def check_metrics(check: Check) -> None:
    """Check that STAGE.VALUE of `minimize`, `maximize` and `until` is made, and a number, as far as known."""
    stages = check.workflow.stages
    for label, axis in check.workflow.axes.items():
        for key, reference in references_of(label, axis):
            if "watch" in key or len(reference) != 2 or reference[0] not in stages:
                continue
            name, value = reference
            if label not in stages[name].over or check.lacks_module(name):
                continue  # another check reports it
            until = axis.condition if key[-1] == "until" else None
            wrong = _missing(check, name, value) or (None if until else _no_number(check, name, value))
            if wrong is not None:
                offset = None if until is None else place_of_name(until, f"{name}.{value}")
                check.add(key, *wrong, offset)


def _missing(check: Check, name: str, value: str) -> tuple[str, str] | None:
    stage = check.workflow.stages[name]
    if value in stage.outputs and stage.outputs[value].stream is not None:
        return f"'{value}' is a stream, not a value", "name a value that the stage makes besides it"
    outputs = known_outputs(check, name)
    if outputs is None or value in outputs:
        return None
    return f"'{name}' makes no value '{value}'", _made_hint(check, name, value, outputs, "it makes")


def _made_hint(
    check: Check, name: str, output: str, available: tuple[str, ...], it: str, declare: str = DECLARE
) -> str:
    hint = did_you_mean(output, available) or (f"{it}: {', '.join(available)}" if available else "")
    if check.workflow.stages[name].module is not None:
        return hint
    return "; or ".join(filter(None, (hint, declare.format(output))))


def _no_number(check: Check, name: str, value: str) -> tuple[str, str] | None:
    output, module = check.workflow.stages[name].outputs.get(value), check.modules.get(name)
    if module is not None:
        is_file = value in module.signature.artifacts
        kind = (module.signature.returns or {}).get(value, "")
    else:
        is_file = output is not None and output.form in ("path", "glob")
        kind = "" if output is None else output.kind or ""
    plain = "a file" if is_file else _NO_NUMBERS.get(kind.partition("[")[0].strip())
    if plain is None:
        return None
    message = f"'{value}' is {plain}; expected a number to judge trials by"
    return message, "name a value of type float or int, which the stage makes besides it"


def known_outputs(check: Check, name: str) -> tuple[str, ...] | None:
    """Return the outputs of a stage; None if it can make undeclared ones."""
    stage, module = check.workflow.stages[name], check.modules.get(name)
    if check.lacks_module(name):
        return None
    answered = () if stage.surrogate is None else (SIMULATED,)
    if module is not None:
        returns = module.signature.returns
        return None if returns is None else (*returns, *answered)
    words = stage.command if isinstance(stage.command, str) else " ".join(map(str, stage.command or ()))
    if "DIEL_RESULT" in words or re.search(_SCRIPT, words):
        return None  # the command can write undeclared values
    return (*stage.outputs, *answered)


class InputUse(NamedTuple):
    """Who reads data: the module of a stage and its input, and what the data is, as far as that is known."""

    input: str
    module: Module | None = None
    kind: str | None = None
    which: str | None = None
    """The files of the input, if no function gets their numbers."""

    def refusal(self, rule: Rule, units: Units) -> tuple[str, str] | None:
        """Say why a rule cannot convert this, and what to do: only functions get the numbers in files."""
        same, of_columns = f"write units: {_shown(units)} here", isinstance(rule, Columns)
        if self.kind in ("int", "float", "list", None):
            if of_columns and self.kind is not None:
                return "a value has no columns", same
            hint = f"{same}, or annotate '{self.input}' with float, which inputs.{self.input} is then"
            return ("a conversion gives floats", hint) if self.takes_whole_numbers else None
        if self.kind not in ("file", "array", "files"):
            return f"a {self.kind} is not converted", same
        if self.module is None or self.which is not None:
            return f"nothing converts a file {self.which}", f"{same}, and convert it in the program"
        parameters = {parameter.name: parameter.takes for parameter in self.module.signature.parameters}
        takes = parameters.get(self.input, frozenset({"any"}))
        if "any" in takes or takes & (_TABLES if of_columns else _ARRAYS):
            return None
        if takes & _TABLES:
            return "a table has no one unit", "say which columns, at both ends: units: {COLUMN: UNITS}"
        kind = "pandas.DataFrame" if of_columns else "numpy.ndarray"
        hint = f"{same}, or annotate '{self.input}' with {kind}"
        return "nothing converts a file that is read by its path", hint

    @property
    def takes_whole_numbers(self) -> bool:
        """Whether a function takes whole numbers here, alone or in lists, and no floats."""
        parameters = self.module.signature.parameters if self.module else ()
        kinds = {
            kind for p in parameters if p.name == self.input and not p.injected for kind in _items(p.type)
        }
        return int in kinds and kinds <= {int, bool, str, Path, type(None), ...}


def _items(kind: Any) -> Iterator[Any]:
    """Yield the types of what a type takes, alone or in lists, whatever its bounds."""
    items, origin = get_args(kind), get_origin(kind)
    if hasattr(kind, "__metadata__"):
        dtypes = [str(mark.dtype) for mark in kind.__metadata__ if isinstance(mark, ToNumpy)]
        yield from (int if "int" in dtype else float for dtype in dtypes) if dtypes else _items(items[0])
    elif origin is Literal:
        yield from map(type, items)
    elif not items or (isinstance(origin, type) and issubclass(origin, Mapping)):
        yield kind
    else:
        for item in items:
            yield from _items(item)


_TABLES = {"frame", "arrow", "dataset", "frames", "arrows", "datasets"}
_ARRAYS = {"array", "arrays", "dataarray", "dataarrays"}


def unit_flaws(source: str, units: Units, target: Units, reader: InputUse) -> Iterator[tuple[str, str]]:
    """Yield the flaws of units at the two ends of an edge."""
    if units == target:
        return
    try:
        rule = conversions(units, target)
        wrong = None if rule is None else reader.refusal(rule, units)
    except UnitsError as error:
        wrong = error.message, error.hint
    if wrong is not None:
        yield f"{source} has units {_shown(units)}; expected {_shown(target)}: {wrong[0]}", wrong[1]


def _shown(units: Units) -> str:
    if isinstance(units, str):
        return f"'{units}'"
    return f"{{{', '.join(f'{name}: {unit}' for name, unit in units.items())}}}"


def check_contracts(check: Check) -> None:
    """Check contracts as far as possible before a run."""
    for name, stage in check.workflow.stages.items():
        if name in check.modules:
            _check_returned(check, name, stage, check.modules[name])
        _check_kept(check, name, stage)
        _check_readable(check, name, stage)
    sizes: dict[str, Sizes] = {}
    for edge in check.graph.edges:
        if edge.output and edge.name and not edge.published and not edge.stream:
            _check_expected(check, edge, sizes.setdefault(edge.downstream, {}))
            _check_annotated(check, edge)
    for label, axis in check.workflow.axes.items():
        if isinstance(axis, DerivedAxis):
            _check_taken(check, label, axis)


def _check_taken(check: Check, label: str, axis: DerivedAxis) -> None:
    """Check that a derived axis declares no other types than its maker promises; texts are always right."""
    for name, kind in axis.types.items():
        word = axis.promised.get(name, kind)
        if kind not in (word, "str") and (word, kind) != ("int", "float"):
            message = f"column '{name}' of {axis.output} is {word}; expected {kind}"
            check.add(("axes", label, "columns", name), message, f"write {name}: {word}, or fix the promise")


def _check_returned(check: Check, name: str, stage: Stage, module: Module) -> None:
    """Check that a module's contracts are for outputs that it returns, and fit their kind."""
    returns = module.signature.returns
    if returns is None:
        return
    for label, output in stage.outputs.items():
        key: Key = ("stages", name, "outputs", label)
        if output.stream is not None:
            continue
        if label not in returns:
            hint = did_you_mean(label, returns) or f"it returns: {', '.join(returns) or 'nothing'}"
            check.add(key, f"'{module.reference}' returns no '{label}'", hint)
            continue
        kind = _returned(module, label)
        for promise in output.promises:
            about = ABOUT.get(promise)
            if kind is not None and about is not None and about not in _MAY_BE.get(kind.word, ()):
                what = f"`{promise}` is about {_ABOUT[about]}, and '{module.reference}' returns {label}: "
                hint = "drop it, or return what it promises: an array, or the Path of a file"
                check.add((*key, promise), what + returns[label], hint)


_ABOUT = {"table": "a table", "array": "an array", "json": "a JSON object", "files": "several files"}
_MAY_BE = {"array": {"array"}, "dict": {"json"}, "file": {*_ABOUT}}
"""The subjects of a promise, by the kind of a module's output."""


def _check_readable(check: Check, name: str, stage: Stage) -> None:
    """Check that libraries are installed for outputs with promises, and for outputs that axes are made of."""
    axes = {edge.output for edge in check.graph.out_of(name) if edge.axis is not None}
    for label, output in stage.outputs.items():
        missing = "" if output.path is None else lacking(output.path)
        if missing and (label in axes or output.inside or set(output.promises) - {"units"}):
            why = "as an axis needs it" if label in axes else "to hold it to its contract"
            message = (
                f"{quote(output.path)} cannot be read {why}: {missing.partition(':')[0]} is not installed"
            )
            check.add(("stages", name, "outputs", label), message, missing.partition(": ")[2])


def _check_kept(check: Check, name: str, stage: Stage) -> None:
    """Check that outputs with `keep: false` have a reader, and no axis among their readers."""
    for label in (label for label, output in stage.outputs.items() if not output.keep):
        key: Key = ("stages", name, "outputs", label, "keep")
        readers = [edge for edge in check.graph.out_of(name) if edge.output == label]
        axes = [edge.axis for edge in readers if edge.axis is not None]
        if axes:
            message = f"the points of axis '{axes[0]}' are in it, and are read again by `resume`"
            check.add(key, message, "drop `keep: false`")
        elif not readers:
            message = f"no stage reads '{label}', so it would be deleted at once"
            check.add(key, message, "drop `keep: false`, or the output")


def _check_expected(check: Check, edge: Edge, sizes: Sizes) -> None:
    expected = check.workflow.stages[edge.downstream].inputs.get(str(edge.name))
    if expected is None or not expected.expectations:
        return
    _check_begun(check, edge, expected)
    maker, outputs = check.workflow.stages[edge.upstream], known_outputs(check, edge.upstream)
    if edge.output not in (outputs or maker.outputs):
        names = visible_names(check, edge.upstream)
        if edge.output in names.parameters or names.open_axes:
            _check_parameter(check, edge, expected)
            return
    if outputs is not None and edge.output not in outputs:
        return
    source = f"{edge.upstream}.{edge.output}"
    promised = maker.outputs.get(str(edge.output))
    for name in expected.expectations:
        key: Key = (*edge.key, name)
        if promised is None or getattr(promised, name) is None:
            flaws = iter([_not_promised(edge, name, getattr(expected, name), maker, promised)])
        elif name == "units" and expected.units is not None and promised.units is not None:
            flaws = unit_flaws(source, promised.units, expected.units, _reader(check, edge))
        else:
            flaws = _disagreements(name, expected, promised, source)
        for message, hint in flaws:
            check.add(key, message, hint)
    if promised is not None and expected.shape is not None and promised.shape is not None:
        _check_sizes(check, edge, expected.shape, promised.shape, sizes)


def _check_begun(check: Check, edge: Edge, expected: Input) -> None:
    """Check the units of what a loop begins with: the value of a plain name is converted."""
    plain, target = reference_of(expected.initially), expected.units
    for _, template in walk(expected.initially) if target is not None else ():
        for chain in template.references if isinstance(template, Template) else ():
            name, which = ".".join(chain), "that a loop begins with"
            units = check.workflow.units_read(edge.downstream, chain)
            kind = kind_of(check, *chain) if chain[0] in check.workflow.stages and len(chain) == 2 else None
            module = check.modules.get(edge.downstream)
            reader = InputUse(str(edge.name), module, kind and kind.word, which)
            flaws = unit_flaws(name, units, target, reader) if units and target else iter(())
            if units and units != target and plain != chain:
                said = f"{name} has units {_shown(units)}, which nothing converts in an expression"
                name = f"${{{{ {name} }}}}"
                hint = f"write {name} alone, or convert it in a stage that reads it with units: {target}"
                flaws = iter([(said, hint)])
            for flaw in flaws:
                check.add((*edge.key, "initially"), *flaw)


def _check_parameter(check: Check, edge: Edge, expected: Input) -> None:
    """Check what an input expects of an axis' parameter: only the units of the output that made the axis."""
    source = f"{edge.upstream}.{edge.output}"
    units = check.workflow.units_of(edge.upstream, str(edge.output))
    for name in expected.expectations:
        if name != "units":
            check.add(
                (*edge.key, name), f"{source} is a parameter of an axis: {name} is about files", "drop it"
            )
        elif units is None:
            hint = "promise units where the points of the axis are made, or drop it"
            check.add((*edge.key, name), f"{source} is a parameter of an axis, which has no units", hint)
        elif expected.units is not None:
            for message, hint in unit_flaws(source, units, expected.units, _reader(check, edge)):
                check.add((*edge.key, name), message, hint)


def _not_promised(
    edge: Edge, name: str, expected: object, maker: Stage, promised: Output | None
) -> tuple[str, str]:
    message = f"'{edge.downstream}' expects {name} of {edge.upstream}.{edge.output}, which promises none"
    if isinstance(expected, tuple):
        expected = shown_shape('"*"' if size == "*" else size for size in expected)
    elif isinstance(expected, dict):
        expected = f"{{{', '.join(f'{key}: {kind}' for key, kind in expected.items())}}}"
    says = f"{name}: {expected}"
    if promised is not None or maker.module is not None:
        return message, f"add it to '{edge.upstream}': outputs: {{{edge.output}: {{{says}}}}}"
    return message, f"declare it in '{edge.upstream}': outputs: {{{edge.output}: {{path: FILE, {says}}}}}"


def _disagreements(
    name: str, needs: DataContract, promised: DataContract, source: str
) -> Iterator[tuple[str, str]]:
    need, offer = getattr(needs, name), getattr(promised, name)
    if name == "columns":
        yield from _columns(needs.columns or {}, promised.columns or {}, source)
    elif name == "shape":
        pairs = zip(need, offer, strict=False)
        if len(need) != len(offer) or any(
            first != second for first, second in pairs if {type(first), type(second)} == {int}
        ):
            hint = f'change one of the two ends: shape: {shown_shape(offer)}; "*" takes any size'
            yield f"{source} has shape {shown_shape(offer)}; expected {shown_shape(need)}", hint
    elif need != offer:
        hint = f"change one of the two ends, or convert it in a stage between them: {name}: {offer}"
        yield f"{source} has {name} {quote(offer)}; expected {quote(need)}", hint


def _reader(check: Check, edge: Edge) -> InputUse:
    kind, name = kind_of(check, edge.upstream, str(edge.output)), str(edge.name)
    which = unread(check.workflow.stages[edge.downstream], name)
    return InputUse(name, check.modules.get(edge.downstream), None if kind is None else kind.word, which)


def _columns(expected: Mapping[str, str], offer: Mapping[str, str], source: str) -> Iterator[tuple[str, str]]:
    for column, kind in expected.items():
        if column not in offer:
            hint = did_you_mean(column, offer) or "promise it there, where it is made"
            yield f"{source} promises no column '{column}'; it has: {', '.join(offer)}", hint
        elif offer[column] != kind and (offer[column], kind) != ("int", "float"):
            hint = f"write {column}: {offer[column]}, or fix the promise"
            yield f"column '{column}' of {source} is {offer[column]}; expected {kind}", hint


def _check_sizes(check: Check, edge: Edge, expected: Shape, promised: Shape, sizes: Sizes) -> None:
    """Check that a name for a size means the same size in all inputs of a stage."""
    if len(expected) != len(promised):
        return
    source = f"{edge.upstream}.{edge.output}"
    for length, other in zip(expected, promised, strict=True):
        if isinstance(length, str) and length != "*" and isinstance(other, int):
            earlier, owner = sizes.setdefault(length, (other, source))
            if earlier != other:
                message = f"the size {length} is {earlier} in {owner}, and {other} in {source}"
                hint = "they must be equal: give one of them another name, or fix a shape"
                check.add((*edge.key, "shape"), message, hint)


class Kind(NamedTuple):
    """What an output is: a file, an array, files, or a value of a type."""

    word: str
    shown: str
    is_array: bool = False
    """Whether an array can be read from it."""
    objects: frozenset[str] = frozenset()
    """The objects that can be read from it, in the words of `Parameter.takes`."""


def _check_annotated(check: Check, edge: Edge) -> None:
    """Check that a Python function's annotations fit its inputs, where both are known."""
    module = check.modules.get(edge.downstream)
    if module is None:
        return
    parameter = next((p for p in module.signature.parameters if p.name == edge.name), None)
    if parameter is not None and edge.outer and edge.gathered:
        _check_nulls(check, edge, parameter, module)
    kind = kind_of(check, edge.upstream, str(edge.output))
    if parameter is None or parameter.injected or kind is None or "any" in parameter.takes:
        return
    fitting = _fitting(kind, gathered=bool(edge.gathered))
    if kind.word in ("file", "files", "array") and _OF_VALUES.search(parameter.annotation):
        fitting -= {"list"}
    if parameter.takes & fitting:
        return
    what = f"a list of all ({kind.shown} each)" if edge.gathered else kind.shown
    message = f"{edge.upstream}.{edge.output} is {what}; '{edge.name}' of '{module.reference}' is annotated "
    check.add(edge.key, f"{message}{parameter.annotation}", _advice(edge, kind, parameter))


def _check_nulls(check: Check, edge: Edge, parameter: Parameter, module: Module) -> None:
    """Check that a parameter for gathered values accepts null, which stands for what is missing."""
    if "[" in parameter.annotation and not _NULL.search(parameter.annotation):
        message = f"a place without a result is null; '{edge.name}' of '{module.reference}' is annotated "
        inner = parameter.annotation.partition("[")[2].removesuffix("]")
        hint = f"annotate it with list[{inner} | None], or drop `missing`"
        check.add((*edge.key, "missing"), message + parameter.annotation, hint)


def kind_of(check: Check, name: str, label: str) -> Kind | None:
    """Return the kind of a stage's output; None if it is not known."""
    stage = check.workflow.stages[name]
    output, module = stage.outputs.get(label), check.modules.get(name)
    if module is not None:
        return _returned(module, label) or (_promised(output) if output is not None else None)
    if output is None or label in visible_names(check, name).parameters:
        return None
    if output.path is not None:
        form, late = format_of(output.path), output.path.rstrip().endswith("}}")
        objects = frozenset(OBJECTS) if late else _OBJECTS[form]
        return Kind("file", f"a file ({output.path})", late or form in FITS["array"], objects)
    if output.glob is not None:
        form = format_of(output.glob)
        return Kind("files", f"a list of files ({output.glob})", form in ("array", None), _OBJECTS[form])
    return None if output.kind is None else Kind(output.kind, _KINDS[output.kind])


_OBJECTS: dict[str | None, frozenset[str]] = {
    "table": frozenset({"frame", "arrow", "dataset"}),
    "store": frozenset({"frame", "arrow", "dataset", "dataarray"}),
    "frames": frozenset({"structure", "frame", "arrow"}),
    "array": frozenset({"frame", "arrow"}),
    "json": frozenset({"frame", "arrow"}),
    None: frozenset({"structure"}),
}
"""The objects that can be read from files of each format."""
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "list": "a list of values",
    "dict": "a mapping",
}


def _returned(module: Module, label: str) -> Kind | None:
    signature = module.signature
    written = (signature.returns or {}).get(label, "")
    if label in signature.arrays:
        return Kind("array", f"an array ({written})", True)
    if label in signature.artifacts:
        return Kind("file", f"a file ({written})", True, frozenset(OBJECTS))
    word = written.partition("[")[0].strip()
    return Kind(word, _KINDS[word]) if word in _KINDS else None


def _promised(output: Output) -> Kind | None:
    if output.dtype is not None or output.shape is not None:
        return Kind("array", "an array", True)
    return Kind("file", "a table", objects=_OBJECTS["store"]) if output.columns is not None else None


_OF_VALUES = re.compile(r"\[\s*(int|float|bool|complex|dict)\b")
"""Lists of these are no lists of files."""
_NULL = re.compile(r"\b(None|Any|object|Optional)\b")
_LISTS = {"list", "paths", "arrays", "array"}
_FITTING = {
    "int": {"int", "float"},
    "float": {"float"},
    "str": {"str", "path"},
    "bool": {"bool"},
    "list": _LISTS,
    "dict": {"dict"},
}


def _fitting(kind: Kind, *, gathered: bool) -> set[str]:
    if kind.word in _FITTING:
        return _LISTS if gathered else _FITTING[kind.word]
    several = {"list", "paths", *(f"{o}s" for o in kind.objects), *(["arrays"] if kind.is_array else ())}
    if kind.word == "files":
        return {"list"} if gathered else several
    frames = {"structures"} if "structure" in kind.objects else set()
    single = {"path", "str", *kind.objects, *(["array"] if kind.is_array else ())} | frames
    return several if gathered else single


def _advice(edge: Edge, kind: Kind, parameter: Parameter) -> str:
    takes = parameter.takes
    plural = takes & {"list", "paths", "arrays"}
    item = {"array": "numpy.ndarray", "file": "Path", "files": "Path"}.get(kind.word, kind.word)
    if takes & {*OBJECTS} and (edge.gathered or kind.word == "files"):
        item = parameter.annotation.removesuffix(" | None")
    if edge.gathered and not plural:
        axes = ", ".join(edge.gathered)
        return f"annotate it with list[{item}]; or run over {axes} too, or pick a point with `at`"
    if edge.gathered or kind.word == "files":
        return f"annotate it with list[{item}]"
    if kind.word == "file" and takes & {*OBJECTS, *(f"{word}s" for word in OBJECTS)}:
        return "make a file that has such data; or annotate it with Path, and read the file"
    if kind.word in ("file", "array") and plural:
        tasks = f"run '{edge.upstream}' over an axis, and read what all its tasks made"
        return f"annotate it with {item}; or {tasks}"
    if kind.word == "file" and takes & {"array", "arrays"}:
        return "an array is read from a .npy file: write one, or annotate it with Path and read the file"
    if kind.word in ("file", "array"):
        return f"annotate it with {item}, or hand on a value instead"
    if takes & {"path", "array", "paths", "arrays"}:
        return f"make a file: outputs: {{{edge.output}: FILE}}; or annotate it with {kind.word}"
    return f"annotate it with {kind.word}, or make another value"
