"""What happens after each class of failure: the policies of a stage's `on`, and the defaults."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, assert_never

from pydantic import BeforeValidator, WithJsonSchema

from diel.base.errors import counted
from diel.base.states import FailureClass
from diel.workflow.models.forms.axis import Axis
from diel.workflow.models.model import (
    Duration,
    Limit,
    Name,
    Size,
    SpecModel,
    Violation,
    optional,
    quote,
    refuse,
)

_FACTOR = r"[x×]\s*([0-9]{1,6}(?:\.[0-9]{1,6})?)"
MAX_FACTOR = 1000.0
ESCALATED_RETRIES = 2
"""Retries after too little memory or walltime, if the stage says nothing."""
NODE_RETRIES = 5
PREEMPTED_RETRIES = 100
"""Practically forever: a task is not to blame if others get its block."""
NODE_BACKOFF = 0.2
"""Seconds before a task whose node was lost runs again; doubles with each."""
_MANY = 10_000_000
_CHANGING = ("memory", "walltime")
_SHARE = r"([0-9]{1,3}(?:\.[0-9]+)?)\s*%"


def _factor(value: Any) -> Any:
    match = re.fullmatch(_FACTOR, value.strip()) if isinstance(value, str) else None
    if match is None:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        hint = f"write x{value}" if number and value >= 1 else "write x2 or x1.5"
        raise refuse(f"expected a factor such as x2, found {quote(value)}", hint)
    factor = float(match.group(1))
    if factor < 1:
        raise refuse(f"expected a factor of at least x1, found {quote(value)}", "retries never get less: x2")
    if factor > MAX_FACTOR:
        raise refuse(f"expected a factor of at most x{MAX_FACTOR:.0f}, found {quote(value)}")
    return factor


Factor = Annotated[
    float,
    BeforeValidator(_factor),
    WithJsonSchema({"type": "string", "pattern": r"^[x×]\s*[0-9]+(\.[0-9]+)?$", "examples": ["x2", "x1.5"]}),
]
"""A factor for a retry's resources, written `x2`."""


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
        """Return the policy for a class of failures; an empty one if the file says nothing."""
        return getattr(self, kind, None) or Policy.model_construct()


def policy_flaws(on: Policies, resources: "Resources", timeout: float | None) -> Iterator[Violation]:
    """Yield the flaws of policies together with the rest of the stage."""
    for kind in Policies.model_fields:
        policy = on.of(kind)
        for key, example in (("memory", "4GiB"), ("walltime", "30m")):
            if getattr(policy, key) is not None and getattr(resources, key) is None:
                hint = f"write resources: {{{key}: {example}}}, or drop the factor"
                yield Violation(
                    f"a factor for a {key} that `resources` does not give", hint, ("on", kind, key)
                )
        if policy.exclude is not None and kind != "node":
            hint = f"write on: {{node: {{exclude: {str(policy.exclude).lower()}}}}}"
            yield Violation("only a lost node can be excluded", hint, ("on", kind, "exclude"))
    if on.timeout is not None and timeout is None:
        hint = "write timeout: 1h, or on: {walltime: ...} for what `resources.walltime` ends"
        yield Violation("a policy for time-outs, but the stage has no `timeout`", hint, ("on", "timeout"))


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


def default_rule(kind: FailureClass, resources: "Resources", usual: Rule) -> Rule:
    """Return the rule for a class of failures without one of its own; `usual` is that of `retries`."""
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
        case FailureClass.UPSTREAM | FailureClass.CHANGED:  # another attempt would read the same
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


def _name(launcher: Any) -> Any:
    if isinstance(launcher, list | tuple) or " " in str(launcher):
        message = f"expected the name of a launcher, found {quote(launcher)}"
        raise refuse(message, "its words belong into `launchers` of the site file, under a name")
    return launcher


class Resources(SpecModel):
    """Without `ranks` a task is one process, and the `…_per_rank` keys are its own."""

    nodes: int | None = optional("Nodes that a task spans.", ge=1, le=_MANY)
    ranks: int | None = optional("MPI processes of a task.", ge=1, le=_MANY)
    ranks_per_node: int | None = optional("MPI processes on each node.", ge=1, le=_MANY)
    cores_per_rank: int = optional("Cores of each process.", 1, ge=1, le=_MANY)
    gpus_per_rank: int = optional("GPUs of each process.", 0, ge=0, le=_MANY)
    memory: Size | None = optional("Memory of a task on each node.")
    walltime: Limit | None = optional("Longest run time to plan for.")
    pool: Name | None = optional("The site's pool to run in.")
    launcher: Annotated[Name | None, BeforeValidator(_name)] = optional(
        "The site's launcher for its ranks; the pool's if absent."
    )

    @property
    def mpi(self) -> bool:
        """Whether a task is launched under MPI."""
        return self.ranks is not None or self.ranks_per_node is not None

    @property
    def processes(self) -> int:
        """Processes of a whole task: `ranks`, or nodes times ranks_per_node."""
        if self.ranks_per_node is None:
            return self.ranks or 1
        return self.ranks or (self.nodes or 1) * self.ranks_per_node

    @property
    def cores(self) -> int:
        """Cores of a whole task, on all its nodes."""
        return self.processes * self.cores_per_rank

    @property
    def gpus(self) -> int:
        """GPUs of a whole task, on all its nodes."""
        return self.processes * self.gpus_per_rank

    def changes(self, since: "Resources") -> dict[str, Any]:
        """Return the resources of a later attempt: `memory` in bytes, `walltime` in seconds."""
        return {name: mine for name in _CHANGING if (mine := getattr(self, name)) != getattr(since, name)}

    def changed(self, changes: Mapping[str, Any]) -> "Resources":
        """Return the resources of an attempt from its journal record."""
        update = {name: changes[name] for name in _CHANGING if name in changes}
        return self.model_copy(update=update) if update else self

    def at_least(self, changes: Mapping[str, Any]) -> "Resources":
        """Return the resources of a later attempt after it was granted these: a retry never gets less."""
        return self.changed({name: max(changes[name], getattr(self, name) or 0) for name in changes})

    def flaws(self) -> Iterator[Violation]:
        nodes, ranks, local = self.nodes, self.ranks, self.ranks_per_node
        if self.launcher is not None and not self.mpi:
            yield Violation("`launcher` starts ranks, and there are none", "write ranks: 4", ("launcher",))
        if ranks is None:
            return
        if nodes is not None and local is not None and ranks != nodes * local:
            hint = f"drop one of the three, or write ranks: {nodes * local}"
            yield Violation(
                f"{ranks} ranks are not {nodes} nodes times {local} ranks_per_node", hint, ("ranks",)
            )
        elif local is not None and local > ranks:
            message = f"{local} ranks_per_node, but only {counted(ranks, 'rank')}"
            yield Violation(message, f"write ranks_per_node: {ranks} or less", ("ranks_per_node",))
        elif nodes is not None and nodes > ranks:
            message = f"{nodes} nodes, but only {counted(ranks, 'rank')}"
            yield Violation(message, "each node needs a rank", ("nodes",))


def _most(value: Any) -> Any:
    expected = "expected a number of tasks (5) or a share of them (10%)"
    share = re.fullmatch(_SHARE, value.strip()) if isinstance(value, str) else None
    if share is not None and float(share[1]) <= 100:
        return value.strip()
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    hint = "0 stops the stage at its first failure"
    if isinstance(value, str) and value.strip().isdecimal():
        hint = f"write max_failures: {value.strip()}"
    elif isinstance(value, float) and 0 < value < 1:
        hint = f"write max_failures: {100 * value:g}%"
    raise refuse(f"{expected}, found {quote(value)}", hint)


MostFailures = Annotated[
    int | str | None,
    BeforeValidator(lambda value: None if value is None else _most(value)),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {"type": "string", "pattern": r"^\s*[0-9]{1,3}(\.[0-9]+)?\s*%\s*$", "examples": ["10%"]},
                {"type": "null"},
            ]
        }
    ),
]
"""How many tasks of a stage may fail: a number, or a share written `10%`."""


def most_failures(most: int | str | None, tasks: int) -> float | None:
    """Return the number of so many tasks that may fail; None for any number."""
    return tasks * float(most.rstrip("% ")) / 100 if isinstance(most, str) else most


def share_flaws(name: str, over: Sequence[str], axes: Mapping[str, Axis]) -> Iterator[Violation]:
    """Yield the flaws of a stage of a search or loop, where the axis decides what a failure means."""
    label = next((label for label in over if label in axes and axes[label].adaptive), None)
    if label is not None:
        word = axes[label].word
        hint = "write `failures` in the search: how many trials may fail" if word == "search" else "drop it"
        message = f"`max_failures` of a stage over the {word} '{label}', which itself decides about failures"
        yield Violation(message, hint, ("stages", name, "max_failures"))
