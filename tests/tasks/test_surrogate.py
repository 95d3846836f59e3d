"""What tasks ask their surrogate, and what of an earlier answer counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from diel.base.terms import SIMULATED
from diel.tasks.surrogate import tell_cached
from diel.worker.attempt.bundle import Question
from diel.workflow.models import Stage
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
    assert isinstance(question, Question)
    assert (dict(question.row), question.replicas) == ({"x": 2.5}, (0, 1))


@pytest.mark.parametrize("other", [{"model": 2}, {"tolerance": "0.25"}])
def test_an_answer_is_its_models_and_tolerances_and_what_is_simulated_is_not(
    tmp_path: Path, other: dict[str, Any]
) -> None:
    one, another = (bench.resolve("sim") for bench in (bench_of(tmp_path), bench_of(tmp_path, **other)))
    assert isinstance(one.question, Question)
    assert isinstance(another.question, Question)
    assert one.key == another.key
    assert one.question.key != another.question.key
    assert one.question.parts[0] == another.question.parts[0]


def test_a_stage_whose_service_will_not_come_asks_nobody(tmp_path: Path) -> None:
    assert bench_of(tmp_path, model=None).resolve("sim").question == "the service never started"


def test_status_learns_who_taught_a_surrogate_from_its_stages_record(tmp_path: Path) -> None:
    text = bench_of(tmp_path).paths.controller_segment(1).read_text()
    assert '"surrogate":{"service":"serve"' in text.replace(" ", "")


def test_a_result_of_a_run_without_a_surrogate_was_simulated_unasked() -> None:
    spec: dict[str, Any] = {"command": ["x"], "surrogate": {"service": "serve", "tolerance": 1}}
    record: Any = {"event": "cached"}
    tell_cached(record, as_record({"values": {"y": 1.0}}), Stage.model_validate(spec), None)
    assert (record["values"][SIMULATED], record["surrogate"]) == (True, {"asked": 0.0, "used": False})
    plain: Any = {"event": "cached"}
    tell_cached(plain, as_record({}), Stage.model_validate({"command": ["x"]}), None)
    assert plain == {"event": "cached"}


# --- audits ---------------------------------------------------------------------------------------

MANY = (
    FLOW.replace("[1.5, 2.5]", "{linspace: [0, 1, 400]}")
    .replace("x: {values: {", "x: {")
    .replace("}}, name", "}, name")
)


def drawn(folder: Path, audit: str) -> list[int]:
    folder.mkdir()
    bench = Bench(folder, MANY.replace("TOLERANCE", f"0.5, audit: {audit}"))
    bench.done("train", model=1)
    questions = [bench.resolve("sim", index).question for index in range(400)]
    return [
        index
        for index, question in enumerate(questions)
        if isinstance(question, Question) and question.audited
    ]


def test_the_seed_draws_a_share_of_the_tasks_to_be_audited(tmp_path: Path) -> None:
    tenth = drawn(tmp_path / "a", "0.1")
    assert 20 <= len(tenth) <= 60
    assert drawn(tmp_path / "b", "0.1") == tenth
    assert drawn(tmp_path / "c", "0.1, seed: 1") != tenth
    assert set(tenth) < set(drawn(tmp_path / "d", "0.3"))
    assert drawn(tmp_path / "e", "1") == list(range(400))


def test_whether_answers_are_audited_does_not_change_them(tmp_path: Path) -> None:
    one, other = (
        bench_of(tmp_path, tolerance=more).resolve("sim") for more in ("0.5", "0.5, audit: 0.3, seed: 7")
    )
    assert isinstance(one.question, Question)
    assert isinstance(other.question, Question)
    assert one.question.key == other.question.key


def test_why_an_earlier_run_did_not_ask_is_no_reason_of_this_one() -> None:
    spec = Stage.model_validate({"command": ["x"], "surrogate": {"service": "serve", "tolerance": 1}})
    found = {"values": {"y": 1.0}, "surrogate": {"asked": 0.0, "used": False, "unasked": "its audit failed"}}
    record: Any = {"event": "cached"}
    tell_cached(record, as_record(found), spec, None)
    assert record["surrogate"] == {"asked": 0.0, "used": False}


def test_what_an_audit_found_counts_again_for_the_same_model_only() -> None:
    surrogate = {"service": "serve", "tolerance": 1, "audit": 0.5}
    spec = Stage.model_validate({"command": ["x"], "surrogate": surrogate})
    found = {"values": {"y": 1.0}, "surrogate": {"asked": 0.1, "used": False, "error": 0.2, "answer": "k"}}
    for key, kept in (("k", True), ("other", False)):
        record: Any = {"event": "cached"}
        tell_cached(record, as_record(found), spec, Question({}, (), key, ("", "")))
        assert ("error" in record["surrogate"]) == kept
