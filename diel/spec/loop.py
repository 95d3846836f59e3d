"""A loop: an axis whose points follow one another."""

from pydantic import Field

from diel.spec.condition import Condition
from diel.spec.model import MAX_POINTS, Model


class Loop(Model):
    """Rounds, counted from 0."""

    max: int = Field(ge=1, le=MAX_POINTS, description="Most rounds to run.")
    until: Condition | None = Field(
        default=None, description="Expression over values of the round: stop when it holds."
    )
