"""An input: where a stage takes a value or a file from, and along which edge rule."""

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from diel.spec.contract import Expected
from diel.spec.model import Flaw, Flaws, Json, found, refuse
from diel.spec.sharding import Sharding


def _words(at: dict[str, Any]) -> set[str]:
    return {point for point in at.values() if isinstance(point, str)}


class Input(Expected):
    """An edge of the graph; `STAGE.OUTPUT` alone is short for `{from: STAGE.OUTPUT}`.

    What it expects of the data has to be promised where the data is made.
    """

    source: str = Field(alias="from", min_length=1, description="STAGE.OUTPUT, or hp.NAME.")
    at: dict[str, Json] = Field(
        default_factory=dict,
        description="Picks a point of an axis instead of gathering: a value, `best` (search), "
        "`last` or `previous` (loop).",
    )
    min_success: float = Field(
        default=1.0, gt=0, le=1, description="Share of the gathered tasks that must succeed to go on."
    )
    initially: Json = Field(
        default=None, description="Value in the first round, with `at: {AXIS: previous}`."
    )
    share: bool = Field(
        default=False,
        description="Of a stream: whether the stage's tasks share the items, each going to one of them.",
    )
    stage: Literal["node"] | None = Field(
        default=None, description="`node`: it is brought to the node's own disk, once for all tasks there."
    )
    shard: Sharding | None = Field(
        default=None,
        description="Shares its items out: to MPI ranks (`rank`), or to the stage's tasks (`task`).",
    )

    @property
    def is_plain(self) -> bool:
        """Whether nothing is said of it but where it comes from."""
        return self.model_fields_set <= {"source", "at", "initially", "min_success"}

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"from": value}
        if not isinstance(value, dict | cls):
            raise refuse(f"expected STAGE.OUTPUT, found {found(value)}", "for instance `simulate.energy`")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if "initially" in self.model_fields_set and not {"previous", "last"} & _words(self.at):
            hint = "add `at: {AXIS: previous}`, or drop `initially`"
            raise refuse("`initially` is the value before the first round of a loop", hint, "initially")
        if self.columns is not None and (self.dtype is not None or self.shape is not None):
            other = "dtype" if self.dtype is not None else "shape"
            raise refuse(f"`{other}` is about an array, `columns` about a table", "keep one of them", other)
        if self.source.startswith("hp.") and self.expectations:
            hint = "drop it: a hyperparameter has its type and bounds in the registry"
            raise Flaws(
                *(Flaw(f"`{name}` is about what a stage makes", hint, (name,)) for name in self.expectations)
            )
        return self
