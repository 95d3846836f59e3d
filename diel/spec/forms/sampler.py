"""How a search proposes its trials, and what stops one early: each by its name, with options of its own."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticKnownError

from diel.extensions import SEARCHERS, names_in
from diel.spec.model import Flaw, SpecModel, found, optional, refuse


class Named(SpecModel):
    """One of several things by its name, and what it shall do otherwise than by its defaults."""

    options: ClassVar[Mapping[str, tuple[str, ...]]]
    """The options that each takes."""

    name: str

    def flaws(self) -> Iterator[Flaw]:
        for word in type(self).model_fields:
            takers = [name for name, words in self.options.items() if word in words]
            if takers and self.name not in takers and getattr(self, word) is not None:
                why = f"it goes with {' and '.join(takers)}"
                yield Flaw(f"`{word}` means nothing here: {why}", "drop it", (word,))

    @property
    def arguments(self) -> dict[str, Any]:
        """The options that are given."""
        given = {word: getattr(self, word) for word in self.options.get(self.name, ())}
        return {word: value for word, value in given.items() if value is not None}


def accept_name(text: str, names: tuple[str, ...]) -> str:
    """Return one of some names. Raises PydanticKnownError for another."""
    if text not in names:
        raise PydanticKnownError("literal_error", {"expected": ", ".join(f"'{name}'" for name in names)})
    return text


def or_name(model: type[Named], names: Callable[[], tuple[str, ...]], example: str) -> BeforeValidator:
    """Takes the bare name, too."""

    def check(value: Any) -> Any:
        if isinstance(value, str):
            return {"name": accept_name(value, names())}
        if not isinstance(value, dict | model):
            raise refuse(f"expected a name or a mapping, found {found(value)}", f"for instance {example}")
        return value

    return BeforeValidator(check)


SAMPLERS = ("random", "grid", "tpe", "cmaes", "nsga2", "gp", "qmc", "pbt")
"""Optuna's samplers, and diel's `pbt`: it knows what each needs and accepts. Packages add others."""


def known() -> tuple[str, ...]:
    """Return the samplers that are installed here."""
    return (*SAMPLERS, *(name for name in names_in(SEARCHERS) if name not in SAMPLERS))


def _known(text: str) -> str:
    return accept_name(text, SAMPLERS if text in SAMPLERS else known())


class _Listed:
    """In a schema: the names that are installed here."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, object]:
        return {"enum": list(known()), "type": "string"}


class Sampler(Named):
    """One of Optuna's samplers, with its options under Optuna's names, or one that a package brings."""

    options: ClassVar = {
        "tpe": ("multivariate", "group", "constant_liar", "n_ei_candidates"),
        "cmaes": ("with_margin", "use_separable_cma", "lr_adapt"),
        "nsga2": ("crossover_prob", "swapping_prob", "mutation_prob"),
        "gp": ("deterministic_objective",),
        "qmc": ("qmc_type", "scramble"),
        "pbt": ("share", "factor", "resample"),
    }

    name: Annotated[
        str,
        AfterValidator(lambda name: accept_name(name, SAMPLERS if name in SAMPLERS else known())),
        _Listed(),
    ] = optional("Which one.", "tpe")
    multivariate: bool | None = optional("Whether hyperparameters are drawn together.")
    group: bool | None = optional("With `multivariate`: those together that trials have together.")
    constant_liar: bool | None = optional("Whether running trials count as bad ones.")
    n_ei_candidates: int | None = optional("Draws of which the best is taken.", ge=1, le=10_000)
    with_margin: bool | None = optional("Whether whole numbers keep some scatter.")
    use_separable_cma: bool | None = optional("Whether each hyperparameter varies by itself.")
    lr_adapt: bool | None = optional("Whether its learning rates follow the noise.")
    crossover_prob: float | None = optional("How often parents are crossed.", ge=0, le=1)
    swapping_prob: float | None = optional("How often each hyperparameter is swapped then.", ge=0, le=1)
    mutation_prob: float | None = optional("How often each hyperparameter is drawn anew.", ge=0, le=1)
    deterministic_objective: bool | None = optional("Whether the same point gives the same value.")
    qmc_type: Literal["sobol", "halton"] | None = optional("Which sequence.")
    scramble: bool | None = optional("Whether the sequence is scrambled; `true` by default.")

    share: float | None = optional("Members of a generation that go on from the best ones.", gt=0, le=0.5)
    factor: float | None = optional("By what these multiply or divide its hyperparameters.", gt=1, le=1000)
    resample: float | None = optional("How often they draw one anew instead.", ge=0, le=1)

    def flaws(self) -> Iterator[Flaw]:
        yield from super().flaws()
        ways = [word for word in self.options["cmaes"] if getattr(self, word)]
        if len(ways) > 1:
            yield Flaw(f"cmaes cannot do {' and '.join(ways)} together", "drop one of them", (ways[1],))
        if self.group and self.multivariate is False:
            yield Flaw("`group` needs `multivariate`", "write multivariate: true", ("group",))


SamplerOrName = Annotated[Sampler, or_name(Sampler, known, "nsga2, or {name: tpe, multivariate: true}")]


_Name = Literal["median", "percentile", "hyperband", "asha", "none"]
_RANKS = ("n_startup_trials", "n_warmup_steps", "interval_steps", "n_min_trials")


class Pruner(Named):
    """One of Optuna's pruners, with its options under Optuna's names."""

    options: ClassVar = {
        "median": _RANKS,
        "percentile": ("percentile", *_RANKS),
        "hyperband": ("min_resource", "max_resource", "reduction_factor"),
        "asha": ("min_resource", "reduction_factor", "min_early_stopping_rate"),
    }

    name: _Name = optional("Which one.", "none")
    percentile: float | None = optional("How many per cent of the trials go on.", ge=0, le=100)
    n_startup_trials: int | None = optional("Trials that end before one is stopped.", ge=0)
    n_warmup_steps: int | None = optional("Steps of a trial before it can be stopped.", ge=0)
    interval_steps: int | None = optional("Steps between two looks at a trial.", ge=1)
    n_min_trials: int | None = optional("Trials that reported at a step before it is judged.", ge=1)
    min_resource: int | None = optional("Steps that each trial may do.", ge=1)
    max_resource: int | None = optional("Steps of a whole trial; by default those of the first.", ge=1)
    reduction_factor: int | None = optional("One of so many trials goes on at each rung.", ge=2)
    min_early_stopping_rate: int | None = optional("Rungs that are left out at the beginning.", ge=0)

    def flaws(self) -> Iterator[Flaw]:
        yield from super().flaws()
        if self.name == "percentile" and self.percentile is None:
            yield Flaw("percentile needs `percentile`", "write percentile: 25 for the best quarter")
        if (self.max_resource or math.inf) < (least := self.min_resource or 1):
            said = f"max_resource {self.max_resource} is below min_resource {least}"
            yield Flaw(said, "a whole trial has at least the steps that each may do")


PrunerOrName = Annotated[
    Pruner, or_name(Pruner, lambda: get_args(_Name), "median, or {name: hyperband, reduction_factor: 4}")
]
