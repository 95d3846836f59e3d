"""Which variables of the shell tasks find: the same on this machine as in a job."""

from __future__ import annotations

import subprocess
from pathlib import Path

from diel.base.carried import FIXED, dropping_lines, is_place, kept_variables

MODULE = "BASH_FUNC_module%%"
SHELL = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/h/me",
    "SLURM_JOB_ID": "7",
    "https_proxy": "http://proxy",
    "STEPS": "500",
    "LC_ALL": "de_DE.UTF-8",
    "TZ": "Europe/Berlin",
    "PYTHONSTARTUP": "x.py",
    "BASH_ENV": "/h/me/.bash_env",
    "ENV": "/h/me/.shrc",
    "BASH_FUNC_sort%%": "() {  command sort -r; }",
    MODULE: "() {  eval $(modulecmd bash $*); }",
    "LINES_OF": "one\nHOME=two\nSTEPS=3",
}


def test_the_list_holds_here_and_in_a_job() -> None:
    here = kept_variables(SHELL)
    assert (
        here
        == {name: SHELL[name] for name in ("PATH", "HOME", "SLURM_JOB_ID", "https_proxy", MODULE)} | FIXED
    )
    script = "\n".join([*dropping_lines(), "env"])
    expected = {name for name in SHELL if is_place(name) and name != "TZ"}
    for shell, lost in ("/bin/bash", set()), ("/bin/sh", {MODULE}):  # another shell may keep no functions
        job = subprocess.run([shell, "-c", script], env=SHELL, capture_output=True, text=True, check=True)
        lines = [line for line in job.stdout.splitlines() if line[:1] not in (" ", "}")]
        names = {line.partition("=")[0] for line in lines} - {"PWD", "SHLVL", "_", "OLDPWD", "TZ"}
        assert names | lost == expected | lost, shell


def test_no_entry_of_a_path_means_the_current_directory() -> None:
    """It is another one for each task."""
    given = {"PYTHONPATH": ":/lib::", "LD_LIBRARY_PATH": "/a/:", "PATH": "bin:~/bin:/usr/bin"}
    assert kept_variables(given) == FIXED | {
        "PYTHONPATH": "/lib",
        "LD_LIBRARY_PATH": "/a/",
        "PATH": f"{Path.cwd()}/bin:~/bin:/usr/bin",
    }
