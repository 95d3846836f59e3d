"""Runs whose inputs are on the node's own disk: copied once, used by all, told by status and explain."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from diel.base.errors import counted
from diel.base.paths import RunPaths
from diel.observe.status.run import read_status
from tests.throwaway import Project

FLOW = """
    axes:
      i: {range: 6}
    stages:
      prepare:
        command: |
          head -c 100000 /dev/zero > big.bin
          mkdir 'my parts'
          for n in 0 1 2 3 4; do echo $n > "my parts/it is $n"; done
        outputs: {big: big.bin, parts: my parts}
      read:
        over: [i]
        inputs: {big: {from: prepare.big, stage: node}, parts: {from: prepare.parts, stage: node}}
        command: |
          wc -c < ${{ inputs.big }}
          cat ${{ inputs.parts }}/*
          echo ${{ inputs.parts }}
          cat "$DIEL_INPUTS"
          echo
          echo "$BIG"
        env: {BIG: "${{ inputs.big }}"}
      again:
        over: [i]
        inputs: {big: {from: prepare.big, stage: node}}
        params: {text: "at ${{ inputs.big }}"}
        module: parts:size
      share:
        over: [i]
        inputs: {items: {from: prepare.parts, stage: node, shard: {by: task, seed: 7}}}
        module: parts:share
      ranks:
        inputs: {items: {from: prepare.parts, stage: node, shard: rank}}
        command: |
          for e in 0 1; do
            diel shard items --rank 0 --ranks 2 --epoch $e > 0.$e
            diel shard items --rank 1 --ranks 2 --epoch $e > 1.$e
          done
        resources: {ranks: 1}
        outputs: {r00: "0.0", r10: "1.0", r01: "0.1", r11: "1.1"}
"""
PARTS = """
    from pathlib import Path

    @diel.module(kind="analysis")
    def size(big: Path, text: str) -> dict:
        return {"size": big.stat().st_size, "path": str(big), "text": text}

    @diel.module(kind="analysis")
    def share(items: Path, context: diel.Context) -> dict:
        drawn = [[path.read_text().strip() for path in context.shard("items", epoch)] for epoch in range(3)]
        return {"drawn": drawn, "places": [str(path) for path in context.shard("items")]}
"""


def site(folder: Path, disk: Path, size: str = "1GiB") -> None:
    place = folder / "schedulers" / "mine.yaml"
    place.parent.mkdir(exist_ok=True)
    place.write_text(
        f"name: mine\nscheduler: local\nlauncher: [env]\nlocal: {{dir: {disk}, size: {size}}}\n"
        "pools: {local: {cores: 2}}\n"
    )


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path / "a project").workflow(FLOW).module("parts", PARTS)
    site(made.folder, tmp_path / "disk")
    return made


def test_inputs_are_copied_once_and_all_tasks_read_the_copy(project: Project, tmp_path: Path) -> None:
    run = project.run("--site", "mine")
    told = run.records("staging")
    assert sum(record["copied"] for record in told if record["stage"] == "read") == 2
    assert not [record for record in told if record["stage"] == "again"], "it is there from the stage before"
    entries = next((tmp_path / "disk").glob("diel-*/entries"))
    for index in range(6):
        size, *numbers, place, inputs, big = run.stdout("read", index).splitlines()
        assert (size, numbers) == ("100000", list("01234"))
        assert place.startswith(str(entries))
        assert place.endswith("/my parts"), "quoted for the shell as it is at the end"
        assert big == json.loads(inputs)["big"]
        assert Path(big).is_relative_to(entries)
    assert run.values("again", "size") == [100_000] * 6
    assert all(path.startswith(str(entries)) for path in run.values("again", "path"))
    assert run.values("again", "text") == [f"at {path}" for path in run.values("again", "path")]

    shares = run.values("share", "drawn")
    for epoch in range(3):
        assert sorted(item for share in shares for item in share[epoch]) == list("01234")
    assert any(len({*map(tuple, share)}) > 1 for share in shares), "each epoch is dealt anew"
    assert all(
        Path(place).is_relative_to(entries) for share in run.values("share", "places") for place in share
    )
    for epoch in (0, 1):
        lines = [run.artifact("ranks", f"r{rank}{epoch}").read_text().splitlines() for rank in (0, 1)]
        assert sorted(len(part) for part in lines) == [2, 3]
        assert sorted(line[-1] for part in lines for line in part) == list("01234")
        assert all(line.startswith(str(entries)) for part in lines for line in part)

    status = read_status(RunPaths(run.root))
    (node,) = status.document()["staging"].values()
    assert (node["warnings"], node["copied"]) == (0, 7), (
        "two inputs, and five files of one that is shared out"
    )
    assert "staging: 7 copies" in project.diel("status")
    first = next(record for record in told if record["stage"] == "read" and record["copied"])
    brought = counted(first["copied"], "artifact")  # two tasks side by side may bring one each
    assert f"brought {brought} (" in project.diel("explain", run.id, f"read/{first['index']}")

    text = (project.folder / "flow.yaml").read_text()
    (project.folder / "flow.yaml").write_text(text.replace(", stage: node", "").replace("seed: 7", "seed: 8"))
    second = project.run("--site", "mine")
    assert second.counts("read") == second.counts("again") == {"cached": 6}, "the key knows nothing of a disk"
    assert second.counts("share") == {"done": 6}, "another order is another task"
    assert second.values("share", "places")[0][0].startswith(str(run.root)), "and nothing was staged"
    assert "shard of items: task 0 of 6, seed 7 → task 0 of 6, seed 8" in project.diel(
        "explain", second.id, "share/0"
    )


def test_a_disk_without_room_is_told_and_the_shared_one_is_read(project: Project, tmp_path: Path) -> None:
    site(project.folder, tmp_path / "disk", "50KiB")
    run = project.run("--site", "mine")
    assert set(run.values("again", "path")) == {str(run.artifact("prepare", "big"))}
    assert run.stdout("read").splitlines()[0] == "100000"
    told = project.diel("status")
    assert "no room for 97.7 KiB on the node's disk" in told
    assert "12 tasks used the shared file system" in told
    (node,) = json.loads(project.diel("status", "--json"))["staging"].values()
    assert node["warnings"] == 12
    said = project.diel("explain", run.id, "again/3")
    assert "used the shared file system: no room for 97.7 KiB" in said
