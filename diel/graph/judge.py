"""Which stages judge a search or loop, and for what it runs once each.

A search or loop runs once for each combination of the other axes of the stages that its metric or its
`until` names: its context.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from diel.expressions import ExpressionError, parse_expression
from diel.graph.edge import Key
from diel.spec import Axis, Workflow

_OTHERS = ("hp", "run")
"""Names in `until` that are no stages."""


@dataclass(frozen=True)
class Judge:
    """How a search or loop is judged."""

    stages: tuple[str, ...]
    """The stages whose values tell how good a trial is, or whether `until` holds."""
    context: tuple[str, ...]
    """Their other axes."""


def judge_of(workflow: Workflow, label: str) -> Judge:
    """How an axis is judged: by those of the stages named that run over it.

    Nobody judges a loop without `until`: all its rounds are there at once.
    """
    references = references_of(label, workflow.axes[label])
    told = dict.fromkeys(name[0] for key, name in references if "watch" not in key)
    names = tuple(name for name in told if name in workflow.stages and label in workflow.stages[name].over)
    over = workflow.stages[names[0]].over if names else ()
    return Judge(names, tuple(axis for axis in over if axis != label))


def references_of(label: str, axis: Axis) -> Iterator[tuple[Key, tuple[str, ...]]]:
    """Each STAGE.VALUE by which an axis is judged, with the key that holds it."""
    here: Key = ("axes", label, axis.word)
    for key, reference in axis.judged_by():
        yield (*here, *key), tuple(reference.split("."))
    if axis.condition is not None:
        try:
            references = parse_expression(axis.condition).references
        except ExpressionError:
            return
        for name in sorted(references):
            if name[0] not in (*_OTHERS, label):
                yield (*here, "until"), name


def place_of_name(text: str, name: str) -> int | None:
    """Where a dotted name stands in the text of an expression; None where it is written in another way."""
    match = re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", text)
    return None if match is None else match.start()
