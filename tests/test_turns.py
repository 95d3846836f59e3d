"""Who goes first where there is not room for all: nobody waits for ever for those who came later."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.throwaway import Project, Run


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path).machine("two", 2)


def began(run: Run, stage: str) -> list[float]:
    return sorted(float(record["time"]) for record in run.records("start", stage))


def test_a_gang_is_not_kept_waiting_by_short_tasks_of_others(project: Project) -> None:
    project.workflow(
        """
        axes:
          pair: {range: 3}
          other: {range: 60}
        stages:
          plain: {over: [other], command: sleep 0.1}
          make:
            over: [pair]
            command: echo ${{ pair }} | diel stream put samples
            outputs: {samples: {stream: true}}
          use:
            over: [pair]
            command: diel stream get samples
            inputs: {samples: make.samples}
        """
    )
    run = project.run("--site", "two")
    assert len(run.results("use")) == 3
    assert began(run, "use")[-1] < began(run, "plain")[-1]


def test_what_waits_for_a_services_cores_does_not_keep_those_waiting_that_ask_it(project: Project) -> None:
    """The wide task comes first, and finds room only after the last one has asked."""
    project.workflow(
        """
        axes:
          question: {range: 6}
        stages:
          first: {command: sleep 0.5}
          second: {command: sleep 0.5, after: [first]}
          wide: {command: "true", after: [second], resources: {cores_per_rank: 2}}
          serve:
            command: exec python3 -m http.server "$DIEL_SERVICE_PORT" --bind "$DIEL_SERVICE_HOST"
            service: {ready: {http: /}}
            resources: {cores_per_rank: 1}
          ask: {over: [question], command: sleep 0.5, services: [serve]}
        """
    )
    run = project.run("--site", "two")
    assert len(run.results("ask")) == 6
    assert began(run, "wide")[0] > began(run, "ask")[-1]
