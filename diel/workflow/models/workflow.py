"""A workflow: the whole file."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from diel.workflow.models.environment import Environment
from diel.workflow.models.forms import Axis, AxisForm
from diel.workflow.models.forms.rows import DerivedAxis
from diel.workflow.models.forms.sample import Sample, seed_of
from diel.workflow.models.hyperparameter import Hyperparameter
from diel.workflow.models.model import (
    InnerName,
    Json,
    Label,
    Later,
    Name,
    SpecModel,
    StoredAs,
    Text,
    Violation,
    optional,
    quote,
    refuse,
    written_as,
)
from diel.workflow.models.policy import share_flaws
from diel.workflow.models.stage import Shell, Stage


def _version(value: Any) -> Any:
    if value != 1 or isinstance(value, bool | float):
        raise refuse(f"expected version 1 of the file format, found {quote(value)}", "write `diel: 1`")
    return value


class PartialStage(Stage):
    """Part of a stage: what is missing, the stages say that extend it."""

    def flaws(self) -> Iterator[Violation]:
        yield from ()

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Any:
        """Refuse wrong keys, whatever is missing."""
        try:
            return super().model_validate(obj, **options)
        except ValidationError as error:
            if any(detail["type"] != "missing" for detail in error.errors()):
                raise
            return obj


SECTIONS = ("hyperparameters", "axes", "environments", "templates", "stages")
"""The keys that a workflow shares with those that include it."""


class Include(SpecModel):
    """Another workflow, whose stages, axes and hyperparameters become part of this one under a name."""

    file: Text = Field(
        min_length=1,
        description="The workflow file, relative to this one, or PACKAGE:NAME of one that ships.",
    )
    axes: dict[InnerName, Json] = Field(
        default_factory=dict, description="Its axes: the name of an axis here, a list of values, or a form."
    )
    hyperparameters: dict[InnerName, Json] = Field(
        default_factory=dict,
        description="Its hyperparameters: hp.NAME of one here, a default, or changed keys.",
    )
    stages: dict[InnerName, Later[PartialStage]] = Field(
        default_factory=dict, description="What its stages have otherwise than in its file, as by `extends`."
    )

    _short = written_as("a workflow file", "for instance `relax.yaml`", text="file")


class Workflow(SpecModel):
    """Simulations, trainings and inferences as a graph of stages over named axes."""

    diel: Annotated[Literal[1], BeforeValidator(_version)] = Field(description="Version of the file format.")
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=100, description="Names the runs.")
    description: str = optional("What it is for, for readers.", "")
    shell: Shell = optional("What runs commands that are texts: bash, sh, or a list of words.")
    seed: int = optional("Draws the points of `sample` axes that have no seed of their own.", 0, ge=0)
    hyperparameters: dict[Label, Later[Hyperparameter]] = Field(
        default_factory=dict, description="The shared registry: typed, bounded, with defaults."
    )
    axes: dict[Label, Annotated[Axis, StoredAs(AxisForm, "axis")]] = Field(
        default_factory=dict, description="What repeats."
    )
    environments: dict[Name, Later[Environment]] = Field(
        default_factory=dict, description="Environments of programs, by name: modules, packages, containers."
    )
    stages: dict[Label, Stage] = Field(min_length=1, description="The nodes of the graph.")
    templates: dict[Label, Later[PartialStage]] = Field(
        default_factory=dict, description="Parts of stages, which stages extend."
    )
    include: dict[Label, Later[Include]] = Field(
        default_factory=dict, description="Other workflows, by the name under which their stages are here."
    )

    @property
    def adaptive(self) -> bool:
        """Whether it has a search or a loop."""
        return any(axis.adaptive for axis in self.axes.values())

    def any_stage(self, uses: Callable[[Stage], object]) -> bool:
        """Return whether any stage uses a feature; unused ones need no check."""
        return any(uses(stage) for stage in self.stages.values())

    def flaws(self) -> Iterator[Violation]:
        hint = "rename one of them: `{0}.x` and `{0}` would be two things in an expression"
        for label, axis in self.axes.items():
            if label in self.stages:
                yield Violation(f"'{label}' is both an axis and a stage", hint.format(label), ("axes", label))
            for name in axis.gives or ():
                if name in self.stages and name != label:
                    message = f"axis '{label}' gives a parameter '{name}', and '{name}' is a stage"
                    yield Violation(message, hint.format(name), ("axes", label))
        for name, stage in self.stages.items():
            if stage.max_failures is not None:
                yield from share_flaws(name, stage.over, self.axes)
        for label, axis in self.axes.items():
            for flaw in axis.registry_flaws(self.hyperparameters):
                yield flaw._replace(key=("axes", label, axis.word, *flaw.key))

    @model_validator(mode="after")
    def _whole_axes(self) -> Self:
        """Give each design without a seed one of its own, and derived axes the types of their contracts."""
        for label, axis in self.axes.items():
            if isinstance(axis, Sample) and axis.seed is None:
                self.axes[label] = axis.model_copy(update={"seed": seed_of(self.seed, label)})
            elif isinstance(axis, DerivedAxis) and (columns := self._promised(axis)):
                self.axes[label] = replace(axis, types={**columns, **axis.types}, promised=columns)
        return self

    def units_of(self, stage: str, name: str) -> str | dict[str, str] | None:
        """Return the units of an output, or an axis' parameter: those of the output that made the axis."""
        if name in self.stages[stage].outputs:
            return self.stages[stage].outputs[name].units
        return self._units_of_parameter(stage, name)

    def units_read(self, reader: str, chain: Sequence[str]) -> str | dict[str, str] | None:
        """Return the units of what a stage's expressions read by a dotted name; of an `until` without one."""
        if chain[0] in self.stages:
            return self.units_of(*chain) if len(chain) == 2 else None
        own = reader and (len(chain) == 1 or (len(chain) == 2 and chain[0] in self.stages[reader].over))
        return self._units_of_parameter(reader, chain[-1]) if own else None

    def _units_of_parameter(self, stage: str, name: str) -> str | dict[str, str] | None:
        for axis in (self.axes[label] for label in self.stages[stage].over if label in self.axes):
            if isinstance(axis, DerivedAxis) and (axis.gives is None or name in (axis.gives or (name,))):
                maker, _, output = axis.output.rpartition(".")
                source = self.stages[maker].outputs.get(output) if maker in self.stages else None
                units = None if source is None else source.units
                if units is not None:
                    return units if isinstance(units, str) else units.get(name)
        return None

    def _promised(self, axis: DerivedAxis) -> dict[str, str]:
        """Return the types of columns that the maker of an axis promises."""
        stage, _, output = axis.output.rpartition(".")
        source = self.stages[stage].outputs.get(output) if stage in self.stages else None
        return dict(source.columns or {}) if source is not None else {}

    @model_validator(mode="after")
    def _shared_shell(self) -> Self:
        """Give each stage that needs a shell and names none the workflow's."""
        stages = {
            name: stage.model_copy(update={"shell": self.shell})
            for name, stage in self.stages.items()
            if self.shell is not None and stage.shell is None and isinstance(stage.command, str)
        }
        return self.model_copy(update={"stages": self.stages | stages}) if stages else self
