"""Sites: found by name, read with all their faults, and asked what they lack."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from diel.errors import SpecError, UsageError
from diel.site import (
    Pool,
    Site,
    cores_of,
    find_program,
    find_site,
    lacks,
    launcher_words,
    memory_of,
    read_site,
)
from diel.spec import Resources

SITE = "name: {name}\nscheduler: local\npools: {{cpu: {{cores: 4}}}}\n"


def asked(**resources: Any) -> Resources:
    return Resources.model_validate(resources)


# --- what a pool lacks --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resources", "missing"),
    [
        ({}, []),
        ({"cores_per_rank": 8}, []),
        ({"cores_per_rank": 9}, ["9 cores a node (it has 8)"]),
        ({"ranks": 8}, []),
        ({"ranks": 9}, ["9 cores a node (it has 8)"]),
        ({"ranks": 4, "cores_per_rank": 3}, ["12 cores a node (it has 8)"]),
        ({"nodes": 2, "ranks": 16}, []),
        ({"nodes": 2, "ranks": 17}, ["9 cores a node (it has 8)"]),
        ({"nodes": 3, "ranks": 3}, ["3 nodes (it has 2)"]),
        ({"nodes": 2, "ranks_per_node": 8}, []),
        ({"ranks": 16, "ranks_per_node": 8}, []),
        ({"ranks": 24, "ranks_per_node": 8}, ["3 nodes (it has 2)"]),
        ({"ranks_per_node": 9}, ["9 cores a node (it has 8)"]),
        ({"gpus_per_rank": 2}, []),
        ({"gpus_per_rank": 3}, ["3 GPUs a node (it has 2)"]),
        ({"memory": "16GiB"}, []),
        ({"memory": "17GiB"}, ["17.0 GiB of memory (it has 16.0 GiB)"]),
        (
            {"cores_per_rank": 9, "gpus_per_rank": 3, "memory": "17GiB"},
            ["9 cores a node", "3 GPUs a node", "17.0 GiB"],
        ),
    ],
)
def test_a_pool_lacks_what_is_asked_beyond_what_it_has(resources: dict[str, Any], missing: list[str]) -> None:
    pool = Pool.model_validate({"nodes": 2, "cores": 8, "gpus": 2, "memory": "16GiB"})
    told = lacks(pool, asked(**resources))
    assert len(told) == len(missing)
    assert all(line.startswith(start) for line, start in zip(told, missing, strict=True))


def test_a_pool_that_does_not_say_has_this_machines_cores_and_memory() -> None:
    pool = Pool.model_validate({})
    assert cores_of(pool) == len(os.sched_getaffinity(0))
    assert memory_of(pool) == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert lacks(pool, asked()) == []


# --- launching ranks ----------------------------------------------------------------------------


def site(**more: Any) -> Site:
    spec = {"name": "s", "scheduler": "local", "pools": {"p": {}}, **more}
    return Site.model_validate(spec)


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ({}, ()),
        ({"cores_per_rank": 4}, ()),
        ({"ranks": 3}, ("mpiexec", "-n", "3")),
        ({"ranks": 1}, ("mpiexec", "-n", "1")),
        ({"nodes": 2, "ranks_per_node": 4}, ("mpiexec", "-n", "8")),
    ],
)
def test_ranks_are_put_into_the_launchers_words(resources: dict[str, Any], words: tuple[str, ...]) -> None:
    assert launcher_words(site(), asked(**resources)) == words


def test_a_site_has_a_launcher_of_its_own() -> None:
    found = launcher_words(site(launcher=["srun", "--ntasks={ranks}"]), asked(ranks=2))
    assert found == ("srun", "--ntasks=2")


def test_programs_beside_this_python_come_before_those_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("beside", "path"):
        for name in ("both", *(["only"] if folder == "path" else [])):
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / name).write_text("#!/bin/sh\n")
            (tmp_path / folder / name).chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "beside" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    assert find_program("both") == str(tmp_path / "beside" / "both")
    assert find_program("only") == str(tmp_path / "path" / "only")
    assert find_program("neither") is None


# --- finding and reading ------------------------------------------------------------------------


@pytest.fixture
def folders(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workflow's folder, the current directory and the user's configuration, all with sites."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(workspace / "config"))
    for place, names in {
        "flow/schedulers": ("a", "local"),
        "schedulers": ("a", "b"),
        "config/diel/schedulers": ("a", "b", "c"),
    }.items():
        (workspace / place).mkdir(parents=True)
        for name in names:
            text = SITE.format(name=name) + f"description: {place}\n"
            (workspace / place / f"{name}.yaml").write_text(text)
    return workspace


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("a", "flow/schedulers"),
        ("b", "schedulers"),
        ("c", "config/diel/schedulers"),
        (None, "flow/schedulers"),
    ],
)
def test_the_nearest_site_of_a_name_wins(folders: Path, name: str | None, place: str) -> None:
    assert find_site(name, folders / "flow").description == place


def test_the_environment_names_the_site_where_the_command_line_does_not(
    folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIEL_SITE", "c")
    assert find_site(None, folders / "flow").name == "c"
    assert find_site("b", folders / "flow").name == "b"


def test_a_site_file_is_named_by_its_path_too(folders: Path) -> None:
    assert find_site("config/diel/schedulers/c.yaml", folders / "flow").name == "c"
    with pytest.raises(UsageError, match=r"none\.yaml"):
        find_site("none.yaml", folders / "flow")


def test_a_site_that_is_not_there_is_told_with_those_that_are(folders: Path) -> None:
    with pytest.raises(UsageError, match="no site 'loca'; did you mean 'local'"):
        find_site("loca", folders / "flow")
    with pytest.raises(UsageError, match="no site 'zzzzz'; sites: a, b, c, local"):
        find_site("zzzzz", folders / "flow")


def test_this_machine_is_a_site_out_of_the_box(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(workspace))
    local = find_site(None, workspace)
    assert (local.name, local.scheduler) == ("local", "local")
    assert lacks(next(iter(local.pools.values())), asked()) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name: s\nscheduler: local\npools: {}\n", ":3:"),
        ("name: s\nscheduler: slrm\npools: {p: {}}\n", ":2:12"),
        ("name: s\nscheduler: local\npools: {p: {cores: 0}}\n", ":3:"),
        ("name: s\nscheduler: local\npools: {p: {core: 4}}\n", "did you mean 'cores'"),
        ("name: s\nscheduler: local\npools: {p: {memory: 64}}\n", "64GiB"),
        ("name: s\nname: t\nscheduler: local\npools: {p: {}}\n", ":2:1"),
        ("name: [\n", ":2:"),
        ("", "empty"),
        ("- 1\n", "s.yaml:1:1"),
    ],
)
def test_a_site_file_that_is_wrong_is_refused_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(text)
    with pytest.raises(SpecError) as error:
        read_site(path)
    assert told in str(error.value)
    assert "s.yaml:" in str(error.value)


def test_all_that_is_wrong_with_a_site_is_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("name: s\nscheduler: local\npools: {p: {cores: 0, gpus: -1}, q: {nodes: x}}\n")
    with pytest.raises(SpecError) as error:
        read_site(path)
    assert len(error.value.problems) == 3
