"""The texts of slurm.conf and gres.conf: four virtual nodes on one machine, and no waiting about.

Measured with Slurm 22.05.8 (Debian 12):

- A batch job on an idle cluster starts 0.3 to 0.7 s after sbatch; one that must preempt another, 0.3 s after.
- Time limits are whole minutes: `--time=0:20` becomes one minute. slurmctld looks every 30 s (no setting
  changes that), so a job of one minute is TIMEOUT after 63 to 93 s. `scontrol update` takes an EndTime in
  seconds (`Cluster.end_in`), which leaves up to 30 s and KillWait.
- A limit beyond MaxTime, or more nodes than there are, is accepted: the job waits with reason
  PartitionTimeLimit or PartitionConfig. An unknown partition is refused.
- A node whose slurmd was killed is DOWN, and its job NODE_FAIL, after 14 to 20 s. slurmctld tries again for
  MessageTimeout when a node refuses its ping, and more than once: with the default of 10 s it takes 28 s.
  A job that may be requeued (Slurm's default; `sbatch --no-requeue` says no) is PENDING again instead, under
  the same id, for two minutes (reason BeginTime). The processes of that job live on until slurmd is back.
- Without slurmctld commands try for 4 s; while it is stopped they wait for MessageTimeout. It saves its state
  some seconds after a change: after kill -9 a job submitted just before is pending again or unknown, and its
  id goes to the next one. Started again, it takes 4 s to know its nodes.
- linuxproc ends what descends from a job's script; a process that made its own session and lost its parent
  survives scancel.
- GPUs need device files in gres.conf: without `File=` slurmd drops them. Links to /dev/null are enough.
  A job with `--gres=gpu:1` then gets CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES, ZE_AFFINITY_MASK and
  GPU_DEVICE_ORDINAL (numbers from 0 in the node), and SLURM_JOB_GPUS.
- MPICH names its shared memory by the ids of job and step, and gives up ("Out of memory") where a file of that
  name is there: from another cluster on this machine, or left by ranks that were killed. Hence FirstJobId.
- MPICH 5.0 on UCX exchanges long addresses, with whatever was in memory in their gaps. Slurm's mpi/pmi2 reads
  requests of 1,024 bytes; of a longer one it takes the rest for another request, and the ranks fail in MPI_Init
  or hang: in one directory each time, in another never. On OFI the addresses are short. Hence MPICH below.
- Without accounting sacct has no answer. slurmctld knows an ended job for MinJobAge.
"""

from __future__ import annotations

from pathlib import Path

MPICH = {"MPIR_CVAR_CH4_NETMOD": "ofi"}
"""Environment of programs that use MPICH's library under `srun --mpi=pmi2`."""

NODES = ("n1", "n2", "n3", "n4")
GPU_NODE = "n4"
GPUS = 2

_SLURM_CONF = """\
ClusterName=diel
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket

StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/%n.log

# One kernel for all nodes, and no right to make control groups.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
MailProg=/bin/true
FirstJobId={first_job}

SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu

# A job in `main` takes the nodes of one in `spot`.
PreemptType=preempt/partition_prio
PreemptMode=CANCEL

# Seconds where the defaults are made for thousands of nodes.
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=2,sched_min_interval=0,bf_interval=1
PriorityType=priority/basic
KillWait=3
MessageTimeout={message_timeout}
SlurmdTimeout={slurmd_timeout}
ReturnToService=2
MinJobAge=3600

{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=1-00:00:00 DefaultTime=00:10:00 PriorityTier=10 PreemptMode=OFF
PartitionName=spot Nodes=ALL MaxTime=1-00:00:00 DefaultTime=00:10:00 PriorityTier=1 PreemptMode=CANCEL
"""

MESSAGE_TIMEOUT = 5
SLURMD_TIMEOUT = 10


def slurm_conf(folder: Path, host: str, ports: tuple[int, ...]) -> str:
    """slurm.conf for a cluster below `folder`; the first port is slurmctld's, then one for each node."""
    controller, *rest = ports
    return _SLURM_CONF.format(
        folder=folder,
        host=host,
        controller_port=controller,
        first_job=1000 * controller,
        message_timeout=MESSAGE_TIMEOUT,
        slurmd_timeout=SLURMD_TIMEOUT,
        nodes="\n".join(_node(node, host, port) for node, port in zip(NODES, rest, strict=True)),
    )


def _node(name: str, host: str, port: int) -> str:
    gres = f" Gres=gpu:{GPUS}" if name == GPU_NODE else ""
    place = f"NodeHostname={host} NodeAddr=127.0.0.1 Port={port}"
    return f"NodeName={name} {place} CPUs=4 RealMemory=8000{gres}"


def gres_conf(folder: Path) -> str:
    """gres.conf: the files stand for GPUs, nobody opens them."""
    return f"NodeName={GPU_NODE} Name=gpu File={folder}/dev/gpu[0-{GPUS - 1}]\n"
