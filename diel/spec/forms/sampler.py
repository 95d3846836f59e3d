"""How a search proposes its trials."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, GetJsonSchemaHandler
from pydantic_core import CoreSchema

from diel.extensions import SEARCHERS, names_in
from diel.spec.forms.named import Named, or_name, refuse_name
from diel.spec.model import Flaw, optional

SAMPLERS = ("random", "grid", "tpe", "cmaes", "nsga2", "gp", "qmc", "pbt")
"""Optuna's samplers, and diel's `pbt`: it knows what each needs and accepts. Packages add others."""


def known() -> tuple[str, ...]:
    return (*SAMPLERS, *(name for name in names_in(SEARCHERS) if name not in SAMPLERS))


def _known(text: str) -> str:
    if text in SAMPLERS or text in known():
        return text
    raise refuse_name(known())


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

    name: Annotated[str, AfterValidator(_known), _Listed()] = optional("Which one.", "tpe")
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
