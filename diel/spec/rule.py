"""What happens after each failure, all defaults filled in; what a later attempt asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from diel.spec.resources import Resources
from diel.spec.stage import Stage
from diel.states import FailureClass

ESCALATED_RETRIES = 2
"""Retries after too little memory or walltime, where the stage says nothing."""
NODE_RETRIES = 5
PREEMPTED_RETRIES = 100
"""Practically for ever: a task is not to blame for a block that others were given."""
NODE_BACKOFF = 0.2
"""Seconds before a task whose node was lost runs again; doubles with each."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What happens after failures of one class, all defaults filled in."""

    retries: int
    backoff: float
    """Seconds before the first retry."""
    shared: bool
    """Whether they count together with all others that the stage's `retries` is for."""
    memory: float = 1.0
    walltime: float = 1.0
    """Factors by which each retry asks for more than the attempt before."""
    exclude: bool = False


def rule_of(stage: Stage, kind: FailureClass) -> Rule:
    """The rule for a class of failures: the stage's policy over the class's defaults."""
    policy, default = stage.on.of(kind), _default(stage, kind)
    return Rule(
        retries=default.retries if policy.retries is None else policy.retries,
        backoff=default.backoff if policy.backoff is None else policy.backoff,
        shared=default.shared and policy.retries is None,
        memory=policy.memory or default.memory,
        walltime=policy.walltime or default.walltime,
        exclude=bool(policy.exclude),
    )


def _default(stage: Stage, kind: FailureClass) -> Rule:
    match kind:
        case FailureClass.OOM if stage.resources.memory is not None:
            return Rule(ESCALATED_RETRIES, 0.0, shared=False, memory=2.0)
        case FailureClass.WALLTIME:
            factor = 1.0 if stage.resources.walltime is None else 2.0
            return Rule(ESCALATED_RETRIES, 0.0, shared=False, walltime=factor)
        case FailureClass.NODE:
            return Rule(NODE_RETRIES, NODE_BACKOFF, shared=False)
        case FailureClass.PREEMPTED:
            return Rule(PREEMPTED_RETRIES, 0.0, shared=False)
        case FailureClass.UPSTREAM:  # it would read the same
            return Rule(0, 0.0, shared=False)
        case (
            FailureClass.APP
            | FailureClass.OOM
            | FailureClass.TIMEOUT
            | FailureClass.LAUNCH
            | FailureClass.CANCELLED
            | FailureClass.INTERRUPTED
        ):
            return Rule(stage.retries.limit, stage.retries.backoff, shared=True)
        case never:
            assert_never(never)


# --- what a later attempt asks for ----------------------------------------------------------------

_CHANGING = ("memory", "walltime")


def changed_resources(stage: Stage, resources: Resources) -> dict[str, Any]:
    """What an attempt asks for beyond its stage: `memory` in bytes, `walltime` in seconds."""
    return {
        name: getattr(resources, name)
        for name in _CHANGING
        if getattr(resources, name) != getattr(stage.resources, name)
    }


def resources_with(stage: Stage, changed: Mapping[str, Any]) -> Resources:
    """What an attempt asked for, from what the journal says of it."""
    known = {name: changed[name] for name in _CHANGING if name in changed}
    return stage.resources.model_copy(update=known) if known else stage.resources
