"""The sites that ship: each is read, says what it must, and takes a workflow with CPUs, GPUs and MPI."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from diel.base.errors import SpecError
from diel.base.extensions import SCHEDULERS, names_in
from diel.base.paths import shipped
from diel.planning.check import check
from diel.planning.plan import Plan, make_plan
from diel.site.find import find_site, read_site
from diel.site.scheduler import Job, scheduler_named
from diel.site.shape import cores_of
from diel.site.site import Site, missing

FILES = sorted(shipped("schedulers").glob("*.yaml"))
CLUSTERS = ("aurora", "frontier", "leonardo", "lumi", "perlmutter", "polaris")
GENERIC = names_in(SCHEDULERS)
WORKFLOW = """
    diel: 1
    name: mixed
    axes:
      seed: {range: 100}
    stages:
      prepare:
        over: [seed]
        command: [echo, hello]
        resources: {cores_per_rank: 2, memory: 4GiB, walltime: 10m}
      train:
        command: [echo, hello]
        after: [prepare]
        resources: {cores_per_rank: 4, gpus_per_rank: 1, walltime: 30m}
      simulate:
        command: [echo, hello]
        after: [train]
        resources: {nodes: 2, ranks_per_node: 4, walltime: 20m}
"""
GPUS = {
    "aurora": ("ZE_AFFINITY_MASK", 6, 102),
    "frontier": ("ROCR_VISIBLE_DEVICES", 8, 56),
    "leonardo": ("CUDA_VISIBLE_DEVICES", 4, 32),
    "lumi": ("ROCR_VISIBLE_DEVICES", 8, 56),
    "perlmutter": ("CUDA_VISIBLE_DEVICES", 4, 64),
    "polaris": ("CUDA_VISIBLE_DEVICES", 4, 32),
}
"""Variable, GPUs and usable cores of a node with GPUs, from the centres' documentation."""


@pytest.fixture(autouse=True)
def alone(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No sites but those that ship."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(workspace))


def planned(site: Site, text: str = WORKFLOW) -> Plan:
    return make_plan(check(Path("w.yaml"), text=textwrap.dedent(text)), site)


def test_the_promised_sites_ship() -> None:
    assert {path.stem for path in FILES} == {"local", *GENERIC, *CLUSTERS}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_shipped_site_is_read_under_its_own_name_and_tells_what_it_is(path: Path) -> None:
    site = read_site(path)
    assert site.name == path.stem
    assert site.description
    assert missing(site) == [] or site.account_required


@pytest.mark.parametrize("name", CLUSTERS)
def test_a_workflow_of_cpu_gpu_and_mpi_stages_is_planned_on(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIEL_ACCOUNT", "project")
    site = find_site(name, Path())
    assert missing(site) == []
    plan = planned(site)
    gpu = site.pools[plan.stages["train"].pool]
    variable, gpus, cores = GPUS[name]
    assert (gpu.gpu_variables, gpu.gpus, cores_of(gpu)) == ((variable,), gpus, cores)
    for stage in plan.stages.values():
        assert not stage.pool.startswith(("debug", "dev")), "trial queues are not for production"
    launcher = " ".join(plan.stages["simulate"].launcher)
    assert "8" in launcher
    assert "{hosts}" in launcher


@pytest.mark.parametrize("name", CLUSTERS)
def test_the_sites_of_centres_want_an_account_and_say_how_to_give_it(name: str) -> None:
    told = missing(find_site(name, Path()))
    assert f"site '{name}' needs an account" in told[0]


@pytest.mark.parametrize("name", CLUSTERS)
def test_a_site_file_of_a_centre_cites_its_documentation_with_the_date(name: str) -> None:
    text = (shipped("schedulers") / f"{name}.yaml").read_text("utf-8")
    assert "https://docs." in text
    assert "2026-11-21" in text


@pytest.mark.parametrize("name", GENERIC)
def test_a_generic_site_asks_for_little_and_needs_no_editing(name: str) -> None:
    site = find_site(name, Path())
    (pool,) = site.pools.values()
    assert (pool.queue, site.account, missing(site)) == (None, None, [])
    assert (cores_of(pool), pool.nodes, pool.walltime, pool.memory) == (4, 1, 3600.0, None)
    with pytest.raises(SpecError, match="2 nodes"):
        planned(site)


@pytest.mark.parametrize("name", [*GENERIC, *CLUSTERS])
def test_what_a_pool_asks_for_stands_in_its_job_script(name: str) -> None:
    site = find_site(name, Path()).model_copy(update={"account": "project"})
    for pool in site.pools.values():
        folder = Path("/runs/x")
        job = Job(
            "block", "true", folder, folder / "out", folder / "err", pool.block_nodes, cores_of(pool),
            pool.longest, pool.gpus, pool.memory or 0, pool.queue, site.account, (*site.options, *pool.options),
        )  # fmt: skip
        script = scheduler_named(site.scheduler).script(job)
        for option in (*site.options, *pool.options):
            assert option.replace("{nodes}", str(pool.block_nodes)) in script
        assert pool.queue is None or pool.queue in script
        assert "project" in script


def test_nodes_that_are_given_whole_are_asked_for_as_their_centre_wants() -> None:
    site = find_site("aurora", Path())
    assert "-l select={nodes}:system=aurora" in site.options
    assert any("filesystems=" in option for option in site.options)
