"""Which variables of the shell tasks find: the same on this machine as in a job."""

from __future__ import annotations

import subprocess
from pathlib import Path

from diel.carried import FIXED, dropping_lines, is_carried, kept_variables

SHELL = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/h/me",
    "SLURM_JOB_ID": "7",
    "https_proxy": "http://proxy",
    "STEPS": "500",
    "LC_ALL": "de_DE.UTF-8",
    "TZ": "Europe/Berlin",
    "PYTHONSTARTUP": "x.py",
    "LINES_OF": "one\nHOME=two\nSTEPS=3",
}


def test_the_list_holds_here_and_in_a_job() -> None:
    here = kept_variables(SHELL)
    assert here == {name: SHELL[name] for name in ("PATH", "HOME", "SLURM_JOB_ID", "https_proxy")} | FIXED
    script = "\n".join([*dropping_lines(), "env"])
    job = subprocess.run(["/bin/sh", "-c", script], env=SHELL, capture_output=True, text=True, check=True)
    names = {line.partition("=")[0] for line in job.stdout.splitlines()} - {"PWD", "SHLVL", "_", "OLDPWD"}
    assert names == {name for name in SHELL if is_carried(name) and name != "TZ"}


def test_no_entry_of_a_path_means_the_current_directory() -> None:
    """It is another one for each task."""
    given = {"PYTHONPATH": ":/lib::", "LD_LIBRARY_PATH": "/a/:", "PATH": "bin:~/bin:/usr/bin"}
    assert kept_variables(given) == FIXED | {
        "PYTHONPATH": "/lib",
        "LD_LIBRARY_PATH": "/a/",
        "PATH": f"{Path.cwd()}/bin:~/bin:/usr/bin",
    }
