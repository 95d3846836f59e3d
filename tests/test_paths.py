"""Where the files of a run, of a project and of diel itself are."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.base.paths import RunPaths, epoch_of, here, registry_dir, runs_dir, shipped, site_folders
from diel.site.find import find_site


def test_runs_are_as_given_or_as_the_environment_says_or_here(monkeypatch: pytest.MonkeyPatch) -> None:
    assert runs_dir() == Path("runs")
    monkeypatch.setenv("DIEL_RUNS", "/scratch/runs")
    assert runs_dir() == Path("/scratch/runs")
    assert runs_dir(Path("mine")) == Path("mine")
    assert registry_dir(runs_dir()) == Path("/scratch/runs/.registry")


def test_each_attempt_has_a_directory_of_its_own(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "w-1")
    assert paths.run_id == "w-1"
    found = [paths.task_dir("s", 3, attempt).relative_to(paths.root) for attempt in (1, 2)]
    assert found == [Path("tasks/s/3"), Path("tasks/s/3.2")]


def test_a_segments_name_has_its_epoch(tmp_path: Path) -> None:
    controller = RunPaths(tmp_path).controller_segment(12).name
    assert [epoch_of(name) for name in (controller, "worker-0007-node-1.jsonl")] == [12, 7]


def test_commands_name_the_runs_only_where_they_would_not_look(workspace: Path) -> None:
    assert here(RunPaths(workspace / "runs" / "w-1")) == ""
    assert here(RunPaths(workspace / "my runs" / "w-1")) == f" --runs '{workspace}/my runs'"


def test_the_folders_of_channels_and_services_are_a_runs_own(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "runs" / "w-1")
    for folder in (paths.streams / "channels" / "c", paths.services / "serve"):
        folder.mkdir(parents=True)
    assert {paths.root, paths.streams / "channels" / "c", paths.services / "serve"} <= set(paths.own())
    assert registry_dir(tmp_path / "runs") in paths.shared()


def test_a_site_beside_the_workflow_wins_over_the_users_and_the_shipped(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(workspace / "config"))
    folders = site_folders(workspace / "flows")
    assert folders[-1] == shipped("schedulers")
    for cores, folder in reversed(list(enumerate(folders[:-1], 1))):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "polaris.yaml").write_text(
            f"name: polaris\nscheduler: local\npools: {{here: {{cores: {cores}}}}}\n"
        )
        assert find_site("polaris", workspace / "flows").pools["here"].cores == cores
