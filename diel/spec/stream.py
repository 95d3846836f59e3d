"""A stream: an output that can be read while its producer still runs."""

from diel.spec.model import SpecModel, optional, written_as


class Stream(SpecModel):
    """Items that tasks put while they run; `true` is short for a stream with the defaults."""

    buffer: int = optional(
        "The most items that wait for a reader; beyond that, `put` waits.", 1000, ge=1, le=10**9
    )
    replay: bool = optional("Whether late readers get all items, which stay on disk.", True)

    _short = written_as("true or a mapping", "write {stream: true}, or {stream: {buffer: 1000}}", true=True)
