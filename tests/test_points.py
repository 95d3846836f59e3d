"""Tasks are named by their points wherever people read, and chosen by them."""

from __future__ import annotations

import json

import pytest

from tests.cli.call import call
from tests.throwaway import Project

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, str]:
    """A run of which all tasks with one depth failed, and what it said."""
    project = Project(tmp_path_factory.mktemp("swing"), "swing").workflow("""
        axes:
          depth: {values: [1.0, 2.5, 3.0]}
          seed: {range: 4}
          metal: {values: [copper, silver]}
        stages:
          simulate:
            over: [depth, seed]
            outputs: {e: {value: float}, out: out.txt}
            command: |
              echo "depth ${{ depth }} seed ${{ seed }}" | tee out.txt
              echo '{"e": ${{ depth + seed }}}' > "$DIEL_RESULT"
              test ${{ depth }} != 2.5 || { echo "Error: too deep" >&2; exit 3; }
          smelt: {over: [metal], command: "echo ${{ metal }}"}
        """)
    return project, project.diel("run", "swing.yaml", code=1)


@pytest.fixture
def said(ran: tuple[Project, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """What the run said; its directory is the current one."""
    monkeypatch.chdir(ran[0].folder)
    return ran[1]


def test_failed_tasks_are_named_by_their_points(said: str, capsys: Capture) -> None:
    assert "simulate/4 (depth=2.5, seed=0)  app: exit code 3" in said
    for words in (["status"], ["explain"], ["report"], ["explain", "simulate/5"], ["logs", "simulate/5"]):
        told = call(capsys, *words)
        assert "simulate/5 (depth=2.5, seed=1)" in told.out + told.err, words


def test_programs_get_the_point_beside_the_task(said: str, capsys: Capture) -> None:
    first = json.loads(call(capsys, "status", "--json").out)["failures"][0]
    assert (first["task"], first["point"]) == ("simulate/4", {"depth": 2.5, "seed": 0})
