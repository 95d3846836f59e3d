"""An axis whose points are drawn from ranges: a design of experiments."""

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from diel.base.errors import DielError
from diel.base.values import as_float
from diel.workflow.models.forms.axis import Axis, Known, Points, bare
from diel.workflow.models.hyperparameter import undrawable
from diel.workflow.models.model import Label, Number, SpecModel, Unique, Violation, optional, quote, refuse

MAX_SAMPLES = 10_000_000
"""The most points that one design can draw: they are drawn and kept before the run."""


class SampleRange(SpecModel):
    """The range that one sampled parameter is drawn from."""

    low: Number = Field(description="Smallest value.")
    high: Number = Field(description="Largest value.")
    log: bool = optional("Whether to draw on a logarithmic scale.", False)
    type: Literal["int", "float"] = optional("Type of the values drawn.", "float")

    def flaws(self) -> Iterator[Violation]:
        for word in ("low", "high"):
            if not math.isfinite(as_float(getattr(self, word))):
                yield Violation("expected a finite number, found one beyond a double", "", (word,))
                return
        if not self.low < self.high:
            yield Violation(f"expected low < high, found low {self.low} and high {self.high}", "", ("low",))
        elif self.log and self.low <= 0:
            yield Violation(f"a logarithmic scale needs low > 0, found {self.low}", "", ("low",))
        elif self.type == "int" and math.ceil(self.low) > math.floor(self.high):
            yield Violation(f"no whole number lies between {self.low} and {self.high}", "", ("low",))


def _list_or_ranges(value: Any) -> Any:
    hint = "write {NAME: {low: 0, high: 1}}"
    if not isinstance(value, list | dict):
        raise refuse(f"expected ranges by parameter name, found {quote(value)}", hint)
    if not value:
        raise refuse("expected at least one parameter", hint)
    return value


class Sample(SpecModel, Axis):
    """Points drawn from ranges: a design of experiments."""

    word: ClassVar[str] = "sample"
    named: ClassVar[bool] = False
    is_kept: ClassVar[bool] = True

    method: Literal["lhs", "sobol", "uniform"] = Field(
        description="Latin hypercube, scrambled Sobol sequence, or independent uniform draws."
    )
    points: int = Field(ge=1, le=MAX_SAMPLES, description="How many points to draw.")
    seed: int | None = optional(
        "Seed of the random numbers; by default the workflow's `seed` with the name of the axis.", ge=0
    )
    parameters: Annotated[
        Unique[Label] | dict[Label, SampleRange],
        BeforeValidator(_list_or_ranges),
    ] = Field(description="Ranges by parameter name, or names of hyperparameters that have bounds.")

    @property
    def gives(self) -> tuple[str, ...]:
        return tuple(self.parameters)

    def size(self, registry: Known) -> int:
        return self.points

    def registry_flaws(self, registry: Known) -> Iterator[Violation]:
        names = self.parameters if isinstance(self.parameters, tuple) else ()
        flaws = list(undrawable(registry, names, numbers=True))
        yield from flaws
        for place, drawn in enumerate(self._ranges(registry) if not flaws else ()):
            yield from (Violation(flaw.message, flaw.hint, ("parameters", place)) for flaw in drawn.flaws())

    def points_of(self, label: str, registry: Known, folder: Path) -> Points:
        ranges = list(self._ranges(registry))
        seed = seed_of(0, label) if self.seed is None else self.seed
        unit = _unit_points(self.method, self.points, len(ranges), seed)
        rows = [tuple(_scale(u, r) for u, r in zip(row, ranges, strict=True)) for row in unit]
        return Points.of_rows(self.gives, rows)

    def ends(self, registry: Known) -> Points:
        """Return two points: hardly more than the least, and hardly less than the most of each range."""
        rows = [[_scale(unit, span) for span in self._ranges(registry)] for unit in (1e-9, 1 - 1e-9)]
        return Points.of_rows(self.gives, rows)

    def _ranges(self, registry: Known) -> Iterator[SampleRange]:
        if isinstance(self.parameters, Mapping):
            yield from self.parameters.values()
        else:
            for spec in (registry[name] for name in self.parameters):
                yield SampleRange.model_construct(low=spec.low, high=spec.high, log=spec.log, type=spec.type)


def seed_of(shared: int, label: str) -> int:
    """Return the seed of an axis without one, of the workflow's seed and its name: no two draw alike."""
    return random.Random(f"{shared} {bare(label)}").getrandbits(53)


def _unit_points(method: str, count: int, dimensions: int, seed: int) -> Iterable[Sequence[float]]:
    """Draw `count` points in the unit cube, by the sampling method."""
    if method == "uniform":
        draw = random.Random(seed)
        return ([draw.random() for _ in range(dimensions)] for _ in range(count))
    try:
        from scipy.stats import qmc  # an extra, and slow to import: only if such an axis is drawn
    except ImportError as error:
        raise DielError(
            f"sample: `{method}` needs SciPy: pip install 'diel[sample]' (`uniform` needs nothing)"
        ) from error
    if method == "lhs":
        return [list(map(float, row)) for row in qmc.LatinHypercube(d=dimensions, rng=seed).random(count)]
    power = math.ceil(math.log2(count))  # Sobol sequences keep their balance in powers of two
    drawn = qmc.Sobol(d=dimensions, rng=seed).random_base2(power)[:count]
    return [list(map(float, row)) for row in drawn]


def _scale(unit: float, bounds: SampleRange) -> float | int:
    """Map a value in [0, 1) to a range; a whole number gets half a step on each side of it."""
    low, high = float(bounds.low), float(bounds.high)
    if bounds.type == "int":
        low, high = math.ceil(bounds.low) - 0.5, math.floor(bounds.high) + 0.5
    if bounds.log:
        value = math.exp(math.log(low) + unit * (math.log(high) - math.log(low)))
    elif math.isinf(high - low):  # the bounds are too far apart for their distance to be a double
        value = low * (1.0 - unit) + high * unit
    else:
        value = low + unit * (high - low)
    if bounds.type == "int":
        return max(math.ceil(bounds.low), min(math.floor(bounds.high), round(value)))
    return max(low, min(high, value))  # rounding can end a hair outside
