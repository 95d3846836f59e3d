"""Stages that are given up before all of their tasks were tried, and runs that end at the first failure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from diel.controller.stop_policy import has_failed
from tests.controller.bench import Bench
from tests.throwaway import Project, Run, wait_for

ALIKE = """
    axes: {seed: {range: 40}}
    stages:
      simulate:
        over: [seed]
        command: 'test -e ../../../../../mended || { echo "seed $RANDOM: no input file" >&2; exit 3; }'
      other: {over: [seed], command: "true"}
      report: {after: [simulate], command: [echo, done]}
"""
"""Every simulation fails in the same way until the file `mended` is there."""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project").machine("two", 2)


def counts(run: Run, project: Project, stage: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(project.diel("status", run.id, "--json"))["stages"][stage]
    return found


def wait_for_line(project: Project, text: str) -> None:
    """Waits until the first controller wrote a line with this text."""
    journal = project.folder / "runs/flow-1/journal/controller-0001.jsonl"
    wait_for(lambda: journal.exists() and text in journal.read_text())


def test_a_stage_whose_first_tasks_fail_alike_is_held_and_the_rest_of_the_run_goes_on(
    project: Project,
) -> None:
    project.workflow(ALIKE)
    run = project.run("--site", "two", code=1)
    held = counts(run, project, "simulate")
    assert held["held"]["rule"] == "hold"
    assert "tasks failed alike (app): exit code 3: seed" in held["held"]["why"]
    assert held["failed"] <= 6
    assert held["failed"] + held["skipped"] == 40
    assert counts(run, project, "other")["done"] == 40
    assert counts(run, project, "report")["skipped"] == 1
    said = project.diel("status", run.id)
    assert "simulate is held: its first" in said
    assert (
        f"mend the cause and `diel resume {run.id} --update` (a changed workflow: `diel run` it again), "
        f"or go on all the same: `diel resume {run.id} --anyway`"
    ) in said
    assert "it was not tried: its first" in project.diel("explain", run.id, "simulate/39")
    assert "tasks not tried: its first" in project.diel("explain", run.id)
    assert "held" in project.diel("resume", run.id, code=1)  # the cause is there still
    (project.folder / "mended").touch()
    project.diel("resume", run.id)
    assert counts(run, project, "simulate")["done"] == 40
    assert "held" not in counts(run, project, "simulate")


def test_a_held_stage_goes_on_all_the_same_if_a_user_says_so(project: Project) -> None:
    project.workflow(ALIKE)
    run = project.run("--site", "two", code=1)
    project.diel("resume", run.id, "--anyway", code=1)
    assert counts(run, project, "simulate")["failed"] == 40


def test_a_held_stage_of_a_run_that_goes_on_is_let_go_by_the_same_command(project: Project) -> None:
    project.workflow(
        ALIKE + "      waits: {command: 'until test -e ../../../../../enough; do sleep 0.02; done'}\n"
    )
    running = project.start("run", "flow.yaml", "--site", "two")
    wait_for_line(project, '"event":"held"')
    said = project.diel("status")
    assert "go on with it? `diel resume flow-1 --anyway`" in said
    assert "it is held: its first" in project.diel("explain", "flow-1")
    assert "goes on" in project.diel("resume", "flow-1", "--anyway")
    run = project.newest()
    wait_for(lambda: len(run.records("failed", "simulate")) == 40)
    (project.folder / "enough").touch()
    project.end(running, code=1)
    assert counts(run, project, "report")["skipped"] == 1


@pytest.mark.parametrize(
    ("option", "moment"),
    [
        ("--quiet", '"event":"held"'),
        ("--quiet", '"reason":"hold"'),
        ("--fail-fast", '"event":"held"'),
    ],
)
def test_a_controller_that_is_killed_while_it_stops_early_loses_nothing(
    project: Project, option: str, moment: str
) -> None:
    project.workflow("""
        axes: {seed: {range: 40}}
        stages:
          simulate: {over: [seed], command: "test -e ../../../../../mended"}
          other: {over: [seed], command: "true"}
          report: {after: [simulate], command: "true"}
    """)
    running = project.start("run", "flow.yaml", "--site", "two", option)
    wait_for_line(project, moment)
    running.kill()
    running.communicate()
    (project.folder / "mended").touch()
    project.diel("resume", "flow-1", "--quiet")
    run = project.newest()
    assert [run.counts(stage) for stage in ("simulate", "other", "report")] == [
        {"done": 40},
        {"done": 40},
        {"done": 1},
    ]
    assert len(run.results("simulate")) == 40  # and none of them twice
    assert not run.history().is_held()


@pytest.mark.parametrize(
    "stage",
    [
        "{over: [seed], hold: false, command: 'exit 3'}",
        "{over: [seed], command: 'exit ${{ 1 + seed % 2 }}'}",  # not alike
        "{over: [seed], command: 'test ${{ seed }} -lt 1'}",  # one was good
        "{over: [few], command: 'exit 3'}",
    ],
)
def test_a_stage_is_not_held_where_failures_differ_or_some_are_good_or_few_are_left(
    project: Project, stage: str
) -> None:
    project.workflow(f"axes: {{seed: {{range: 30}}, few: {{range: 6}}}}\nstages:\n  simulate: {stage}\n")
    run = project.run("--site", "two", code=1)
    found = counts(run, project, "simulate")
    assert "held" not in found
    assert found["skipped"] == 0


def test_a_held_stage_goes_on_by_itself_once_a_task_that_was_under_way_is_good(project: Project) -> None:
    project.workflow("""
        axes: {seed: {range: 30}}
        stages:
          simulate:
            over: [seed]
            command: 'test ${{ seed }} = 0 && until test -e ../../../../../enough; do sleep 0.02; done'
    """)
    running = project.start("run", "flow.yaml", "--site", "two")
    wait_for_line(project, '"event":"held"')
    (project.folder / "enough").touch()
    project.end(running, code=1)
    found = counts(project.newest(), project, "simulate")
    assert (found["done"], found["failed"]) == (1, 29)
    assert "held" not in found


def test_tasks_that_cannot_even_be_made_fail_alone(project: Project) -> None:
    project.workflow("""
        axes: {n: {values: [0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18]}}
        stages:
          first: {command: 'echo "{\\"x\\": 0}" > $DIEL_RESULT', outputs: {x: {value: int}}}
          simulate: {over: [n], inputs: {x: first.x}, command: 'test ${{ 1 / (n + inputs.x) }}'}
    """)
    run = project.run("--site", "two", code=1)
    found = counts(run, project, "simulate")
    assert (found["failed"], found["done"]) == (6, 18)
    assert not run.records("held")


def test_services_that_all_fail_are_not_held(project: Project) -> None:
    project.workflow("""
        axes: {seed: {range: 8}}
        stages:
          serve: {over: [seed], command: 'exit 3', service: {restarts: 0}}
          ask: {over: [seed], command: "true", services: [serve]}
    """)
    run = project.run("--site", "two", code=1)
    assert counts(run, project, "serve")["failed"] == 8
    assert not run.records("held")


def test_more_failures_than_a_stage_may_have_stop_it_and_resume_tries_the_rest(project: Project) -> None:
    project.workflow("""
        axes: {seed: {range: 40}}
        stages:
          simulate:
            over: [seed]
            max_failures: 10%
            retries: {limit: 1, backoff: 0s}
            command: 'test ${{ seed % 2 }} = 0 || test -e ../../../../../mended'
          other: {command: "true"}
    """)
    run = project.run("--site", "two", code=1)
    found = counts(run, project, "simulate")
    assert found["held"] == {"rule": "max_failures", "why": "5 tasks failed, and `max_failures` is 10%"}
    assert 5 <= found["failed"] < 20
    assert found["skipped"] > 0
    assert "simulate was stopped: 5 tasks failed" in project.diel("status", run.id)
    assert "it was not tried: 5 tasks failed" in project.diel("explain", run.id, "simulate/39")
    assert "--anyway" not in project.diel("status", run.id)
    (project.folder / "mended").touch()
    project.diel("resume", run.id)
    assert counts(run, project, "simulate")["done"] == 40


def test_a_run_that_lost_more_than_it_may_has_failed_though_readers_went_on(project: Project) -> None:
    project.workflow("""
        axes: {seed: {range: 40}}
        stages:
          simulate:
            over: [seed]
            max_failures: 0
            command: 'test ${{ seed }} != 39; echo "{\\"x\\": 1}" > $DIEL_RESULT'
            outputs: {x: {value: float}}
          report: {command: [echo, done], inputs: {x: {from: simulate.x, min_success: 0.5}}}
    """)
    run = project.run("--site", "two", code=1)
    assert counts(run, project, "report")["done"] == 1
    assert counts(run, project, "simulate")["done"] == 39


def test_a_run_with_fail_fast_begins_nothing_after_the_first_failure(project: Project) -> None:
    project.workflow("""
        axes: {seed: {range: 40}}
        stages:
          first: {command: 'test -e ../../../../../mended'}
          simulate: {over: [seed], command: "until grep -qs held ../../../journal/controller-*; do sleep 0.02; done"}
          report: {after: [simulate], command: [echo, done]}
    """)
    said = project.diel("run", "flow.yaml", "--site", "two", "--fail-fast", code=1)
    run = project.newest()
    assert "first was stopped: first/0 failed, and the run was to stop at that" in said
    found = counts(run, project, "simulate")
    assert found["skipped"] > 0
    assert found["skipped"] + found["done"] == 40
    assert counts(run, project, "report")["skipped"] == 1
    assert "it was not tried: first/0 failed" in project.diel("explain", run.id, "simulate/39")
    project.diel("resume", run.id, code=1)  # which does not ask for that
    assert counts(run, project, "simulate")["done"] == 40


FLOW = """
axes: {{i: {{range: 4}}}}
stages:
  make: {{command: 'run > $DIEL_RESULT', over: [i]}}
  each: {{command: [echo, "${{{{ make.x }}}}"], over: [i]}}
  mean: {{command: [mean, "${{{{ inputs.x }}}}"], inputs: {{x: {{from: make.x, min_success: {least}}}}}}}
"""


def ended(folder: Path, least: float, *, each: bool = True) -> Bench:
    """A run in which the first of four tasks failed, and all that follows was done or skipped."""
    text = FLOW.format(least=least)
    lines = text.splitlines()
    bench = Bench(folder, "\n".join(line for line in lines if each or not line.startswith("  each")))
    bench.fail("make", 0)
    for index in range(1, 4):
        bench.done("make", index, x=index)
    return bench


def test_a_failure_that_every_reader_goes_on_without_is_tolerated_and_written_down(tmp_path: Path) -> None:
    bench = ended(tmp_path, 0.5, each=False)
    assert not has_failed(bench.stages, bench.ledger)
    assert bench.stages.runs["make"].history.tolerated
    written = bench.paths.controller_segment(1).read_text()
    assert "`min_success` of 'mean'" in written


def test_failures_that_leave_too_few_points_in_common_fail_the_run(tmp_path: Path) -> None:
    """Each edge has enough alone; together they have not, so that the reader was skipped."""
    text = """
    axes: {i: {range: 4}}
    stages:
      a: {command: 'run > $DIEL_RESULT', over: [i]}
      b: {command: 'run > $DIEL_RESULT', over: [i]}
      fit:
        command: [fit]
        inputs: {p: {from: a.x, min_success: 0.7}, q: {from: b.x, min_success: 0.7}}
    """
    bench = Bench(tmp_path, text)
    for stage, bad in (("a", 0), ("b", 1)):
        for index in range(4):
            bench.fail(stage, index) if index == bad else bench.done(stage, index, x=index)
    assert has_failed(bench.stages, bench.ledger)
    assert not bench.stages.runs["a"].history.tolerated


@pytest.mark.parametrize(("least", "each"), [(1.0, False), (0.5, True)])
def test_a_failure_that_one_reader_cannot_do_without_fails_the_run(
    tmp_path: Path, least: float, each: bool
) -> None:
    bench = ended(tmp_path, least, each=each)
    assert has_failed(bench.stages, bench.ledger)
    assert not bench.stages.runs["make"].history.tolerated
