"""A workflow: the whole file."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from diel.spec.axis import Axis
from diel.spec.hyperparameter import Hyperparameter
from diel.spec.model import Model, Name
from diel.spec.stage import Stage


class Workflow(Model):
    """Simulations, trainings and inferences as a graph of stages over named axes."""

    diel: Literal[1] = Field(description="Version of the file format.")
    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=100, description="Names the runs."
    )
    description: str = Field("", description="What it is for, for readers.")
    hyperparameters: dict[Name, Hyperparameter] = Field(
        default_factory=dict, description="The shared registry: typed, bounded, with defaults."
    )
    axes: dict[Name, Axis] = Field(default_factory=dict, description="What repeats.")
    stages: dict[Name, Stage] = Field(min_length=1, description="The nodes of the graph.")
