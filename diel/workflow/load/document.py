"""A workflow file as read: its text, its spec, and the place of each key.

The sizes and values of axes may depend on hyperparameters, whose values are known before a run: these
expressions are evaluated first, so that the models of axes see numbers and lists alone.
"""

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml
from pydantic import ValidationError

from diel.base.errors import MAX_PROBLEMS, Problem, SpecError, did_you_mean, first_problems
from diel.base.files import read_file, reason
from diel.base.values import resolve
from diel.workflow.expressions import JOINT, ExpressionError, Template, plain, texts_in
from diel.workflow.expressions import parse as parse_template
from diel.workflow.load.misfits import QUOTED, check
from diel.workflow.load.nodes import (
    LONG_LISTS,
    TWICE,
    Key,
    Scalar,
    Source,
    Unreadable,
    Verbatim,
    complaint,
    compose,
    content,
    descend,
    zero_padded,
)
from diel.workflow.models import Hyperparameter, SpecModel, Workflow
from diel.workflow.models.data import TEXT, Rendering
from diel.workflow.models.model import Violation, quote
from diel.workflow.models.workflow import SECTIONS

if TYPE_CHECKING:
    from diel.workflow.load.include import Composition

from diel.base.files import flaw_of
from diel.workflow.models.data import TemplateContent

M = TypeVar("M", bound=SpecModel)

MAX_BYTES = 16 * 2**20
_MOST_REMARKS = 5
EXAMPLE = "`diel init` writes an example"
_STAGES: Verbatim = {"*": {"command": True, "env": True}}
_VERBATIM: Verbatim = {
    "stages": _STAGES,
    "templates": _STAGES,
    "include": {"*": {"stages": _STAGES}},
    "environments": {"*": {"variables": True}},
}
"""Words of a command and variables stay as they are written: `1e-3`, `007`, `true`."""
_REFUSED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x84\x86-\x9f]|\ufffe|\uffff")
"""Alternatives, and not one character class, which would be slow to compile."""

_OPENING = r"(?<!\$)\$\{\{"
_KEPT = r"description|(search|loop)\.until|search\.(minimize|maximize|watch)(\.\d+)?"
"""Keys of an axis whose texts are parsed elsewhere, and refused there if wrong."""
_PLAIN = (
    r"from|(file\.)?columns(\.\w+)?|search\.((sampler|pruner)(\.\w+)?|parameters(\.\d+)?)"
    r"|sample\.(method|parameters\.\d+|parameters\.\w+\.type)"
)
"""Keys of an axis that take no expression."""
_ELSEWHERE = (
    r"(.*\.)?description|hyperparameters\.[^.]*\.when|stages\.[^.]*\.(command|params|env|files|when)(\..*)?"
    r"|stages\.[^.]*\.(inputs\.[^.]*\.initially(\..*)?|outputs\.[^.]*(\.path|\.glob|\.file|\.export)?)"
    r"|stages\.[^.]*\.(timeout|environment|(resources|retries)(\.[^.]*)?)"
)
"""Keys outside the axes whose texts can hold expressions, evaluated task by task."""
_STRAY = (
    "expressions belong in command, params, env, files, outputs, when, initially, resources, timeout and "
    "retries, and hp.NAME in axes"
)
_STRAY_IN = {
    "match": r"it is one pattern for all tasks: write \S+ for what differs, and choose by `pick`",
    **dict.fromkeys(("column", "key"), "it is the same for all tasks; `file` may hold expressions"),
}
"""What to do instead, where that depends on the key."""


@dataclass(frozen=True)
class Document(Source):
    """A workflow file with a valid spec."""

    spec: Workflow = field(kw_only=True)
    included: Mapping[str, str] = field(default_factory=dict, kw_only=True)

    def home(self, key: Key) -> Path | None:
        """Return the folder of the included workflow that wrote a key; None for this workflow's own keys."""
        moved = None if self.elsewhere is None else self.elsewhere(key, None)
        folder = self.path.parent if moved is None else moved[0].path.parent
        return None if folder == self.path.parent else folder.absolute()

    def problem(
        self, key: Key, message: str, hint: str = "", *, offset: int | None = None, at_key: bool = False
    ) -> Problem:
        """Return a problem as every source does; a template's is told at its place in the template."""
        if (inside := self.template_at(key)) is not None:
            edits = self._template(key).filling.edits
            if edits and offset:
                from diel.workflow.load.part import before  # only for included workflows

                offset = before(offset, edits)
            return inside.at(offset or 0, key[:-1], message, hint)
        return super().problem(key, message, hint, offset=offset, at_key=at_key)

    def template_at(self, key: Key) -> Source | None:
        """Return the text of a template, if the key stands for one."""
        if key[2:3] != ("files",) or key[4:] != (TEXT,):
            return None
        file = self._template(key)
        written = file.filling.written
        return Source(self.path.parent / file.template, file.filling.text if written is None else written)

    def _template(self, key: Key) -> Any:
        rendering = self.spec.stages[str(key[1])].files[str(key[3])]
        assert isinstance(rendering, Rendering)
        return rendering


def leading_zeros(document: Document) -> Iterator[Problem]:
    """Yield warnings of numbers such as `007`, which YAML reads as 7, or `1.10` beside `1.1`."""
    inner = (Source(Path(label), text, compose(text)[0]) for label, text in document.included.items())
    for source in (document, *inner):
        nodes = [] if source.root is None else zero_padded(source.root, _VERBATIM)
        for node in islice(nodes, _MOST_REMARKS):
            hint = f"an id is a text: put it in quotes, '{node.text}'"
            yield source.at(node.start, (), f"{node.text} is the number {resolve(node.text)}", hint)


Settle = Callable[[Document], Mapping[str, Any]]


def load(path: Path, settle: Settle | None = None) -> Document:
    """Read a workflow file. Raise SpecError with all that is wrong in it."""
    return load_text(read_text(path), path, settle)


def load_text(
    text: str, path: Path, settle: Settle | None = None, included: Mapping[str, str] | None = None
) -> Document:
    """Read a workflow from its text; `path` is where it comes from. Raise SpecError as `load` does."""
    document, problems = examine(text, path, settle, included)
    if document is None or problems:
        raise SpecError(problems)
    return document


def examine(
    text: str, path: Path, settle: Settle | None = None, included: Mapping[str, str] | None = None
) -> tuple[Document | None, list[Problem]]:
    """Return what a text holds, and all that is wrong in it; `included` has the texts that it includes, or
    they are read; `settle` gives the hyperparameters that axes read, and may raise."""
    source, data, problems = parse(text, path, _VERBATIM)
    if source.root is None:
        return None, problems
    notes: dict[tuple[str, int, int], str] = {}
    complete, model, texts = True, Workflow, dict[str, str]()
    if isinstance(data, dict) and ("include" in data or "templates" in data or "extends" in text):
        source, whole, model = _composed(source, data, included)
        problems += whole.problems
        complete, data, texts = whole.complete, whole.data, whole.texts
    if isinstance(data, dict) and (texts or "${{" in text or "\\" in text):
        data, notes = _settled(source, data, model, settle, problems)
    spec, wrong = fit(source, data, model)
    # Values that lack a refused part of the text say nothing new.
    places = {p[:3] for p in problems}
    keys = {(p.file, p.key) for p in problems if p.message != TWICE}
    for p in wrong:
        if p[:3] not in places and (p.file, p.key) not in keys:
            note = notes.get(p[:3], "")
            problems.append(p._replace(hint="; ".join(filter(None, (note, p.hint)))))
    problems = first_problems(problems) if problems else problems
    if spec is None or not complete:
        return None, problems
    return Document(path, text, source.root, source.elsewhere, spec=spec, included=texts), problems


def _composed(
    source: Source, data: dict[str, Any], included: Mapping[str, str] | None
) -> "tuple[Source, Composition, type[Workflow]]":
    """Return a workflow with its included and extended parts in place, and the model for it."""
    from diel.workflow.load.include import (  # here: few workflows include or extend
        ComposedWorkflow,
        IncludedWorkflow,
        composed,
    )
    from diel.workflow.load.part import KeyLocations

    def opened(path: Path, text: str | None) -> IncludedWorkflow:
        inner, held, wrong = parse(read_text(path) if text is None else text, path, _VERBATIM)
        if inner.root is not None:
            wrong += fit(inner, _without_sections(held), Workflow)[1]
        return IncludedWorkflow(inner, held, wrong)

    whole = composed(source, data, opened, included)
    return replace(source, elsewhere=KeyLocations(whole.parts)), whole, ComposedWorkflow


def _without_sections(data: Any) -> Any:
    """Return an included workflow without its parts: they are checked with those of the whole."""
    if not isinstance(data, dict):
        return data
    rest = {k: v for k, v in data.items() if k not in SECTIONS or not isinstance(v, dict)}
    parts = isinstance(data.get("stages"), dict) or "include" in data or "templates" in data
    return {**rest, **({"stages": {"any": {"command": ["true"]}}} if parts else {})}


def _settled(
    source: Source,
    data: dict[str, Any],
    model: type[Workflow],
    settle: Settle | None,
    problems: list[Problem],
) -> tuple[dict[str, Any], dict[tuple[str, int, int], str]]:
    """Return the data with the axes' expressions evaluated, and the value of each by its place."""
    texts, stray = _expressions(data)
    where = "an expression where none is evaluated"
    problems += [source.problem(key, where, _STRAY_IN.get(str(key[-1]), _STRAY)) for key in stray]
    notes: dict[tuple[str, int, int], str] = {}
    if not texts:
        return data, notes
    bare = {"diel": 1, "name": "head", "stages": {"none": {"command": ["true"]}}}
    head, _ = fit(source, {**bare, "hyperparameters": data.get("hyperparameters") or {}}, model)
    settled: dict[Key, Any] = dict.fromkeys(texts, 1)
    if head is not None:
        registry, later = head.hyperparameters, _set_later(data)
        document = Document(source.path, source.text, source.root, source.elsewhere, spec=head)
        values = _standing(registry) if settle is None else settle(document)
        enough = len(problems) + MAX_PROBLEMS
        for key, text in texts.items():
            try:
                template = parse_template(text)
                for chain in sorted(template.references):
                    _check_name(chain, template, registry, values, later)
                settled[key] = plain(template.value({"hp": values}))
            except ExpressionError as error:
                problems.append(source.problem(key, error.message, error.hint, offset=error.offset))
                if len(problems) > enough:
                    break
            else:
                place = source.problem(key, "")
                notes[place[:3]] = f"{quote(text)} gives {quote(settled[key])}"
    return {**data, "axes": _replaced(data["axes"], settled, ("axes",))}, notes


def _expressions(data: dict[str, Any]) -> tuple[dict[Key, str], list[Key]]:
    """Return the expressions of axes, by key, and the keys of those where none is evaluated."""
    texts: dict[Key, str] = {}
    stray: list[Key] = []
    has_axes = isinstance(data.get("axes"), dict)
    for key, text in texts_in(data):
        if "${{" not in text or key[0] == "include":  # checked where an include puts it
            continue
        if key[0] == "axes":
            place = ".".join(map(str, key[2:]))
            if not has_axes or re.fullmatch(_KEPT, place):
                continue
            if not re.fullmatch(_PLAIN, place):
                texts[key] = text
                continue
        elif re.fullmatch(_ELSEWHERE, _place(key)):
            continue
        if re.search(_OPENING, text):
            stray.append(key)
    return texts, stray


def _place(key: Key) -> str:
    """Return a key as the patterns above write it: templates as stages, and names without dots."""
    section, *rest = (str(part).replace(".", JOINT) for part in key)
    return ".".join(("stages" if section == "templates" else section, *rest))


def _set_later(data: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return the hyperparameters that a run sets, each with its setter and what to do instead."""
    later: dict[str, tuple[str, str]] = {}
    for label, axis in data["axes"].items():
        search = axis.get("search") if isinstance(axis, dict) else None
        for name in _listed(search.get("parameters")) if isinstance(search, dict) else ():
            hint = "use another hyperparameter for the axis"
            later.setdefault(str(name), (f"the search '{label}' sets", hint))
    stages = data.get("stages")
    for label, stage in stages.items() if isinstance(stages, dict) else ():
        for name in _listed(stage.get("publishes")) if isinstance(stage, dict) else ():
            hint = f"use another, or an axis `from: {label}.OUTPUT`"
            later.setdefault(str(name), (f"stage '{label}' publishes", hint))
    return later


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | dict) else []


def _check_name(
    chain: tuple[str, ...],
    template: Template,
    registry: Mapping[str, Hyperparameter],
    values: Mapping[str, Any],
    later: Mapping[str, tuple[str, str]],
) -> None:
    whole, name = ".".join(chain), chain[-1] if len(chain) < 2 else chain[1]
    if chain[0] != "hp" or len(chain) < 2:
        message, hint = f"an axis cannot read '{whole}'", "it reads hyperparameters: hp.NAME"
    elif name not in registry:
        message = f"no hyperparameter '{name}'"
        hint = did_you_mean(name, registry) or f"hyperparameters: {', '.join(registry) or 'none'}"
    elif name in later:
        who, hint = later[name]
        message = f"hp.{name} has no value before the run: {who} it"
    elif name not in values:
        message = f"hp.{name} has no value"
        hint = f"give it a `default`, or a value by `--set hp.{name}=VALUE`"
    else:
        return
    raise ExpressionError(message, max(0, template.text.find(whole)), hint)


def _standing(registry: Mapping[str, Hyperparameter]) -> dict[str, Any]:
    """Return a fitting value for each hyperparameter, for reading a file without its sizes."""
    return {
        name: next(v for v in (spec.default, spec.high, spec.low, *(spec.choices or ()), 1) if v is not None)
        for name, spec in registry.items()
    }


def _replaced(value: Any, settled: Mapping[Key, Any], key: Key) -> Any:
    if key in settled:
        return settled[key]
    if isinstance(value, dict):
        return {name: _replaced(part, settled, (*key, name)) for name, part in value.items()}
    if isinstance(value, list):
        return [_replaced(part, settled, (*key, place)) for place, part in enumerate(value)]
    return value


def fit(source: Source, data: Any, model: type[M]) -> tuple[M | None, list[Problem]]:
    """Return a model of a text's plain values, and the misfits."""
    if not isinstance(data, dict):
        keys = ", ".join(info.alias or name for name, info in model.model_fields.items())
        return None, [source.problem((), f"expected a mapping, found {quote(data)}", f"its keys: {keys}")]
    try:
        return model.model_validate(data), []
    except ValidationError:
        instance, misfits = check(data, model)
    return instance, [_shown(source, misfit) for misfit in misfits[: 10 * MAX_PROBLEMS]]


def parse(
    text: str, path: Path, verbatim: Verbatim = False, example: str = EXAMPLE
) -> tuple[Source, Any, list[Problem]]:
    """Return a YAML text's tree, plain values and mistakes; `example` is for an empty file."""
    text = text.removeprefix("\ufeff")
    bare = Source(path, text)
    refused = _REFUSED.search(text)
    if refused:
        message = f"a control character, {refused.group()!r}"
        return bare, None, [bare.at(refused.start(), (), message, 'write it as an escape in "..."')]
    try:
        root, complaints = compose(text)
    except Unreadable as error:
        return bare, None, bare.complained([error.complaint])
    except yaml.YAMLError as error:
        return bare, None, bare.complained([complaint(error, text)])
    if root is None or (isinstance(root, Scalar) and root.plain and not root.text):
        return bare, None, [bare.at(0, (), "the file is empty", example)]
    source = Source(path, text, root)
    return source, content(root, verbatim, complaints), source.complained(complaints)


_NO_WORKFLOWS = {
    ".py": "`command: [python, FILE.py]`, or a function of modules/NAME.py by `module: NAME`",
    ".ipynb": "`command: [jupyter, execute, FILE.ipynb]`",
    ".sh": "`command: [bash, FILE.sh]`",
}
"""Files that users name instead of a workflow, and how a stage runs them."""


def read_text(path: Path, what: str = "workflow") -> str:
    """Read a file that should hold `what`. Raise SpecError where it is no UTF-8 of at most 16 MiB."""

    def refused(message: str, hint: str = "", line: int = 1, column: int = 1) -> SpecError:
        return SpecError([Problem(str(path), line, column, "", message, hint)])

    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise refused("this is a directory", f"name the {what} file in it")
        if not stat.S_ISREG(mode):
            raise refused("this is not an ordinary file", f"write the {what} into a file first")
        if path.suffix in _NO_WORKFLOWS:
            other = f"a stage runs it: {_NO_WORKFLOWS[path.suffix]}; `diel init` makes an example"
            raise refused(f"this is a {path.suffix} file, and the {what} is a YAML file", other)
        data = read_file(path, MAX_BYTES)
    except FileNotFoundError:
        raise refused("no such file", _nearby(path)) from None
    except (OSError, ValueError) as error:
        raise refused(f"cannot be read: {reason(error)}", "check its name and permissions") from None
    if len(data) > MAX_BYTES:
        raise refused("larger than 16 MiB", LONG_LISTS)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8").removeprefix("\ufeff")
        line, column = Source(path, before).place(len(before))
        message = f"byte {data[error.start]:#04x} is not UTF-8"
        raise refused(message, "save the file in UTF-8", line, column) from None


def _nearby(path: Path) -> str:
    try:
        names = [name for name in os.listdir(path.parent) if name.endswith((".yaml", ".yml"))]
    except OSError:
        return "check the path"
    if (full := next((name for name in names if name.startswith(f"{path.name}.")), None)) is not None:
        return f"did you mean '{full}'?"
    here = f"workflows here: {', '.join(sorted(names)[:5])}" if names else EXAMPLE
    return did_you_mean(path.name, names) or here


def _shown(source: Source, misfit: Violation) -> Problem:
    hint = misfit.hint
    if hint == QUOTED:
        node = None if source.root is None else descend(source.root, misfit.key)[0][-1][1]
        hint = hint.format(text=node.text) if isinstance(node, Scalar) else hint.partition(":")[0]
    return source.problem(misfit.key, misfit.message, hint, offset=misfit.offset, at_key=misfit.at_key)


LARGEST = 1 << 20
"""Bytes of the largest template: each task gets a text of its own."""
_AS_IT_IS = "name a file under `files` without `template`, and it is read as it is"


def renderings(spec: Workflow) -> Iterator[tuple[Key, Rendering]]:
    """Yield the templates of all stages, with their keys."""
    for name, stage in spec.stages.items():
        for label, rendering in stage.rendered.items():
            yield ("stages", name, "files", label), rendering


def read_templates(document: Document, folder: Path) -> Iterator[Problem]:
    """Read the templates of a workflow, and report those that cannot be used."""
    for key, rendering in renderings(document.spec):
        path, shown = folder / rendering.template, document.path.parent / rendering.template
        try:
            if flaw := flaw_of(path):
                absent = flaw == "is not there"
                message = f"no file '{rendering.template}' in {shown.parent}" if absent else f"{shown} {flaw}"
                yield document.problem((*key, "template"), message, "paths are relative to the workflow file")
                continue
            data = read_file(path, LARGEST)
            if len(data) > LARGEST:
                message = f"{shown} is larger than {LARGEST >> 20} MiB"
                yield document.problem((*key, "template"), message, _AS_IT_IS)
                continue
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            before = data[: error.start].decode("utf-8")
            message = f"byte {data[error.start]:#04x} is not UTF-8"
            yield Source(shown, before).at(len(before), key, message, f"save it in UTF-8; or {_AS_IT_IS}")
        except (OSError, ValueError) as error:
            yield document.problem((*key, "template"), f"{shown} cannot be read: {reason(error)}")
        else:
            if (place := text.find("\0")) >= 0:
                yield Source(shown, text).at(place, key, "a NUL character: this is no text", _AS_IT_IS)
            executable = os.access(path, os.X_OK)
            content, edits = document.elsewhere.renamed(key, text) if document.elsewhere else (text, [])
            rendering.fill(
                TemplateContent(content, executable, text, edits)
                if edits
                else TemplateContent(text, executable)
            )


def fill_templates(spec: Workflow, fillings: Mapping[str, TemplateContent]) -> None:
    """Give the templates of a run's workflow their texts of when it was made, which old runs keep by file."""
    for key, rendering in renderings(spec):
        earlier = f"{key[1]}:{rendering.template}" if "." in str(key[1]) else rendering.template
        rendering.fill(fillings.get(".".join(map(str, key)), fillings.get(earlier, rendering.filling)))


def kept_templates(spec: Workflow) -> dict[str, TemplateContent]:
    """Return the content of the templates by key, for the run to keep: each stage has its own names."""
    return {".".join(map(str, key)): rendering.filling for key, rendering in renderings(spec)}
