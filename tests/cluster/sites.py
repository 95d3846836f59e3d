"""Site files for the virtual cluster, each whole in itself.

MPI tasks are steps beside the step of diel's own workers, hence --overlap; MPICH's libraries speak PMI-2. None
of the variables that Slurm sets in the step of the workers has to be unset for them. MPICH's own `mpiexec`
works there too; it takes its nodes from SLURM_NODELIST, so without `-hosts` ranks land on the first nodes of
the job, wherever it was started.

Torque's commands are those of slurm-wlm-torque, which hand all to sbatch, squeue and scancel. Measured:
`qsub` takes -N -o -e -q -A -V -v -W depend=… and `-l nodes=2:ppn=4:gpus=1,walltime=…` (ppn become tasks, so
`srun` must say --ntasks), reads `#PBS` lines of the script, starts in the directory of submission, and prints
the bare number. Jobs see no PBS_JOBID and no PBS_NODEFILE, only SLURM_…; there is no pbsdsh, hence `spread`.
`qstat -f` shows an ended job as C, an unknown one with exit code 153. Too many nodes or too much walltime are
not refused: such a job waits for ever, as with sbatch.
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
  - --kill-on-bad-exit=1
  - --nodes={{nodes}}
  - --ntasks={{ranks}}
  - --ntasks-per-node={{ranks_per_node}}
  - --nodelist={{hosts}}
{spread}address: 127.0.0.1
poll: 2s
silence: 8s
grace: 10s
controller: {{home: {home}, walltime: 30m}}
pools:
  cpu: {{nodes: 4, block_nodes: {block_nodes}, blocks: {blocks}, cores: 4, {memory}walltime: 10m, max_walltime: 1h, idle: 5s}}
  small: {{nodes: 1, blocks: 4, cores: 4, {memory}walltime: 10m, max_walltime: 1h, idle: 5s}}
  spot: {{queue: spot, nodes: 1, blocks: 2, cores: 4, {memory}walltime: 10m, max_walltime: 1h, idle: 5s}}
  gpu: {{gpus: 2, cores: 4, {memory}walltime: 10m, max_walltime: 1h, idle: 5s}}
"""

_SPREAD = """\
spread:
  - srun
  - --nodes={nodes}
  - --ntasks={nodes}
  - --ntasks-per-node=1
  - --overlap
  - --mpi=none
  - --no-kill
  - --kill-on-bad-exit=0
  - --wait=0
"""


def site_texts() -> dict[str, str]:
    """The text of each site file, by the site's name."""

    def text(name: str, description: str, home: str = "login", torque: bool = False) -> str:
        return _SITE.format(
            name=name,
            description=description,
            scheduler="torque" if torque else "slurm",
            spread=_SPREAD if torque else "",
            home=home,
            block_nodes=2 if home == "job" else 4,  # the controller's own job takes a core of one node
            blocks=1 if home == "job" else 2,
            memory="" if torque else "memory: 4GiB, ",  # the wrapper asks each core for it
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
