"""What a searcher knows, kept: a resumed search goes on as it would, and draws nothing again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from diel.search.optuna import OptunaSearcher
from diel.search.search import Memory
from tests.search.playing import EVERYTHING, Play, search, space


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Play:
    monkeypatch.setattr("diel.search.search.SLOW", 0.0)
    return Play(search("tpe", startup=3, pruner="median"), space(EVERYTHING))


def keep(play: Play, path: Path, length: int) -> None:
    """After so many records, in the way of a controller that then is killed."""
    Memory(path).keep(play.take_over(length), play.course(length))


def found(play: Play, path: Path, length: int) -> tuple[OptunaSearcher, int]:
    """What the next controller finds, which reads so many records."""
    new = OptunaSearcher(play.given, play.over, play.seed)
    searcher, known = Memory(path).find(new, play.course(length))
    assert isinstance(searcher, OptunaSearcher)
    assert (searcher is new) == (known == 0)
    return searcher, known


def test_a_search_goes_on_where_it_was_and_draws_nothing_again(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play.run(12, parallel=2)
    length = len(play.records) - 8
    keep(play, tmp_path / "kept", length)
    searcher, known = found(play, tmp_path / "kept", length)
    assert known == length
    asked: list[Any] = []
    monkeypatch.setattr(searcher, "ask", lambda: asked.append(1))
    searcher.replay(play.course(length), known)
    monkeypatch.undo()
    assert asked == []
    play.go_on(searcher, length)


def test_what_came_after_it_was_kept_is_asked_and_told_again(play: Play, tmp_path: Path) -> None:
    play.run(12)
    keep(play, tmp_path / "kept", len(play.records) // 2)
    searcher, known = found(play, tmp_path / "kept", len(play.records) - 3)
    searcher.replay(play.course(len(play.records) - 3), known)
    play.go_on(searcher, len(play.records) - 3)


@pytest.mark.parametrize("damage", ["gone", "cut", "of another course"])
def test_what_cannot_be_used_is_passed_over(play: Play, tmp_path: Path, damage: str) -> None:
    play.run(6)
    path = tmp_path / "kept"
    keep(play, path, len(play.records))
    if damage == "gone":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-5])
    assert found(play, path, len(play.records) - (damage == "of another course"))[1] == 0


def test_what_is_drawn_at_once_leaves_no_file(tmp_path: Path) -> None:
    play = Play(search("random"), space(EVERYTHING)).run(3)
    keep(play, tmp_path / "kept", len(play.records))
    assert list(tmp_path.iterdir()) == []
