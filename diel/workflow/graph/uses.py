"""A stage's mentions of another one: inputs, after, derived axes, expressions."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from diel.base.errors import MAX_PROBLEMS, did_you_mean
from diel.workflow.expressions import ExpressionError, Template, parse_expression, texts_in, walk
from diel.workflow.expressions.expression import Expression
from diel.workflow.graph.judge import judge_of
from diel.workflow.graph.service import service_uses
from diel.workflow.graph.stage_graph import Edge
from diel.workflow.models import Stage, Violation, Workflow
from diel.workflow.models.data import TEXT
from diel.workflow.models.model import Key

_TASK = "task"
"""Where all meets that a task takes as lists."""
_HANDED_ON = ("command", "params", "env", "files")
"""What a task gets of its stage's expressions, so that what is gathered there meets."""
_LATE = (*_HANDED_ON, "when")
"""What is evaluated once a task's other inputs are there: a branch that is not taken is not read."""


@dataclass
class _NameUse:
    """A name that the expressions of a stage read."""

    key: Key
    """The first that reads it."""
    always: bool = False
    """Whether it is read under all conditions."""
    meets: list[str] = field(default_factory=list)
    """The places at which it meets other values."""


Reads = dict[tuple[str, ...], _NameUse]


def uses(workflow: Workflow, name: str, flaws: list[Violation]) -> Iterator[Edge]:
    """Yield every mention of another stage, as an edge that has not been checked yet."""
    stage = workflow.stages[name]
    here: Key = ("stages", name)
    reads = _reads(here, stage)
    yield from _inputs(workflow, name, reads, flaws)
    for number, other in enumerate(stage.after):
        yield Edge((*here, "after", number), other, name)
    if stage.asks:
        yield from service_uses(stage, name)
    for label in stage.over:
        axis = workflow.axes.get(label)
        if axis is not None and axis.source is not None:
            key: Key = ("axes", label, "from")
            if (source := _split(key, axis.source, flaws)) is not None:
                yield Edge(key, source[0], name, source[1], axis=label)
    for reference, read in reads.items():
        if reference[0] in workflow.stages and len(reference) > 1:
            edge = Edge(read.key, reference[0], name, reference[1], min_success=_share(stage, reference[0]))
            yield edge._replace(meets=(*read.meets,), branch=not read.always)


def _reads(here: Key, stage: Stage) -> Reads:
    """Return the reads of a stage's expressions, by the first two parts of a name."""
    reads: Reads = {}
    for key, template in templates(here, stage):
        if isinstance(template, ExpressionError):
            continue
        place = key[len(here)]
        for reference in sorted(template.references):
            reads.setdefault(reference[:2], _NameUse(key))
        for expression in template.expressions:
            for chain in expression.always_read if place in _LATE else expression.references():
                if chain[:2] in reads:
                    reads[chain[:2]].always = True
            for number, chains in enumerate(expression.meetings):
                meet = len(chains) > 1 if number else place in _HANDED_ON
                for chain in {chain[:2] for chain in chains} & reads.keys() if meet else ():
                    reads[chain].meets.append(f"{key} {expression.offset} {number}" if number else _TASK)
    return reads


def _share(stage: Stage, other: str) -> float:
    """Return the share of another stage's tasks that an expression needs, as the gathering inputs set it."""
    gathers = (use for use in stage.inputs.values() if not use.at and use.source.rpartition(".")[0] == other)
    return min((use.min_success for use in gathers), default=1.0)


def _inputs(workflow: Workflow, name: str, reads: Reads, flaws: list[Violation]) -> Iterator[Edge]:
    for label, declared in workflow.stages[name].inputs.items():
        if len(flaws) > MAX_PROBLEMS:
            return
        key: Key = ("stages", name, "inputs", label)
        if declared.source.startswith("hp."):
            yield from _hyperparameter_use(workflow, name, label, reads, flaws)
        elif (source := _split(key, declared.source, flaws)) is not None:
            yield Edge(
                key,
                source[0],
                name,
                source[1],
                name=label,
                picked=declared.at,
                min_success=declared.min_success,
                initially=declared.initially,
                begun="initially" in declared.model_fields_set,
                share=declared.share,
                outer="missing" in declared.model_fields_set,
                meets=(_TASK, *(reads[read].meets if (read := ("inputs", label)) in reads else ())),
            )


def _hyperparameter_use(
    workflow: Workflow, name: str, label: str, reads: Reads, flaws: list[Violation]
) -> Iterator[Edge]:
    """Yield a hyperparameter as an input: if `at` picks a trial, its judge decides."""
    key: Key = ("stages", name, "inputs", label)
    declared = workflow.stages[name].inputs[label]
    read = declared.source.removeprefix("hp.")
    if read not in workflow.hyperparameters:
        hint = did_you_mean(read, workflow.hyperparameters)
        flaws.append(Violation(f"no hyperparameter '{read}'", hint, key))
        return
    there = declared.at or _gathered_axes(workflow, name, reads)
    searches = [axis for axis in there if axis in workflow.axes and read in workflow.axes[axis].sets]
    if declared.at and not searches:
        hint = "`at` picks a trial of a search that has it among its `parameters`"
        flaws.append(Violation(f"no search here sets '{read}'", hint, (*key, "at")))
        return
    for axis in searches[:1]:
        for judge in judge_of(workflow, axis).stages[:1]:
            share, outer = declared.min_success, "missing" in declared.model_fields_set
            edge = Edge(key, judge, name, name=label, picked=declared.at, min_success=share, outer=outer)
            yield edge._replace(hyperparameter=read, meets=(_TASK,))


def _gathered_axes(workflow: Workflow, name: str, reads: Reads) -> list[str]:
    """Return the axes along which inputs and expressions of a stage get all results of others."""
    stage, stages = workflow.stages[name], workflow.stages
    sources = [(declared.source.rpartition(".")[0], declared.at) for declared in stage.inputs.values()]
    sources += [(reference[0], {}) for reference in reads]
    over = [(stages[source].over, at) for source, at in sources if source in stages]
    return [axis for axes, at in over for axis in axes if axis not in stage.over and axis not in at]


def _split(key: Key, reference: str, flaws: list[Violation]) -> tuple[str, str] | None:
    """Return the stage and the output of a reference; None, with a flaw, if it is not one."""
    stage, dot, output = reference.rpartition(".")
    if dot and all(part.isidentifier() for part in (*stage.split("."), output)):
        return stage, output
    flaws.append(
        Violation(f"expected STAGE.OUTPUT, found {reference!r}", "for instance `simulate.energy`", key)
    )
    return None


def hyperparameter_reads(name: str, stage: Stage, *, picked: bool = True) -> dict[str, Key]:
    """Return hyperparameters that a stage's expressions and inputs read, each with the first key that does;
    without `picked`, not those that inputs read as a trial has them."""
    keys: dict[str, Key] = {}
    for key, read in hyperparameter_places(name, stage, picked=picked):
        keys.setdefault(read, key)
    return keys


def hyperparameter_places(name: str, stage: Stage, *, picked: bool = False) -> Iterator[tuple[Key, str]]:
    """Yield each reading of a hyperparameter with its key, as `hyperparameter_reads` does."""
    here: Key = ("stages", name)
    for key, reference in expression_references(here, stage):
        if reference[0] == "hp" and len(reference) > 1:
            yield key, reference[1]
    for label, declared in stage.inputs.items():
        if declared.source.startswith("hp.") and (picked or not declared.at):
            yield (*here, "inputs", label), declared.source.removeprefix("hp.")


def expression_references(here: Key, stage: Stage) -> Iterator[tuple[Key, tuple[str, ...]]]:
    """Yield each dotted name that expressions read, with its key; without those that do not parse."""
    for key, template in templates(here, stage):
        if isinstance(template, Template):
            yield from ((key, reference) for reference in sorted(template.references))


def unread(stage: Stage, name: str) -> str | None:
    """Say which files an input's are, if no function gets their numbers; None where one may."""
    if stage.module is None:
        return "for a command"
    if stage.inputs[name].shard is not None:
        return "that is read in shards"
    references = (reference[:2] for _, reference in expression_references((), stage))
    return "whose path an expression hands on" if ("inputs", name) in references else None


def expressions(here: Key, stage: Stage) -> Iterator[tuple[Key, Expression]]:
    """Yield each expression of a stage that can be read, with the key that holds it."""
    for key, template in templates(here, stage):
        yield from ((key, part) for part in template.expressions) if isinstance(template, Template) else ()


def templates(here: Key, stage: Stage) -> Iterator[tuple[Key, Template | ExpressionError]]:
    """Yield each text of a stage that holds expressions, or why it does not parse, with its key."""
    for key, value in texts(stage):
        for path, template in walk(value):
            yield (*here, *key, *path), template
    if isinstance(stage.when, str):
        try:
            yield (*here, "when"), parse_expression(stage.when)
        except ExpressionError as error:
            yield (*here, "when"), error


def texts(stage: Stage) -> Iterator[tuple[Key, Any]]:
    """Yield the parts of a stage that can hold expressions, with their keys; all of `when` is one."""
    for place in ("command", "params", "env"):
        yield (place,), getattr(stage, place)
    yield from stage.demand.items()
    for label, declared in stage.inputs.items():
        yield ("inputs", label, "initially"), declared.initially
    for label, given_file in stage.files.items():
        if isinstance(given_file, str):
            yield ("files", label), given_file
        else:
            yield ("files", label, "path"), given_file.path
            yield ("files", label, TEXT), given_file.filling.text
    for label, output in stage.outputs.items():
        yield ("outputs", label, "export"), output.export
        yield ("outputs", label) if output.file is None else ("outputs", label, "file"), output.place


LAUNCHER, VARIABLE = "launcher", "DIEL_LAUNCHER"
"""The names of a launcher's words: the first in expressions, the second in a shell's text."""


PLACES = ("command", "env", "text")
"""Where that can be in a stage; the last is what its templates hold."""


def launches(stage: Stage) -> bool:
    """Say whether `command`, `env` or a template starts the ranks: by `${{ launcher }}` or DIEL_LAUNCHER."""
    if stage.command is None or not stage.resources.mpi:
        return False
    named = any(VARIABLE in text for text in launch_texts(stage))
    return named or any(chain == (LAUNCHER,) for _, chain in expression_references((), stage))


def launch_texts(stage: Stage) -> Iterator[str]:
    """Yield the texts of a command, of its variables and its templates."""
    for key, value in texts(stage):
        if key[0] in PLACES or key[2:] == PLACES[2:]:
            yield from (text for _, text in texts_in(value))
