"""A program that could not write is not to blame."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from diel.attempt.space import LEAST, is_full


@pytest.mark.parametrize(("blocks", "full"), [(0, True), (LEAST // 4096 - 1, True), (LEAST // 4096, False)])
def test_a_file_system_with_next_to_nothing_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blocks: int, full: bool
) -> None:
    assert not is_full(str(tmp_path))
    found = list(os.statvfs(tmp_path))
    found[0:2], found[4] = [4096, 4096], blocks  # f_bsize, f_frsize, f_bavail
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(found))
    assert is_full(str(tmp_path)) is full


def test_a_folder_that_is_gone_says_nothing(tmp_path: Path) -> None:
    assert not is_full(str(tmp_path / "gone"))
