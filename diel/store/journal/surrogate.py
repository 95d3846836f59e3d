"""The sum of the records of a stage with a surrogate."""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from diel.store.journal.records import Answered, TaughtBy

CONFIDENCE = 0.95
SHARE = 0.95
"""The share of all answers that a bound is for, once enough were audited."""


class Bound(NamedTuple):
    """At least this share of all answers is off by at most `error`, with a confidence of 95 %."""

    error: float
    share: float


def bound_of(errors: Collection[float]) -> Bound:
    """Return the bound of audited errors for all answers, whatever their distribution. The largest of n is
    above a share p of all with probability 1 - pⁿ, which is enough for p = 0.95 from n = 59 on; before, p is
    smaller. Of more, the j largest are left out as long as Σᵢ₌₀ʲ C(n, i) (1 - p)ⁱ pⁿ⁻ⁱ ≤ 0.05 (S. S. Wilks,
    Determination of Sample Sizes for Setting Tolerance Limits, Ann. Math. Statist. 12, 91, 1941, equation 3
    for one limit)."""
    count = len(errors)
    if not count:
        return Bound(math.inf, 0.0)
    share = min(SHARE, (1 - CONFIDENCE) ** (1 / count))
    left_out = -1
    total = _binomial(count, 0)
    while total <= 1 - CONFIDENCE:
        left_out += 1
        total += _binomial(count, left_out + 1)
    return Bound(sorted(errors)[count - 1 - max(0, left_out)], share)


def _binomial(count: int, above: int) -> float:
    """Return the probability that so many of so many are beyond the share."""
    ways = math.lgamma(count + 1) - math.lgamma(above + 1) - math.lgamma(count - above + 1)
    return math.exp(ways + above * math.log(1 - SHARE) + (count - above) * math.log(SHARE))


@dataclass(slots=True)
class SurrogateHistory:
    """Which tasks were answered, which were simulated, and how long both took, in seconds."""

    service: str = ""
    training: tuple[str, ...] = ()
    """Stages that train its model."""
    simulations: tuple[str, ...] = ()
    """Stages that simulate the same, whose results the model learned too."""
    tolerance: float | None = None
    """What audited answers are held to; None if none are audited."""
    answers: bytearray = field(default_factory=bytearray)
    """A byte for each task: 1 if its result is an answer; short if the rest is 0."""
    errors: dict[int, float] = field(default_factory=dict)
    """By task, how far the answer was off that was audited."""
    is_off: bool = False
    """Whether audits found more than the tolerance: nobody is asked any more, and its answers are suspect."""
    answered_seconds: float = 0.0
    """Run time of all tasks that were answered."""
    simulated: int = 0
    simulated_seconds: float = 0.0
    """Without the time of asking."""
    vain_seconds: float = 0.0
    """Time of asking, for tasks that were then simulated."""
    unanswered: int = 0
    """Questions without a usable answer."""
    message: str = ""
    """Why the last of them had none."""
    unasked: dict[str, int] = field(default_factory=dict)
    """Tasks that were simulated without asking, by the reason."""

    @property
    def answered(self) -> int:
        """Tasks whose result the surrogate answered."""
        return self.answers.count(1)

    def judge(self) -> None:
        """Turn it off if what audits found is beyond the tolerance."""
        held = self.tolerance is not None and bool(self.errors)
        self.is_off = held and bound_of(self.errors.values()).error > (self.tolerance or 0.0)

    def know(self, facts: "TaughtBy") -> None:
        """Take in what the controller says about the workflow."""
        self.service, self.tolerance = facts["service"], facts.get("tolerance")
        self.training, self.simulations = tuple(facts["training"]), tuple(facts["simulations"])
        self.judge()

    def count(self, index: int, answer: "Answered", seconds: float) -> None:
        """Count another task's result."""
        if answer["used"]:
            self.answers.extend(bytes(max(0, index + 1 - len(self.answers))))
            self.answers[index] = 1
            self.answered_seconds += seconds
            self.errors.pop(index, None)  # another model was audited
        else:
            self.simulated += 1
            self.simulated_seconds += max(0.0, seconds - answer["asked"])
            self.vain_seconds += answer["asked"]
        if "error" in answer:
            self.errors[index] = math.inf if answer["error"] is None else answer["error"]
            self.judge()
        if answer.get("message"):
            self.unanswered += 1
            self.message = answer["message"]
        if why := answer.get("unasked"):
            self.unasked[why] = self.unasked.get(why, 0) + 1

    def suspect(self) -> list[int]:
        """Return the tasks whose result is an answer that audits speak against."""
        return [index for index, answered in enumerate(self.answers) if answered] if self.is_off else []


def unpacked(packed: dict[str, Any], unpack: Callable[[str], bytearray]) -> SurrogateHistory:
    """From the fields of a snapshot; `unpack` gives the bytes of one."""
    lists = {name: tuple(packed[name]) for name in ("training", "simulations")}
    errors = {int(index): error for index, error in packed["errors"].items()}
    answers = unpack(packed["answers"])
    return SurrogateHistory(**{**packed, **lists, "errors": errors, "answers": answers})
