"""Projects whose hyperparameters have values: of runs, of searches, set for all."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from diel.observe.results import RunReader
from diel.store.journal.history import History
from diel.store.registry import current, read_changes
from diel.tasks.points.adaptive import adaptive_axes
from tests.handmade import Handmade

FLOW = """
hyperparameters:
  hidden: {type: int, default: 64, low: 8, high: 256, log: true, description: Units.}
  rate: {type: float, default: 1e-3}
  solver: {type: choice, choices: [adam, sgd], default: adam}
  free: {type: str}
stages:
  s: {command: [x, "${{ hp.hidden }}"]}
"""


def project(name: str | None = None) -> Any:
    """The values that the project in `runs` has, or one of them."""
    values = {key: held.value for key, held in current(read_changes(Path("runs"))[0]).items()}
    return values if name is None else values[name]


def two_runs(workspace: Path) -> None:
    """A run with defaults, one with settings, and a value of the project between them."""
    Handmade(
        workspace,
        FLOW,
        "w-1",
        hyperparameters={"hidden": 64, "rate": 1e-3, "solver": "adam"},
        origins={"hidden": "default", "rate": "default", "solver": "default"},
        sources={"hidden": "w.yaml:4", "rate": "w.yaml:5", "solver": "w.yaml:6"},
    ).write("stage", stage="s", kind="analysis", total=1, reads=["hidden"])
    Handmade(
        workspace,
        FLOW,
        "w-2",
        hyperparameters={"hidden": 32, "rate": 0.5, "solver": "adam"},
        origins={"hidden": "command line", "rate": "project", "solver": "default"},
        sources={"hidden": "--set hidden=32", "rate": "promotion of w-1, trial 3", "solver": "w.yaml:6"},
    )


SEARCHED = """
hyperparameters:
  hidden: {type: int, default: 64, low: 8, high: 256}
  rate: {type: float, default: 0.1, low: 0.01, high: 1}
axes:
  trial: {search: {trials: 4, OBJECTIVES, parameters: [hidden, rate]}}
stages:
  s: {over: [trial], command: [x, "${{ hp.hidden }}", "${{ hp.rate }}"], outputs: {a: {value: float}, b: {value: float}}}
"""


ONE, TWO = "minimize: s.a", "minimize: s.a, maximize: s.b"


def searched(workspace: Path, objectives: str = ONE, *, over: bool = True) -> Handmade:
    """A run whose search has had four trials: 2 is the best, 3 has failed."""
    run = Handmade(
        workspace,
        SEARCHED.replace("OBJECTIVES", objectives),
        hyperparameters={"hidden": 64, "rate": 0.1},
        origins={"hidden": "default", "rate": "default"},
    )
    adaptive = adaptive_axes(RunReader(run.paths).workflow, History())["trial"]
    run.write("axis", axis="trial", facts=asdict(adaptive.facts(RunReader(run.paths).workflow)))
    run.write("begin", axis="trial", context=[], seed=1)
    for number, (score, other) in enumerate([(3.0, 3.0), (2.0, 1.0), (1.0, 2.0), (0.0, 0.0)]):
        hp = {"hidden": 10 + number, "rate": 0.25 + number}
        run.write("trial", axis="trial", context=[], number=number, hp=hp)
        values = [score] if objectives == ONE else [score, other]
        ending = {"state": "failed", "message": "s/3 has no result"} if number == 3 else {"state": "complete"}
        run.write("judged", axis="trial", context=[], number=number, values=values, **ending)
    if over:
        run.write("closed", axis="trial", context=[], points=4, reason="trials")
    return run
