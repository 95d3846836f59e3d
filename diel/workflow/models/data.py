"""The inputs and outputs of a stage."""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, WithJsonSchema, model_validator

from diel.base.terms import OWN_FILES, format_of, parts_of, split_place
from diel.workflow.models.contract import Contract, DataContract, contract_flaws
from diel.workflow.models.model import (
    Json,
    Later,
    SpecModel,
    Text,
    Violation,
    optional,
    quote,
    refuse,
    written_as,
)

_WAYS = ("match", "column", "key")
_ONE = ("int", "float", "str", "bool")


def _column(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and value < 1:
        raise refuse(
            f"there is no column {value}", "columns are counted from 1; or write the name in the header"
        )
    return value


class Extraction(SpecModel):
    """Where a value stands in what a command wrote, if the command does not hand it over itself."""

    file: Text | None = optional(
        "File in the task's directory to take a value from; by default what it prints."
    )
    match: str | None = optional("Regular expression, searched in each line; its group is the value.")
    column: (
        Annotated[
            str | int,
            BeforeValidator(_column),
            WithJsonSchema({"type": ["string", "integer"], "minLength": 1, "minimum": 1}),
        ]
        | None
    ) = optional("Column of a table that holds the value: its name, or its number from 1.")
    key: str | None = optional("Place of the value in a JSON file: `energies.total`, `steps[-1].energy`.")
    pick: Literal["first", "last", "all"] = optional("Which of several is taken; `all` makes a list.", "last")

    @property
    def way(self) -> str | None:
        """How the value is found; None where it is not taken out of a file."""
        return next((name for name in _WAYS if getattr(self, name) is not None), None)


def _extraction_flaws(output: Extraction, value: str | None, outside: str) -> Iterator[Violation]:
    """Yield the flaws of how a value is found; `outside`: why its file is not the task's own."""
    ways = [name for name in _WAYS if getattr(output, name) is not None]
    apart = next((name for name in ("file", "pick") if name in output.model_fields_set), None)
    if len(ways) > 1:
        message = f"a value is found in one way, found both `{ways[0]}` and `{ways[1]}`"
        yield Violation(message, "make two outputs of it, or drop one of them", (ways[1],))
    elif ways and value is None:
        hint = "write `value: float` beside it; the file itself can be another output"
        yield Violation(f"`{ways[0]}` finds a value, found no `value`", hint, (ways[0],))
    elif not ways and apart:
        hint = "add `match: 'PATTERN'`, `column: NAME` or `key: NAME`"
        if value is None:
            hint = "write `path: FILE` for an output that is a file" if apart == "file" else "drop it"
        yield Violation(f"`{apart}` goes with a value that is taken out of a file", hint, (apart,))
    elif ways and outside:
        yield Violation(
            f"{outside}: {quote(output.file)}", "write a path relative to the task's directory", ("file",)
        )
    elif ways:
        if value not in _ONE and output.key is None:
            hint = "write the type of one of them, as in `value: float`; `pick: all` makes a list"
            yield Violation(f"`{ways[0]}` finds numbers and texts, found value: {value}", hint, ("value",))
        yield from _way_flaws(output)


def _way_flaws(output: Extraction) -> Iterator[Violation]:
    if output.match is not None:
        yield from _pattern_flaws(output.match)
    elif output.column == "":
        yield Violation(
            "an empty name of a column", "write the name in the header, or a number from 1", ("column",)
        )
    elif output.key is not None:
        file = output.file or "stdout"
        lines = "${{" in file or file in ("stdout", "stderr") or format_of(file) == "table"
        if parts_of(output.key) is None or output.key.startswith("$"):
            hint = 'write keys and indices as in energies.total, steps[-1].energy or units["m.s"]'
            yield Violation(f"{quote(output.key)} is no place in JSON", hint, ("key",))
        elif "pick" in output.model_fields_set and not lines:
            hint = "drop it, and write the place of one: steps[0].energy, steps[-1].energy"
            yield Violation(
                "`pick` chooses among lines, and a JSON file holds one value at a key", hint, ("pick",)
            )


def _pattern_flaws(text: str) -> Iterator[Violation]:
    try:
        pattern = re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        reason, place = (error.msg, error.pos) if isinstance(error, re.error) else (str(error), None)
        hint = "a character that means itself takes a backslash: \\( \\* \\+ \\."
        yield Violation(f"the pattern cannot be read: {reason}", hint, ("match",), offset=place)
        return
    if pattern.groups > 1 and len(pattern.groupindex) != 1:
        hint = "write (?:...) for groups that are not the value, or name the one that is: (?P<value>...)"
        yield Violation(f"one group is the value, found {pattern.groups} groups", hint, ("match",))
    elif pattern.search(""):
        hint = "write + instead of *, or text that must be there"
        yield Violation("the pattern matches an empty line, and so every line", hint, ("match",))


class ExportTarget(SpecModel):
    """The path under which an artifact is copied out of the run."""

    export: Annotated[Text, Field(min_length=1)] | None = optional(
        "Where it is copied to when its task has succeeded, relative to the workflow file."
    )


def _export_flaws(output: ExportTarget, form: str | None, *, keep: bool) -> Iterator[Violation]:
    """Yield the flaws of an export; `form` is that of the output."""
    if output.export is None:
        return
    if form not in (None, "path", "glob"):
        hint = "drop it: `diel results --csv` prints values as a table"
        yield Violation(f"`export` is about files, found a {form}", hint, ("export",))
    elif not keep:
        hint = "drop one of them: what is exported is copied from the run, which may happen again"
        yield Violation("what is exported is kept", hint, ("keep",))
    elif output.export.startswith("~"):
        yield Violation("`~` is a directory of this name here", "write the path in full", ("export",))


class Stream(SpecModel):
    """Items that tasks put while they run; `true` is short for a stream with the defaults."""

    buffer: int = optional(
        "The most items that wait for a reader; beyond that, `put` waits.", 1000, ge=1, le=10**9
    )
    replay: bool = optional("Whether late readers get all items, which stay on disk.", True)

    _short = written_as("true or a mapping", "write {stream: true}, or {stream: {buffer: 1000}}", true=True)


class Sharding(SpecModel):
    """Each rank or task gets a part of the items, in a new random order for each epoch."""

    by: Literal["rank", "task"] = Field(
        description="`rank`: to the MPI ranks of a task; `task`: to the tasks that read the same."
    )
    seed: int = optional("Seed of the random orders.", 0, ge=0)

    _short = written_as("rank or task", "write shard: rank, or shard: task", text="by")


class Input(DataContract):
    """An edge of the graph; `STAGE.OUTPUT` alone is short for `{from: STAGE.OUTPUT}`.

    What it expects of the data has to be promised where the data is made.
    """

    source: str = Field(alias="from", min_length=1, description="STAGE.OUTPUT, or hp.NAME.")
    at: dict[str, Json] = Field(
        default_factory=dict,
        description="Picks a point of an axis instead of gathering: a value, `best` (search), "
        "`last` or `previous` (loop; `previous` of `pbt` too).",
    )
    min_success: float = optional("Share of the gathered tasks that must succeed to go on.", 1.0, gt=0, le=1)
    missing: None = optional("`null`: a gathered task without a result keeps its place, with null.")
    initially: Json = optional("Value in the first round, with `at: {AXIS: previous}`.")
    share: bool = optional(
        "For a stream: whether the stage's tasks share the items, so that each item goes to one of them.",
        False,
    )
    stage: Literal["node"] | None = optional(
        "`node`: it is copied to the node's own disk, once for all tasks there."
    )
    shard: Later[Sharding] | None = optional(
        "Splits its items among MPI ranks (`rank`) or the stage's tasks (`task`)."
    )

    @property
    def is_plain(self) -> bool:
        """Whether only its source is given."""
        return self.model_fields_set <= {"source", "at", "initially", "min_success", "missing"}

    _short = written_as("STAGE.OUTPUT", "for instance `simulate.energy`", text="from")

    def flaws(self) -> Iterator[Violation]:
        words = [point for point in self.at.values() if point in ("previous", "last")]
        if "initially" in self.model_fields_set and not words:
            hint = "add `at: {AXIS: previous}`, or drop `initially`"
            yield Violation("`initially` is the value before the first round of a loop", hint, ("initially",))
        elif self.columns is not None and (self.dtype is not None or self.shape is not None):
            other = "dtype" if self.dtype is not None else "shape"
            yield Violation(
                f"`{other}` is about an array, `columns` about a table", "keep one of them", (other,)
            )
        elif self.source.startswith("hp."):
            hint = "drop it: a hyperparameter has its type and bounds in the registry"
            for name in self.expectations:
                yield Violation(f"`{name}` is about what a stage makes", hint, (name,))


def _inside(place: str) -> str:
    if not place.startswith("/") or place.endswith("//"):
        raise refuse(f"{quote(place)} is no place in a file", "write it from the file's root: /group/data")
    return place


EXPRESSION = re.compile(r"(?s)\$\{\{.*?\}\}")
_FORMS = {"path": "a file", "glob": "a list of files", "value": "a value", "stream": "a stream"}
NO_FORM = Violation(
    "expected `path`, `glob`, `value` or `stream`, found none of them",
    "write `path: FILE` for a file, or `value: float` for a number in DIEL_RESULT",
)


def path_flaw(path: str) -> str:
    """Say why a path leaves the task's directory or names no file, with its expressions or without."""
    if "\0" in path:
        return "a path cannot hold a NUL character"
    if path.startswith("/"):
        return "an absolute path leaves the task's directory"
    if path.startswith("~"):
        return "a path that starts with ~ leaves the task's directory"
    parts = path.split("/")
    if ".." in parts:
        return "a path with `..` leaves the task's directory"
    return "the path names no file" if all(part in ("", ".") for part in parts) else ""


def target_flaw(path: str) -> str:
    """Return the reason why nothing can be written there; as `path_flaw`, for a second question."""
    first = posixpath.normpath(path).partition("/")[0]
    return path_flaw(path) or (
        f"diel itself writes {first} in the task's directory" if first in OWN_FILES else ""
    )


class Output(ExportTarget, Extraction, Contract):
    """Exactly one of a file, files, a value and a stream; a text alone is short for `{path: TEXT}`.

    An output of a Python module has none of the four: the module returns it, and this is its contract.
    """

    path: str | None = optional("File in the task's directory, relative to it.")
    inside: Annotated[Text, AfterValidator(_inside)] | None = optional(
        "Where in an HDF5, NetCDF or Zarr file the data is: `path: run.h5:/group/data` is short for it."
    )
    glob: str | None = optional("Pattern of files in the task's directory: a list of them, sorted.")
    value: Literal["int", "float", "str", "bool", "list", "dict"] | None = optional(
        "Type of a value: one in the file DIEL_RESULT, or in another file by match, column or key."
    )
    stream: Later[Stream] | None = optional(
        "Items that can be read while the task still runs: true, or its settings."
    )
    digest: Literal["content", "stat"] = optional(
        "What distinguishes versions of a file: its content, or its size, time and inode.", "content"
    )
    drain: bool = optional(
        "Whether the command writes it on the node's own disk, and it is copied from there while "
        "the next task runs.",
        False,
    )
    keep: bool = optional("Whether it is kept after all tasks that read it have succeeded.", True)

    @property
    def form(self) -> str | None:
        """The one of the four that is given; None for what a Python module returns."""
        return next((name for name in _FORMS if getattr(self, name) is not None), None)

    @property
    def place(self) -> str | None:
        """Its file, the pattern of its files, or the file that it is taken from."""
        return next((p for p in (self.path, self.glob, self.file) if p is not None), None)

    @property
    def kind(self) -> str | None:
        """The type of its value: a list if all that match are taken."""
        return "list" if self.way and self.pick == "all" else self.value

    @property
    def is_plain(self) -> bool:
        """Whether it is only a path or value."""
        return self.model_fields_set <= {"path", "value", "drain", "export"}

    _short = written_as("a file name", "for instance `energy.csv`", text="path")

    @model_validator(mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        """Split `run.h5:/group/data` into a file, and a place inside it."""
        path = value.get("path") if isinstance(value, dict) else value
        file, inside = split_place(path) if isinstance(path, str) and ":/" in path else (path, None)
        if inside is None:
            return value
        return {"inside": inside, **(value if isinstance(value, dict) else {}), "path": file}

    def flaws(self) -> Iterator[Violation]:
        forms = [name for name in _FORMS if getattr(self, name) is not None]
        pattern = self.place
        flaw = path_flaw if self.file is not None else target_flaw
        outside = "" if pattern is None else flaw(EXPRESSION.sub("x", pattern))
        if len(forms) > 1:
            what = " or ".join(_FORMS[name] for name in forms[:2])
            hint = "make two outputs of it, or drop one of them"
            yield Violation(f"an output is {what}, found both `{forms[0]}` and `{forms[1]}`", hint)
        elif outside and self.file is None:
            where = "path" if self.path is not None else "glob"
            hint = "write a path relative to the task's directory"
            if outside.startswith("diel"):
                hint = "give the file another name: command: PROGRAM > log.txt"
            yield Violation(f"{outside}: {quote(pattern)}", hint, (where,))
        elif not self.model_fields_set <= {"path", "value"}:
            yield from _extraction_flaws(self, self.value, outside)
            yield from self._promise_flaws()
            yield from _export_flaws(self, self.form, keep=self.keep)

    def _promise_flaws(self) -> Iterator[Violation]:
        if self.inside is not None and self.path is not None and format_of(self.path) != "store":
            hint = "drop it, or name an HDF5, NetCDF or Zarr file: {path: run.h5, inside: /group/data}"
            yield Violation(f"there is no place `{self.inside}` in {quote(self.path)}", hint, ("inside",))
        for name in ("digest", "keep"):
            if self.form and self.path is self.glob is None and name in self.model_fields_set:
                yield Violation(f"`{name}` is about files, found {_FORMS[self.form]}", "drop it", (name,))
        if "drain" in self.model_fields_set and self.path is None:
            hint = "drop it, or name the file that the command writes: {path: FILE, drain: true}"
            yield Violation("`drain` is about one file that a command writes", hint, ("drain",))
        if self.stream is None:
            yield from contract_flaws(self, self.path, self.glob, self.value)
        else:
            for name in self.promises:
                yield Violation(f"`{name}` is not a promise that a stream can make", "drop it", (name,))


TEXT = "text"
"""Stands in the key of a mistake for the text of the template, which is in a file of its own."""


class TemplateContent(NamedTuple):
    """What is in a template."""

    text: str
    executable: bool = False
    written: str | None = None
    """The text as its file has it, where names in it are others here."""
    edits: Sequence[Sequence[Sequence[int]]] = ()
    """What was replaced since."""


class Rendering(SpecModel):
    """A template, and where what it gives is written; its text is read once the file around it is."""

    template: Annotated[Text, Field(min_length=1)] = Field(
        description="A text with expressions, relative to the workflow file."
    )
    path: Annotated[Text, Field(min_length=1)] | None = optional(
        "Where it is written in the task's directory; under the template's own name if absent."
    )
    _filling: TemplateContent = PrivateAttr(TemplateContent(""))

    @property
    def target(self) -> str:
        """The path in the task's directory, which can hold expressions."""
        return self.template.rpartition("/")[2] if self.path is None else self.path

    @property
    def filling(self) -> TemplateContent:
        return self._filling

    def fill(self, filling: TemplateContent) -> None:
        """Note the template's content."""
        self._filling = filling

    def flaws(self) -> Iterator[Violation]:
        flaw = target_flaw(EXPRESSION.sub("x", self.target))
        if "${{" in self.template:
            hint = "write one stage for each, as `extends` makes short, or put the choice into the template"
            yield Violation("the name of a template takes no expressions", hint, ("template",))
        elif flaw:
            hint = "write another path, relative to the task's directory"
            yield Violation(f"{flaw}: {quote(self.target)}", hint, ("path",))


def rendering_flaws(files: Mapping[str, Rendering]) -> Iterator[Violation]:
    """Yield templates that would be written to the same file."""
    owners: dict[str, str] = {}
    for name, file in files.items():
        if (owner := owners.setdefault(posixpath.normpath(file.target), name)) != name:
            message = f"'{owner}' and '{name}' are written to the same file {quote(file.target)}"
            yield Violation(message, "give one of them another `path`", ("files", name))
