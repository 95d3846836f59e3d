"""A run's name can be given again; what points at a run means the one that it was."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.throwaway import Project

FLOW = """
    hyperparameters: {x: {type: int, default: 1}}
    stages:
      make: {command: 'echo ${{ hp.x }} > out.txt; echo ${{ hp.x }}', outputs: {out: out.txt}}
      reads: {command: 'cat ${{ make.out }} > r.txt', outputs: {r: r.txt}}
"""


@pytest.fixture
def made(tmp_path: Path) -> Project:
    """`flow-1` made a result, `flow-2` took it from the cache."""
    project = Project(tmp_path).workflow(FLOW)
    project.run()
    assert project.run().counts("make") == {"cached": 1}
    return project


def give_name_again(made: Project, removal: str = "clean") -> None:
    """Makes `flow-1` another run, of another value."""
    first = made.folder / "runs/flow-1"
    if removal == "clean":
        made.diel("clean", "flow-1", "--force", "--yes")
    else:
        shutil.rmtree(first)
    shutil.move(first.with_name("flow-2"), first.with_name("aside"))
    assert made.run("--set", "hp.x=2").id == "flow-1"
    shutil.move(first.with_name("aside"), first.with_name("flow-2"))


@pytest.mark.parametrize("removal", ["clean", "rm"])
def test_a_name_that_is_given_again_serves_no_results_of_another_run(made: Project, removal: str) -> None:
    give_name_again(made, removal)
    third = made.run()
    assert third.counts("make") == {"done": 1}
    assert third.artifact("reads", "r").read_text() == "1\n"
    path = made.diel("path", "flow-2", "make/0", "out", code=None)
    assert "/flow-1/" not in path
    said = made.diel("verify", "flow-2", code=1)
    assert "it is gone" in said
    assert "no longer exists" in made.diel("logs", "flow-2", "make/0", "--stdout", code=None)


def test_a_run_that_was_moved_is_found_by_its_id(made: Project) -> None:
    runs = made.folder / "runs"
    shutil.move(runs / "flow-1", runs / "flow-9")
    made.diel("verify", "flow-2")
    assert "/flow-9/" in made.diel("path", "flow-2", "make/0", "out")
    assert "flow-2 uses" in made.diel("clean", "flow-9", "--yes", code=2)
    assert made.run().counts("make") == {"cached": 1}


def test_a_copy_of_a_run_protects_it_and_its_own_files_serve(made: Project) -> None:
    runs = made.folder / "runs"
    subprocess.run(["cp", "-r", runs / "flow-1", runs / "flow-9"], check=True)
    made.diel("clean", "flow-1", "--yes")
    made.diel("verify", "flow-2")
    assert "flow-2 uses" in made.diel("clean", "flow-9", "--yes", code=2)


def test_each_run_has_an_id_of_its_own(made: Project) -> None:
    ids = [json.loads((made.folder / f"runs/flow-{n}/run.json").read_text())["id"] for n in (1, 2)]
    assert len(set(ids)) == 2
    assert [record["run_id"] for record in made.newest().records("cached")] == [ids[0]] * 2


def test_results_of_runs_without_ids_are_reused(made: Project) -> None:
    """Runs from before have no ids, and their records neither ids nor identities."""
    for number in (1, 2):
        root = made.folder / f"runs/flow-{number}"
        document = json.loads((root / "run.json").read_text())
        del document["id"]
        (root / "run.json").write_text(json.dumps(document))
        for segment in (root / "journal").iterdir():
            records = [json.loads(line) for line in segment.read_text().splitlines()]
            for record in records:
                record.pop("run_id", None)
                for entry in record.get("artifacts", {}).values():
                    entry.pop("identity", None)
            segment.write_text(
                "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records)
            )
        for name in ("snapshot.json", "cache.keys"):
            (root / name).unlink()
    third = made.run()
    assert third.counts("make") == {"cached": 1}
    assert all(record["run_id"] for record in third.records("cached"))
    assert "flow-2, flow-3 uses" in made.diel("clean", "flow-1", "--yes", code=2)


def test_users_are_looked_at_again_once_the_question_is_answered(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(FLOW)
    project.run()
    asking = project.start("clean", "flow-1")
    assert asking.stdout is not None
    asked = ""
    while "Remove 1 run" not in asked:
        asked += asking.stdout.read(1)
    project.run()
    _, said = asking.communicate("y\n", timeout=60)
    assert asking.returncode == 2
    assert "flow-2 uses" in said
    assert (tmp_path / "runs/flow-1").is_dir()
