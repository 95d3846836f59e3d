"""What the processes of diel and its tasks take over from the shell in which diel is called.

A task finds the same variables on every site: those named here, what its site and its stage say, what its
command reads by name, and diel's own. `docs/workflow-file.md` states the rule.
"""

from __future__ import annotations

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
MACHINES = """
HOME USER LOGNAME SHELL HOSTNAME TMPDIR TMP TEMP SCRATCH XDG_* KRB5CCNAME SSH_AUTH_SOCK
*_proxy *_PROXY SSL_CERT_* DBUS_SESSION_BUS_ADDRESS
MODULE* LOADEDMODULES* _LMFILES_* LMOD* __LMOD* SPACK_* CONDA* MAMBA*
BASH_FUNC_module%% BASH_FUNC_ml%% BASH_FUNC__module_raw%%
APPTAINER* SINGULARITY* CH_IMAGE_* SHIFTER*
SLURM* PBS* FLUX* LSB_* LSF_* LS_* SGE_* JOB_ID NSLOTS PE_HOSTFILE COBALT_* CRAY* PALS_*
PMI* OMPI_* PRTE_* MPI* HYDRA* I_MPI_* UCX_* FI_* PSM*
CUDA* NVIDIA* NCCL* ROCR* HIP* ZE_* GPU_DEVICE_ORDINAL DIEL_*
"""
"""What a machine or its scheduler sets, each its own: found where the task runs, and not taken along."""
_MACHINES = re.compile("|".join(MACHINES.split()).replace("*", ".*"), re.DOTALL)


def kept_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return those variables that tasks find on this machine."""
    machine = {name: value for name, value in environ.items() if _MACHINES.fullmatch(name)}
    return {**machine, **carried(environ), **FIXED}


def is_carried(name: str) -> bool:
    """Return whether tasks find this variable without anybody saying more."""
    return name in CARRIED or name in FIXED or _MACHINES.fullmatch(name) is not None


def carried(environ: Mapping[str, str]) -> dict[str, str]:
    """Return those that are taken along, with absolute paths: an empty entry would mean this directory."""
    lists = {name: environ[name].split(os.pathsep) for name in CARRIED if environ.get(name)}
    return {name: os.pathsep.join(map(_absolute, filter(None, entries))) for name, entries in lists.items()}


def _absolute(path: str) -> str:
    return path if path[0] in "/~" else os.path.abspath(path)


def dropping_lines() -> list[str]:
    """Lines for sh that unset all others, as a job may begin with what its user's shell had."""
    patterns = "|".join([*MACHINES.split(), *CARRIED])
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
        own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        sys.path[:first] = [e for e in sys.path[:first] if os.path.abspath(e) != here or here == own]
