"""What happens after each class of failure: the policies of a stage's `on`, and the defaults."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple, assert_never

from pydantic import BeforeValidator, WithJsonSchema

from diel.spec.model import Duration, Flaw, SpecModel, found, optional, refuse
from diel.spec.resources import Resources
from diel.states import FailureClass

_FACTOR = r"[x×]\s*([0-9]{1,6}(?:\.[0-9]{1,6})?)"
MAX_FACTOR = 1000.0
ESCALATED_RETRIES = 2
"""Retries after too little memory or walltime, if the stage says nothing."""
NODE_RETRIES = 5
PREEMPTED_RETRIES = 100
"""Practically forever: a task is not to blame if others get its block."""
NODE_BACKOFF = 0.2
"""Seconds before a task whose node was lost runs again; doubles with each."""


def _factor(value: Any) -> Any:
    match = re.fullmatch(_FACTOR, value.strip()) if isinstance(value, str) else None
    if match is None:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        hint = f"write x{value}" if number and value >= 1 else "write x2 or x1.5"
        raise refuse(f"expected a factor such as x2, found {found(value)}", hint)
    factor = float(match.group(1))
    if factor < 1:
        raise refuse(f"expected a factor of at least x1, found {found(value)}", "retries never get less: x2")
    if factor > MAX_FACTOR:
        raise refuse(f"expected a factor of at most x{MAX_FACTOR:.0f}, found {found(value)}")
    return factor


Factor = Annotated[
    float,
    BeforeValidator(_factor),
    WithJsonSchema({"type": "string", "pattern": r"^[x×]\s*[0-9]+(\.[0-9]+)?$", "examples": ["x2", "x1.5"]}),
]
"""What a retry gets more of, written `x2`."""


class Policy(SpecModel):
    """What happens after failures of one class. A missing key keeps the class's default."""

    retries: int | None = optional("Attempts after failures of this class.", ge=0, le=1000)
    backoff: Duration | None = optional(
        "Wait before the first of them; doubles with each, up to 5 minutes.", ge=0
    )
    memory: Factor | None = optional("Factor for `resources.memory` from each attempt to the next.")
    walltime: Factor | None = optional("Factor for `resources.walltime` from each attempt to the next.")
    exclude: bool | None = optional("Whether later blocks avoid the node (`node` only).")


class Policies(SpecModel):
    """Policies by class of failure."""

    app: Policy | None = optional("The program failed, or lacks an output.")
    oom: Policy | None = optional("It needed more memory than it had.")
    walltime: Policy | None = optional("Its walltime, or its block, ended before it did.")
    timeout: Policy | None = optional("It ran longer than the stage's `timeout`.")
    node: Policy | None = optional("Its worker or node was lost, or it was killed from outside.")
    preempted: Policy | None = optional("The scheduler took its block away for other jobs.")
    launch: Policy | None = optional("It could not be started.")

    def of(self, kind: str) -> Policy:
        """The policy for a class of failures; an empty one if the file says nothing."""
        return getattr(self, kind, None) or Policy.model_construct()


def policy_flaws(on: Policies, resources: Resources, timeout: float | None) -> Iterator[Flaw]:
    """What is wrong with policies together with the rest of the stage."""
    for kind in Policies.model_fields:
        policy = on.of(kind)
        for key, example in (("memory", "4GiB"), ("walltime", "30m")):
            if getattr(policy, key) is not None and getattr(resources, key) is None:
                hint = f"write resources: {{{key}: {example}}}, or drop the factor"
                yield Flaw(f"a factor for a {key} that `resources` does not give", hint, ("on", kind, key))
        if policy.exclude is not None and kind != "node":
            hint = f"write on: {{node: {{exclude: {str(policy.exclude).lower()}}}}}"
            yield Flaw("only a lost node can be excluded", hint, ("on", kind, "exclude"))
    if on.timeout is not None and timeout is None:
        hint = "write timeout: 1h, or on: {walltime: ...} for what `resources.walltime` ends"
        yield Flaw("a policy for time-outs, but the stage has no `timeout`", hint, ("on", "timeout"))


class Rule(NamedTuple):
    """What happens after failures of one class, all defaults filled in."""

    retries: int
    backoff: float
    """Seconds before the first retry."""
    shared: bool
    """Whether they count together with all others that the stage's `retries` covers."""
    memory: float = 1.0
    walltime: float = 1.0
    """Factors by which each retry asks for more than the attempt before."""
    exclude: bool = False


def default_rule(kind: FailureClass, resources: Resources, usual: Rule) -> Rule:
    """The rule for a class of failures that the stage does not mention; `usual` is that of its `retries`."""
    match kind:
        case FailureClass.OOM if resources.memory is not None:
            return Rule(ESCALATED_RETRIES, 0.0, shared=False, memory=2.0)
        case FailureClass.WALLTIME:
            factor = 1.0 if resources.walltime is None else 2.0
            return Rule(ESCALATED_RETRIES, 0.0, shared=False, walltime=factor)
        case FailureClass.NODE:
            return Rule(NODE_RETRIES, NODE_BACKOFF, shared=False)
        case FailureClass.PREEMPTED:
            return Rule(PREEMPTED_RETRIES, 0.0, shared=False)
        case FailureClass.UPSTREAM | FailureClass.CHANGED:  # it would read the same
            return Rule(0, 0.0, shared=False)
        case (
            FailureClass.APP
            | FailureClass.OOM
            | FailureClass.TIMEOUT
            | FailureClass.LAUNCH
            | FailureClass.CANCELLED
            | FailureClass.INTERRUPTED
        ):
            return usual
        case never:
            assert_never(never)
