"""The stages that judge a search or loop, and the flaws of such judges."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from diel.base.errors import did_you_mean
from diel.workflow.expressions import JOINT, names_in
from diel.workflow.graph.stage_graph import Edge, StageGraph
from diel.workflow.models import Axis, Violation, Workflow
from diel.workflow.models.forms.axis import bare
from diel.workflow.models.model import Key

_OTHERS = ("hp", "run")
"""Names in `until` that are not stages."""


class Judge(NamedTuple):
    """How a search or loop is judged."""

    stages: tuple[str, ...]
    """The stages whose values show how good a trial is, or whether `until` holds."""
    context: tuple[str, ...]
    """Their other axes."""


class AxisPlan(NamedTuple):
    """How many points a search or loop may have."""

    axis: Axis
    most: int | None
    """None if it cannot be known."""
    context: tuple[str, ...]
    """The axes that it runs over, once for each combination of their points."""

    def __str__(self) -> str:
        """Describe it: `up to 16 trials, 4 at a time, for each material`."""
        scope = f", for each {' × '.join(self.context)}" if self.context else ""
        return self.axis.describe(self.most) + scope

    def document(self) -> dict[str, Any]:
        return {
            "kind": self.axis.word,
            "most": self.most,
            "parallel": self.axis.at_once(self.most),
            "each": list(self.context),
            "may_end_early": self.axis.may_end_early,
        }


def judge_of(workflow: Workflow, label: str) -> Judge:
    """Return the judge of an axis: the named stages over it; none in a loop without `until`."""
    references = references_of(label, workflow.axes[label])
    named = dict.fromkeys(name[0] for key, name in references if "watch" not in key)
    names = tuple(name for name in named if name in workflow.stages and label in workflow.stages[name].over)
    over = workflow.stages[names[0]].over if names else ()
    return Judge(names, tuple(axis for axis in over if axis != label))


def references_of(label: str, axis: Axis) -> Iterator[tuple[Key, tuple[str, ...]]]:
    """Yield each STAGE.VALUE that judges an axis, with the key that holds it."""
    here: Key = ("axes", label, axis.word)
    for key, reference in axis.judged_by():
        yield (*here, *key), tuple(reference.rsplit(".", 1))
    for name in names_in(axis.condition) or ():
        if name[0] not in (*_OTHERS, bare(label)):
            yield (*here, "until"), name


def deciding(graph: StageGraph) -> Iterator[str]:
    """Yield the stages whose results make points of an axis, or decide about points of a search or loop."""
    axes, stages = graph.workflow.axes, graph.workflow.stages
    for label, axis in axes.items():
        judges = {name[0] for _, name in references_of(label, axis)} if axis.adaptive else ()
        yield from (name for name in graph.before(judges) if label in stages[name].over)
        yield from () if axis.maker is None else (axis.maker,)


def place_of_name(text: str, name: str) -> int | None:
    """Return the place of a dotted name in the text of an expression; None if written in another way."""
    match = re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", text.replace(JOINT, "."))
    return None if match is None else match.start()


def check_adaptive(workflow: Workflow) -> Iterator[Violation]:
    """Yield the flaws of the judges of searches and loops."""
    for label, axis in workflow.axes.items():
        if not axis.adaptive:
            continue
        wrong = [
            flaw for key, name in references_of(label, axis) for flaw in _check(workflow, label, key, name)
        ]
        wrong = wrong or list(_check_judges(workflow, label, axis))
        yield from wrong or _check_contexts(workflow, label)
    yield from _check_nesting(workflow)


def _check(workflow: Workflow, label: str, key: Key, name: tuple[str, ...]) -> Iterator[Violation]:
    stage = workflow.stages.get(name[0])
    written = ".".join(name)
    offset = _offset(workflow.axes[label], written) if key[-1] == "until" else None
    if len(name) != 2 or (stage is None and not all(part.isidentifier() for part in name)):
        yield Violation(
            f"expected STAGE.VALUE, found {written!r}", _meant(workflow, label, written), key, offset
        )
    elif stage is None:
        hint = did_you_mean(name[0], workflow.stages) or f"stages: {', '.join(workflow.stages)}"
        yield Violation(f"no stage '{name[0]}'", hint, key, offset)
    elif label not in stage.over:
        hint = f"add {label} to its `over`, or name a stage that runs over it"
        yield Violation(f"'{name[0]}' does not run over '{label}', so it cannot judge it", hint, key, offset)


def _offset(axis: Axis, written: str) -> int | None:
    return None if axis.condition is None else place_of_name(axis.condition, written)


def _meant(workflow: Workflow, label: str, written: str) -> str:
    """Return a hint for something that is not a STAGE.VALUE."""
    read = written.removeprefix("${{").removesuffix("}}").strip()
    stage, _, value = read.rpartition(".")
    if read != written and stage.isidentifier() and value.isidentifier():
        return f"write {read}, without `${{{{ }}}}`"
    makers = [name for name, spec in workflow.stages.items() if read in spec.outputs and label in spec.over]
    if makers:
        return f"did you mean '{makers[0]}.{read}'?"
    if read in workflow.hyperparameters:
        return f"did you mean 'hp.{read}'?"
    if read in workflow.stages:
        example = next(iter(workflow.stages[read].outputs), "VALUE")
        return f"name the value: {read}.{example}"
    return "for instance `validate.loss`"


def _check_judges(workflow: Workflow, label: str, axis: Axis) -> Iterator[Violation]:
    """Check that stages that judge together share their axes, and that `until` reads a value of a round."""
    named = list(references_of(label, axis))
    for key, name in named[1:]:
        first, other = named[0][1][0], name[0]
        if set(workflow.stages[other].over) == set(workflow.stages[first].over):
            continue
        if key[-1] == "watch":
            message = f"'{other}' is watched, and runs over other axes than '{first}', which judges '{label}'"
            hint = "the pruner looks at one task of each trial: watch a stage over the same axes"
        else:
            message = f"'{first}' and '{other}' judge '{label}' together and run over different axes"
            hint = "let a stage over the axes of one of them combine their values"
        yield Violation(message, hint, key, _offset(axis, ".".join(name)) if key[-1] == "until" else None)
    if not any(key[-1] == "until" for key, _ in named):
        yield from _check_empty_until(label, axis)


def _check_empty_until(label: str, axis: Axis) -> Iterator[Violation]:
    """Refuse an `until` that reads no value of a point: it says nothing about it."""
    read = names_in(axis.condition)
    if axis.condition is None or read is None:  # the check of expressions reports it
        return
    message = f"`until` reads no value of a {axis.point}: it is always or never true"
    hint = "name a STAGE.VALUE, as in `validate.error < 0.1`"
    if any(name[0] == bare(label) for name in read):
        message = f"`until` reads nothing of a {axis.point} but its number"
        hint = f"`{axis.bound}` says how many there are; {hint}"
    yield Violation(message, hint, ("axes", label, axis.word, "until"))


def _check_contexts(workflow: Workflow, label: str) -> Iterator[Violation]:
    judge = judge_of(workflow, label)
    judges = " and ".join(f"'{name}'" for name in judge.stages)
    for name, other in workflow.stages.items():
        missing = ", ".join(axis for axis in judge.context if axis not in other.over)
        if missing and label in other.over:
            where = f"once for each {missing} (the axes of {judges})"
            yield Violation(
                f"'{label}' runs {where}, and '{name}' lacks {missing}",
                "add the axis, or judge by a stage without it",
                ("stages", name, "over"),
            )


def _check_nesting(workflow: Workflow) -> Iterator[Violation]:
    """Check that no two axes each run once for each point of the other."""
    contexts: Mapping[str, tuple[str, ...]] = {
        label: judge_of(workflow, label).context for label, axis in workflow.axes.items() if axis.adaptive
    }
    for label, context in contexts.items():
        for other in context:
            if label in contexts.get(other, ()) and list(contexts).index(other) > list(contexts).index(label):
                yield Violation(
                    f"'{label}' would run once for each '{other}', and '{other}' once for each '{label}'",
                    "let a stage over only one of them judge that one, with `at:` on the other",
                    ("axes", other, workflow.axes[other].word),
                )


def check_waits(graph: StageGraph) -> Iterator[Violation]:
    """Check that no stage waits for all points of a search or loop that wait for that stage."""
    for edge in graph.edges:
        for label in awaited(graph.workflow, edge):
            judges = judge_of(graph.workflow, label).stages
            reached = graph.after(edge.downstream, label)
            guilty = next((name for name in (edge.upstream, *judges) if name in reached), None)
            if guilty is not None:
                points = f"every {graph.workflow.axes[label].point} of '{label}'"
                hint = "run it over the axis too"
                if edge.axis is not None:
                    hint = "give the stage a fixed axis, and let it take its item: `${{ STAGE.LIST[AXIS] }}`"
                yield Violation(
                    f"'{edge.downstream}' waits for {points}, and '{guilty}', which is in each, "
                    f"waits for '{edge.downstream}'",
                    hint,
                    edge.key,
                )
                break


def awaited(workflow: Workflow, edge: Edge) -> list[str]:
    """Return the searches and loops that must be over before a task reads along an edge."""
    upstream = workflow.stages[edge.upstream].over
    inside = () if edge.axis is not None else workflow.stages[edge.downstream].over
    outside = () if edge.renewed else (label for label in upstream if label not in inside)
    return [label for label in outside if label in workflow.axes and workflow.axes[label].adaptive]


def late_stages(graph: StageGraph, label: str, maker: str) -> set[str]:
    """Return the stages that wait for the end of a search or loop, without those that a stage waits for."""
    waiting = [edge.downstream for edge in graph.edges if label in awaited(graph.workflow, edge)]
    late = {name for stage in waiting for name in graph.after(stage)}
    return {name for name in late if maker not in graph.after(name, label)}
