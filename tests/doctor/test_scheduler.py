"""The scheduler's commands, dialect, queues and nodes, with command doubles that answer as real ones do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from diel.base.errors import UsageError
from diel.doctor import check_scheduler, differences
from diel.doctor.machine import Finding
from diel.site.find import detect
from diel.site.scheduler import NodeKind, Offer, scheduler_named
from diel.site.scheduler.slurm import parse_sinfo
from diel.site.site import Pool, Site
from tests.scheduler.test_slurm import SINFO

SLURM = {
    "sbatch": "exit 1",
    "squeue": "",
    "scancel": "",
    "scontrol": "echo 'Slurmctld(primary) at head is UP'",
    "sinfo": 'case "$1" in --version) echo slurm 23.11.4;; '
    "*) echo 'regular*|100|2:64:1|512000|(null)|2-00:00:00'; echo 'gpu|10|1:64:1|256000|gpu:4|1-00:00:00';; esac",
}
PBS = {
    "qsub": "exit 1",
    "qselect": "",
    "qdel": "",
    "qstat": 'case "$1" in --version) echo pbs_version = 2022.1.1;; -B) echo server;; '
    "*) echo 'Queue: workq'; echo 'Queue: debug';; esac",
    "pbsnodes": """echo '{"nodes": {"a": {"resources_available": {"ncpus": 64, "mem": "500gb", "ngpus": 4}}}}'""",
}
TORQUE = {
    "qsub": "exit 1",
    "qdel": "",
    "qstat": 'case "$1" in --version) echo "Version: 6.1.2" >&2;; *) echo "Queue: batch";; esac',
    "pbsnodes": "printf 'n1\\n     np = 16\\n'",
}


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory that is all of PATH but the plainest programs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "cat", "sleep"):
        os.symlink(f"/bin/{name}", folder / name)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    return folder


def install(folder: Path, programs: dict[str, str]) -> None:
    for name, script in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)


def look(scheduler: str, pools: dict[str, Any] | None = None, **more: Any) -> dict[str, Finding]:
    pools = pools or {"cpu": {"cores": 128, "queue": "regular"}}
    site = Site.model_validate({"name": "s", "scheduler": scheduler, "pools": pools, **more})
    return {each.name: each for each in check_scheduler(site)}


def test_a_slurm_as_the_site_says_is_right(commands: Path) -> None:
    install(commands, SLURM)
    found = look("slurm")
    assert list(found) == ["commands", "scheduler", "queues", "nodes"]
    assert all(each.ok for each in found.values()), found
    assert found["scheduler"].found == "slurm 23.11.4"


def test_commands_that_are_not_there_are_named_and_nothing_more_is_asked(commands: Path) -> None:
    install(commands, {"squeue": ""})
    found = look("slurm")
    assert list(found) == ["commands"]
    assert found["commands"].found == "no sbatch, scancel on PATH"
    assert "login node" in found["commands"].fix


def test_a_scheduler_that_does_not_answer_is_told(commands: Path) -> None:
    install(commands, {**SLURM, "scontrol": "echo 'Slurmctld(primary) at head is DOWN'; exit 1"})
    found = look("slurm")
    assert found["scheduler"].found == (
        "no slurm answers: `scontrol ping` says: Slurmctld(primary) at head is DOWN"
    )
    assert "queues" not in found


def test_a_server_that_cannot_be_reached_is_told_in_its_commands_words(commands: Path) -> None:
    refuses = 'case "$1" in --version) echo pbs_version = 23.06.06;; *) echo "pbs_iff: cannot connect to host" >&2; exit 1;; esac'
    install(commands, {**PBS, "qstat": refuses})
    found = look("pbs")["scheduler"]
    assert not found.ok
    assert "no pbs answers: `" in found.found
    assert "pbs_iff: cannot connect to host" in found.found


def test_another_dialect_than_the_site_says_is_wrong(commands: Path) -> None:
    install(commands, TORQUE)
    found = look("pbs")["scheduler"]
    assert not found.ok
    assert found.found == "the site says pbs, but torque 6.1.2 answers"
    assert "put PBS's own commands on PATH" in found.fix
    assert "`scheduler: torque`" in found.fix


def test_pbs_behind_wrappers_of_torques_style_is_found_and_told(commands: Path, tmp_path: Path) -> None:
    install(commands, TORQUE)
    own = tmp_path / "pbs"
    own.mkdir()
    install(own, PBS)
    os.environ["PATH"] = f"{commands}:{own}"
    found = look("pbs", {"p": {"cores": 64, "gpus": 4, "queue": "workq"}})
    assert found["scheduler"].found == "pbs 2022.1.1"
    assert f"{own}/qsub" in found["commands"].found
    assert f"not {commands}/qsub" in found["commands"].found
    assert found["nodes"].ok, found["nodes"]


def test_a_queue_that_is_not_there_is_told_with_the_nearest(commands: Path) -> None:
    install(commands, SLURM)
    found = look("slurm", {"cpu": {"cores": 128, "queue": "regula"}, "x": {"cores": 1, "queue": "zzz"}})[
        "queues"
    ]
    assert not found.ok
    assert found.found == "not there: 'regula' of cpu; 'zzz' of x"
    assert "did you mean 'regular'?" in found.fix


def test_the_controllers_queue_is_looked_for_as_well(commands: Path) -> None:
    install(commands, SLURM)
    assert "'serial' of the controller" in look("slurm", controller={"queue": "serial"})["queues"].found


def test_nodes_that_differ_from_the_site_file_are_advice(commands: Path) -> None:
    install(commands, SLURM)
    found = look("slurm", {"gpu": {"cores": 128, "gpus": 8, "queue": "gpu"}})["nodes"]
    assert (found.ok, found.required) == (False, False)
    assert "gpu: cores: 128, a node has 64" in found.found
    assert "gpu: gpus: 8, the scheduler knows of 4 on a node" in found.found


def test_torques_queues_and_nodes_are_read(commands: Path) -> None:
    install(commands, TORQUE)
    found = look("torque", {"p": {"cores": 16, "queue": "batch"}})
    assert all(each.ok for each in found.values()), found


def test_a_scheduler_that_keeps_its_nodes_to_itself_is_not_asked_further(commands: Path) -> None:
    install(commands, {**TORQUE, "pbsnodes": "echo denied >&2; exit 1"})
    found = look("torque", {"p": {"cores": 16, "queue": "batch"}})["nodes"]
    assert found.ok
    assert "does not report" in found.found


# --- which site is meant where none was named ------------------------------------------------------


def test_without_a_scheduler_the_site_is_this_machine(commands: Path) -> None:
    assert detect() == "local"


@pytest.mark.parametrize(("programs", "name"), [(SLURM, "slurm"), (PBS, "pbs"), (TORQUE, "torque")])
def test_the_one_scheduler_that_answers_is_meant(commands: Path, programs: dict[str, str], name: str) -> None:
    install(commands, programs)
    assert detect() == name


def test_slurm_with_its_own_qsub_is_slurm(commands: Path) -> None:
    install(commands, {**TORQUE, "qstat": 'case "$1" in --version) exit 2;; esac', **SLURM})
    assert detect() == "slurm"


def test_several_schedulers_have_to_be_chosen_from(commands: Path) -> None:
    install(commands, {**PBS, **SLURM})
    with pytest.raises(UsageError, match="pbs and slurm answer here; choose one with --site pbs"):
        detect()


# --- pools and nodes ------------------------------------------------------------------------------


def differing(**keys: Any) -> list[str]:
    pool, slurm = Pool.model_validate(keys), scheduler_named("slurm")
    return list(differences("p", pool, parse_sinfo(SINFO), slurm.elsewhere))


def test_a_pool_as_its_nodes_are_gives_no_advice() -> None:
    assert differing(queue="regular", cores=128, memory="480GiB", max_walltime="48h") == []
    assert differing(queue="gpu", cores=64, gpus=4) == []


def test_what_no_node_of_the_queue_has_is_told() -> None:
    assert differing(queue="gpu", cores=128, gpus=8, memory="480GiB", max_walltime="48h") == [
        "p: cores: 128, a node has 64 (128 hardware threads)",
        "p: memory: 480.0 GiB, jobs get 239.3 GiB of a node",
        "p: gpus: 8, the scheduler knows of 4 on a node",
        "p: blocks of up to 2d00h, but queue 'gpu' allows 1d00h",
    ]


def test_a_pool_without_a_queue_is_held_against_the_nearest_nodes() -> None:
    assert differing(cores=64, gpus=4) == []
    assert differing(cores=128) == []
    assert differing(cores=4) == ["p: cores: 4, a node has 128 (256 hardware threads)"]


def test_a_pool_without_a_queue_is_held_against_the_walltime_of_the_default_one() -> None:
    assert differing(cores=128, max_walltime="49h") == [
        "p: blocks of up to 2d01h, but the default queue 'regular' allows 2d00h"
    ]
    assert differing(cores=128, max_walltime="48h") == []
    assert differing(cores=128, max_walltime="49h", options=["--qos=long"]) == []


def test_hosts_with_fewer_cores_than_a_pool_says_are_told_with_what_shares_them() -> None:
    offer = Offer((), [NodeKind("", 4, 4, 4, 0, 0, physical=2, sharing=4)])
    assert list(differences("p", Pool(cores=4), offer)) == [
        "p: cores: 4, but the host has 2, and 4 of the scheduler's nodes share one"
    ]
    assert list(differences("p", Pool(cores=2), offer)) == ["p: cores: 2, a node has 4"]
