"""A stage: one module or command, run over named axes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from diel.spec.input import Input
from diel.spec.model import Duration, Items, Json, Model, Name
from diel.spec.output import Output
from diel.spec.resources import Resources

Kind = Literal["simulation", "training", "inference", "analysis"]


class Retries(Model):
    """How often to try again, and how long to wait before."""

    limit: int = Field(0, ge=0, le=1000, description="Attempts after the first.")
    backoff: Duration = Field(
        1.0, ge=0, description="Wait before the first retry; doubles with each, up to 5 minutes."
    )


def _count_to_retries(value: Any) -> Any:
    return {"limit": value} if isinstance(value, int) and not isinstance(value, bool) else value


class Stage(Model):
    """A node of the graph. Its tasks are the product of its axes' points."""

    description: str = Field("", description="What it does, for readers.")
    kind: Kind | None = Field(None, description="The module's kind where absent.")
    module: str | None = Field(
        None, min_length=1, description="Python function: `simulation.ising` or `package.module:function`."
    )
    command: str | Items[Json] | None = Field(
        None, description="Any program: a list of words (no shell), or a string for /bin/sh."
    )
    over: Items[str] = Field((), description="Axes that the stage runs over.")
    inputs: dict[Name, Input] = Field(default_factory=dict, description="Data from other stages.")
    after: Items[str] = Field((), description="Stages to wait for without taking data.")
    params: dict[Name, Json] = Field(default_factory=dict, description="Parameters of the module.")
    files: dict[Name, str] = Field(
        default_factory=dict, description="Files to read, relative to the workflow file."
    )
    outputs: dict[Name, Output] = Field(default_factory=dict, description="What a command makes.")
    resources: Resources = Field(default_factory=Resources, description="What one task asks for.")
    env: dict[str, str | int | float] = Field(
        default_factory=dict, description="Environment variables of the stage's tasks."
    )
    retries: Annotated[Retries, BeforeValidator(_count_to_retries)] = Field(
        default_factory=Retries, description="Attempts after the first: a number, or limit and backoff."
    )
    timeout: Duration | None = Field(None, description="Longest run time; the task is killed after it.")
    when: str | bool | None = Field(None, description="Expression: the task is skipped where it is false.")
