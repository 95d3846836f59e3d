"""Population-based training: each trial goes on from another one, and the bad go on from the good.

Jaderberg et al., "Population Based Training of Neural Networks", arXiv:1711.09846: exploit by truncation
selection (their 4.1.1), explore by perturbing or resampling (their appendix A.1).
"""

import math
import random
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from diel.base.states import TrialState
from diel.controller.search.searcher import Searcher, Space, place_of
from diel.workflow.models import Hyperparameter, Search
from diel.workflow.models.forms.search import DEFAULT_POPULATION

SHARE = 0.2
"""Members that are given up, and members that they go on from, of each generation."""
FACTOR = 1.2
RESAMPLE = 0.25


class _Turn(NamedTuple):
    trial: int
    hp: dict[str, Any]


class PopulationSearcher(Searcher):
    """A trial is what one member does in one generation; its parent made the state that it goes on with."""

    version: ClassVar[str] = "1"

    def __init__(self, search: Search, space: Space, seed: int) -> None:
        super().__init__(search, space, seed)
        self._draw = random.Random(seed)
        self._members: list[list[_Turn]] = [[] for _ in range(search.population or DEFAULT_POPULATION)]
        self._parents: list[int | None] = []
        self._scores: dict[int, float] = {}
        """Of complete trials: small ones are good."""
        self._ended: set[int] = set()

    def ask(self) -> dict[str, Any] | None:
        idle = [turns for turns in self._members if not turns or turns[-1].trial in self._ended]
        turns = min(idle, key=len)  # `parallel` is at most the population: one of them is idle
        number = len(self._parents)
        parent = self._parent(turns) if turns else None
        before = {} if parent is None else parent.hp
        hp = dict(before) if turns and parent is turns[-1] else self._explored(before)
        self._parents.append(None if parent is None else parent.trial)
        turns.append(_Turn(number, hp))
        return hp

    def parent(self, number: int) -> int | None:
        return self._parents[number]

    def tell(self, number: int, state: TrialState, values: list[float]) -> None:
        self._ended.add(number)
        if state is TrialState.COMPLETE:
            small = self.search.objectives[0][1]
            self._scores[number] = values[0] if small else -values[0]

    def _parent(self, turns: list[_Turn]) -> _Turn | None:
        """Return what a member goes on from: its own last trial, or a good one's of the same generation."""
        generation = len(turns) - 1
        peers = [other[generation] for other in self._members if len(other) > generation]
        ranked = sorted(
            (peer for peer in peers if peer.trial in self._scores),
            key=lambda peer: (self._scores[peer.trial], peer.trial),
        )
        mine = turns[-1]
        if mine.trial not in self._scores and not ranked:
            return None  # it failed, and nobody else has come so far: it begins again
        many = max(1, round(len(ranked) * (self.search.sampler.share or SHARE)))
        if mine in ranked and (mine not in ranked[-many:] or len(ranked) < 2 * many):
            return mine
        return self._draw.choice(ranked[:many])

    def _explored(self, hp: Mapping[str, Any]) -> dict[str, Any]:
        """Return the same, moved a little: one that another now leaves out is dropped, a new one is drawn."""
        sampler = self.search.sampler
        resample = RESAMPLE if sampler.resample is None else sampler.resample
        explored: dict[str, Any] = {}
        for name, spec in self.space.parameters.items():
            if self.space.is_drawn(name, explored):
                anew = name not in hp or self._draw.random() < resample
                explored[name] = self._sampled(spec) if anew else self._moved(spec, hp[name])
        return explored

    def _moved(self, spec: Hyperparameter, value: Any) -> Any:
        up = self._draw.random() < 0.5
        if spec.type in ("choice", "bool"):
            listed = spec.listed or (value,)
            place = place_of(value, listed) + (1 if up else -1)
            return listed[min(max(place, 0), len(listed) - 1)]
        factor = self.search.sampler.factor or FACTOR
        moved = value * factor if up else value / factor
        return spec.nearest(moved)

    def _sampled(self, spec: Hyperparameter) -> Any:
        if spec.type in ("choice", "bool"):
            return self._draw.choice(spec.listed or ())
        assert spec.low is not None
        assert spec.high is not None
        if spec.log:
            drawn = math.exp(self._draw.uniform(math.log(spec.low), math.log(spec.high)))
        else:
            drawn = self._draw.uniform(spec.low, spec.high)
        return spec.nearest(drawn)
