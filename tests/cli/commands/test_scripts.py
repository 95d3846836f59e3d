"""The job scripts of a run on a scheduled site, whole and before it is made."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.call import call
from tests.cli.clustered import at_site

Capture = pytest.CaptureFixture[str]


def scripts(capsys: Capture) -> dict[str, str]:
    """The scripts that `--scripts` prints, by the names of their files."""
    said = call(capsys, "plan", "flow.yaml", "--site", "cluster", "--scripts")
    assert said.code == 0, said.err
    parts = re.split(r"^=== \S*/(\S+): .*\n", said.out, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_the_job_script_of_each_shape_is_printed_whole(workspace: Path, capsys: Capture) -> None:
    at_site(workspace, max_walltime="6h")
    found = scripts(capsys)
    assert list(found) == ["1-0.sh", "1-0.node.sh", "1-1.sh", "1-1.node.sh"]
    small, whole = found["1-0.sh"], found["1-1.sh"]
    for line in (
        "#SBATCH --partition=batch",
        "#SBATCH --account=physics",
        "#SBATCH --nodes=2",
        "#SBATCH --time=01:00:00",
        "module load python",
    ):
        assert line in small.splitlines()
    assert re.search(r"^srun .*/flow-N/logs/blocks/1-0\.node\.sh$", small, re.MULTILINE)
    assert "#SBATCH --time=02:01:00" in whole
    assert "export DIEL_BLOCK=1-0" in found["1-0.node.sh"]
    assert "known when the run has started" in found["1-0.node.sh"]


def test_the_controllers_job_comes_first_where_it_lives_in_one(workspace: Path, capsys: Capture) -> None:
    at_site(workspace, home="job", max_walltime="6h")
    controller = scripts(capsys)["c1.sh"]
    assert "#SBATCH --partition=small" in controller
    assert "#SBATCH --time=04:00:00" in controller
    assert "-m diel.controller " in controller


def test_within_one_allocation_that_alone_is_the_schedulers(workspace: Path, capsys: Capture) -> None:
    at_site(workspace, home="inside", max_walltime="6h")
    found = scripts(capsys)
    assert "#SBATCH --nodes=2" in found["c1.sh"]
    assert "#SBATCH" not in found["1-0.sh"]


def test_json_carries_the_scripts(workspace: Path, capsys: Capture) -> None:
    at_site(workspace, max_walltime="6h")
    said = call(capsys, "plan", "flow.yaml", "--site", "cluster", "--scripts", "--json").out
    first, second, *_ = json.loads(said)["scripts"]
    assert first["file"] == str(workspace.absolute() / "runs/flow-N/logs/blocks/1-0.sh")
    assert (first["shape"], first["stages"]) == ("cpu-1c-36s", ["many", "same"])
    assert first["text"].startswith("#!/bin/bash")
    assert second["file"].endswith("1-0.node.sh")


def test_a_site_without_a_scheduler_has_no_scripts(workspace: Path, capsys: Capture) -> None:
    (workspace / "flow.yaml").write_text("diel: 1\nname: flow\nstages: {s: {command: [x]}}\n")
    said = call(capsys, "plan", "flow.yaml", "--scripts")
    assert (said.code, said.out) == (0, "site 'local' has no scheduler: runs there need no job scripts\n")
    assert json.loads(call(capsys, "plan", "flow.yaml", "--scripts", "--json").out)["scripts"] == []


def test_scripts_are_not_written(workspace: Path, capsys: Capture) -> None:
    at_site(workspace, home="job", max_walltime="6h")
    scripts(capsys)
    assert sorted(path.name for path in workspace.iterdir()) == ["flow.yaml", "schedulers"]


def test_the_scripts_are_for_the_runs_and_the_home_that_are_given(workspace: Path, capsys: Capture) -> None:
    at_site(workspace, max_walltime="6h")
    words = ("plan", "flow.yaml", "--site", "cluster", "--scripts", "--runs", "elsewhere", "--home", "job")
    said = call(capsys, *words, "--json")
    assert said.code == 0, said.err
    document = json.loads(said.out)
    assert document["home"] == "job"
    first = document["scripts"][0]
    assert first["file"].startswith(str(workspace.absolute() / "elsewhere/flow-N/"))
    assert first["file"].endswith("/c1.sh")
    assert all("/elsewhere/flow-N" in script["text"] for script in document["scripts"])
    assert "/runs/flow-N" not in said.out
