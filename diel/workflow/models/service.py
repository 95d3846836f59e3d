"""A service: a program that runs for the tasks of others; and a surrogate, which a simulation asks first."""

import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from diel.workflow.models.model import (
    Limit,
    Name,
    SpecModel,
    Text,
    Unique,
    Violation,
    Violations,
    optional,
    quote,
    refuse,
    written_as,
)

WRITTEN = "write {service: true}, or {service: {ready: {http: /health}, replicas: 2}}"
READY = "write {http: /health}, {tcp: true} or {log: TEXT}"
WAYS = ("http", "tcp", "log")
_PATH_OR_TRUE = {"anyOf": [{"type": "string"}, {"type": "boolean"}, {"type": "null"}]}


class Ready(SpecModel):
    """How a service shows that it takes requests: exactly one of the three."""

    http: str | None = optional("Path at its port that answers GET with a code from 200 to 399.")
    tcp: Literal[True] | None = optional("Its port takes connections.")
    log: Annotated[Text, Field(min_length=1)] | None = optional("Text that it prints once it is ready.")

    _mapping = written_as("a mapping", READY)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, value: Any) -> Any:
        unknown = [way for way in value if way not in WAYS] if isinstance(value, dict) else ()
        message = "'{}' cannot show that a service is ready"
        if unknown:
            raise Violations(*(Violation(message.format(way), READY, (way,)) for way in unknown))
        return value

    def flaws(self) -> Iterator[Violation]:
        ways = [way for way in WAYS if getattr(self, way) is not None]
        if len(ways) != 1:
            yield Violation(f"expected one of http, tcp and log; found {' and '.join(ways) or 'none'}", READY)
        elif self.http is not None and not self.http.startswith("/"):
            yield Violation(f"expected a path such as /health, found {quote(self.http)}", READY, ("http",))


def _port(value: Any) -> Any:
    if value == "auto" or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise refuse(
        f"expected auto or a number, found {quote(value)}",
        "write auto: a free port is found for each replica",
    )


class Service(SpecModel):
    """What diel does for a service; `true` is short for one with the defaults."""

    port: Annotated[
        Literal["auto"] | Annotated[int, Field(ge=1, le=65535)],
        BeforeValidator(_port),
    ] = optional("Port that it listens at; auto finds a free one.", "auto")
    ready: Ready = optional("How it shows that it takes requests.", Ready.model_construct(tcp=True))
    replicas: int = optional("Tasks that run side by side and share the requests.", 1, ge=1, le=10_000)
    idle: Limit = optional(
        "It is stopped when none of its consumers has run for this long, and started again on demand.", 300.0
    )
    startup: Limit = optional("How long it may take to become ready.", 60.0)
    silence: Limit = optional("It is restarted when it has not answered its ready check for this long.", 30.0)
    restarts: int = optional("How often a replica that died or fell silent is restarted.", 3, ge=0, le=1000)
    stop: Limit = optional("How long it may take to end after SIGTERM, before SIGKILL.", 10.0)
    shared_cores: bool = optional(
        "On a machine without a scheduler it holds no cores of its own: it works while its "
        "consumers wait for it.",
        False,
    )
    reload: Annotated[str | None, WithJsonSchema(_PATH_OR_TRUE)] = optional(
        "Path to which newer inputs are sent by POST while it runs; true is short for /reload."
    )

    _short = written_as("true or a mapping", WRITTEN, true=True)

    @model_validator(mode="before")
    @classmethod
    def _true_reload(cls, value: Any) -> Any:
        reload = value.get("reload") if isinstance(value, dict) else None
        return {**value, "reload": "/reload" if reload else None} if isinstance(reload, bool) else value

    def flaws(self) -> Iterator[Violation]:
        if self.port != "auto" and self.replicas > 1:
            message = f"{self.replicas} replicas cannot all listen at port {self.port} of one machine"
            yield Violation(message, "write port: auto", ("port",))
        if self.reload is not None and not self.reload.startswith("/"):
            message = f"expected true or a path such as /reload, found {quote(self.reload)}"
            yield Violation(message, "write reload: true", ("reload",))


def never_ends(stage: SpecModel) -> bool:
    """Return whether the tasks of a stage stay up until they are stopped."""
    return getattr(stage, "service", None) is not None


def service_flaws(stage: SpecModel, *, beside: bool, mpi: bool) -> Iterator[Violation]:
    """Yield the flaws of a stage that do not go with a service."""
    for key in ("outputs", "publishes", "max_failures", "timeout", "checkpoint", "surrogate"):
        if getattr(stage, key):
            message = "a service has no result: it stays up until its consumers have ended"
            yield Violation(message, "drop it, or drop `service`", (key,))
    if beside:
        hint = "drop it: a service starts when its first consumer is ready"
        yield Violation("a service is placed when it is needed", hint, ("beside",))
    if mpi:
        hint = "drop `ranks`, and let the command start its own"
        yield Violation("a service is one process", hint, ("resources", "ranks"))


def _above_zero(most: float, expected: str, hint: str) -> BeforeValidator:
    """Make a validator of a number above zero, and at most so much."""

    def check(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise refuse(f"expected a number, found {quote(value)}", hint)
        if not 0 < value <= most:
            raise refuse(f"expected {expected}, found {quote(value)}", hint)
        return float(value)

    return BeforeValidator(check)


_TOLERANCE = "write a number above 0, in the unit of the output; .inf takes every answer"
_SHARE = "write a number above 0 and at most 1: 0.05 simulates one in twenty"


class Surrogate(SpecModel):
    """Whom a stage's tasks ask, and how sure the answer must be."""

    service: Text = Field(description="The service that is asked: it returns a value and its uncertainty.")
    tolerance: Annotated[float, _above_zero(math.inf, "more than zero", _TOLERANCE)] = Field(
        description="Largest uncertainty at which the answer is the task's result, in the output's unit."
    )
    relative: bool = optional("Whether the tolerance is a fraction of the value instead.", False)
    inputs: Unique[Name] = optional("Parameters that are sent; all numbers if absent.", ())
    outputs: Unique[Name] = optional("Values that are answered; the stage's only value if absent.", ())
    audit: Annotated[float, _above_zero(1, "a share", _SHARE)] | None = optional(
        "Share of the answered tasks that are simulated all the same, to see how far answers are off."
    )
    seed: int = optional("Draws the tasks that are audited.", 0)
    timeout: Limit = optional("How long a task waits for an answer before it simulates.", 10.0)

    _short = written_as("a mapping", "write {service: NAME, tolerance: 0.02}")
