"""Whom a node works for, as the run's files tell."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from diel.backends.executors import node
from diel.backends.executors.node import ORPHAN, Controllers
from diel.base.paths import RunPaths
from diel.store.journal.segment import SegmentWriter
from diel.store.project.lease import beat, take


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    """A run that this process drives, as its first controller."""
    paths = RunPaths(tmp_path / "w-1")
    paths.journal.mkdir(parents=True)
    paths.blocks.mkdir(parents=True)
    take(paths)[1].close()
    return paths


def of_node(paths: RunPaths, *, epoch: int = 1) -> Controllers:
    own = {"DIEL_BLOCK": "1-0", "DIEL_CONTROLLER_EPOCH": str(epoch)}
    return Controllers({"DIEL_RUN_DIR": str(paths.root), **own})


def quiet(paths: RunPaths, seconds: float) -> None:
    """Nothing was heard of the controller for so long."""
    then = time.time() - seconds
    os.utime(paths.lease, (then, then))


def write(paths: RunPaths, epoch: int) -> None:
    paths.node_script("1-0").write_text(
        f"#!/bin/sh\nexport DIEL_BLOCK=1-0\nexport DIEL_CONTROLLER_EPOCH={epoch}\n"
    )


def test_a_script_is_renewed_when_a_later_controller_wrote_it(paths: RunPaths) -> None:
    assert not of_node(paths).renewed()  # it is not even there
    write(paths, 1)
    assert not of_node(paths).renewed()
    for epoch in (2, 3):
        SegmentWriter(paths.controller_segment(epoch)).close()
    assert not of_node(paths).renewed()  # the later ones have not come to it yet
    write(paths, 3)
    assert of_node(paths).renewed()
    assert not of_node(paths, epoch=3).renewed()


def test_a_run_is_driven_by_the_controller_of_one_epoch(paths: RunPaths) -> None:
    assert of_node(paths).is_driven()
    assert not of_node(paths, epoch=2).is_driven()
    SegmentWriter(paths.controller_segment(2)).append(
        {"event": "controller", "epoch": 2, "host": "h", "pid": 1, "started": 1.0, "time": time.time()}
    )
    assert not of_node(paths).is_driven()


def test_a_controller_on_another_host_is_lost_once_it_counts_as_gone(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "LOOK", 0.0)
    monkeypatch.setattr("diel.store.project.lease.lives", lambda pid, birth: None)
    monkeypatch.setattr("diel.store.project.lease.SILENCE", 0.2)
    assert of_node(paths).is_lost()


def test_a_controller_is_not_lost_once_it_is_heard_of_again(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet(paths, 30)
    monkeypatch.setattr("time.sleep", lambda _seconds: beat(paths))
    assert not of_node(paths).is_lost()


def test_a_node_is_abandoned_after_ten_minutes_of_its_own_without_a_heartbeat(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet(paths, 2 * ORPHAN)  # before it began, or by another clock
    one, now = of_node(paths), time.monotonic()
    assert not one.is_abandoned()
    monkeypatch.setattr("time.monotonic", lambda: now + ORPHAN + 1)
    beat(paths)
    assert not one.is_abandoned()
    monkeypatch.setattr("time.monotonic", lambda: now + 2 * ORPHAN + 2)
    assert one.is_abandoned()


def test_a_node_whose_run_was_removed_is_abandoned(paths: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    paths.lease.unlink()
    one, now = of_node(paths), time.monotonic()
    assert not one.is_abandoned()
    monkeypatch.setattr("time.monotonic", lambda: now + ORPHAN + 1)
    assert one.is_abandoned()
