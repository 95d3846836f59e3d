"""What is kept by content is made once, whole or not at all, whoever else makes it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from diel.base.errors import UsageError
from diel.worker.environments.kept import left_behind, make_once


def make(place: Path) -> None:
    place.mkdir()
    (place / "content").write_text("whole")


def test_it_is_made_once(tmp_path: Path) -> None:
    first = make_once(tmp_path / "kept", "d1", make)
    assert (first / "content").read_text() == "whole"
    assert make_once(tmp_path / "kept", "d1", lambda _: pytest.fail("made again")) == first


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(place: Path) -> None:
        make(place)
        raise UsageError("no such package")

    with pytest.raises(UsageError):
        make_once(tmp_path, "d1", fail)
    assert list(tmp_path.iterdir()) == []


def test_of_two_who_make_the_same_one_wins_and_the_other_uses_that(tmp_path: Path) -> None:
    def late(place: Path) -> None:
        make(place)
        (place / "content").write_text("late")
        if not os.fork():
            try:
                make_once(tmp_path, "d1", make)
            finally:
                os._exit(0)
        os.wait()

    assert (make_once(tmp_path, "d1", late) / "content").read_text() == "whole"
    assert len(list(tmp_path.iterdir())) == 2, "the link and what it names"


def test_a_maker_that_is_killed_leaves_nothing_that_anyone_would_use(tmp_path: Path) -> None:
    def killed(place: Path) -> None:
        make(place)
        os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if not child:
        make_once(tmp_path, "d1", killed)
    os.waitpid(child, 0)
    assert not (tmp_path / "d1").exists()
    assert len(list(left_behind(tmp_path))) == 1
    make_once(tmp_path, "d2", make)
    assert not list(left_behind(tmp_path)), "the next maker clears it away"


def test_a_link_to_nothing_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "d1").symlink_to("gone")
    assert (make_once(tmp_path, "d1", make) / "content").read_text() == "whole"


@pytest.mark.parametrize("mode", [0o1777, 0o775, 0o757])
def test_a_directory_into_which_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    """Whoever can put the link of a digest there has their programs executed."""
    kept = tmp_path / "kept"
    make_once(kept, "d1", make)
    kept.chmod(mode)
    for digest in ("d1", "d2"):
        with pytest.raises(UsageError, match="others can write there.*\n.*chmod go-w"):
            make_once(kept, digest, make)
    kept.chmod(0o755)
    assert make_once(kept, "d1", lambda _: pytest.fail("made again"))


@pytest.mark.skipif(os.getuid() != 0, reason="gives a directory to another user")
def test_what_another_user_made_is_refused(tmp_path: Path) -> None:
    link = make_once(tmp_path / "kept", "d1", make)
    os.chown(link, 12345, 12345)
    with pytest.raises(UsageError, match="another user's"):
        make_once(tmp_path / "kept", "d1", make)
    os.chown(link, 0, 0)
    os.chown(tmp_path / "kept", 12345, 12345)
    with pytest.raises(UsageError, match="another user's"):
        make_once(tmp_path / "kept", "d1", make)
