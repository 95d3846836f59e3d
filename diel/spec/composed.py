"""A workflow as it is once the others that it includes are part of it."""

from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from diel.spec.forms import Axis, AxisForm
from diel.spec.hyperparameter import Hyperparameter
from diel.spec.model import Later, WrittenAs, free_name
from diel.spec.stage import Stage
from diel.spec.workflow import Workflow, WrittenStage

Dotted = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z]\w*(\.[A-Za-z]\w*)*$", max_length=200),
    AfterValidator(free_name),
]
"""A name with those of the workflows that include what it names: `relax.scf`."""


class Composed(Workflow):
    """One with names such as `relax.scf`, which no file can write itself."""

    hyperparameters: dict[Dotted, Later[Hyperparameter]] = Field(default_factory=dict)
    axes: dict[Dotted, Annotated[Axis, WrittenAs(AxisForm, "axis")]] = Field(default_factory=dict)
    stages: dict[Dotted, Stage] = Field(min_length=1)
    templates: dict[Dotted, WrittenStage] = Field(default_factory=dict)
