"""Services and those that ask them fit into what a site has."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.base.errors import SpecError
from diel.planning.check import check
from diel.planning.plan import Plan, make_plan
from diel.site.site import Site

FLOW = """
diel: 1
name: flow
stages:
  inner: {{command: [inner], service: true, resources: {{cores_per_rank: {inner}}}}}
  serve:
    command: [serve]
    service: {{replicas: {replicas}, shared_cores: {shared}}}
    services: [inner]
    resources: {{cores_per_rank: {own}}}
  ask: {{command: [ask], services: [serve]}}
"""


def planned(tmp_path: Path, scheduler: str, blocks: int = 4, **given: object) -> Plan:
    text = FLOW.format(**{"inner": 1, "own": 1, "replicas": 1, "shared": "false", **given})
    file = tmp_path / "flow.yaml"
    file.write_text(text, encoding="utf-8")
    pool = {"cores": 4, **({} if scheduler == "local" else {"blocks": blocks})}
    site = Site.model_validate({"name": "here", "scheduler": scheduler, "pools": {"all": pool}})
    return make_plan(check(file), site)


def refusal(tmp_path: Path, scheduler: str, **given: object) -> str:
    with pytest.raises(SpecError) as caught:
        planned(tmp_path, scheduler, **given)  # type: ignore[arg-type]
    (problem,) = caught.value.problems
    return problem.message


def test_services_of_services_count_as_well(tmp_path: Path) -> None:
    planned(tmp_path, "local", replicas=2)
    assert refusal(tmp_path, "local", replicas=2, inner=2) == (
        "'ask' needs 1 core beside those of its services ('serve' 2, 'inner' 2): 5 in all, and this machine has 4"
    )


def test_what_shares_cores_takes_workers_and_no_cores_on_one_machine(tmp_path: Path) -> None:
    plan = planned(tmp_path, "local", replicas=7, shared="true")
    assert (plan.stages["serve"].cores, plan.stages["serve"].tasks, plan.extra_workers) == (0, 7, 7)


def test_in_blocks_every_service_holds_its_cores(tmp_path: Path) -> None:
    plan = planned(tmp_path, "slurm", replicas=2, shared="true")
    assert (plan.stages["serve"].cores, plan.extra_workers) == (1, 0)
    assert "18 in all, and pool 'all' has 16" in refusal(tmp_path, "slurm", replicas=16, shared="true")


def test_shapes_that_stay_need_blocks_of_their_own(tmp_path: Path) -> None:
    planned(tmp_path, "slurm", blocks=2, own=2)
    assert refusal(tmp_path, "slurm", blocks=1, own=2) == (
        "'ask' and its services need blocks of 2 shapes at the same time (all-1c, all-2c), and pool 'all' may have 1"
    )
