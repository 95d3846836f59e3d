"""What happens after a failure of a stage, all defaults filled in; what a later attempt asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diel.spec.policy import Rule, default_rule
from diel.spec.resources import Resources
from diel.spec.stage import Stage
from diel.states import FailureClass


def rule_of(stage: Stage, kind: FailureClass) -> Rule:
    """The rule for a class of failures: the stage's policy over the class's defaults."""
    usual = Rule(stage.retries.limit, stage.retries.backoff, shared=True)
    policy, default = stage.on.of(kind), default_rule(kind, stage.resources, usual)
    return Rule(
        retries=default.retries if policy.retries is None else policy.retries,
        backoff=default.backoff if policy.backoff is None else policy.backoff,
        shared=default.shared and policy.retries is None,
        memory=policy.memory or default.memory,
        walltime=policy.walltime or default.walltime,
        exclude=bool(policy.exclude),
    )


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
