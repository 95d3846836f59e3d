"""What the surrogate of a stage saved: how many tasks it answered, and the effective speedup."""

import math
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from diel.base.errors import counted
from diel.base.states import TaskState
from diel.base.values import texts_apart
from diel.observe.status.columns import LINE, paint, printable, shorten, tasks_text
from diel.store.journal.history import History
from diel.store.journal.stage_history import StageHistory, ranges
from diel.store.journal.surrogate import CONFIDENCE, Bound, SurrogateHistory, bound_of

_FAR = "more than a number can say"


class Audit(NamedTuple):
    """What the answers are worth that were compared with a simulation, in the tolerance's terms."""

    tolerance: float
    audited: int
    mean: float
    largest: float
    bound: Bound
    """What holds for all answers of the run, those that were not audited too."""
    suspect: int
    """Results that are answers, if the bound is above the tolerance: the surrogate is off."""
    is_off: bool

    def document(self) -> dict[str, Any]:
        """Return the audit for `status --json`; a figure is null where an answer was off by no number."""
        return {
            "tolerance": _finite(self.tolerance),
            "audited": self.audited,
            "mean_error": _finite(self.mean),
            "largest_error": _finite(self.largest),
            "bound": _finite(self.bound.error),
            "share": self.bound.share,
            "confidence": CONFIDENCE,
            "off": self.is_off,
            "suspect": self.suspect,
        }


class SurrogateStatus(NamedTuple):
    """The terms of the effective speedup, as measured; a mean is None until something was measured. Results
    that were taken from the cache count with the time that they took when they were made: the speedup is that
    of the whole study, and the same when it is run again."""

    service: str
    answered: int
    """N_lookup: tasks whose result is an answer."""
    simulated: int
    trained: int
    """N_train: all simulations that the model could learn from; those of `simulations` are among them."""
    simulation_seconds: float | None
    """T_sim: mean time of a simulation."""
    answer_seconds: float | None
    """T_lookup: mean time of an answered task, with its share of the questions asked in vain."""
    training_seconds: float | None
    """T_learn: time of training for each simulation."""
    training: tuple[str, ...] = ()
    simulations: tuple[str, ...] = ()
    """The stages besides this one that simulate for it."""
    unanswered: int = 0
    """Questions without a usable answer."""
    message: str = ""
    """Why the last of them had none."""
    unasked: Mapping[str, int] = {}
    """Tasks that were simulated without asking, by the reason."""
    audit: Audit | None = None

    @property
    def speedup(self) -> float | None:
        """The effective speedup; None if no simulation was measured.

        S = T_sim (N_lookup + N_train) / (T_lookup N_lookup + (T_sim + T_learn) N_train): what all results
        would have cost as simulations, over what they did cost (G. Fox et al., Learning Everywhere:
        Pervasive Machine Learning for Effective High-Performance Computation, 2019).
        """
        if self.simulation_seconds is None:
            return None
        answering = (self.answer_seconds or 0.0) * self.answered
        spent = answering + (self.simulation_seconds + (self.training_seconds or 0.0)) * self.trained
        return self.simulation_seconds * (self.answered + self.trained) / spent if spent else None

    def document(self) -> dict[str, Any]:
        return {
            "service": self.service,
            "speedup": self.speedup,
            "n_lookup": self.answered,
            "n_train": self.trained,
            "t_sim_s": self.simulation_seconds,
            "t_lookup_s": self.answer_seconds,
            "t_learn_s": self.training_seconds,
            "simulated": self.simulated,
            "training": list(self.training),
            "simulations": list(self.simulations),
            "unanswered": self.unanswered,
            "message": self.message,
            "unasked": dict(self.unasked),
            **({} if self.audit is None else {"audit": self.audit.document()}),
        }


def surrogate_of(history: History, surrogate: SurrogateHistory) -> SurrogateStatus:
    """Return the state of a stage's surrogate, from its journal."""
    simulations = [history.stages[name] for name in surrogate.simulations if name in history.stages]
    trainings = [history.stages[name] for name in surrogate.training if name in history.stages]
    own = next(stage for stage in history.stages.values() if stage.surrogate is surrogate)
    trained = surrogate.simulated + sum(map(_results, simulations))
    simulating = surrogate.simulated_seconds + sum(map(_seconds, simulations))
    learning = sum(map(_seconds, trainings))
    answering = surrogate.answered_seconds + surrogate.vain_seconds
    return SurrogateStatus(
        service=surrogate.service,
        answered=surrogate.answered,
        simulated=_results(own) - surrogate.answered,
        trained=trained,
        simulation_seconds=simulating / trained if trained else None,
        answer_seconds=answering / surrogate.answered if surrogate.answered else None,
        training_seconds=learning / trained if trained else None,
        training=surrogate.training,
        simulations=surrogate.simulations,
        unanswered=surrogate.unanswered,
        message=surrogate.message,
        unasked=surrogate.unasked,
        audit=None if surrogate.tolerance is None else _audit_of(surrogate, surrogate.tolerance),
    )


def _results(stage: StageHistory) -> int:
    return stage.states.count(TaskState.DONE) + stage.states.count(TaskState.CACHED)


def _audit_of(surrogate: SurrogateHistory, tolerance: float) -> Audit:
    errors = list(surrogate.errors.values())
    mean, largest = (sum(errors) / len(errors), max(errors)) if errors else (math.nan, math.nan)
    suspect = surrogate.answered if surrogate.is_off else 0
    return Audit(tolerance, len(errors), mean, largest, bound_of(errors), suspect, surrogate.is_off)


def _seconds(stage: StageHistory) -> float:
    return stage.seconds + stage.cached_seconds


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def surrogate_lines(
    surrogates: Mapping[str, SurrogateStatus], stays: Mapping[str, Collection[int]]
) -> list[str]:
    """Return by stage what its surrogate answered, the terms of its speedup, and what went wrong."""
    lines = []
    for name, surrogate in surrogates.items():
        measured = ", ".join(f"{term} {value}" for term, value in terms(surrogate).items())
        lines += [f"surrogate of {name}: {answered_text(surrogate)}", paint(f"  {measured}", dim=True)]
        lines += [f"  {text}" for text in audit_texts(surrogate)]
        if wrong := trouble(surrogate):
            lines.append(f"  {shorten(printable(wrong), LINE)}")
    return lines + stays_lines(stays)


def answered_text(surrogate: SurrogateStatus) -> str:
    """Return `'serve' answered 31 of 40, 9 were simulated; effective speedup 3.1`."""
    whole = surrogate.answered + surrogate.simulated
    were = "was" if surrogate.simulated == 1 else "were"
    line = f"'{surrogate.service}' answered {surrogate.answered:,} of {whole:,}"
    speedup = "" if surrogate.speedup is None else f"; effective speedup {surrogate.speedup:.3g}"
    return f"{line}, {surrogate.simulated:,} {were} simulated{speedup}"


def terms(surrogate: SurrogateStatus) -> Mapping[str, str]:
    """Return the measured terms of the speedup, in words."""
    return {
        "N_lookup": f"{surrogate.answered:,}",
        "N_train": f"{surrogate.trained:,}",
        "T_sim": _time(surrogate.simulation_seconds),
        "T_lookup": _time(surrogate.answer_seconds),
        "T_learn": _time(surrogate.training_seconds),
    }


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "not measured"
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def audit_texts(surrogate: SurrogateStatus) -> list[str]:
    """Return what audits found, what follows for all answers, and what to do about too much error."""
    audit = surrogate.audit
    if audit is None:
        return []
    if not audit.audited:
        return ["no answer was audited yet: nothing is known of their error"]
    sizes = texts_apart([audit.mean, audit.largest, audit.bound.error, audit.tolerance], 3)
    mean, largest, bound, tolerance = (_FAR if size == "inf" else size for size in sizes)
    of = f"{audit.audited:,} of {surrogate.answered + audit.audited:,} answers"
    texts = [f"audited {of}: off by {mean} in the mean, by {largest} at most"]
    if surrogate.answered:
        share = f"at least {math.floor(1000 * audit.bound.share) / 10:g} % of all answers"
        texts.append(f"with {CONFIDENCE:.0%} confidence, {share} are off by at most {bound}")
    if audit.is_off:
        off = f"that is above the tolerance {tolerance}: it is asked no more"
        are = "answer is" if audit.suspect == 1 else "answers are"
        what = f", and {audit.suspect:,} {are} suspect: `diel resume --recompute suspect` simulates them"
        texts.append(f"{off}{what}" if audit.suspect else off)
    return texts


def stays_lines(stays: Mapping[str, Collection[int]]) -> list[str]:
    """Return by stage the tasks that read suspect answers and stay, and what to do."""
    named = ", ".join(f"{name}/{tasks_text(ranges(tasks))}" for name, tasks in stays.items() if tasks)
    if not named:
        return []
    reason = "kept though computed with suspect answers, as decisions rest on them"
    return [f"{reason}: {named}; `diel run` decides anew, and takes the rest from the cache"]


def audited(history: History, stage: str) -> list[str]:
    """Return what audits say of a stage's results, if some of them are answers."""
    past = history.stage(stage).surrogate
    return [] if past is None or not past.answered else audit_texts(surrogate_of(history, past))


def audit_document(history: History, stage: str) -> dict[str, Any] | None:
    """Return what audits found of a stage's answers; None without `audit`."""
    surrogate = history.stage(stage).surrogate
    audit = None if surrogate is None else surrogate_of(history, surrogate).audit
    return None if audit is None else audit.document()


def trouble(surrogate: SurrogateStatus) -> str:
    """Return what went wrong with questions: those without an answer, and tasks that asked nobody."""
    texts = [f"{counted(n, 'task')} did not ask: {why}" for why, n in surrogate.unasked.items()]
    if surrogate.unanswered:
        last = f"the last: {surrogate.message}"
        texts.append(f"{counted(surrogate.unanswered, 'question')} without an answer, {last}")
    return "; ".join(texts)
