"""Which results are suspect: answers that audits speak against, and what read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from diel.observe.results import RunReader, suspects
from diel.observe.results.rows import suspect_inputs
from tests.handmade import Handmade

FLOW = """
axes: {round: {loop: {max: 3}}}
stages:
  serve: {command: [x], service: {ready: {http: /}}}
  sim: {kind: simulation, over: [round], command: [x], outputs: {y: {value: float}}, surrogate: {service: serve, tolerance: 0.1, audit: 0.5}}
  each: {over: [round], command: [x, "${{ sim.y }}"], outputs: {v: {value: float}}}
  last: {command: [x, "${{ inputs.v }}"], inputs: {v: {from: each.v, at: {round: last}}}}
  one:
    over: [round]
    command: [x, "${{ inputs.before + sim.y }}"]
    inputs: {before: {from: other.v, at: {round: previous}, initially: 0}}
    outputs: {v: {value: float}}
  other: {over: [round], command: [x, "${{ one.v }}"], outputs: {v: {value: float}}}
"""
FACTS = {"service": "serve", "training": [], "simulations": [], "tolerance": 0.1}


def run_of(folder: Path, error: float) -> Handmade:
    """Its first task was answered; what the audit of the second found is given, the third was simulated."""
    run = Handmade(folder, FLOW).write(
        "stage", stage="sim", kind="simulation", total=3, family="sim", parts={}, surrogate=FACTS
    )
    told: list[dict[str, Any]] = [{"used": True}, {"used": False, "error": error}, {"used": False}]
    for index, more in enumerate(told):
        said = {"asked": 0.1, "uncertainty": 0.0, **more}
        run.work(
            "done", "sim", index, seconds=1.0, key="k", parts=["p", "i"], values={"y": 1.0}, surrogate=said
        )
    for stage, total in (("each", 3), ("last", 1), ("one", 3), ("other", 3)):
        run.stage(stage, total)
        for index in range(total):
            run.done(stage, index, v=1.0)
    return run


def test_what_read_suspect_answers_is_found_along_the_axes_and_through_rounds(tmp_path: Path) -> None:
    recorded = RunReader(run_of(tmp_path, 0.5).paths)
    found = suspects(recorded)
    whole = {0, 1, 2}
    assert {name: tasks for name, tasks in found.items() if tasks} == {
        "sim": {0},
        "each": {0},
        "one": whole,
        "other": whole,
    }
    assert suspect_inputs(recorded, "one", 2, found) == {"other": [1]}


def test_answers_within_the_tolerance_are_not_suspect(tmp_path: Path) -> None:
    assert suspects(RunReader(run_of(tmp_path, 0.05).paths)) == {}
