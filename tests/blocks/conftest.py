"""A site with a scheduler, a plan for it, and a run of that."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from diel.base.paths import RunPaths
from diel.controller.start import create
from diel.planning.plan import Plan, prepare
from diel.site.scheduler.slurm import Slurm

SITE = """
name: cluster
scheduler: slurm
pools:
  cpu: {cores: 8, nodes: 2, block_nodes: 2, blocks: 2, walltime: 1h}
"""
FLOW = """
diel: 1
name: flow
stages: {work: {command: "true", resources: {cores_per_rank: 4}}}
"""


@pytest.fixture
def plan(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.setattr(Slurm, "lacking", lambda self: ())
    (workspace / "schedulers").mkdir()
    (workspace / "schedulers/cluster.yaml").write_text(textwrap.dedent(SITE))
    (workspace / "flow.yaml").write_text(textwrap.dedent(FLOW))
    return prepare(workspace / "flow.yaml", site="cluster")


@pytest.fixture
def paths(plan: Plan, workspace: Path) -> RunPaths:
    return create(plan, workspace / "runs")
