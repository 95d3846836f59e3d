"""The questions of a stage's tasks to its surrogate, and the answers that are kept."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from diel.base.errors import ModuleError
from diel.base.states import TaskState
from diel.base.terms import SIMULATED
from diel.store.artifacts import digest_of
from diel.store.journal import records
from diel.tasks.link import Link
from diel.tasks.results import MissingInput
from diel.tasks.service import ServiceLink
from diel.worker.attempt.bundle import Question
from diel.worker.attempt.service import Answers
from diel.workflow.expressions import ExpressionError
from diel.workflow.graph import StageGraph
from diel.workflow.graph.service import answered, teachers
from diel.workflow.models import Stage, Surrogate
from diel.workflow.modules.catalogue import Module

_NUMBERS = (int, float)
FAILED_AUDIT = "its audit failed"
ENDED, NEVER_STARTED = "the service has ended", "the service never started"
NOT_ANSWERED = {"timeout", "audit", "seed"}
"""Keys of a surrogate on which its answers do not depend."""
Asking = Callable[[int, Mapping[str, Any], str, tuple[str, str]], Question | str]
"""Makes the question of a task from index, parameters, key and its parts; or says why it asks nobody."""


def surrogate_of(stage: Stage, module: Module | None) -> Surrogate:
    """Return the surrogate of a stage that has one, with the outputs that it answers."""
    assert stage.surrogate is not None
    outputs = answered(stage, None if module is None else module.signature)
    return stage.surrogate.model_copy(update={"outputs": outputs})


def asking_of(stage: Stage, module: Module | None, links: Iterable[Link]) -> Asking | None:
    """Make the questions of a stage's tasks; None if it has no surrogate."""
    if stage.surrogate is None:
        return None
    surrogate = surrogate_of(stage, module)
    services = (link for link in links if isinstance(link, ServiceLink) and link.up.name == surrogate.service)
    return next((partial(_question, surrogate, link) for link in services), None)


def _question(
    surrogate: Surrogate,
    link: ServiceLink,
    index: int,
    values: Mapping[str, Any],
    key: str,
    parts: tuple[str, str],
) -> Question | str:
    """Return a task's question, or the reason why nobody will answer."""
    group = link.group_of_downstream(index)
    past = link.down.history.surrogate
    if past is not None and past.is_off:
        return FAILED_AUDIT
    if link.is_spared(group):
        states = map(link.up.history.state, link.members(group))
        return ENDED if TaskState.FAILED in states else NEVER_STARTED
    try:
        model = link.key(group)
    except (ExpressionError, MissingInput, ModuleError):
        return NEVER_STARTED
    settings, models = surrogate.model_dump(exclude=NOT_ANSWERED), {surrogate.service: model}
    replicas = tuple(link.replicas(group))
    answers = Answers(
        digest_of([key, settings]), digest_of([parts[1], settings]), models, {surrogate.service: replicas}
    )
    answer, part = answers.key_with(models)
    row = {name: values[name] for name in surrogate.inputs or values if type(values.get(name)) in _NUMBERS}
    renewed = answers if link.is_renewed else None
    drawn = _is_drawn(surrogate, answer)
    return Question(row, replicas, answer, (parts[0], part), drawn, renewed, *link.held(group))


def _is_drawn(surrogate: Surrogate, answer: str) -> bool:
    """Return whether an answer is audited: its key and the seed decide, in whatever order tasks run."""
    drawn = int(digest_of([surrogate.seed, answer])[:13], 16) / 16**13
    return surrogate.audit is not None and drawn < surrogate.audit


def name_teachers(record: records.StageRecord, graph: StageGraph, kinds: Mapping[str, str]) -> None:
    """Add the figures of a surrogate's speedup to a stage's record; `kinds` are by stage."""
    surrogate = graph.workflow.stages[record["stage"]].surrogate
    if surrogate is not None:
        lineage = teachers(graph, record["stage"])
        training = [name for name in lineage.names if kinds[name] == "training"]
        simulations = list(lineage.simulations)
        record["surrogate"] = {"service": surrogate.service, "training": training, "simulations": simulations}
        if surrogate.audit is not None:
            record["surrogate"]["tolerance"] = surrogate.tolerance


def tell_cached(
    record: records.Cached, result: records.Result, stage: Stage, question: Question | str | None
) -> None:
    """Add what the surrogate answered for an earlier result: an audit counts if the same model would answer,
    why it did not ask then does not. Without a surrogate it simulated without asking."""
    if stage.surrogate is not None:
        record["values"] = {SIMULATED: True, **record.get("values", {})}
        unasked: records.Answered = {"asked": 0.0, "used": False}
        note = result.get("surrogate", unasked).copy()
        note.pop("unasked", None)
        same = isinstance(question, Question) and note.get("answer") == question.key
        if not same or stage.surrogate.audit is None:
            note.pop("error", None)
        record["surrogate"] = note
