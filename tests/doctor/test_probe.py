"""What a trial job finds out on its node."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from diel.doctor import probe


def test_a_probe_that_reaches_nobody_leaves_its_report_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("known")
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = server.getsockname()[1]
    words = ["probe", str(tmp_path), "p0", str(closed), "127.0.0.1", "sh", "diel,no-such-package"]
    monkeypatch.setattr("sys.argv", words)
    probe.main()
    report = json.loads((tmp_path / "p0.json").read_text())
    assert report["reached"] == ""
    assert "refused" in report["refused"]["127.0.0.1"]
    assert report["packages"]["diel"]
    assert report["packages"]["no-such-package"] is None
    assert report["launcher"].endswith("/sh")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p0.json", "token"]
