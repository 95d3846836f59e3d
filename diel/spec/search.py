"""A search: an axis whose points are proposed while running, from a metric."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from diel.spec.condition import Condition
from diel.spec.model import (
    MAX_POINTS,
    Flaw,
    Flaws,
    Items,
    Limit,
    Model,
    Name,
    Number,
    Text,
    found,
    no_repeats,
    refuse,
)

Sampler = Literal["random", "grid", "tpe", "cmaes", "nsga2", "gp", "qmc"]
Pruner = Literal["median", "hyperband", "none"]


def _failures(value: Any) -> Any:
    """A number of trials, or a share of them."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_POINTS:
        return value
    if isinstance(value, float) and 0 < value <= 1:
        return value
    told = f"expected a number of trials such as 3, or a share of them such as 0.5, found {found(value)}"
    if isinstance(value, float) and value >= 0 and value.is_integer():
        raise refuse(told, f"write {int(value)}, without decimals, for a number of trials")
    raise refuse(told, "write failures: 0.5 for half of the trials, failures: 0 for none")


Failures = Annotated[
    int | float,
    BeforeValidator(_failures),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
            ]
        }
    ),
]

_SINGLE = ("cmaes",)
"""Samplers that take one objective."""


class Search(Model):
    """Trials, counted from 0: each sets some hyperparameters for the stages that run over the axis."""

    sampler: Sampler = Field(default="tpe", description="How the next trial is proposed.")
    trials: int | None = Field(
        default=None, ge=1, le=MAX_POINTS, description="Most trials to run; a grid's own size where absent."
    )
    parallel: int = Field(default=1, ge=1, le=MAX_POINTS, description="How many trials run at the same time.")
    seed: int | None = Field(default=None, ge=0, le=2**32 - 1, description="Seed of the sampler.")
    minimize: Text | Items[Text] | None = Field(default=None, description="STAGE.VALUE to make small.")
    maximize: Text | Items[Text] | None = Field(default=None, description="STAGE.VALUE to make large.")
    parameters: Annotated[Items[Name], Field(min_length=1), AfterValidator(no_repeats)] = Field(
        description="Hyperparameters to vary."
    )
    pruner: Pruner = Field(default="none", description="When to stop a trial early.")
    watch: Text | None = Field(
        default=None,
        description="STAGE.METRIC that the pruner judges by on the way; the objective where absent.",
    )
    startup: int | None = Field(
        default=None, ge=1, le=MAX_POINTS, description="Random trials before the sampler learns from them."
    )
    population: int | None = Field(
        default=None, ge=2, le=MAX_POINTS, description="Trials of one generation (nsga2, cmaes)."
    )
    until: Condition | None = Field(
        default=None, description="Expression over a trial's values: stop when it holds."
    )
    failures: Failures = Field(
        default=0.5, description="How many trials may fail: a number of them (3), or a share (0.5)."
    )
    timeout: Limit | None = Field(default=None, description="Longest time of the search.")
    core_hours: Number | None = Field(
        default=None, gt=0, description="Stop once the trials have used this many."
    )

    @property
    def objectives(self) -> tuple[tuple[str, bool], ...]:
        """Each STAGE.VALUE, and whether it is to be made small: `minimize` first."""
        return tuple(
            (reference, small)
            for given, small in ((self.minimize, True), (self.maximize, False))
            for reference in ((given,) if isinstance(given, str) else given or ())
        )

    def tolerates(self, failed: int, trials: int) -> bool:
        """Whether so many of at most `trials` trials may fail."""
        share = self.failures
        return failed <= (share if isinstance(share, int) else share * trials + 1e-9)

    @property
    def watched(self) -> str:
        """The STAGE.METRIC that the pruner judges by."""
        return self.watch or self.objectives[0][0]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        flaws = [*self._objective_flaws(), *self._stray_flaws()]
        if self.trials is None and self.sampler != "grid":
            flaws.append(Flaw("a search needs `trials`, the most that it may run", "write trials: 50"))
        if flaws:
            raise Flaws(*flaws)
        return self

    def _objective_flaws(self) -> list[Flaw]:
        if not self.objectives:
            hint = "write minimize: STAGE.VALUE or maximize: STAGE.VALUE"
            return [Flaw("a search needs a goal", hint)]
        names = [reference for reference, _ in self.objectives]
        flaws = [
            Flaw(f"'{name}' is an objective twice", "drop one of them", (_word(self, name),))
            for name in sorted({name for name in names if names.count(name) > 1})
        ]
        if len(names) > 1 and self.pruner != "none":
            hint = "drop the pruner: no trial of several objectives is bad before its end"
            flaws.append(Flaw("a pruner goes with one objective", hint, ("pruner",)))
        if len(names) > 1 and self.sampler in _SINGLE:
            hint = "nsga2, tpe, gp, random, qmc and grid take several"
            flaws.append(Flaw(f"{self.sampler} takes one objective", hint, ("sampler",)))
        return flaws

    def _stray_flaws(self) -> list[Flaw]:
        stray: dict[str, tuple[bool, str]] = {
            "watch": (self.pruner != "none", "it goes with a pruner"),
            "population": (self.sampler in ("nsga2", "cmaes"), "it goes with nsga2 and cmaes"),
            "startup": (self.sampler in ("tpe", "gp", "cmaes"), "it goes with tpe, gp and cmaes"),
        }
        given: dict[str, Any] = {word: getattr(self, word) for word in stray}
        return [
            Flaw(f"`{word}` means nothing here: {why}", "drop it", (word,))
            for word, (fits, why) in stray.items()
            if given[word] is not None and not fits
        ]


def _word(search: Search, name: str) -> str:
    return "minimize" if (name, True) in search.objectives else "maximize"
