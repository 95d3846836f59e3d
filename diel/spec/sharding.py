"""A sharding: how the items of an input are shared out."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from diel.spec.model import Model, found, refuse


class Sharding(Model):
    """Each rank or task gets a part of the items, in an order that is drawn anew for each epoch."""

    by: Literal["rank", "task"] = Field(
        description="`rank`: to the MPI ranks of a task; `task`: to the tasks that read the same."
    )
    seed: int = Field(default=0, ge=0, description="Of the orders: the same seed, the same orders.")

    @model_validator(mode="before")
    @classmethod
    def _from_word(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"by": value}
        if not isinstance(value, dict | cls):
            raise refuse(f"expected rank or task, found {found(value)}", "write shard: rank, or shard: task")
        return value
