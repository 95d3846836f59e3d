"""`diel resume`: what it refuses, before anything of the run is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.call import call
from tests.handmade import Handmade

Capture = pytest.CaptureFixture[str]
FLOW = "stages: {s: {command: ['true']}}\n"


def journal(run: Handmade) -> list[str]:
    return sorted(path.name for path in run.paths.journal.iterdir())


@pytest.mark.parametrize("words", [(), ("--here",), ("--json",)])
def test_for_a_run_that_succeeded_there_is_nothing_to_do(
    workspace: Path, capsys: Capture, words: tuple[str, ...]
) -> None:
    run = Handmade(workspace, FLOW).stage("s", 1).done("s", 0).end("succeeded")
    said = call(capsys, "resume", *words)
    assert (said.code, "w-1 has succeeded: there is nothing to do" in said.out + said.err) == (0, True)
    assert said.out == "" or words != ("--json",), "a script gets no text"
    assert len(journal(run)) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--here", "--home", "login"), "--here means in the foreground, --home does not: give one of them"),
        (("--json",), "--json says how a run was submitted: give --home, or leave --json out"),
        (("--site", "nowhere"), "nowhere"),
        (("w-7",), "no run 'w-7'"),
    ],
)
def test_what_makes_no_sense_is_refused(
    workspace: Path, capsys: Capture, words: tuple[str, ...], message: str
) -> None:
    run = Handmade(workspace, FLOW).stage("s", 1)
    said = call(capsys, "resume", *words)
    assert (said.code, message in said.err) == (2, True), said.err
    assert len(journal(run)) == 2


def test_a_run_that_is_driven_is_left_to_its_controller(workspace: Path, capsys: Capture) -> None:
    run = Handmade(workspace, FLOW, alive=True).stage("s", 1)
    said = call(capsys, "resume", "w-1")
    assert (said.code, "`diel cancel w-1` stops it" in said.err) == (2, True)
    assert len(journal(run)) == 2
