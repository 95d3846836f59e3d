"""What the processes of diel and its tasks take over from the shell in which diel is called.

A task finds the same variables on every site: those named here, what its site and its stage say, what its
command reads by name, and diel's own. `docs/workflow-file.md` states the rule.
"""

import os
import re
import sys
from collections.abc import Mapping

PYTHON = (sys.executable, "-P")
"""A Python in which neither the directory where it starts nor a task's holds modules: a `queue.py` there is
the user's data, and replaces nothing of Python's or diel's."""
CARRIED = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX")
"""Where programs and libraries are: taken along to every site."""
FIXED = {"LANG": "C.UTF-8", "TZ": "UTC", "PYTHONHASHSEED": "0"}
"""What would else make results differ by machine: order and letters of texts, times, the order of sets."""
PLACES = """
HOME USER LOGNAME SHELL HOSTNAME TMPDIR TMP SCRATCH XDG_* KRB5CCNAME SSH_AUTH_SOCK DBUS_SESSION_BUS_ADDRESS
http_proxy https_proxy ftp_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY FTP_PROXY ALL_PROXY NO_PROXY
SSL_CERT_FILE SSL_CERT_DIR MODULEPATH* MODULESHOME MODULERCFILE MODULE_VERSION MODULE_VERSION_STACK MODULES_*
__MODULES_* LOADEDMODULES* _LMFILES_* LMOD_* __LMOD_* SPACK_* CONDA_* MAMBA_* BASH_FUNC_module%%
BASH_FUNC_ml%% BASH_FUNC__module_raw%% SLURM_* SLURMD_* PBS_* LSB_* LSF_* LS_JOBPID LS_SUBCWD SGE_* JOB_ID
NSLOTS PE_HOSTFILE COBALT_JOBID COBALT_NODEFILE CRAY_* CRAYPE_* PALS_* FLUX_URI FLUX_JOB_* FLUX_TASK_*
FLUX_*_PATH FLUX_*_PATH_PREPEND FLUX_KVS_NAMESPACE FLUX_CONF_DIR FLUX_ENCLOSING_ID FLUX_F58_FORCE_ASCII
PMI_* PMI2_* PMIX_* OMPI_COMM_WORLD_* MPI_HOME MPI_ROOT I_MPI_ROOT MPI_LOCALRANKID MPI_LOCALNRANKS DIEL_*
CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER CUDA_HOME CUDA_PATH CUDA_ROOT NVIDIA_VISIBLE_DEVICES GPU_DEVICE_ORDINAL
ROCR_VISIBLE_DEVICES ROCM_PATH HIP_VISIBLE_DEVICES HIP_PATH ZE_AFFINITY_MASK
"""
"""Where a process is: what a machine, its scheduler or a launcher sets. Found where the task runs."""
SETTINGS = """
APPTAINER_* SINGULARITY_* CH_IMAGE_* SHIFTER_* OMPI_* OPAL_* PRTE_* MPICH_* MPIR_CVAR_* MPIEXEC_* I_MPI_*
MPI_DSM_* MPI_IB_* HYDRA_LAUNCHER* HYDRA_BOOTSTRAP* HYDRA_HOST_FILE HYDRA_IFACE HYDRA_RMK HYDRA_TOPOLIB
UCX_* PSM_* PSM2_* PSM3_* NCCL_* FI_PROVIDER* FI_UNIVERSE_SIZE FI_LOG_* FI_MR_* FI_HMEM_* FI_CXI_* FI_OFI_*
FI_OPX_* FI_PSM2_* FI_PSM3_* FI_TCP_* FI_SOCKETS_* FI_VERBS_* FI_EFA_* FI_SHM_* CUDA_CACHE_* CUDA_MPS_*
CUDA_LAUNCH_BLOCKING CUDA_MODULE_LOADING CUDA_DEVICE_MAX_CONNECTIONS NVIDIA_DRIVER_CAPABILITIES
NVIDIA_REQUIRE_* HIP_PLATFORM HIP_LAUNCH_BLOCKING ZE_FLAT_DEVICE_HIERARCHY ZE_ENABLE_PCI_ID_DEVICE_ORDER
"""
"""Settings of a machine's software, found there too; but a text that names one reads what its user set."""
_PATTERNS = [*PLACES.split(), *SETTINGS.split()]
_PLACES = "|".join(PLACES.split()).replace("*", ".*")
_MACHINES = "|".join(_PATTERNS).replace("*", ".*")  # as text: workers and most commands never compile it


def kept_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return those variables that tasks find on this machine."""
    machine = {name: value for name, value in environ.items() if re.fullmatch(_MACHINES, name, re.DOTALL)}
    return {**machine, **carried(environ), **FIXED}


def is_place(name: str) -> bool:
    """Return whether a variable says where a process is, or is the same everywhere: no key has it."""
    return name in CARRIED or name in FIXED or re.fullmatch(_PLACES, name, re.DOTALL) is not None


def carried(environ: Mapping[str, str]) -> dict[str, str]:
    """Return those that are taken along, with absolute paths: an empty entry would mean this directory."""
    lists = {name: environ[name].split(os.pathsep) for name in CARRIED if environ.get(name)}
    return {name: os.pathsep.join(map(_absolute, filter(None, entries))) for name, entries in lists.items()}


def _absolute(path: str) -> str:
    return path if path[0] in "/~" else os.path.abspath(path)


def dropping_lines() -> list[str]:
    """Lines for sh that unset all others, as a job may begin with what its user's shell had."""
    patterns = "|".join([*_PATTERNS, *CARRIED])
    return [
        "for diel_name in $(env | sed -n 's/^\\([A-Za-z_][A-Za-z0-9_]*\\)=.*/\\1/p'); do",
        f'  case "$diel_name" in {patterns}) ;; *) unset "$diel_name";; esac',
        "done",
        "diel_name=$(test -z \"$BASH_VERSION\" || declare -xF | sed 's/.* //')",
        "for diel_name in $diel_name; do",
        '  case "BASH_FUNC_$diel_name%%" in ' + patterns + ') ;; *) unset -f "$diel_name";; esac',
        "done",
    ]


def leave_here() -> None:
    """Make this process find no modules where it was started, unless PYTHONPATH names that directory."""
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    try:
        here = os.getcwd()
    except OSError:  # it is gone
        return
    if here not in [os.path.abspath(entry) for entry in named if entry]:
        first = 1 + len(named)
        own = os.path.abspath(os.path.join(__file__, "../../.."))
        sys.path[:first] = [e for e in sys.path[:first] if os.path.abspath(e) != here or here == own]
