"""Where a stage mentions another one: inputs, after, derived axes, expressions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from diel.errors import MAX_PROBLEMS, did_you_mean
from diel.expressions import ExpressionError, Template, parse_expression, walk
from diel.graph.edge import Flaw, Key, Published
from diel.graph.judge import judge_of
from diel.spec import Input, Stage, Workflow


@dataclass(frozen=True)
class Use:
    """One mention of another stage, before it is known to be right."""

    key: Key
    stage: str
    output: str | None
    name: str | None = None
    axis: str | None = None
    at: Mapping[str, Any] = field(default_factory=dict)
    min_success: float = 1.0
    initially: Any = None
    begins: bool = False
    """Whether `initially` is given; its value may be null."""
    hyperparameter: str | None = None
    published: Published | None = None
    share: bool = False
    service: bool = False
    optional: bool = False
    """Whether the stage goes on without the service, as tasks do that ask before they run."""


def uses(workflow: Workflow, name: str, stage: Stage, flaws: list[Flaw]) -> Iterator[Use]:
    """Every mention of another stage: inputs, after, derived axes, expressions."""
    here: Key = ("stages", name)
    for label, given in stage.inputs.items():
        if len(flaws) > MAX_PROBLEMS:
            return
        key: Key = (*here, "inputs", label)
        if given.source.startswith("hp."):
            yield from _hyperparameter_use(key, label, given, workflow, flaws)
        elif (use := _input_use(key, label, given, flaws)) is not None:
            yield use
    for number, other in enumerate(stage.after):
        yield Use((*here, "after", number), other, None)
    for number, other in enumerate(stage.services):
        yield Use((*here, "services", number), other, None, service=True)
    for other in stage.asks[len(stage.services) :]:
        yield Use((*here, "surrogate", "service"), other, None, service=True, optional=True)
    for label in stage.over:
        axis = workflow.axes.get(label)
        if axis is not None and axis.source is not None:
            source = _split(axis.source)
            if source is None:
                flaws.append(_not_a_reference(("axes", label, "from"), axis.source))
            else:
                yield Use(("axes", label, "from"), *source, axis=label)
    yield from _expression_uses(workflow, here, stage)


def _input_use(key: Key, label: str, given: Input, flaws: list[Flaw]) -> Use | None:
    source = _split(given.source)
    if source is None:
        flaws.append(_not_a_reference(key, given.source))
        return None
    return Use(
        key,
        *source,
        name=label,
        at=given.at,
        min_success=given.min_success,
        initially=given.initially,
        begins="initially" in given.model_fields_set,
        share=given.share,
    )


def _hyperparameter_use(
    key: Key, label: str, given: Input, workflow: Workflow, flaws: list[Flaw]
) -> Iterator[Use]:
    """A hyperparameter as an input: of a trial, where `at` picks one, which its judge decides."""
    name = given.source.removeprefix("hp.")
    if name not in workflow.hyperparameters:
        hint = did_you_mean(name, workflow.hyperparameters)
        flaws.append(Flaw(key, f"no hyperparameter '{name}'", hint))
        return
    searches = [axis for axis in given.at if axis in workflow.axes and name in workflow.axes[axis].sets]
    if given.at and not searches:
        hint = "`at` picks a trial of a search that has it among its `parameters`"
        flaws.append(Flaw((*key, "at"), f"no search here sets '{name}'", hint))
        return
    for axis in searches[:1]:
        for judge in judge_of(workflow, axis).stages[:1]:
            yield Use(
                key,
                judge,
                None,
                name=label,
                at=given.at,
                min_success=given.min_success,
                hyperparameter=name,
            )


def _split(reference: str) -> tuple[str, str] | None:
    stage, dot, output = reference.partition(".")
    good = dot and stage.isidentifier() and output.isidentifier()
    return (stage, output) if good else None


def _not_a_reference(key: Key, found: str) -> Flaw:
    return Flaw(key, f"expected STAGE.OUTPUT, found {found!r}", "for instance `simulate.energy`")


def _expression_uses(workflow: Workflow, here: Key, stage: Stage) -> Iterator[Use]:
    seen: set[tuple[str, str]] = set()
    for key, reference in expression_references(here, stage):
        if reference[0] in workflow.stages and len(reference) > 1 and reference[:2] not in seen:
            seen.add((reference[0], reference[1]))
            yield Use(key, reference[0], reference[1])


def hyperparameter_reads(name: str, stage: Stage, *, picked: bool = True) -> dict[str, Key]:
    """The hyperparameters that a stage's tasks read, each with the first key that reads it.

    Expressions and inputs tell: a module gets what its stage hands it, and nothing else. Without `picked`,
    inputs that read one as a trial has it are left out.
    """
    here: Key = ("stages", name)
    found: dict[str, Key] = {}
    for key, reference in expression_references(here, stage):
        if reference[0] == "hp" and len(reference) > 1:
            found.setdefault(reference[1], key)
    for label, given in stage.inputs.items():
        if given.source.startswith("hp.") and (picked or not given.at):
            found.setdefault(given.source.removeprefix("hp."), (*here, "inputs", label))
    return found


def expression_references(here: Key, stage: Stage) -> Iterator[tuple[Key, tuple[str, ...]]]:
    """Each dotted name that a stage's expressions read, with the key that holds it.

    Expressions that do not parse are left out: the checker reports them.
    """
    for key, template in templates(here, stage):
        if not isinstance(template, ExpressionError):
            for reference in sorted(template.references):
                yield key, reference


def templates(here: Key, stage: Stage) -> Iterator[tuple[Key, Template | ExpressionError]]:
    """Each text of a stage that holds expressions, or why it does not parse, with its key."""
    for key, value in _texts(stage):
        for path, template in walk(value):
            yield (*here, *key, *path), template
    if isinstance(stage.when, str):
        try:
            yield (*here, "when"), parse_expression(stage.when)
        except ExpressionError as error:
            yield (*here, "when"), error


def _texts(stage: Stage) -> Iterator[tuple[Key, Any]]:
    """The parts of a stage that may hold expressions, with their keys; `when` is one as a whole."""
    for place in ("command", "params", "env"):
        yield (place,), _plain(getattr(stage, place))
    for label, given in stage.inputs.items():
        yield ("inputs", label, "initially"), _plain(given.initially)
    for label, path in stage.files.items():
        yield ("files", label), path
    for label, output in stage.outputs.items():
        yield ("outputs", label), output.path if output.glob is None else output.glob


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
