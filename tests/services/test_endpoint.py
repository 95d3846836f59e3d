"""The files that tell where a service is."""

from __future__ import annotations

import errno
import secrets
import stat
from pathlib import Path

import pytest

from diel.base.paths import RunPaths
from diel.streams.services.endpoint import (
    TOKEN,
    Endpoint,
    endpoint_file,
    make_token,
    read_endpoint,
    read_token,
    variables,
    write_endpoint,
)


def test_a_token_is_drawn_once_a_run_for_its_owner_alone(tmp_path: Path) -> None:
    one, other = RunPaths(tmp_path / "a-1"), RunPaths(tmp_path / "a-2")
    assert make_token(one) == make_token(one) != make_token(other)
    assert len(make_token(one)) >= 32
    assert stat.S_IMODE((one.services / TOKEN).stat().st_mode) == 0o600


def test_a_token_that_could_not_be_written_is_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = RunPaths(tmp_path / "a-1")

    def full(_: int) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(secrets, "token_urlsafe", full)
        with pytest.raises(OSError, match="No space"):
            make_token(paths)
        with pytest.raises(FileNotFoundError):
            read_token(paths)
    assert len(make_token(paths)) >= 32
    assert stat.S_IMODE((paths.services / TOKEN).stat().st_mode) == 0o600


def test_a_file_that_is_torn_or_newer_tells_of_no_replica(tmp_path: Path) -> None:
    path = tmp_path / "0.json"
    assert read_endpoint(path) is None
    path.write_text('{"state": "rea')
    assert read_endpoint(path) is None
    path.write_text('{"state": "ready", "what": 1}')
    assert read_endpoint(path) is None


def test_consumers_take_turns_at_the_replicas_that_are_ready(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "a-1")
    token = make_token(paths)
    for index, state in enumerate(("ready", "restarting", "ready")):
        write_endpoint(endpoint_file(paths, "serve", index), Endpoint(state, f"http://h:{index}", 1))
    told = [variables(paths, {"serve": range(4)}, index) for index in range(4)]
    assert [one["DIEL_SERVICE_SERVE_URL"] for one in told] == ["http://h:0", "http://h:2"] * 2
    assert {one["DIEL_SERVICE_SERVE_URLS"] for one in told} == {"http://h:0,http://h:2"}
    assert {one["DIEL_SERVICE_SERVE_TOKEN"] for one in told} == {token}
