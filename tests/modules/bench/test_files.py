"""Files, timed: what is left of them is nothing."""

from __future__ import annotations

import diel
from modules.bench.files import files


def test_files_are_written_read_and_left_behind_by_nobody(context: diel.Context) -> None:
    result = files(context, size=3_000_001, count=20)
    assert all(
        result[name] > 0 for name in ("write_mbs", "read_mbs", "create_rate", "stat_rate", "remove_rate")
    )
    assert list(context.task_dir.iterdir()) == []
