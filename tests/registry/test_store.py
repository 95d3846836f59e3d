"""Changes of a project's hyperparameters: each is whole, in order, and lost to nobody who reads or writes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from diel import registry
from diel.errors import UsageError
from diel.paths import registry_dir
from diel.registry import Change, append_change, current, read_change, read_changes, read_current
from tests.throwaway import wait_for


def held(runs: Path) -> dict[str, Any]:
    return {name: one.value for name, one in current(read_changes(runs)[0]).items()}


def test_changes_fold_in_their_order_and_unset_takes_back(tmp_path: Path) -> None:
    append_change(tmp_path, Change("set", {"a": 1, "b": 1}))
    append_change(tmp_path, Change("set", {"a": 2}))
    append_change(tmp_path, Change("set", unset=("b",)))
    assert held(tmp_path) == {"a": 2}


def test_many_changes_are_folded_once_and_none_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "FOLDED", 4)
    for number in range(7):
        append_change(tmp_path, Change("set", {"a": number, f"b{number}": 0}))
    append_change(tmp_path, Change("set", unset=("b1", "b5")))
    append_change(tmp_path, Change("set", {"c": 1}))
    expected = current(read_changes(tmp_path)[0])
    read: list[str] = []

    def reading(path: Path) -> Change | None:
        read.append(path.name)
        return read_change(path)

    monkeypatch.setattr(registry, "read_change", reading)
    assert read_current(tmp_path) == (expected, [])
    assert len(read) == 1, "the others stand in the fold"

    files = sorted(registry_dir(tmp_path).glob("*-*.json"))
    files[6].unlink()  # somebody took a change out of the fold by hand: the fold counts no more
    assert {name: one.value for name, one in read_current(tmp_path)[0].items()} == held(tmp_path)
    (registry_dir(tmp_path) / "folded.json").write_text("{")
    assert read_current(tmp_path)[0] == current(read_changes(tmp_path)[0])


def test_a_change_comes_after_all_that_its_host_has_seen_whatever_its_clock_says(tmp_path: Path) -> None:
    made = append_change(tmp_path, Change("set", {"a": 1}))
    (file,) = registry_dir(tmp_path).iterdir()
    ahead = int(time.time() * 1e9) + 10**15
    file.rename(file.with_name(f"{ahead:020d}-elsewhere-1.json"))
    assert append_change(tmp_path, Change("set", {"a": 2})).time >= made.time
    assert held(tmp_path) == {"a": 2}


def test_a_file_that_cannot_be_read_is_left_alone_and_named(tmp_path: Path) -> None:
    append_change(tmp_path, Change("set", {"a": 1}))
    torn = registry_dir(tmp_path) / f"{10**19}-here-1.json"
    torn.write_text('{"origin": "set", "val', encoding="utf-8")
    (registry_dir(tmp_path) / "notes.txt").write_text("mine", encoding="utf-8")
    changes, unreadable = read_changes(tmp_path)
    assert (len(changes), unreadable) == (1, [torn])


@pytest.mark.parametrize(
    "wrong",
    [
        {"time": "noon"},
        {"time": 1e300},
        {"time": -1e18},
        {"values": [1]},
        {"values": {"a": float("inf")}},
        {"unset": [["a"]]},
        {"origin": 5},
        {"run": 5},
        {"trial": "first"},
    ],
    ids=str,
)
def test_a_file_with_a_part_of_the_wrong_type_is_left_alone_and_named(
    tmp_path: Path, wrong: dict[str, Any]
) -> None:
    append_change(tmp_path, Change("set", {"a": 1}))
    (good,) = registry_dir(tmp_path).iterdir()
    bad = good.with_name(f"{10**19}-here-1.json")
    bad.write_text(json.dumps({**json.loads(good.read_text()), **wrong}), encoding="utf-8")
    changes, unreadable = read_changes(tmp_path)
    assert (len(changes), unreadable) == (1, [bad])


def test_a_registry_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / ".registry").write_text("in the way", encoding="utf-8")
    with pytest.raises(UsageError, match=r"cannot write to the project's registry .*\.registry: "):
        append_change(tmp_path, Change("set", {"a": 1}))
    with pytest.raises(UsageError, match=r"cannot read the project's registry"):
        read_changes(tmp_path)


# --- many at once ---------------------------------------------------------------------------------

WRITER = """
import sys
from pathlib import Path
from diel.registry import Change, append_change
runs, mark, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
for number in range(count):
    value = mark * 1000 + number
    origin = "promotion" if mark % 2 else "set"
    append_change(runs, Change(origin, {"a": value, "b": value}, run=f"w-{mark}", axis="trial", trial=number))
"""


def writer(runs: Path, mark: int, count: int) -> subprocess.Popen[str]:
    """A process that is about to change `a` and `b` together, so many times."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(runs), str(mark), str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def end(process: subprocess.Popen[str]) -> int:
    """Waits for a process, and closes its pipes."""
    process.communicate()
    return process.returncode


def test_eight_processes_change_a_project_at_once_while_another_reads(tmp_path: Path) -> None:
    writers = [writer(tmp_path, mark, 12) for mark in range(8)]
    for process in writers:
        go(process)
    seen = 0
    while any(process.poll() is None for process in writers):
        changes, unreadable = read_changes(tmp_path)
        values = held(tmp_path)
        assert unreadable == []
        assert len(changes) >= seen, "a change is gone"
        assert values.get("a") == values.get("b"), "half a change was seen"
        seen = len(changes)
    assert [end(process) for process in writers] == [0] * 8
    changes, unreadable = read_changes(tmp_path)
    assert (len(changes), unreadable) == (96, [])
    for mark in range(8):  # no writer's changes are lost, or out of their order
        mine = [change.values["a"] for change in changes if change.run == f"w-{mark}"]
        assert mine == [mark * 1000 + number for number in range(12)]
    assert not [name for name in os.listdir(registry_dir(tmp_path)) if name.endswith(".part")]


@pytest.mark.parametrize("round_", range(3))
def test_a_writer_that_is_killed_leaves_a_registry_that_is_read_and_written(
    tmp_path: Path, round_: int
) -> None:
    process = writer(tmp_path, 1, 100_000)
    go(process)
    wait_for(lambda: len(read_changes(tmp_path)[0]) > 3 * round_ + 1)
    process.send_signal(signal.SIGKILL)
    assert end(process) == -signal.SIGKILL
    changes, unreadable = read_changes(tmp_path)
    assert unreadable == []
    assert [change.trial for change in changes] == list(range(len(changes)))
    append_change(tmp_path, Change("set", {"a": "after"}))
    assert held(tmp_path)["a"] == "after"
