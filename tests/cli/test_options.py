"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from diel.cli.options import Duration, put, runs_option, stacked
from diel.errors import DielError


def test_runs_are_where_the_environment_says_unless_an_option_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIEL_RUNS", "elsewhere")
    found: list[Path] = []
    command = click.command()(runs_option(lambda runs: found.append(runs)))
    command.main([], standalone_mode=False)
    command.main(["--runs", "here"], standalone_mode=False)
    assert found == [Path("elsewhere"), Path("here")]


def test_stacked_options_are_listed_in_their_order() -> None:
    both = stacked(click.option("--first"), click.option("--second"))
    command = click.command()(both(lambda first, second: None))
    assert [option.name for option in command.params] == ["first", "second"]


def test_a_duration_is_in_seconds_and_needs_a_unit() -> None:
    assert Duration().convert("1h30m", None, None) == 5400.0
    with pytest.raises(click.BadParameter, match="without a unit"):
        Duration().convert("90", None, None)


def test_a_text_is_printed_or_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put("text", None)
    put("text", tmp_path / "file")
    assert capsys.readouterr().out == (tmp_path / "file").read_text(encoding="utf-8") == "text\n"
    with pytest.raises(DielError, match=r"cannot write .*nowhere"):
        put("text", tmp_path / "nowhere" / "file")
