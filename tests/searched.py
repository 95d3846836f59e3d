"""Runs with a search and a loop, written by hand: at any moment of either."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from diel.store.journal.history import History
from diel.tasks.points.adaptive import adaptive_axes
from diel.workflow.load import load_text
from diel.workflow.models import Workflow
from tests.handmade import Handmade

SEARCH = """
hyperparameters:
  x: {type: float, low: -5, high: 5}
axes:
  fold: {range: 2}
  trial:
    search: {trials: 6, parallel: 2, seed: 1, minimize: f.loss, parameters: [x], pruner: median}
stages:
  sub: {over: [trial, fold], command: [x, "${{ hp.x }}"], outputs: {v: {value: float}}}
  f: {over: [trial], command: [x], inputs: {v: sub.v}, outputs: {loss: {value: float}, model: {path: m.txt}}}
  end:
    command: [x]
    inputs: {loss: {from: f.loss, at: {trial: best}}, x: {from: hp.x, at: {trial: best}}}
"""
MATERIALS = """
hyperparameters:
  x: {type: float, low: -5, high: 5}
axes:
  material: {values: [Si, Ge]}
  trial:
    search: {trials: 4, parallel: 2, seed: 1, minimize: [f.loss, f.time], parameters: [x], sampler: nsga2}
stages:
  f: {over: [material, trial], command: [x, "${{ hp.x }}"], outputs: {loss: {value: float}, time: {value: float}}}
  end: {over: [material], command: [x], inputs: {loss: {from: f.loss, at: {trial: pareto}}}}
"""
LOOP = """
axes:
  round: {loop: {max: 100, until: "${{ check.error < 0.1 }}"}}
stages:
  sim:
    over: [round]
    when: ${{ round % 2 == 0 }}
    command: [x]
    inputs: {e: {from: check.error, at: {round: previous}, initially: 1.0}}
    outputs: {v: {value: float}}
  check:
    over: [round]
    command: [x]
    inputs: {v: {from: sim.v, at: {round: last}}}
    outputs: {error: {value: float}}
  end: {command: [x], inputs: {e: {from: check.error, at: {round: last}}}}
"""


class Searched(Handmade):
    """A run whose stages are open, and whose searches and loops are written down."""

    def __init__(self, folder: Path, text: str, *, alive: bool = False, name: str = "w-1") -> None:
        super().__init__(folder, text, name, alive=alive, hyperparameters={"x": 0.0})
        self.spec: Workflow = load_text(self.paths.workflow.read_text(), Path("w.yaml")).spec
        self.axes = adaptive_axes(self.spec, History())
        for label, axis in self.axes.items():
            self.write("axis", axis=label, facts=asdict(axis.facts(self.spec)))
        for stage in self.spec.stages:
            self._open(stage)

    def _open(self, name: str) -> None:
        counts = {"fold": 2, "material": 2, **{label: axis.size for label, axis in self.axes.items()}}
        over = self.spec.stages[name].over
        factors = [{"axes": [axis], "count": counts[axis], "rows": None} for axis in over]
        total = 1
        for axis in over:
            total *= counts[axis]
        more = {"factors": factors} if set(over) & set(self.axes) else {}
        self.write("stage", stage=name, kind="analysis", total=total, family=name, parts={"m": name}, **more)

    def about(self, event: str, *context: int, **more: Any) -> Searched:
        """A line on the only search or loop."""
        (label,) = self.axes
        self.write(event, axis=label, context=list(context), **more)
        return self

    def trial(self, number: int, x: float, *context: int) -> Searched:
        return self.about("trial", *context, number=number, hp={"x": x})

    def score(self, number: int, *values: float, context: tuple[int, ...] = ()) -> Searched:
        return self.about("judged", *context, number=number, state="complete", values=list(values))

    def prune(self, number: int, message: str, *context: int) -> Searched:
        return self.about("judged", *context, number=number, state="pruned", message=message)


def search(folder: Path, *, alive: bool = False) -> Searched:
    """Three trials are done (the second is best), the fourth is pruned, the fifth runs, the last has yet to come."""
    run = Searched(folder, SEARCH, alive=alive).about("begin", seed=1)
    for number, x in enumerate((2.0, 0.5, -3.0)):
        run.trial(number, x)
        for fold in range(2):
            run.done("sub", 2 * number + fold, v=x + fold)
        run.about("reported", number=number, step=0, value=10 * x * x)
        run.done("f", number, {"model": f"model {number}"}, loss=x * x)
        run.score(number, x * x)
    run.trial(3, 4.5).done("sub", 6, v=4.5).done("sub", 7, v=5.5)
    run.about("reported", number=3, step=0, value=200.0).prune(3, "f.loss was 200 at step 0")
    run.skipped("f", 3, reason="axis")
    run.trial(4, 1.5).done("sub", 8, v=1.5).work("start", "sub", 9)
    return run


def loop(folder: Path, *, over: bool) -> Searched:
    """Three rounds were judged, of which the last one met `until` if `over`; `sim` skips each second one."""
    run = Searched(folder, LOOP, alive=not over).about("begin", seed=0)
    errors = (0.8, 0.4, 0.05 if over else 0.2)
    for number, error in enumerate(errors):
        if number % 2 == 0:
            run.done("sim", number, v=error)
        else:
            run.skipped("sim", number, reason="when")
        run.done("check", number, error=error)
        run.about("round", number=number, holds=error < 0.1, values={"check.error": error})
    if over:
        run.about("closed", points=3, reason="until", failed=False)
        run.skipped("sim", *range(3, 100), reason="axis").skipped("check", *range(3, 100), reason="axis")
        run.done("end", 0).end("succeeded")
    return run
