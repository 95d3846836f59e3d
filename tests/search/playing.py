"""Searches played out without tasks: trials run side by side, report, end in any order."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from diel.base.states import TrialState
from diel.controller.search.optuna import OptunaSearcher
from diel.controller.search.searcher import Space, space_of
from diel.store.journal.axis_history import AxisHistory, Course
from diel.workflow.models import Hyperparameter, Search
from tests.record import as_record

Record = dict[str, Any]
STEPS = 3
"""Reports of a trial before it ends."""

EVERYTHING: dict[str, dict[str, Any]] = {
    "rate": {"type": "float", "low": 1e-5, "high": 0.1, "log": True},
    "drop": {"type": "float", "low": 0, "high": 0.3, "step": 0.1},
    "share": {"type": "float", "low": -2, "high": 3},
    "width": {"type": "int", "low": 8, "high": 256, "log": True},
    "depth": {"type": "int", "low": 1, "high": 6, "step": 2},
    "count": {"type": "int", "low": -3, "high": 3},
    "kind": {"type": "choice", "choices": ["sgd", "adam", 1, True, None, [1, 2]]},
    "bias": {"type": "bool"},
}
"""One of each."""


def space(given: Mapping[str, Mapping[str, Any]], names: tuple[str, ...] = (), **fixed: Any) -> Space:
    known = {name: Hyperparameter.model_validate(one) for name, one in given.items()}
    return space_of(names or tuple(given), known, fixed)


def search(sampler: str | dict[str, Any], **more: Any) -> Search:
    goal = {} if "minimize" in more or "maximize" in more else {"minimize": "f.value"}
    given = {"sampler": sampler, "trials": 100, "parameters": ("x",), **goal, **more}
    return Search.model_validate(given)


def bowl(hp: Mapping[str, Any]) -> float:
    """A number that depends on all hyperparameters."""
    return sum(
        (place + 1) * (value - 0.3) ** 2 if isinstance(value, float | int) else len(str(value))
        for place, value in enumerate(hp.values())
    )


class Play:
    """A search and the records that its controller would have written."""

    def __init__(self, given: Search, over: Space, seed: int = 7) -> None:
        self.given, self.over, self.seed = given, over, seed
        self.searcher = OptunaSearcher(given, over, seed)
        self.records: list[Record] = []
        self.trials: list[dict[str, Any]] = []
        self.states: dict[int, TrialState] = {}

    def run(self, trials: int, parallel: int = 1, score: Callable[[Mapping[str, Any]], float] = bowl) -> Play:
        """Until there are so many trials and all have ended; which goes on when is drawn from the seed."""
        draw = random.Random(self.seed)
        steps: dict[int, int] = {}
        while len(self.trials) < trials or steps:
            if len(steps) < parallel and len(self.trials) < trials:
                hp = self.searcher.ask()
                if hp is None:
                    trials = len(self.trials)
                    continue
                steps[len(self.trials)] = 0
                self._write("trial", number=len(self.trials), hp=hp)
                self.trials.append(hp)
                continue
            number = draw.choice(sorted(steps))
            self._go_on(number, steps, draw, score(self.trials[number]))
        return self

    def _go_on(self, number: int, steps: dict[int, int], draw: random.Random, score: float) -> None:
        step = steps[number]
        given_up = False
        if step < STEPS and self.given.prunes:
            given_up = self.searcher.report(number, step, score + STEPS - step)
            self._write("reported", number=number, step=step, value=score + STEPS - step, given_up=given_up)
            steps[number] += 1
            if not given_up:
                return
        state = TrialState.FAILED if draw.random() < 0.1 else TrialState.COMPLETE
        state = TrialState.PRUNED if given_up else state
        values = [score / (place + 1) for place in range(len(self.given.objectives))]
        values = values if state is TrialState.COMPLETE else []
        self.searcher.tell(number, state, values)
        self._write("judged", number=number, state=state, values=values)
        self.states[number] = state
        del steps[number]

    def _write(self, event: str, **content: Any) -> None:
        self.records.append({"event": event, "context": [], "time": 0.0, **content})

    def course(self, length: int) -> Course:
        """What a controller would read that takes over after so many records."""
        return course_of(self.records[:length])

    def take_over(self, length: int) -> OptunaSearcher:
        """The searcher of that controller."""
        searcher = OptunaSearcher(self.given, self.over, self.seed)
        searcher.replay(self.course(length))
        return searcher

    def go_on(self, searcher: OptunaSearcher, length: int) -> None:
        """Asks and tells a searcher what came after so many records; it must answer as the first one did."""
        for record in self.records[length:]:
            if record["event"] == "trial":
                assert searcher.ask() == record["hp"], f"trial {record['number']} after {length} records"
            elif record["event"] == "reported":
                given_up = searcher.report(record["number"], record["step"], record["value"])
                assert given_up == record["given_up"]
            else:
                searcher.tell(record["number"], record["state"], record["values"])


def course_of(records: list[Record]) -> Course:
    history = AxisHistory()
    history.apply({"event": "begin", "axis": "a", "context": [], "seed": 0, "time": 0.0})
    for record in records:
        history.apply(as_record(record))
    return history.courses[()]
