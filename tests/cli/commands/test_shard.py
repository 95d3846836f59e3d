"""`diel shard` tells what is wrong where it cannot print a part."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from diel.cli import main
from diel.worker.staging.item import Local, Shard
from diel.worker.staging.shard import write_shards


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The surroundings of a command whose input `items` is shared out to ranks."""
    write_shards(str(tmp_path / "shards"), {"items": Shard("rank", 3)}, Local())
    (tmp_path / "inputs").write_text(json.dumps({"items": ["a", "b c", "d", "e"]}))
    for name, value in (("SHARDS", "shards"), ("INPUTS", "inputs"), ("TASK_DIR", ".")):
        monkeypatch.setenv(f"DIEL_{name}", str(tmp_path / value))
    for name in ("PMI_RANK", "PMI_SIZE", "SLURM_PROCID", "SLURM_NTASKS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["shard", *words])
    said = capsys.readouterr()
    return int(str(ended.value.code)), said.out, said.err


def test_the_launcher_says_which_rank_it_is(
    task: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PMI_SIZE", "2")
    drawn = []
    for rank in "01":
        monkeypatch.setenv("PMI_RANK", rank)
        code, out, _ = call(capsys, "items")
        assert code == 0
        drawn += out.splitlines()
    assert sorted(drawn) == ["a", "b c", "d", "e"]


def test_items_may_end_with_a_nul(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = call(capsys, "items", "--rank", "0", "--ranks", "1", "-0")
    assert sorted(out.split("\0")) == ["", "a", "b c", "d", "e"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["items"], 2, "no launcher gives the rank here"),
        (["items", "--rank", "0"], 2, "no launcher gives the ranks here"),
        (
            ["item", "--rank", "0", "--ranks", "1"],
            2,
            "no input 'item' has `shard` here; did you mean 'items'?",
        ),
        (["items", "--rank", "3", "--ranks", "2"], 2, "part 3 of 2: expected 0 to 1"),
        (["items", "--epoch", "-1"], 2, "Invalid value for '--epoch'"),
    ],
)
def test_what_is_wrong_is_told(
    task: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, said: str
) -> None:
    ended, _, err = call(capsys, *words)
    assert said in err
    assert ended == code


def test_it_is_for_tasks_alone(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "items")
    assert "this is for the command of a task with an input that has `shard`" in err
    assert code == 2
