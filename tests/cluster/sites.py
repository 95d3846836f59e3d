"""Site files for the virtual cluster, each whole in itself.

MPI tasks are steps beside the step of diel's own workers, hence --overlap; MPICH's libraries speak PMI-2.
"""

from __future__ import annotations

from pathlib import Path

_SITE = """\
# Made with the cluster, and gone with it.
name: {name}
description: {description}
scheduler: {scheduler}
launcher:
  - srun
  - --mpi=pmi2
  - --overlap
  - --nodes={{nodes}}
  - --ntasks={{ranks}}
  - --ntasks-per-node={{ranks_per_node}}
  - --nodelist={{hosts}}
{spread}address: 127.0.0.1
poll: 2s
silence: 8s
grace: 10s
controller: {controller}
pools:
  cpu: {{nodes: 4, block_nodes: 4, blocks: 2, cores: 4, memory: 4GiB, walltime: 10m, max_walltime: 1h, idle: 5s}}
  small: {{nodes: 1, blocks: 4, cores: 4, memory: 4GiB, walltime: 10m, max_walltime: 1h, idle: 5s}}
  spot: {{queue: spot, nodes: 1, blocks: 2, cores: 4, memory: 4GiB, walltime: 10m, max_walltime: 1h, idle: 5s}}
  gpu: {{gpus: 2, cores: 4, memory: 4GiB, walltime: 10m, max_walltime: 1h, idle: 5s{gpu}}}
"""

_SPREAD = (
    "spread: [srun, '--nodes={nodes}', '--ntasks={nodes}', --ntasks-per-node=1, --overlap, --mpi=none]\n"
)


def site_texts() -> dict[str, str]:
    """The text of each site file, by the site's name."""

    def text(name: str, description: str, home: str = "login", torque: bool = False) -> str:
        return _SITE.format(
            name=name,
            description=description,
            scheduler="torque" if torque else "slurm",
            spread=_SPREAD if torque else "",
            controller="{home: %s, walltime: 30m}" % home,
            gpu="",
        )

    return {
        "virtual": text("virtual", "Four virtual nodes of a real Slurm on this machine."),
        "virtual_job": text("virtual_job", "The same; the controller is a job.", "job"),
        "virtual_inside": text("virtual_inside", "The same; one job holds controller and workers.", "inside"),
        "virtual_torque": text("virtual_torque", "The same through Torque's commands.", torque=True),
    }


def write_sites(folder: Path) -> None:
    """Writes all site files into a folder."""
    folder.mkdir()
    for name, text in site_texts().items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
