"""Asks a stage's surrogate before a task runs: the answer is its result if it is sure enough."""

import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from diel.base.errors import DielError
from diel.base.paths import RunPaths
from diel.base.terms import SIMULATED
from diel.store.artifacts import Values, check_values
from diel.store.artifacts.values import shown
from diel.worker.attempt.bundle import Question, Request, Work
from diel.worker.attempt.surroundings import held_to_files

if TYPE_CHECKING:
    from diel.store.journal.records import Answered, Done
    from diel.workflow.models import Surrogate

SILENT = "the service gives no uncertainty: give it several models, or the surrogate `tolerance: .inf`"


class Consultation(NamedTuple):
    """The outcome of a question."""

    question: Question | None
    seconds: float
    uncertainty: float | None = None
    """The uncertainty compared with the tolerance, the largest of several outputs; None without one."""
    values: Values | None = None
    """The task's result; None if it must be simulated."""
    message: str = ""
    """Why there was no usable answer, apart from its uncertainty."""
    unasked: str = ""
    audited: "AnswerAudit | None" = None

    def tell(self, record: "Done") -> None:
        """Add to a task's record what its surrogate answered, and whether its result was simulated."""
        used = self.values is not None
        answered: Answered = {"asked": round(self.seconds, 6), "uncertainty": self.uncertainty, "used": used}
        if self.audited is not None and self.question is not None:
            answered["error"] = self.audited.error(record.get("values", {}))
            answered["answer"] = self.question.key
        if self.message:
            answered["message"] = self.message
        if self.unasked:
            answered["unasked"] = self.unasked
        record["surrogate"] = answered
        record["values"] = {**record.get("values", {}), SIMULATED: not used}
        if used and self.question is not None:
            record["key"], record["parts"] = self.question.key, self.question.parts


def ask(paths: RunPaths, work: Work, request: Request) -> Consultation:
    """Ask the stage's surrogate. Never raises: without an answer the task simulates."""
    surrogate, question = work.surrogate, request.question
    assert surrogate is not None
    if not isinstance(question, Question):
        return Consultation(None, 0.0, unasked=question or "")
    began = time.perf_counter()
    try:
        from diel.streams.services.client import wary_client  # it loads HTTP, which other workers do not need

        client = wary_client(paths.root, surrogate.service, question.replicas)
        answers = question.answers
        before = None if answers is None else answers.now(paths)
        with held_to_files(question.watched, question.reads, "the service"):
            answer = _read(client.predict([dict(question.row)], surrogate.timeout), surrogate.outputs)
        if answers is not None:
            key, part = answers.key_since(before, paths)
            question = question._replace(key=key, parts=(question.parts[0], part))
        promises = {name: promise for name, promise in work.promises.items() if name in answer}
        if promises:
            check_values({name: value for name, (value, _) in answer.items()}, promises)
    except (DielError, OSError, ValueError) as error:
        return Consultation(question, time.perf_counter() - began, message=str(error))
    seconds = time.perf_counter() - began
    uncertainty = _uncertainty(surrogate, answer)
    finite = None if uncertainty is None or math.isinf(uncertainty) else uncertainty
    if uncertainty is None and not math.isinf(surrogate.tolerance):
        return Consultation(question, seconds, message=SILENT)
    if uncertainty is not None and uncertainty > surrogate.tolerance:
        return Consultation(question, seconds, finite)
    if question.audited:
        return Consultation(question, seconds, finite, audited=AnswerAudit(answer, surrogate.relative))
    return Consultation(question, seconds, finite, {name: value for name, (value, _) in answer.items()})


Answer = Mapping[str, tuple[float, float | None]]
"""By output: its value, and its uncertainty if the answer has one."""


class AnswerAudit(NamedTuple):
    """An answer that is compared with what the simulation makes."""

    answer: Answer
    relative: bool

    def error(self, values: Mapping[str, Any]) -> float | None:
        """Return how far it is off, in the tolerance's terms: the most of its outputs; None if no number."""
        errors = []
        for name, (value, _) in self.answer.items():
            true = values.get(name)
            if isinstance(true, bool) or not isinstance(true, int | float) or not math.isfinite(true):
                return None
            errors.append(_scaled(abs(true - value), value, relative=self.relative))
        return None if math.inf in errors else max(errors)


def _read(answer: Any, outputs: Sequence[str]) -> Answer:
    """Return the answer for one row. Raise ValueError for anything else."""
    try:
        deviations = answer.get("deviation")
        for name in ("prediction", *(["deviation"] if deviations is not None else [])):
            if not isinstance(answer[name], list) or len(answer[name]) != 1:
                raise TypeError(f"the {name} of one row is {shown(answer[name])}")
        values = _by_output(answer["prediction"][0], outputs)
        uncertain = {} if deviations is None else _by_output(deviations[0], outputs)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        expected = '{"prediction": [VALUE], "deviation": [UNCERTAINTY]}'
        problem = f"{type(error).__name__}: {error}"
        raise ValueError(
            f"expected {expected} of {', '.join(outputs)}; found something else ({problem})"
        ) from error
    for name, deviation in uncertain.items():
        if deviation < 0:
            raise ValueError(f"the service gives an uncertainty of {deviation} for {name}")
    return {name: (values[name], uncertain.get(name)) for name in outputs}


def _by_output(answer: Any, outputs: Sequence[str]) -> dict[str, float]:
    """One number, or a mapping with one for each output. Raises ValueError if one is not finite."""
    by_name = answer if isinstance(answer, dict) else {outputs[0]: answer} if len(outputs) == 1 else {}
    return {name: _number(name, by_name[name]) for name in outputs}


def _number(name: str, value: Any) -> float:
    """Return a number. Raise TypeError if it is not one, ValueError if it is not finite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"for {name} it is not a number, but of type {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"the service answers {number} for {name}")
    return number


def _uncertainty(surrogate: "Surrogate", answer: Answer) -> float | None:
    """Return the largest uncertainty of the answer, in the tolerance's terms; None if one is missing."""
    deviations = []
    for value, deviation in answer.values():
        if deviation is None:
            return None
        deviations.append(_scaled(deviation, value, relative=surrogate.relative))
    return max(deviations)


def _scaled(deviation: float, value: float, *, relative: bool) -> float:
    """Return a deviation from an answered value, in the tolerance's terms."""
    if not relative or not deviation:
        return deviation
    return deviation / abs(value) if value else math.inf
