"""What every searcher does for diel, and whether it is installed.

Adding one is one file with a class derived from `Searcher`.
"""

import random
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from math import prod
from typing import Any, ClassVar, NamedTuple

from diel.base.errors import DielError, UsageError
from diel.base.extensions import SEARCHERS, class_named
from diel.base.states import TrialState
from diel.store.journal.axis_history import Course, Trial
from diel.workflow.expressions import parse_expression
from diel.workflow.models import SAMPLERS, Hyperparameter, Search, Workflow

END = -1
"""In a course's `told`: the end of a trial."""
_parsed = lru_cache(maxsize=256)(parse_expression)
SHUFFLED = 1_000_000
"""Points up to which a grid's order is a shuffled list; of a larger one, only a small part is run anyway."""


class Searcher(ABC):
    """Proposes the trials of one search: the same for the same seed and calls. The journal is what survives:
    a searcher comes back to where it was by being asked and told the same. `ask` and `tell` are to be
    written; all else has a default."""

    def __init__(self, search: Search, space: "Space", seed: int) -> None:
        """`search` is what the workflow file says, `space` the hyperparameters to draw, in their order."""
        self.search = search
        self.space = space
        self.seed = seed

    @classmethod
    def refusal(cls, search: Search, parameters: Mapping[str, Hyperparameter]) -> str:
        """Return why it cannot make the trials of a search; empty if it can. Asked before a run is made."""
        return ""

    @abstractmethod
    def ask(self) -> dict[str, Any] | None:
        """Return the hyperparameters of the next trial, numbered from 0; None if there is none left."""

    @abstractmethod
    def tell(self, number: int, state: TrialState, values: list[float]) -> None:
        """Report the end of a trial: a value for each objective, none if it did not complete."""

    def learn(self, earlier: Sequence[Mapping[str, Any]]) -> None:  # noqa: B027 (most have nothing to do)
        """Learn what earlier runs made, before the first trial: `hp`, `values` and `excess` of each trial."""

    def constrain(self, number: int, excess: list[float]) -> None:  # noqa: B027
        """Told before the end of a trial, if there are constraints: how far beyond their bounds it is."""

    def parent(self, number: int) -> int | None:
        """Return the trial that one goes on from, as `at: {AXIS: previous}` reads it; None for a new one."""
        return None

    def report(self, number: int, step: int, value: float) -> bool:
        """Report an intermediate value; return whether the trial should be pruned."""
        return False

    def is_given_up(self, number: int) -> bool:
        """Return whether a report said that a running trial should be pruned."""
        return False

    version: ClassVar[str] = ""
    """Of the library that draws: by one, a searcher can be pickled, for processes of the same version."""

    def replay(self, course: Course, start: int = 0) -> None:
        """Restore the state of the searcher that made a course, of which it has heard what is `start`."""
        for number, *rest in course.told[start:]:
            trial = course.trials[number]
            if rest:
                self.hear(trial, rest[0])
            elif self.ask() != trial.hp:
                self.rebuild(course)
                return

    def hear(self, trial: Trial, step: int) -> None:
        """Replay what a course says about a trial after it began."""
        if step == END:
            if trial.excess:
                self.constrain(trial.number, trial.excess)
            self.tell(trial.number, trial.state, trial.values)
        else:
            self.report(trial.number, step, trial.reported[step])

    def rebuild(self, course: Course) -> None:
        """Replay a course for which it would have proposed other trials; raise DielError by default."""
        raise DielError(
            f"{self.search.sampler.name} proposes other trials than those that this run has written, as "
            "another version of it may: use the version that began the run, or run the workflow again"
        )


def refuse_unsearchable(workflow: Workflow) -> None:
    """Raise UsageError if a package is missing, or a searcher cannot make the trials of its search."""
    used = {label for stage in workflow.stages.values() for label in stage.over}
    for label, axis in workflow.axes.items():
        if label not in used or not isinstance(axis, Search):
            continue
        what = f"axis '{label}' searches with {axis.sampler.name}"
        if axis.sampler.name not in SAMPLERS:
            kind: type[Searcher] = class_named(SEARCHERS, axis.sampler.name, Searcher)
            space = space_of(axis.parameters, workflow.hyperparameters, {})
            if why := kind.refusal(axis, space.parameters):
                raise UsageError(f"{what}: {why}")
        lacking = [name for name in axis.needs if find_spec(name) is None]
        if lacking:
            extras = "search,torch" if "torch" in lacking else "search"
            raise UsageError(
                f"{what}, which needs {' and '.join(lacking)}: "
                f"{sys.executable} -m pip install 'diel[{extras}]'"
            )


class Space(NamedTuple):
    """Hyperparameters in the order in which they are drawn: after those that their `when` reads."""

    parameters: Mapping[str, Hyperparameter]
    fixed: Mapping[str, Any]
    """The values of the others, and of those whose `when` does not hold."""

    def is_drawn(self, name: str, drawn: Mapping[str, Any]) -> bool:
        """Return whether a hyperparameter is drawn, given those that were drawn before it."""
        condition = self.parameters[name].when
        if condition is None:
            return True
        return bool(_parsed(condition).value({"hp": {**self.fixed, **drawn}}))


def space_of(
    names: tuple[str, ...], parameters: Mapping[str, Hyperparameter], fixed: Mapping[str, Any]
) -> Space:
    """Return the space of a search's `parameters`."""
    ordered: dict[str, Hyperparameter] = {}

    def add(name: str) -> None:
        if name in ordered or name not in names:
            return
        for other in conditions(parameters[name]):
            add(other)
        ordered[name] = parameters[name]

    for name in names:
        add(name)
    return Space(ordered, fixed)


def conditions(spec: Hyperparameter) -> tuple[str, ...]:
    """Return the hyperparameters that one's `when` reads."""
    references = () if spec.when is None else _parsed(spec.when).references
    return tuple(sorted(name[1] for name in references if name[0] == "hp" and len(name) > 1))


def place_of(value: Any, listed: Sequence[Any]) -> int:
    """Return the place of a value in a list; 1 and true are two values."""
    return next(
        place for place, choice in enumerate(listed) if choice == value and type(choice) is type(value)
    )


def grid_points(space: Space, seed: int) -> Iterator[dict[str, Any]]:
    """Yield each point once, in a random order, so that a part of them is spread over the whole. Of points
    that differ only in hyperparameters which their `when` leaves out, there is one."""
    listed = {name: spec.listed or () for name, spec in space.parameters.items()}
    for number in _order(prod(len(values) for values in listed.values()), seed):
        point: dict[str, Any] = {}
        fresh = True
        for name, values in listed.items():
            number, place = divmod(number, len(values))
            if space.is_drawn(name, point):
                point[name] = values[place]
            else:
                fresh = fresh and place == 0
        if fresh:
            yield point


def _order(size: int, seed: int) -> Iterator[int]:
    draw = random.Random(seed)
    if size <= SHUFFLED:
        yield from draw.sample(range(size), size)
        return
    drawn: set[int] = set()
    while len(drawn) < size:
        number = draw.randrange(size)
        if number not in drawn:
            drawn.add(number)
            yield number
