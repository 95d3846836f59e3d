"""A workflow at a site with a scheduler, in a directory."""

from __future__ import annotations

from pathlib import Path

SITE = """\
name: cluster
scheduler: {scheduler}
account: physics
setup: [module load python]
controller: {{home: {home}, queue: small, walltime: 4h}}
pools:
  cpu: {{queue: batch, cores: 8, nodes: 4, block_nodes: 2, blocks: 3, memory: 32GiB}}
"""
CLUSTER_FLOW = """\
diel: 1
name: flow
axes: {i: {range: 100}}
stages:
  many: {over: [i], command: [x], resources: {walltime: 36s}}
  same: {command: [x], after: [many], resources: {walltime: 36s}}
  mpi: {command: [x], after: [many], resources: {ranks: 4, nodes: 2, walltime: 2h}}
"""


def at_site(folder: Path, scheduler: str = "slurm", home: str = "login", **pool: str) -> Path:
    """Writes a workflow and its site into a directory."""
    (folder / "flow.yaml").write_text(CLUSTER_FLOW)
    (folder / "schedulers").mkdir(exist_ok=True)
    text = SITE.format(scheduler=scheduler, home=home)
    for key, value in pool.items():
        text = text.replace("memory: 32GiB", f"{key}: {value}, memory: 32GiB")
    (folder / "schedulers" / "cluster.yaml").write_text(text)
    return folder
