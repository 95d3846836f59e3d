"""Gangs fit into what a site has: also where each resource shape needs blocks of its own."""

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
axes: {{reader: {{range: {readers}}}}}
stages:
  make: {{command: [make], outputs: {{x: {{stream: true}}}}, resources: {{cores_per_rank: {cores}}}}}
  use: {{command: [use], over: [reader], inputs: {{x: make.x}}}}
"""


def planned(tmp_path: Path, blocks: int, readers: int = 1, cores: int = 1) -> Plan:
    file = tmp_path / "flow.yaml"
    file.write_text(FLOW.format(readers=readers, cores=cores), encoding="utf-8")
    pools = {"all": {"cores": 4, "blocks": blocks}}
    return make_plan(check(file), Site.model_validate({"name": "here", "scheduler": "slurm", "pools": pools}))


def test_stages_of_a_gang_share_blocks_where_they_ask_for_the_same(tmp_path: Path) -> None:
    planned(tmp_path, blocks=1, readers=3)


@pytest.mark.parametrize(
    ("blocks", "readers", "cores", "told"),
    [
        (
            1,
            1,
            2,
            r"need 2 blocks \(tasks: 1 of all-2c, 1 of all-1c\), but pool 'all' of site 'here' may have 1",
        ),
        (2, 5, 3, "need 3 blocks"),
    ],
)
def test_shapes_of_a_gang_need_blocks_of_their_own_at_the_same_time(
    tmp_path: Path, blocks: int, readers: int, cores: int, told: str
) -> None:
    planned(tmp_path, blocks + 1, readers, cores)
    with pytest.raises(SpecError, match=told):
        planned(tmp_path, blocks, readers, cores)
