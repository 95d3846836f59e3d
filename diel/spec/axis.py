"""An axis: an ordered sequence of points, each giving one or more parameters a value."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, Strict

from diel.spec.model import Duration, Items, Json, Model, Name, Number


class SampleRange(Model):
    """The range that one sampled parameter is drawn from."""

    low: Number = Field(description="Smallest value.")
    high: Number = Field(description="Largest value.")
    log: bool = Field(False, description="Whether to draw on a logarithmic scale.")
    type: Literal["int", "float"] = Field("float", description="Type of the values drawn.")


class Sample(Model):
    """Points drawn from ranges: a design of experiments."""

    method: Literal["lhs", "sobol", "uniform"] = Field(
        description="Latin hypercube, scrambled Sobol sequence, or independent uniform draws."
    )
    points: int = Field(ge=1, description="How many points to draw.")
    seed: int = Field(0, ge=0, description="Seed of the random numbers.")
    parameters: Items[Name] | dict[Name, SampleRange] = Field(
        description="Ranges by parameter name, or names of hyperparameters that have bounds."
    )


class FileForm(Model):
    """Points read from a CSV or JSONL file: one point a row."""

    path: str = Field(min_length=1, description="The file, relative to the workflow file.")
    columns: Items[Name] | None = Field(None, description="Columns to use; all where absent.")


def _path_to_file(value: Any) -> Any:
    return {"path": value} if isinstance(value, str) else value


RangeBounds = int | Items[int]
LinearSpace = Annotated[tuple[Number, Number, int], Strict(False)]


class StaticForm(Model):
    """One of the forms that list the values of a single parameter."""

    values: Items[Json] | None = Field(None, description="The values themselves.")
    linspace: LinearSpace | None = Field(
        None, description="[first, last, count]: evenly spaced, both ends included."
    )
    logspace: LinearSpace | None = Field(
        None,
        description="[first, last, count]: evenly spaced powers of ten, first and last being "
        "exponents: [-3, 0, 4] gives 0.001, 0.01, 0.1, 1.",
    )
    range: RangeBounds | None = Field(
        None, description="Whole numbers as Python's range: 4, [0, 4] or [0, 10, 2]."
    )


class Search(Model):
    """Points proposed while running, from a metric."""

    sampler: Literal["random", "grid", "tpe", "cmaes", "nsga2", "gp", "qmc"] = Field(
        "tpe", description="How the next trial is proposed."
    )
    trials: int = Field(ge=1, description="How many trials to run.")
    parallel: int = Field(1, ge=1, description="How many trials run at the same time.")
    seed: int | None = Field(None, ge=0, description="Seed of the sampler.")
    minimize: str | Items[str] | None = Field(None, description="STAGE.VALUE to make small.")
    maximize: str | Items[str] | None = Field(None, description="STAGE.VALUE to make large.")
    parameters: Items[Name] = Field(min_length=1, description="Hyperparameters to vary.")
    pruner: Literal["median", "hyperband", "none"] = Field(
        "none", description="When to stop a trial early."
    )
    until: str | None = Field(None, description="Expression: stop when it holds.")
    timeout: Duration | None = Field(None, description="Longest time of the search.")


class Loop(Model):
    """Points that follow one another."""

    max: int = Field(ge=1, description="Most rounds to run.")
    until: str | None = Field(None, description="Expression over values of the round: stop when it holds.")


class Axis(StaticForm):
    """An axis: exactly one of the forms, and the columns of a derived one where it matters."""

    zip: dict[Name, Items[Json] | StaticForm] | None = Field(
        None, description="Several parameters that vary together; all of the same length."
    )
    file: Annotated[FileForm | None, BeforeValidator(_path_to_file)] = Field(
        None, description="A CSV or JSONL file: one point a row, one parameter a column."
    )
    sample: Sample | None = Field(None, description="Points drawn from ranges.")
    source: str | None = Field(
        None,
        alias="from",
        description="STAGE.OUTPUT: points known once that stage has made them "
        "(a list, or a CSV or JSONL file: one point a row).",
    )
    columns: Items[Name] | None = Field(
        None, description="Parameters that each point of a derived axis gives; checked when known."
    )
    search: Search | None = Field(None, description="Points proposed by a hyperparameter search.")
    loop: Loop | None = Field(None, description="Rounds that follow one another.")
    description: str = Field("", description="What it means, for readers.")
