"""What a task asks for after a failure: more, as its rule says and as far as the largest pool holds it."""

from __future__ import annotations

from collections.abc import Callable

from diel.spec import Resources, Rule
from diel.values import format_duration, format_size

Fits = Callable[..., bool]
"""Whether a task of a stage (by name) with these resources fits its pool: another than the stage's, if one
is given."""

_STEPS = {"memory": 2.0**20, "walltime": 1.0}
"""How close a request comes to a pool's limit: a MiB, a second."""
_LEAST = 1.01
"""A growth below this factor does not count."""


def escalated(stage: str, resources: Resources, rule: Rule, fits: Fits) -> Resources:
    """Resources times the rule's factors, but no more than the largest pool can hold."""
    for key, factor in (("memory", rule.memory), ("walltime", rule.walltime)):
        now = getattr(resources, key)
        if now is not None and factor > 1:
            resources = _grown(resources, key, now, factor * now, lambda asked: fits(stage, asked))
    return resources


def exhausted(before: Resources, after: Resources, rule: Rule) -> str:
    """What cannot grow although the rule says so, for a message; empty if all did."""
    told = []
    if rule.memory > 1 and before.memory is not None and before.memory == after.memory:
        told.append(f"{format_size(before.memory)} of memory")
    if rule.walltime > 1 and before.walltime is not None and before.walltime == after.walltime:
        told.append(f"{format_duration(before.walltime)} of walltime")
    return f"no pool gives a task more than {' or '.join(told)}" if told else ""


def _grown(
    resources: Resources, key: str, now: float, wanted: float, fits: Callable[[Resources], bool]
) -> Resources:
    best = _with(resources, key, wanted)
    if not fits(best):
        low, high = now, wanted
        while high - low > _STEPS[key]:
            middle = (low + high) / 2
            low, high = (middle, high) if fits(_with(resources, key, middle)) else (low, middle)
        best = _with(resources, key, low)
    return best if getattr(best, key) >= _LEAST * now else resources


def _with(resources: Resources, key: str, value: float) -> Resources:
    return resources.model_copy(update={key: int(value) if key == "memory" else value})
