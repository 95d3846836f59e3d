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

from diel.base.errors import SpecError, UsageError
from diel.base.paths import registry_dir
from diel.store import registry
from diel.store.registry import (
    Change,
    append_change,
    current,
    read_change,
    read_changes,
    read_current,
    resolve,
    typed,
)
from diel.workflow.load import Document, load_text
from diel.workflow.models import Hyperparameter, Violations
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
from diel.store.registry import Change, append_change
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


TEXT = """diel: 1
name: test
hyperparameters:
  hidden: {type: int, default: 64, low: 8, high: 256}
  rate: {type: float, default: 1, low: 1e-5, high: 1}
  optimiser: {type: choice, choices: [adam, sgd, 3], default: adam}
  label: {type: str, default: run}
  verbose: {type: bool, default: false}
  unset: {type: float}
stages:
  a: {command: [echo, hello]}
"""


@pytest.fixture
def document() -> Document:
    return load_text(TEXT, Path("w.yaml"))


def test_defaults_hold_where_nothing_else_is_said(document: Document) -> None:
    found = resolve(document)
    assert found.plain() == {"hidden": 64, "rate": 1.0, "optimiser": "adam", "label": "run", "verbose": False}
    assert isinstance(found.values["rate"].value, float)
    assert found.values["hidden"].origin == "default"
    assert found.values["hidden"].source == "w.yaml:4"


def test_a_setting_beats_a_later_file_beats_an_earlier_one(document: Document, tmp_path: Path) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.json"
    first.write_text("hp.hidden: 10\nrate: 0.5\nlabel: first\n", encoding="utf-8")
    second.write_text('{"rate": 0.25, "label": "second"}', encoding="utf-8")
    found = resolve(document, ["hp.label=third"], [first, second])
    assert found.plain() == {
        "hidden": 10,
        "rate": 0.25,
        "optimiser": "adam",
        "label": "third",
        "verbose": False,
    }
    assert found.values["hidden"].source == f"{first}:1"
    assert found.values["rate"].origin == "file"
    assert (found.values["label"].origin, found.values["label"].source) == (
        "command line",
        "--set hp.label=third",
    )


@pytest.mark.parametrize(
    ("setting", "name", "value"),
    [
        ("hp.hidden=32", "hidden", 32),
        ("rate=1e-3", "rate", 1e-3),
        ("rate=1", "rate", 1.0),
        ("optimiser=sgd", "optimiser", "sgd"),
        ("optimiser=3", "optimiser", 3),
        ("label=a=b", "label", "a=b"),
        ("label=007", "label", "007"),
        ("label=", "label", ""),
        ("verbose=true", "verbose", True),
        ("unset=2.5", "unset", 2.5),
    ],
)
def test_a_setting_is_read_as_its_type_wants(
    document: Document, setting: str, name: str, value: object
) -> None:
    found = resolve(document, [setting]).values[name].value
    assert found == value
    assert type(found) is type(value)


def test_two_values_for_one_name_are_refused_with_both(document: Document) -> None:
    with pytest.raises(UsageError, match="--set hp.hidden=9 and --set hidden=10 exclude each other"):
        resolve(document, ["hp.hidden=9", "hidden=10"])
    assert resolve(document, ["hp.hidden=9", "hidden=9"]).plain()["hidden"] == 9


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("hp.hiden=3", r"--set hp.hiden=3: no hyperparameter 'hiden'\n    did you mean 'hidden'\?"),
        ("hidden=1.5", "expected a whole number, found 1.5"),
        ("hidden=many", "expected a whole number, found 'many'"),
        ("hidden=1000", "expected at most 256"),
        ("hidden=" + "9" * 5000, "expected a whole number"),
        ("rate=", "expected a number, found nothing"),
        ("rate=.nan", "expected a finite number, found .nan"),
        ("hidden=007", "expected a number in the usual way, found 007\\n    write 7"),
        ("hidden=0x10", "found 0x10\\n    write 16"),
        ("rate=00.5", "found 00.5\\n    write 0.5"),
        ("verbose=yes", "expected true or false, found 'yes'"),
        ("optimiser=adm", "expected one of adam, sgd, 3"),
        ("hidden", "expected NAME=VALUE"),
        ("=3", "expected NAME=VALUE"),
    ],
)
def test_a_wrong_setting_is_refused(document: Document, setting: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        resolve(document, [setting])
    assert caught.value.exit_code == 2
    assert len(str(caught.value)) < 6000


def test_everything_wrong_in_files_is_told_at_once_with_its_place(document: Document, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("hiden: 3\nhidden: 3\nrate: [1]\nhp.rate: 1\n", encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        resolve(document, [], [path, tmp_path / "missing.yaml"])
    shown = sorted(str(problem).split("\n")[0] for problem in caught.value.problems)
    assert shown == [
        f"{tmp_path}/missing.yaml:1:1: no such file",
        f"{path}:1:1: hiden: no hyperparameter 'hiden'",
        f"{path}:2:9: hidden: expected at least 8 (`low`), found 3",
        f"{path}:3:7: rate: expected a number, found a list",
        f"{path}:4:1: hp.rate: 'rate' is there twice, with and without hp.",
    ]


def test_wrong_settings_and_files_are_told_together(document: Document, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("- hidden\n", encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        resolve(document, ["hidden=x", "rate=7"], [path])
    lines = [line for line in str(caught.value).split("\n") if not line.startswith("    ")]
    assert [line.split(": ")[0] for line in lines] == [f"{path}:1:1", "--set hidden=x", "--set rate=7"]


def test_a_workflow_without_hyperparameters_says_so() -> None:
    bare = load_text("diel: 1\nname: x\nstages: {a: {command: [x]}}\n", Path("w.yaml"))
    assert resolve(bare).values == {}
    with pytest.raises(UsageError, match="the workflow has none"):
        resolve(bare, ["hidden=3"])


# --- the project's values -------------------------------------------------------------------------


def test_a_project_value_beats_the_default_and_files_and_settings_beat_it(
    document: Document, tmp_path: Path
) -> None:
    append_change(tmp_path, Change("set", {"hidden": 16, "rate": 0.5, "label": "mine"}, user="me"))
    file = tmp_path / "p.yaml"
    file.write_text("rate: 0.25\n", encoding="utf-8")
    found = resolve(document, ["label=typed"], [file], current(read_changes(tmp_path)[0]))
    assert (found.plain()["hidden"], found.plain()["rate"], found.plain()["label"]) == (16, 0.25, "typed")
    origins = {name: value.origin for name, value in found.values.items()}
    assert origins["hidden"] == "project"
    assert origins["rate"] == "file"
    assert origins["label"] == "command line"
    assert found.values["hidden"].source == "diel params set, by me"
    assert list(found.values) == ["hidden", "rate", "optimiser", "label", "verbose"]


def test_a_whole_number_of_the_project_is_a_float_where_one_is_wanted(
    document: Document, tmp_path: Path
) -> None:
    append_change(tmp_path, Change("set", {"rate": 1}))
    value = resolve(document, project=current(read_changes(tmp_path)[0])).values["rate"].value
    assert (value, type(value)) == (1.0, float)


def test_a_project_value_that_does_not_fit_is_refused_with_key_bounds_and_the_way_back(
    document: Document, tmp_path: Path
) -> None:
    promotion = Change("promotion", {"hidden": 1000, "other": 1}, run="x-3", axis="trial", trial=7)
    append_change(tmp_path, promotion)
    project = current(read_changes(tmp_path)[0])
    with pytest.raises(SpecError) as caught:
        resolve(document, project=project, takes_back=" --runs there")
    (problem,) = caught.value.problems
    assert (problem.key, problem.line) == ("hyperparameters.hidden", 4)
    assert "expected at most 256 (`high`), found 1000 (promotion of x-3, trial 7)" in problem.message
    assert "`diel params set hidden --unset --runs there`" in problem.hint
    assert resolve(document, ["hidden=32"], project=project).plain()["hidden"] == 32


def test_a_text_that_is_spelled_as_another_choice_is_set_and_shown_in_quotes() -> None:
    spec = Hyperparameter.model_validate({"type": "choice", "choices": [1, "1", 2.5, True, "true", "a"]})
    read = {text: typed(spec, text) for text in ("1", '"1"', "2.5", "true", '"true"', "a", '"a"')}
    assert {text: (type(value), value) for text, value in read.items()} == {
        "1": (int, 1),
        '"1"': (str, "1"),
        "2.5": (float, 2.5),
        "true": (bool, True),
        '"true"': (str, "true"),
        "a": (str, "a"),
        '"a"': (str, "a"),
    }
    with pytest.raises(Violations, match='expected one of 1, "1", 2.5, true, "true", a, found'):
        typed(spec, "b")
