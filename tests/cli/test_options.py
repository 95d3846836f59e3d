"""Options that several commands share."""

from __future__ import annotations

import resource
from pathlib import Path

import click
import pytest

from diel.base.errors import DielError
from diel.cli.options import duration, put, runs_option, stacked


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
    assert duration("1h30m") == 5400.0
    with pytest.raises(click.BadParameter, match="without a unit"):
        duration("90")


def test_a_text_is_printed_or_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put("text", None)
    put("text", tmp_path / "file")
    assert capsys.readouterr().out == (tmp_path / "file").read_text(encoding="utf-8") == "text\n"
    with pytest.raises(DielError, match=r"cannot write .*nowhere"):
        put("text", tmp_path / "nowhere" / "file")


def test_a_file_that_does_not_fit_leaves_what_was_there(tmp_path: Path) -> None:
    put("before", tmp_path / "file")
    (tmp_path / "file").chmod(0o600)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(DielError, match=r"cannot write .*file: File too large"):
            put("text" * 1000, tmp_path / "file")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text(encoding="utf-8") == "before\n"
    put("after", tmp_path / "file")
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


def test_a_link_or_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    put("text", tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text(encoding="utf-8") == "text\n"
