"""A stream: an output that can be read while its producer still runs."""

from typing import Any

from pydantic import Field, model_validator

from diel.spec.model import Model, found, refuse

WRITTEN = "write {stream: true}, or {stream: {buffer: 1000}}"


class Stream(Model):
    """Items that tasks put while they run; `true` is short for a stream with the defaults."""

    buffer: int = Field(
        default=1000, ge=1, le=10**9, description="Items that may wait for a reader; then `put` waits."
    )
    replay: bool = Field(
        default=True, description="Whether readers that come late get all items, which stay on the disk."
    )

    @model_validator(mode="before")
    @classmethod
    def _from_true(cls, value: Any) -> Any:
        if value is True:
            return {}
        if not isinstance(value, dict | cls):
            raise refuse(f"expected true or a mapping, found {found(value)}", WRITTEN)
        return value
