"""Workflows as parts of others: a prefix comes before their stages, axes and hyperparameters.

What is included keeps its meaning: the names in its expressions are its own, and so are its files. A name and
the one before it are written with a dot, `relax.scf`, and with JOINT in an expression.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field, StringConstraints

from diel.base.errors import HintedError, Problem, SpecError, did_you_mean
from diel.workflow.expressions import JOINT
from diel.workflow.expressions.expression import PLACES
from diel.workflow.expressions.syntax import Chain
from diel.workflow.load.nodes import Key, Source
from diel.workflow.load.part import Edit, Part, WrittenKey, joined, renamed
from diel.workflow.models.forms import Axis, AxisForm
from diel.workflow.models.forms.sample import seed_of
from diel.workflow.models.hyperparameter import Hyperparameter
from diel.workflow.models.model import NAME_PATTERN, Later, StoredAs, free_name, quote
from diel.workflow.models.stage import Stage
from diel.workflow.models.workflow import SECTIONS, PartialStage, Workflow

Parts = dict[tuple[str, str], Part]

_RUNS = {"module": ("command", "shell"), "command": ("module",)}
"""The other keys that a stage does not inherit if it says itself what runs."""
_LONGEST = 100


def overridden(below: Part, above: Part) -> Part:
    """Return a stage with another one's keys below its own; if it says what runs, the other's is dropped."""
    if not isinstance(below.data, dict) or not isinstance(above.data, dict):
        return above
    gone = [key for own, rivals in _RUNS.items() if above.data.get(own) is not None for key in rivals]
    if isinstance(above.data.get("command"), list):
        gone.append("shell")
    inherited = {key: value for key, value in below.data.items() if key not in {*gone, "extends"}}
    return joined(Part(inherited, below.places), above, ("params",))


def extended(parts: Mapping[tuple[str, str], Part]) -> tuple[Parts, list[Problem]]:
    """Return the parts with stages and templates made whole, and what is wrong with what they extend."""
    extension = _Extended(parts)
    return {**parts, **extension.whole}, extension.problems


class _Extended:
    def __init__(self, parts: Mapping[tuple[str, str], Part]) -> None:
        self.problems: list[Problem] = []
        self.whole: Parts = {}
        self._parts = parts = {key: part for key, part in parts.items() if key[0] in ("stages", "templates")}
        self._sections = {name: section for section, name in [*parts][::-1]}
        for name in (name for section, name in parts if section == "templates"):
            if ("stages", name) in parts:
                place = parts["templates", name].place(())
                message = f"'{name}' is both a stage and a template"
                self.problems.append(
                    place.source.problem(place.key, message, "rename one of them", at_key=True)
                )
        for key in parts:
            self._make(key, ())

    def _make(self, key: tuple[str, str], line: tuple[tuple[str, str], ...]) -> Part:
        """Return a stage or template with all that it extends; `line` has the stages that extend it."""
        if key in self.whole:
            return self.whole[key]
        part, base = self._parts[key], self._base(key, line)
        if base is not None:
            part = overridden(self._make(base, (*line, key)), part)
        self.whole[key] = part
        if isinstance(part.data, dict) and isinstance(part.data.get("extends") or None, str):
            whole = {name: value for name, value in part.data.items() if name != "extends"}
            if base is None and not {"module", "command"} & whole.keys():
                whole["command"] = ["true"]  # a problem has told what it lacks
            self.whole[key] = part = Part(whole, part.places)
        return part

    def _base(self, key: tuple[str, str], line: tuple[tuple[str, str], ...]) -> tuple[str, str] | None:
        """Return the base that a stage extends; None without one, or with a problem for a wrong name."""
        part = self._parts[key]
        name = part.data.get("extends") if isinstance(part.data, dict) else None
        if not isinstance(name, str) or not name:
            return None
        base = (self._sections.get(name, ""), name)
        if len(line) >= _LONGEST:
            self._complain(key, f"more than {_LONGEST} stages extend one another", "extend one further up")
            return None
        if base in (*line, key):
            circle = [label for _, label in (*line, key)]
            self._complain(
                key,
                "these extend each other in a circle",
                " → ".join([*circle[circle.index(name) :], name]) + "; drop one of the `extends`",
            )
            return None
        if base not in self._parts:
            names = [label for label in self._sections if label != key[1]]
            there = f"stages and templates: {', '.join(names) or 'no other'}"
            self._complain(key, f"no stage or template '{name}'", did_you_mean(name, names) or there)
            return None
        return base

    def _complain(self, key: tuple[str, str], message: str, hint: str) -> None:
        place = self._parts[key].place(("extends",))
        self.problems.append(place.source.problem(place.key, message, hint))


_MOST = 1000
"""The most workflows in a workflow, those at all levels together."""
_PACKAGED = re.compile(r"[\w-]+:[\w-]+")
"""PACKAGE:NAME, a workflow that a package brings."""
_REFERENCE = re.compile(r"inputs\.[^.*]+(\.from)?|from|search\.(minimize|maximize|watch)(\.\d+)?")
_BARE = re.compile(r"when|(search|loop)\.until")
"""Texts that are expressions without `${{ }}`."""
_NAMES = {
    "stages": re.compile(r"(after|beside|services)\.\d+|surrogate\.service|extends"),
    "axes": re.compile(r"over\.\d+|inputs\.[^.]+\.at\.\*"),
    "hyperparameters": re.compile(r"search\.parameters\.\d+|publishes\.\*"),
}
"""Texts that name something; `*` is a key of a mapping."""
_FILES = {"axes": re.compile(r"file(\.path)?"), "stages": re.compile(r"files\.[^.*]+(\.template)?")}


@dataclass
class Renaming:
    """The names of an included workflow as the including one has them."""

    stages: dict[str, str] = field(default_factory=dict)
    axes: dict[str, str] = field(default_factory=dict)
    hyperparameters: dict[str, str] = field(default_factory=dict)
    chains: dict[Chain, str] = field(default_factory=dict)
    """The spelling in an expression of the first parts of dotted names."""
    parameters: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By axis: its parameter, and the parameter's name in the file, for stages over the axis."""
    prefix: str = ""
    """The folder of its files, from that of the other workflow."""

    def handed(self, part: Any, otherwise: Iterable[str] = ()) -> list[tuple[str, str]]:
        """Return a part's parameters, and their names there: two axes can have those of one name."""
        over = part.get("over") if isinstance(part, dict) else None
        axes = map(str, over) if isinstance(over, list) else otherwise
        return [self.parameters[label] for label in axes if label in self.parameters]


def _seen_from_outside(parts: Parts) -> Renaming:
    """Return the spelling of included names: a parser reads `relax.scf` as two words, and it is one name."""
    chains: dict[Chain, str] = {}
    for section, name in parts:
        words, joint = tuple(name.split(".")), name.replace(".", JOINT)
        if section == "hyperparameters":
            chains["hp", *words] = f"hp.{joint}"
        elif section == "axes" and _names_itself(parts[section, name].data):
            chains[words] = words[-1]  # its parameter keeps the name of its own file
        elif section == "stages" or section == "axes":
            chains[words] = joint
        if section == "axes":
            chains[PLACES, name] = joint
    return Renaming(chains=chains)


def _names_itself(axis: Any) -> bool:
    """Return whether an axis gives one parameter, of its own name."""
    return isinstance(axis, dict) and not {"zip", "sample", "columns", "file"} & axis.keys()


def _rename(section: str, part: Part, names: Renaming) -> Part:
    """Give a part of a workflow the names that its expressions and references have in another one."""

    kind = "stages" if section == "templates" else section
    otherwise = () if section == "stages" else names.parameters  # a template can leave its axes to a stage
    chains = names.chains | {(own,): here for own, here in names.handed(part.data, otherwise)}

    def change(key: Key, text: str) -> tuple[str, list[Edit]]:
        place = ".".join(map(str, key))
        if names.prefix and kind in _FILES and _FILES[kind].fullmatch(place):
            text, edits = renamed(text, chains)
            if os.path.isabs(text):
                return text, edits
            return f"{names.prefix}{text}", [Edit(0, 0, len(names.prefix)), *edits]
        if kind != "hyperparameters" and _REFERENCE.fullmatch(place):
            return _reference(text, names), []
        for named, pattern in _NAMES.items():
            if kind != "hyperparameters" and pattern.fullmatch(place):
                return getattr(names, named).get(text, text), []
        if _BARE.fullmatch(place):
            return renamed(text, chains, bare=True)
        return renamed(text, chains) if "${{" in text and key[-1:] != ("*",) else (text, [])

    changed = part.changed(change)
    if not chains or kind != "stages":
        return changed
    places = {key: spot._replace(names=(*spot.names, chains)) for key, spot in changed.places.items()}
    return Part(changed.data, places)


def _reference(text: str, names: Renaming) -> str:
    if text.startswith("hp."):
        name = text.removeprefix("hp.")
        return f"hp.{names.hyperparameters.get(name, name)}"
    stage, dot, output = text.rpartition(".")
    if (stage, output) in names.chains:
        return names.chains[stage, output].replace(JOINT, ".")
    return f"{names.stages.get(stage, stage)}{dot}{output}"


class IncludedWorkflow(NamedTuple):
    """An included workflow: its file's content, and its parts, those of its own includes among them."""

    source: Source
    data: Any
    problems: list[Problem]
    parts: Mapping[tuple[str, str], Part] = MappingProxyType({})


Opened = Callable[[Path, str | None], IncludedWorkflow]
"""Reads a workflow file, or its text as it was, and checks the keys of the whole file."""


class Composition(NamedTuple):
    """A workflow with all that it includes and extends in place."""

    data: dict[str, Any]
    parts: Parts
    problems: list[Problem]
    texts: dict[str, str]
    """The included texts, by the words and files that name them."""
    complete: bool


def composed(
    source: Source, data: dict[str, Any], opened: Opened, texts: Mapping[str, str] | None
) -> Composition:
    """Return a workflow as if it had no `include` and `extends`; `texts` has the texts of an earlier time."""
    reader = _Reader(opened, texts)
    parts = reader.whole(source, data, (source.path,))
    sections: dict[str, Any] = {section: {} for section in SECTIONS if section in data}
    for (section, name), part in parts.items():
        if isinstance(data.get(section, {}), dict):  # else the model refuses it
            sections.setdefault(section, {})[name] = part.data
    whole = {section: value for section, value in sections.items() if isinstance(data.get(section, {}), dict)}
    if reader.lacking and "stages" not in {**data, **whole}:
        whole["stages"] = {"any": {"command": ["true"]}}
    return Composition({**data, **whole}, parts, reader.problems, reader.texts, not reader.lacking)


class _Reader:
    """Reads workflows that others include."""

    def __init__(self, opened: Opened, texts: Mapping[str, str] | None) -> None:
        self.problems: list[Problem] = []
        self.texts: dict[str, str] = {}
        self.lacking = False
        """Whether a part could not be read: problems of references to it say nothing new."""
        self._opened = opened
        self._read_before: dict[str, IncludedWorkflow] = {}
        self._texts = texts
        self._count = 0

    def whole(self, source: Source, data: dict[str, Any], above: tuple[Path, ...]) -> Parts:
        """Return the parts of a workflow, with those that it includes, and with all that they extend."""
        own = dict(self._own(source, data))
        include = data.get("include")
        brought: Parts = {}
        changes: list[tuple[str, Part]] = []
        for name, entry in include.items() if isinstance(include, dict) else ():
            whole = entry if isinstance(entry, dict) else {"file": entry}
            if self._is_free(source, name, own):
                inner = self._read(source, name, whole.get("file"), above)
                if inner is not None:
                    binding = _Binding(source, name, whole, {**own, **brought}, inner)
                    self.problems += [*binding.problems, *_clashes(source, name, binding.made, brought, own)]
                    brought |= binding.made
                    changes += binding.changes
        names = _seen_from_outside(brought)
        own = {key: _rename(key[0], part, names) for key, part in own.items()}
        for stage, change in changes:
            below = brought["stages", stage]
            brought["stages", stage] = overridden(below, _rename("stages", change, names))
        parts, problems = extended({**brought, **own})
        self.problems += [p for p in problems if p.key.rpartition(".")[2] != "extends" or not self.lacking]
        return parts

    def _own(self, source: Source, data: dict[str, Any]) -> Iterator[tuple[tuple[str, str], Part]]:
        for section in SECTIONS:
            written = data.get(section)
            for name, value in written.items() if isinstance(written, dict) else ():
                key = (section, name)
                if "." in name:
                    hint = "letters, digits and `_`; what is included has a name with a dot"
                    self.problems.append(
                        source.problem(key, f"{quote(name)} is not a name", hint, at_key=True)
                    )
                else:
                    yield key, Part(value, {(): WrittenKey(source, key)})

    def _is_free(self, source: Source, name: str, own: Parts) -> bool:
        """Return whether a workflow can be included under a name: no stage or the like has it."""
        sections = (section for section in SECTIONS if section != "environments")
        other = next((section for section in sections if (section, name) in own), None)
        if other is not None:
            noun = "an axis" if other == "axes" else f"a {other.removesuffix('s')}"
            message = f"'{name}' is {noun} too, and `{name}.x` would be two things"
            self.problems.append(
                source.problem(("include", name), message, "rename one of them", at_key=True)
            )
        return other is None and re.fullmatch(NAME_PATTERN, name) is not None  # else the model refuses it

    def _read(self, source: Source, name: str, word: Any, above: tuple[Path, ...]) -> IncludedWorkflow | None:
        """Return an included workflow; None with a problem where it cannot be read."""
        key: Key = ("include", name, "file")
        if not isinstance(word, str) or not word:
            self.lacking = True  # the model refuses it
            return None
        try:
            path, label = self._find(word, source.path.parent)
            if path.resolve() in [file.resolve() for file in above]:
                circle = " → ".join(file.name for file in (*above, path))
                raise HintedError("workflows include each other in a circle", f"{circle}; drop one of them")
            self._count += 1
            if self._count > _MOST:
                raise HintedError(f"more than {_MOST} workflows are included")
            if self._texts is not None and label not in self._texts:
                raise HintedError(f"the run has kept no text of {quote(word)}")
            if label not in self._read_before:
                text = None if self._texts is None else self._texts[label]
                self._read_before[label] = self._opened(path, text)
            inner = self._read_before[label]
        except (HintedError, SpecError) as error:
            first = error.problems[0] if isinstance(error, SpecError) else error
            what = f"{quote(word)}: {first.message}" if isinstance(error, SpecError) else first.message
            self.problems.append(source.problem(key, what, first.hint))
            self.lacking = True
            return None
        self.texts[label] = inner.source.text
        self.problems += inner.problems
        if not isinstance(inner.data, dict):
            self.lacking = True
            return None
        parts = self.whole(inner.source, inner.data, (*above, path))
        return inner._replace(parts=_as_its_own(parts, inner))

    def _find(self, word: str, folder: Path) -> tuple[Path, str]:
        """Return the file of a word, and the word or path under which a run keeps its text."""
        if not _PACKAGED.fullmatch(word):
            path = folder / word
            return path, str(path.absolute())
        from diel.workflow.load.part import workflow_of  # few workflows include a package's

        try:
            return workflow_of(word), word
        except HintedError:
            if self._texts is None or word not in self._texts:
                raise
            return folder / word, word  # its package is gone, and the run goes on


def _clashes(source: Source, name: str, merged: Parts, brought: Parts, own: Parts) -> Iterator[Problem]:
    """Report environments that two included workflows define in different files: which one would hold?"""
    for key, part in merged.items():
        if key[0] == "environments" and key in brought and key not in own:
            here, there = part.place(()).source.path, brought[key].place(()).source.path
            if here != there:
                message = f"environment '{key[1]}' is defined in {here.name} and in {there.name}"
                hint = "define it under `environments` of this file: that one then holds"
                yield source.problem(("include", name), message, hint, at_key=True)


def _as_its_own(parts: Parts, inner: IncludedWorkflow) -> Parts:
    """Return the parts of an included workflow with its own shell and seed, not the other workflow's."""
    changed = dict(parts)
    for (section, name), part in parts.items():
        texts = isinstance(part.data, dict) and isinstance(part.data.get("command"), str)
        if section == "stages" and texts and "shell" not in part.data:
            shell = inner.data.get("shell") or "bash"
            places = {**part.places, ("shell",): WrittenKey(inner.source, ("shell",))}
            changed[section, name] = Part({**part.data, "shell": shell}, places)
        sample = part.data.get("sample") if section == "axes" and isinstance(part.data, dict) else None
        if isinstance(sample, dict) and "seed" not in sample and isinstance(inner.data.get("seed", 0), int):
            drawn = {**sample, "seed": seed_of(inner.data.get("seed", 0), name)}
            places = {**part.places, ("sample", "seed"): WrittenKey(inner.source, ("seed",))}
            changed[section, name] = Part({**part.data, "sample": drawn}, places)
    return changed


class _Binding:
    """An included workflow's parts in the including one: under new names, some bound."""

    def __init__(
        self, source: Source, name: str, entry: dict[str, Any], around: Parts, inner: IncludedWorkflow
    ) -> None:
        self.problems: list[Problem] = []
        self.changes: list[tuple[str, Part]] = []
        """Its stages' changes, in names of the including workflow."""
        self._source, self._name, self._around = source, name, around
        self._inner = dict(inner.parts)
        self._names = Renaming()
        bound: Parts = {}
        for section, label in inner.parts:
            namespace = {"templates": "stages"}.get(section, section)
            if section != "environments":
                getattr(self._names, namespace)[label] = f"{name}.{label}"
        for section, bind in (
            ("axes", self._bind_axis),
            ("hyperparameters", self._bind_hyperparameter),
            ("stages", self._change),
        ):
            entries = entry.get(section)
            for label, value in entries.items() if isinstance(entries, dict) else ():
                if self._has(section, label, inner):
                    bind(label, value, WrittenKey(source, ("include", name, section, label)))
        folder = os.path.relpath(inner.source.path.parent.absolute(), source.path.parent.absolute())
        self._names.prefix = "" if folder == "." else f"{folder}/"
        self._name_chains()
        for (section, label), part in self._inner.items():
            if section == "environments":  # their names are the machine's words: a site has them too
                bound[section, label] = part
            else:
                bound[section, f"{name}.{label}"] = _rename(section, part, self._names)
        self.made = bound

    def _has(self, section: str, label: str, inner: IncludedWorkflow) -> bool:
        labels = [name for kind, name in inner.parts if kind == section]
        if label not in labels:
            noun = {"axes": "axis"}.get(section, section.removesuffix("s"))
            hint = did_you_mean(label, labels) or f"it has: {', '.join(labels) or 'none'}"
            message = f"{inner.source.path.name} has no {noun} '{label}'"
            key = ("include", self._name, section, label)
            self.problems.append(self._source.problem(key, message, hint, at_key=True))
        return label in labels

    def _bind_axis(self, label: str, value: Any, place: WrittenKey) -> None:
        if not isinstance(value, str):
            listed = isinstance(value, list)
            places: dict[Key, WrittenKey] = {(): place, ("values",): place} if listed else {(): place}
            self._inner["axes", label] = Part({"values": value} if listed else value, places)
        elif self._is_around("axes", value, place):
            bound = self._around["axes", value].data
            own, here = label.rpartition(".")[2], value.rpartition(".")[2]
            alone = _names_itself(self._inner["axes", label].data) and _names_itself(bound)
            if alone:
                self._names.parameters[label] = own, here
            if alone and own != here:
                self._hand_over(label, own)
            self._names.axes[label] = value
            del self._inner["axes", label]

    def _hand_over(self, label: str, own: str) -> None:
        """Give modules over an axis the parameter that they take under its name there."""
        for (section, name), part in self._inner.items():
            if section == "stages" and _takes(part, label, own):
                params = {**part.data.get("params", {}), own: f"${{{{ {own} }}}}"}
                self._inner[section, name] = Part({**part.data, "params": params}, part.places)

    def _bind_hyperparameter(self, label: str, value: Any, place: WrittenKey) -> None:
        name = value.removeprefix("hp.") if isinstance(value, str) else ""
        if isinstance(value, str) and name != value:
            if self._is_around("hyperparameters", name, place):
                self._names.hyperparameters[label] = name
                del self._inner["hyperparameters", label]
            return
        settings = value if isinstance(value, dict) else {"default": value}
        above = Part(settings, {(): place} if settings is value else {(): place, ("default",): place})
        below = self._inner["hyperparameters", label]
        self._inner["hyperparameters", label] = (
            joined(below, above) if isinstance(below.data, dict) else above
        )

    def _is_around(self, section: str, name: str, place: WrittenKey) -> bool:
        labels = [label for kind, label in self._around if kind == section]
        if name not in labels:
            noun = {"axes": "axis"}.get(section, "hyperparameter")
            hint = did_you_mean(name, labels) or f"there are: {', '.join(labels) or 'none'}"
            self.problems.append(place.source.problem(place.key, f"no {noun} '{name}' here", hint))
        return name in labels

    def _change(self, label: str, value: Any, place: WrittenKey) -> None:
        if isinstance(value, dict):
            self.changes.append((f"{self._name}.{label}", Part(value, {(): place})))

    def _name_chains(self) -> None:
        """Collect the spelling of its names in expressions: an unbound parameter keeps its name."""
        for name, new in self._names.stages.items():
            self._names.chains[(name,)] = new.replace(".", JOINT)
            part = self._inner.get(("stages", name))  # a template has no results to read
            for own, here in self._names.handed(part.data) if part else ():
                self._names.chains[name, own] = f"{new.replace('.', JOINT)}.{here}"
        for name, new in self._names.hyperparameters.items():
            self._names.chains["hp", name] = f"hp.{new.replace('.', JOINT)}"
        for label, new in self._names.axes.items():
            self._names.chains[PLACES, label] = new.replace(".", JOINT)
            part = self._inner.get(("axes", label))
            if (label,) not in self._names.chains and (part is None or not _names_itself(part.data)):
                self._names.chains[(label,)] = new.replace(".", JOINT)


def _takes(part: Part, label: str, parameter: str) -> bool:
    """Return whether a module of a stage over an axis takes a parameter that the stage does not give."""
    data = part.data if isinstance(part.data, dict) else {}
    params, over, module = data.get("params", {}), data.get("over"), data.get("module")
    if not (
        isinstance(over, list) and label in over and isinstance(module, str) and isinstance(params, dict)
    ):
        return False
    from diel.workflow.modules.catalogue import (  # where an axis is bound to another
        ModuleNotFound,
        find,
        search_path,
    )

    try:
        beside = part.place(("module",)).source.path.absolute().parent
        signature = find(module, search_path(beside, Path.cwd())).signature
    except ModuleNotFound:
        return False  # the checker reports it
    takes = signature.variadic or any(accepted.name == parameter for accepted in signature.parameters)
    return takes and parameter not in params


Dotted = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z]\w*(\.[A-Za-z]\w*)*$", max_length=200),
    AfterValidator(free_name),
]
"""A name with those of the workflows that include what it names: `relax.scf`."""


class ComposedWorkflow(Workflow):
    """A workflow with names such as `relax.scf`, which no file can write itself."""

    hyperparameters: dict[Dotted, Later[Hyperparameter]] = Field(default_factory=dict)
    axes: dict[Dotted, Annotated[Axis, StoredAs(AxisForm, "axis")]] = Field(default_factory=dict)
    stages: dict[Dotted, Stage] = Field(min_length=1)
    templates: dict[Dotted, Later[PartialStage]] = Field(default_factory=dict)
