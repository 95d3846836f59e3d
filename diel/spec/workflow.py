"""A workflow: the whole file."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from diel.errors import did_you_mean
from diel.spec.axis import Axis
from diel.spec.hyperparameter import Hyperparameter
from diel.spec.model import Flaw, Flaws, Label, Model, found, refuse
from diel.spec.shell import Shell
from diel.spec.stage import Stage


def _version(value: Any) -> Any:
    if value != 1 or isinstance(value, bool | float):
        raise refuse(f"expected version 1 of the file format, found {found(value)}", "write `diel: 1`")
    return value


class Workflow(Model):
    """Simulations, trainings and inferences as a graph of stages over named axes."""

    diel: Annotated[Literal[1], BeforeValidator(_version)] = Field(description="Version of the file format.")
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=100, description="Names the runs.")
    description: str = Field(default="", description="What it is for, for readers.")
    shell: Shell = Field(
        default=None, description="What runs commands that are texts: bash, sh, or a list of words."
    )
    hyperparameters: dict[Label, Hyperparameter] = Field(
        default_factory=dict, description="The shared registry: typed, bounded, with defaults."
    )
    axes: dict[Label, Axis] = Field(default_factory=dict, description="What repeats.")
    stages: dict[Label, Stage] = Field(min_length=1, description="The nodes of the graph.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        flaws = [*_clashes(self), *_unknown_hyperparameters(self)]
        if flaws:
            raise Flaws(*flaws)
        return self if self.shell is None else self._with_shell(self.shell)

    def _with_shell(self, shell: str | tuple[str, ...]) -> Self:
        """The same, each stage with the shell that it uses."""
        stages = {
            name: stage.model_copy(update={"shell": shell})
            if stage.shell is None and isinstance(stage.command, str)
            else stage
            for name, stage in self.stages.items()
        }
        return self.model_copy(update={"stages": stages})


def _clashes(workflow: Workflow) -> Iterable[Flaw]:
    """Names that would mean two things in an expression."""
    hint = "rename one of them: `{0}.x` and `{0}` would be two things in an expression"
    for label, axis in workflow.axes.items():
        if label in workflow.stages:
            yield Flaw(f"'{label}' is both an axis and a stage", hint.format(label), ("axes", label))
        for name in axis.given_parameters:
            if name in workflow.stages and name != label:
                message = f"axis '{label}' gives a parameter '{name}', and '{name}' is a stage"
                yield Flaw(message, hint.format(name), ("axes", label))


def _unknown_hyperparameters(workflow: Workflow) -> Iterable[Flaw]:
    for label, axis in workflow.axes.items():
        if axis.search is not None:
            key: tuple[str, ...] = ("axes", label, "search", "parameters")
            names = axis.search.parameters
        elif axis.sample is not None and isinstance(axis.sample.parameters, tuple):
            key = ("axes", label, "sample", "parameters")
            names = axis.sample.parameters
        else:
            continue
        for number, name in enumerate(names):
            flaw = _drawable(workflow, name, sampled=axis.sample is not None)
            if flaw is not None:
                yield Flaw(flaw.message, flaw.hint, (*key, number))


def _drawable(workflow: Workflow, name: str, sampled: bool) -> Flaw | None:
    known = workflow.hyperparameters
    if name not in known:
        hint = did_you_mean(name, known) or f"hyperparameters: {', '.join(known) or 'none'}"
        return Flaw(f"no hyperparameter '{name}'", hint)
    given = known[name]
    numeric = given.type in ("int", "float")
    if (sampled and not numeric) or not given.searchable:
        if numeric:
            return Flaw(f"hyperparameter '{name}' has no bounds to draw from", "give it `low` and `high`")
        message = f"hyperparameter '{name}' is of type {given.type}, which has no range to draw from"
        return Flaw(message, "" if sampled else "make it type choice, and list its `choices`")
    if numeric and given.log and given.low is None:
        return Flaw(f"hyperparameter '{name}' needs `low` for its logarithmic scale")
    return None
