"""A search: an axis whose points a sampler proposes during the run, by objectives."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from math import isfinite, prod
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, GetJsonSchemaHandler, WithJsonSchema
from pydantic_core import CoreSchema, PydanticKnownError

from diel.base.errors import counted, did_you_mean
from diel.base.extensions import SEARCHERS, names_in
from diel.workflow.models.forms.axis import Choice, Known
from diel.workflow.models.forms.loop import NumberedAxis, is_count
from diel.workflow.models.hyperparameter import Condition, Hyperparameter, undrawable
from diel.workflow.models.model import (
    MAX_POINTS,
    Items,
    Json,
    Limit,
    Number,
    SpecModel,
    Text,
    Violation,
    Violations,
    no_repeats,
    optional,
    quote,
    refuse,
)


class NamedChoice(SpecModel):
    """One of several things by its name, and what it shall do otherwise than by its defaults."""

    options: ClassVar[Mapping[str, tuple[str, ...]]]
    """The options that each takes."""

    name: str

    def flaws(self) -> Iterator[Violation]:
        for word in type(self).model_fields:
            takers = [name for name, words in self.options.items() if word in words]
            if takers and self.name not in takers and getattr(self, word) is not None:
                why = f"it goes with {' and '.join(takers)}"
                yield Violation(f"`{word}` means nothing here: {why}", "drop it", (word,))

    @property
    def arguments(self) -> dict[str, Any]:
        """The options that are given."""
        values = {word: getattr(self, word) for word in self.options.get(self.name, ())}
        return {word: value for word, value in values.items() if value is not None}


def accept_name(text: str, names: tuple[str, ...]) -> str:
    """Return one of some names. Raise PydanticKnownError for another."""
    if text not in names:
        raise PydanticKnownError("literal_error", {"expected": ", ".join(f"'{name}'" for name in names)})
    return text


def or_name(model: type[NamedChoice], names: Callable[[], tuple[str, ...]], example: str) -> BeforeValidator:
    """Take the bare name, too."""

    def check(value: Any) -> Any:
        if isinstance(value, str):
            return {"name": accept_name(value, names())}
        if not isinstance(value, dict | model):
            raise refuse(f"expected a name or a mapping, found {quote(value)}", f"for instance {example}")
        return value

    return BeforeValidator(check)


SAMPLERS = ("random", "grid", "tpe", "cmaes", "nsga2", "gp", "qmc", "pbt")
"""Optuna's samplers, and diel's `pbt`: it knows what each needs and accepts. Packages add others."""


def samplers() -> tuple[str, ...]:
    """Return the samplers that are installed here."""
    return (*SAMPLERS, *(name for name in names_in(SEARCHERS) if name not in SAMPLERS))


class _Listed:
    """In a schema: the names that are installed here."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, object]:
        return {"enum": list(samplers()), "type": "string"}


class Sampler(NamedChoice):
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
        AfterValidator(lambda text: text if text in SAMPLERS else accept_name(text, samplers())),
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

    def flaws(self) -> Iterator[Violation]:
        yield from super().flaws()
        ways = [word for word in self.options["cmaes"] if getattr(self, word)]
        if len(ways) > 1:
            yield Violation(f"cmaes cannot do {' and '.join(ways)} together", "drop one of them", (ways[1],))
        if self.group and self.multivariate is False:
            yield Violation("`group` needs `multivariate`", "write multivariate: true", ("group",))


SamplerOrName = Annotated[Sampler, or_name(Sampler, samplers, "nsga2, or {name: tpe, multivariate: true}")]

_Name = Literal["median", "percentile", "hyperband", "asha", "none"]
_RANKS = ("n_startup_trials", "n_warmup_steps", "interval_steps", "n_min_trials")


class Pruner(NamedChoice):
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

    def flaws(self) -> Iterator[Violation]:
        yield from super().flaws()
        if self.name == "percentile" and self.percentile is None:
            yield Violation("percentile needs `percentile`", "write percentile: 25 for the best quarter")
        if (self.max_resource or math.inf) < (least := self.min_resource or 1):
            message = f"max_resource {self.max_resource} is below min_resource {least}"
            yield Violation(message, "a whole trial has at least the steps that each may do")


PrunerOrName = Annotated[
    Pruner, or_name(Pruner, lambda: get_args(_Name), "median, or {name: hyperband, reduction_factor: 4}")
]


def _failures(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_POINTS:
        return value
    if isinstance(value, float) and 0 < value <= 1:
        return value
    hint = "write failures: 0.5 for half of the trials, failures: 0 for none"
    if isinstance(value, float) and value >= 0 and value.is_integer():
        hint = f"write {int(value)}, without decimals, for a number of trials"
    raise refuse(
        f"expected a number of trials such as 3, or a share of them such as 0.5, found {quote(value)}", hint
    )


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

_NEEDS = {"cmaes": ("cmaes",), "gp": ("scipy", "torch"), "qmc": ("scipy",)}
"""Packages of samplers, besides Optuna."""
_BOUND = re.compile(r"\s*([\w.]+)\s*(<=|>=)\s*([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)\s*")
_LEARNERS = ("tpe", "gp", "cmaes")
"""Samplers that learn from trials that they did not propose."""
DEFAULT_POPULATION = 10
"""Members of a population, if a file says nothing."""
_PLANE = 2
"""The fewest numbers for CMA-ES: the covariance of a single one says nothing."""


class Search(SpecModel, NumberedAxis):
    """A search's trials, counted from 0: each sets hyperparameters for the stages over the axis."""

    word: ClassVar[str] = "search"
    point: ClassVar[str] = "trial"
    picks: ClassVar[tuple[str, ...]] = ("best", "pareto", "top")
    pick_hint: ClassVar[str] = "use `best`, or the number of a trial"
    end_hint: ClassVar[str] = "`best` is the best one"
    bound: ClassVar[str] = "trials"

    sampler: SamplerOrName = Field(default_factory=Sampler, description="How the next trial is proposed.")
    trials: int | None = optional("Most trials to run; a grid's own size if absent.", ge=1, le=MAX_POINTS)
    parallel: int = optional("How many trials run at the same time.", 1, ge=1, le=MAX_POINTS)
    seed: int | None = optional("Seed of the sampler.", ge=0, le=2**32 - 1)
    minimize: Text | Items[Text] | None = optional("STAGE.VALUE to minimize.")
    maximize: Text | Items[Text] | None = optional("STAGE.VALUE to maximize.")
    parameters: Annotated[Items[Text], Field(min_length=1), AfterValidator(no_repeats)] = Field(
        description="Hyperparameters to vary."
    )
    pruner: PrunerOrName = Field(default_factory=Pruner, description="When to stop a trial early.")
    watch: Text | None = optional(
        "STAGE.METRIC that the pruner watches during a trial; the objective if absent."
    )
    enqueue: Annotated[Items[dict[Text, Json]], Field(min_length=1)] | None = optional(
        "Points to try first: values of some of the hyperparameters, or of all."
    )
    constraints: Annotated[Items[Text], Field(min_length=1)] | None = optional(
        "Bounds that a trial must keep to be the best: `STAGE.VALUE <= NUMBER`, or with >=."
    )
    warm_start: Text | None = optional(
        "A run whose trials the sampler learns from, or `project` for the workflow's earlier runs."
    )
    startup: int | None = optional("Random trials before the sampler learns from them.", ge=1, le=MAX_POINTS)
    population: int | None = optional("Trials of one generation (nsga2, cmaes, pbt).", ge=2, le=MAX_POINTS)
    until: Condition | None = optional("Expression over a trial's values: stop when it holds.")
    failures: Failures = optional("How many trials may fail: a number of them (3), or a share (0.5).", 0.5)
    timeout: Limit | None = optional("Longest time of the search, while its run goes on.")
    core_hours: Number | None = optional("Stop once the trials have used this many.", gt=0)

    @property
    def objectives(self) -> tuple[tuple[str, bool], ...]:
        """Each STAGE.VALUE, and whether it is minimized: `minimize` first."""
        return tuple(
            (reference, small)
            for names, small in ((self.minimize, True), (self.maximize, False))
            for reference in ((names,) if isinstance(names, str) else names or ())
        )

    @property
    def bounds(self) -> tuple[tuple[str, int, float], ...]:
        """Of each constraint STAGE.VALUE, 1 or -1, and the bound: what they give beyond it breaks it."""
        matches = (_BOUND.fullmatch(text) for text in self.constraints or ())
        return tuple((m[1], 1 if m[2] == "<=" else -1, float(m[3])) for m in matches if m is not None)

    @property
    def inherits(self) -> bool:
        """Whether trials can go on from others."""
        return self.sampler.name == "pbt" or self.sampler.name not in SAMPLERS

    def tolerates(self, failed: int, trials: int) -> bool:
        """Return whether `failed` of at most `trials` trials may fail."""
        share = self.failures
        return failed <= (share if isinstance(share, int) else share * trials + 1e-9)

    @property
    def prunes(self) -> bool:
        """Whether trials can be stopped early."""
        return self.pruner.name != "none"

    @property
    def watched(self) -> str:
        """The STAGE.METRIC that the pruner watches."""
        return self.watch or self.objectives[0][0]

    @property
    def sets(self) -> tuple[str, ...]:
        return self.parameters

    @property
    def may_end_early(self) -> bool:
        stops = (self.until, self.timeout, self.core_hours)
        return self.prunes or any(stop is not None for stop in stops)

    @property
    def needs(self) -> tuple[str, ...]:
        """The packages without which its trials cannot be made."""
        own = self.sampler.name not in SAMPLERS or self.sampler.name == "pbt"
        return () if own else ("optuna", *_NEEDS.get(self.sampler.name, ()))

    def size(self, registry: Known) -> int | None:
        """Return the most trials; for a grid, the size of its list, or None if it cannot be listed."""
        if self.sampler.name != "grid":
            return self.trials
        listed = [registry[name].listed for name in self.parameters]
        if any(values is None for values in listed):
            return None
        size = prod(len(values or ()) for values in listed)
        return min(size, self.trials or size)

    def at_once(self, most: int | None) -> int:
        return min(self.parallel, most or self.parallel)

    def describe(self, most: int | None) -> str:
        many = "as many trials" if most is None else counted(most, "trial")
        return f"up to {many}, {self.at_once(most):,} at a time"

    def judged_by(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        for word in ("minimize", "maximize"):
            value = getattr(self, word)
            if isinstance(value, str):
                yield (word,), value
            else:
                yield from (((word, place), reference) for place, reference in enumerate(value or ()))
        for place, (reference, _, _) in enumerate(self.bounds):
            yield ("constraints", place), reference
        if self.watch is not None:
            yield ("watch",), self.watch

    def choice(self, point: object) -> Choice | None:
        return Choice("previous") if point == "previous" else super().choice(point)

    def pick_flaws(self, label: str, point: object, inside: bool) -> Iterator[tuple[str, str]]:
        if point == "previous":
            if not inside:
                yield f"`previous` is for stages that run over '{label}' themselves", "`best` is the best one"
            elif not self.inherits:
                yield f"no trial of '{label}' goes on from another", "write sampler: pbt, or use a loop"
            return
        top = isinstance(point, dict) and "top" in point
        if not top and not (isinstance(point, str) and point in self.picks):
            yield from super().pick_flaws(label, point, inside)
        elif point == "top" or (isinstance(point, dict) and (not is_count(point["top"]) or len(point) > 1)):
            pairs = point.items() if isinstance(point, dict) else ()
            text = f"{{{', '.join(f'{key}: {value}' for key, value in pairs)}}}" if pairs else "top"
            yield f"expected {{top: N}} with a whole number above 0, found {text}", "for instance {top: 5}"
        elif inside:
            hint = f"which trial is best is known after the last: drop {label} from its `over`"
            word = "top" if top else point
            yield f"`{word}` is for stages that do not run over '{label}' themselves", hint
        elif (message := self.refusal(label, "top" if top else point)) is not None:
            yield message, "write best, or {top: N}" if point == "pareto" else "write pareto"

    def refusal(self, label: str, word: object) -> str | None:
        several = len(self.objectives) > 1
        if (word == "pareto") == several:
            return None
        if several:
            return f"'{label}' has several objectives, so no single best trial"
        return f"'{label}' has one objective, so one best trial"

    def registry_flaws(self, registry: Known) -> Iterator[Violation]:
        return undrawable(registry, self.parameters)

    def space_flaws(self, registry: Known) -> Iterator[Violation]:
        if self.sampler.name == "grid":
            for number, name in enumerate(self.parameters):
                if registry[name].listed is None:
                    message = f"a grid cannot list the values of '{name}'"
                    yield Violation(message, _listing(registry[name]), ("parameters", number))
        if self.sampler.name == "cmaes":
            numbers = [name for name in self.parameters if registry[name].type in ("int", "float")]
            if len(numbers) < _PLANE:
                message = f"cmaes needs at least two numbers to vary, found {', '.join(numbers) or 'none'}"
                yield Violation(message, "tpe, gp and random take any hyperparameters", ("sampler",))
        for place, point in enumerate(self.enqueue or ()):
            for name, value in point.items():
                for flaw in self._value_flaws(registry, name, value):
                    yield flaw._replace(key=("enqueue", place, name))

    def _value_flaws(self, registry: Known, name: str, value: Any) -> Iterator[Violation]:
        """Yield the flaws of a value to try first."""
        if name not in self.parameters:
            hint = did_you_mean(name, self.parameters) or f"they are {', '.join(self.parameters)}"
            yield Violation(f"'{name}' is none of the search's `parameters`", hint, at_key=True)
            return
        spec = registry[name]
        try:
            accepted = spec.accept(value)
        except Violations as error:
            yield from error.flaws
            return
        if spec.step and spec.searchable and abs(spec.nearest(accepted) - accepted) > 1e-9 * spec.step:
            yield Violation(f"expected {spec.low} and steps of {spec.step}, found {quote(value)}")

    def flaws(self) -> Iterator[Violation]:
        yield from self._objective_flaws()
        yield from self._trial_flaws()
        sampler = self.sampler.name
        foreign = sampler not in SAMPLERS
        fitting = {
            "watch": (self.prunes, "it goes with a pruner"),
            "population": (
                sampler in ("nsga2", "cmaes", "pbt") or foreign,
                "it goes with nsga2, cmaes and pbt",
            ),
            "startup": (sampler in ("tpe", "gp", "cmaes") or foreign, "it goes with tpe, gp and cmaes"),
        }
        for word, (fits, why) in fitting.items():
            if getattr(self, word) is not None and not fits:
                yield Violation(f"`{word}` means nothing here: {why}", "drop it", (word,))
        if sampler == "pbt" and self.prunes:
            yield Violation(
                "a pruner means nothing here: pbt gives bad trials up itself", "drop it", ("pruner",)
            )
        if sampler == "pbt" and self.parallel > (self.population or DEFAULT_POPULATION):
            hint = "a member does one trial after the other: let `parallel` be at most `population`"
            yield Violation(
                f"{self.parallel} trials at a time are more than its members", hint, ("parallel",)
            )
        if self.warm_start is not None and sampler not in _LEARNERS and not foreign:
            hint = f"write sampler: tpe, or drop it: {sampler} learns nothing from trials of others"
            yield Violation("`warm_start` goes with tpe, gp and cmaes", hint, ("warm_start",))
        if self.trials is None and self.sampler.name != "grid":
            yield Violation("a search needs `trials`, the most that it may run", "write trials: 50")

    def _trial_flaws(self) -> Iterator[Violation]:
        """Yield the flaws of the points to try first, and of the bounds on the best trial."""
        if self.trials is not None and len(self.enqueue or ()) > self.trials:
            many = counted(len(self.enqueue or ()), "point")
            yield Violation(f"{many} to try first are more than the {self.trials} trials", "", ("enqueue",))
        for place, point in enumerate(self.enqueue or ()):
            if not point:
                yield Violation(
                    "a point without a hyperparameter", "for instance {x: 0.5}", ("enqueue", place)
                )
        sampler = self.sampler.name
        if self.enqueue is not None and (sampler not in SAMPLERS or sampler in ("grid", "pbt")):
            why = "a grid has all its points" if sampler == "grid" else "it goes with Optuna's samplers"
            yield Violation(f"`enqueue` means nothing here: {why}", "drop it", ("enqueue",))
        for place, text in enumerate(self.constraints or ()):
            bound = _BOUND.fullmatch(text)
            if bound is None or not isfinite(float(bound[3])):
                hint = "for instance constraints: [train.parameters <= 10000]"
                yield Violation(
                    f"expected STAGE.VALUE <= NUMBER, found {text!r}", hint, ("constraints", place)
                )

    def _objective_flaws(self) -> Iterator[Violation]:
        names = [reference for reference, _ in self.objectives]
        if not names:
            hint = "write minimize: STAGE.VALUE or maximize: STAGE.VALUE"
            yield Violation("a search needs a goal", hint)
        for name in sorted({name for name in names if names.count(name) > 1}):
            word = "minimize" if (name, True) in self.objectives else "maximize"
            yield Violation(f"'{name}' is an objective twice", "drop one of them", (word,))
        if len(names) > 1 and self.prunes:
            hint = "drop the pruner: no trial of several objectives is bad before its end"
            yield Violation("a pruner goes with one objective", hint, ("pruner",))
        if len(names) > 1 and self.sampler.name in ("cmaes", "pbt"):
            hint = "nsga2, tpe, gp, random, qmc and grid take several"
            yield Violation(f"{self.sampler.name} takes one objective", hint, ("sampler",))


def _listing(spec: Hyperparameter) -> str:
    if spec.log:
        return "a logarithmic scale has no end of values: list them as type choice, or use another sampler"
    if spec.step is not None or spec.type == "int":
        return "there are more than a million: give it a larger `step`, or use another sampler"
    return "give it a `step`, or use another sampler"
