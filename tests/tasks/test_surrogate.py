"""What tasks ask their surrogate, and what of an earlier answer counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from diel.spec import Stage
from diel.tasks.surrogate import tell_cached
from diel.terms import SIMULATED
from tests.controller.bench import Bench
from tests.record import as_record

FLOW = """
axes: {x: {values: [1.5, 2.5]}, name: {values: [a]}}
stages:
  train: {command: [train], outputs: {model: {value: int}}}
  serve: {command: [serve], inputs: {model: train.model}, service: {ready: {http: /}, replicas: 2, shared_cores: true}}
  sim: {kind: simulation, over: [x, name], command: [sim, "${{ x }}"], outputs: {y: {value: float}}, surrogate: {service: serve, tolerance: TOLERANCE}}
"""


def bench_of(folder: Path, model: int | None = 1, tolerance: str = "0.5") -> Bench:
    bench = Bench(folder, FLOW.replace("TOLERANCE", tolerance))
    if model is None:
        bench.fail("train")
    else:
        bench.done("train", model=model)
    return bench


def test_a_task_asks_about_its_numbers_at_all_replicas(tmp_path: Path) -> None:
    question = bench_of(tmp_path).resolve("sim", 1).question
    assert question is not None
    assert (dict(question.row), question.replicas) == ({"x": 2.5}, (0, 1))


@pytest.mark.parametrize("other", [{"model": 2}, {"tolerance": "0.25"}])
def test_an_answer_is_its_models_and_tolerances_and_what_is_simulated_is_not(
    tmp_path: Path, other: dict[str, Any]
) -> None:
    one, another = (bench.resolve("sim") for bench in (bench_of(tmp_path), bench_of(tmp_path, **other)))
    assert one.question is not None
    assert another.question is not None
    assert one.key == another.key
    assert one.question.key != another.question.key
    assert one.question.parts[0] == another.question.parts[0]


def test_a_stage_whose_service_will_not_come_asks_nobody(tmp_path: Path) -> None:
    assert bench_of(tmp_path, model=None).resolve("sim").question is None


def test_status_learns_who_taught_a_surrogate_from_its_stages_record(tmp_path: Path) -> None:
    text = bench_of(tmp_path).paths.controller_segment(1).read_text()
    assert '"surrogate":{"service":"serve"' in text.replace(" ", "")


def test_a_result_of_a_run_without_a_surrogate_was_simulated_unasked() -> None:
    spec: dict[str, Any] = {"command": ["x"], "surrogate": {"service": "serve", "tolerance": 1}}
    record: Any = {"event": "cached"}
    tell_cached(record, as_record({"values": {"y": 1.0}}), Stage.model_validate(spec))
    assert (record["values"][SIMULATED], record["surrogate"]) == (True, {"asked": 0.0, "used": False})
    plain: Any = {"event": "cached"}
    tell_cached(plain, as_record({}), Stage.model_validate({"command": ["x"]}))
    assert plain == {"event": "cached"}
