"""Putting a file in its place: whole, or not at all and loudly."""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from diel.base.files import put, replacing


def test_a_reader_never_sees_half_a_file_also_with_many_writers(tmp_path: Path) -> None:
    path = tmp_path / "shared.json"
    texts = [letter * 100_000 for letter in "abc"]
    put(path, texts[0])
    stop = threading.Event()

    def write(text: str) -> None:
        while not stop.is_set():
            put(path, text)

    writers = [threading.Thread(target=write, args=(text,)) for text in texts]
    for writer in writers:
        writer.start()
    seen = {path.read_text() for _ in range(200)}
    stop.set()
    for writer in writers:
        writer.join()
    assert seen <= set(texts)
    assert os.listdir(tmp_path) == ["shared.json"]


def test_what_is_interrupted_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "old"
    put(path, "old")

    def write() -> None:
        with replacing(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["old"]


def test_an_error_names_the_file_that_was_to_be_written(tmp_path: Path) -> None:
    lacking, taken = tmp_path / "no" / "file", tmp_path / "taken"
    taken.mkdir()
    for path, number in ((lacking, errno.ENOENT), (taken, errno.EISDIR)):
        with pytest.raises(OSError, match=os.strerror(number)) as caught:
            put(path, "text")
        assert (caught.value.errno, caught.value.filename) == (number, str(path))
    assert os.listdir(tmp_path) == ["taken"]


@pytest.mark.skipif(not os.access("/dev/full", os.W_OK), reason="no /dev/full here")
def test_a_full_disk_is_told_and_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "old"
    put(path, "old")
    opened = os.open
    monkeypatch.setattr(os, "open", lambda path, *rest: opened("/dev/full", os.O_WRONLY))
    with pytest.raises(OSError, match="No space left") as caught:
        put(path, "new")
    assert caught.value.filename == str(path)
    assert path.read_text() == "old"


def test_a_name_as_long_as_can_be_is_written(tmp_path: Path) -> None:
    path = tmp_path / ("ü" * 127)
    put(path, b"\xff\n")
    assert path.read_bytes() == b"\xff\n"


def test_a_private_file_is_never_open_to_others(tmp_path: Path) -> None:
    with replacing(tmp_path / "token", 0o600):
        (part,) = tmp_path.iterdir()
        assert stat.S_IMODE(part.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
