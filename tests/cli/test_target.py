"""Which run, stage or task the words of a command mean, and what a shell may offer for them."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from diel.base.errors import UsageError
from diel.cli.target import FIRST, complete_stage, complete_task, is_file, run_and_rest
from tests.written import Written


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    found = tmp_path / "runs"
    many = {"stage": "simulate", "kind": "simulation", "total": 30, "parts": {"module": "m"}, "family": "h"}
    Written(found, "walk-1").write("stage", **many).end("succeeded")
    (found / "walk-1" / "workflow.yaml").write_text("stages: {simulate: {module: m}}")
    return found


@pytest.mark.parametrize("words", [("walk-1", "simulate/3"), ("last", "simulate/3"), ("simulate/3",)])
def test_a_run_may_be_left_out(runs: Path, words: tuple[str, ...]) -> None:
    paths, rest = run_and_rest(runs, words)
    assert (paths.run_id, rest) == ("walk-1", ("simulate/3",))


def test_the_name_of_a_run_that_is_not_there_is_no_stage(runs: Path) -> None:
    with pytest.raises(UsageError, match="walk-2"):
        run_and_rest(runs, ("walk-2", "simulate"))


@pytest.mark.parametrize(("word", "near"), [("codes", "its stages: simulate"), ("simulat/3", "'simulate'")])
def test_a_word_that_is_no_run_and_no_stage_is_told_as_both(runs: Path, word: str, near: str) -> None:
    with pytest.raises(UsageError, match=f"no run '{word}' in .*, and walk-1 has no stage '.*; .*{near}"):
        run_and_rest(runs, (word,))


def test_a_file_is_told_from_a_run_by_its_ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert (is_file("new.yaml"), is_file("walk-1")) == (True, False)


def test_a_shell_is_offered_the_first_tasks_and_any_that_is_there(runs: Path) -> None:
    command = click.Command("logs")
    context = click.Context(command)
    context.params = {"runs": runs, "run": "walk-1", "words": ("walk-1",)}
    parameter = click.Argument(["words"])
    assert complete_stage(context, parameter, "sim") == ["simulate"]
    assert complete_stage(context, parameter, "simulate/29") == ["simulate/29"]
    assert len(complete_task(context, parameter, "simulate/")) == FIRST
    assert complete_task(context, parameter, "simulate/29") == ["simulate/29"]
    assert complete_task(context, parameter, "simulate/30") == []
