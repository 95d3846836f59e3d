"""qsub, qstat, qdel and qselect that answer as a real OpenPBS was seen to (23.06), without a server.

`install(folder)` writes the commands. A job is really run, by a process of its own in the place of
pbs_mom: its script is copied at submission, it starts in $HOME with none of the submitter's
variables, its output is spooled and appears at its end, its walltime is watched by polling. Files in
the state folder, each with one writer:

    down            while it is there, no server answers
    N.job           what qsub was asked for      N.deleted     qdel was asked for
    N.started       the process of the job       N.ended       how it ended
"""

from __future__ import annotations

import json
import os
import pwd
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

COMMANDS = ("qsub", "qstat", "qdel", "qselect")
SERVER = "pbs0"
VERSION = "23.06.06"
CORES = 4
NODES = 2
POLL = 0.2
"""Seconds between two looks at a job's walltime; a real mom takes 10."""
KILL_DELAY = 1.0
"""Seconds between TERM and KILL; a real server takes 10."""
UNKNOWN, FINISHED, NO_SERVER = 153, 35, 162
RESOURCES = ("select", "place", "walltime", "ncpus", "mem", "mpiprocs")
Record = dict[str, Any]


def install(folder: Path, names: Sequence[str] = COMMANDS, file: str = __file__) -> Path:
    """Writes the commands, each of which runs `file`, below `folder`; returns the folder to put on PATH."""
    bin_, state = folder / "bin", folder / "state"
    bin_.mkdir(parents=True)
    state.mkdir()
    for name in names:
        program = bin_ / name
        words = [sys.executable, "-I", "-S", file, str(state), name]
        program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
        program.chmod(0o755)
    return bin_


def main(state: Path, name: str, words: list[str]) -> int:
    if name == "mom":
        return mom(state, words[0])
    if name == "qstat" and words == ["--version"]:
        print(f"pbs_version = {VERSION}")
        return 0
    if (state / "down").exists():
        return no_server(name)
    return {"qsub": qsub, "qstat": qstat, "qdel": qdel, "qselect": qselect}[name](state, words)


def no_server(name: str) -> int:
    """What a real one says when its server is down; qstat alone has an exit code of its own."""
    reached = f"Couldn't connect to cluster: {SERVER}"
    words = reached if name == "qdel" else f"{name}: cannot connect to server {SERVER} (errno=15010)"
    print(f"Connection refused\n{words}", file=sys.stderr)
    return 255 if name == "qstat" else NO_SERVER


# --- qsub -----------------------------------------------------------------------------------------


def qsub(state: Path, words: list[str]) -> int:
    file = words[-1]
    text = Path(file).read_text(encoding="utf-8", errors="surrogateescape")
    if "\r\n" in text:
        return refused("qsub", 2, "script contains cr, lf")
    asked = Asked(words[:-1], text)
    if asked.error is not None:
        return refused("qsub", *asked.error)
    number = next_number(state)
    here = os.getcwd()
    name = asked.options.get("-N", Path(file).name[:15])
    write(
        state / f"{number}.job",
        {
            "number": number,
            "name": name,
            "script": text,
            "folder": here,
            "out": os.path.join(here, asked.options.get("-o", f"{name}.o{number}")),
            "err": os.path.join(here, asked.options.get("-e", f"{name}.e{number}")),
            "walltime": asked.walltime,
            "nodes": asked.nodes,
            "cores": asked.cores,
            "after": asked.after,
            "held": asked.held,
            "user": user(),
        },
    )
    begin(state, number)
    print(f"{number}.{SERVER}")
    return 0


def begin(state: Path, number: int) -> None:
    """Starts the process that runs a job, or waits until it may."""
    words = [sys.executable, "-I", "-S", __file__, str(state), "mom", str(number)]
    null = subprocess.DEVNULL
    subprocess.Popen(words, cwd="/", stdin=null, stdout=null, stderr=null, start_new_session=True, env=bare())


class Asked:
    """A request: options of the command line, and those of the script's leading `#PBS` lines."""

    def __init__(self, words: list[str], script: str) -> None:
        self.error: tuple[int, str] | None = None
        self.options: dict[str, str] = {}
        self.walltime, self.nodes, self.cores, self.after = 0.0, 1, 1, ""
        for line in script.splitlines():
            if line.startswith("#PBS "):
                self._take(shlex.split(line[5:]))
            elif line.strip() and not line.startswith("#"):
                break  # directives after the first command are comments
        self.held = "-h" in words
        self._take([word for word in words if word not in ("-f", "-h")])

    def _take(self, words: list[str]) -> None:
        for option, value in zip(words[::2], words[1::2], strict=True):
            self.options[option] = value
            if option == "-l":
                self._resources(value)
            elif option == "-N" and (re.search(r"[\s:/@]", value) or not value.isascii()):
                self.error = (2, "illegal -N value")
            elif option == "-q" and value != "workq":
                self.error = (170, "Unknown queue")
            elif option == "-W" and value.startswith("depend=afterany:"):
                self.after = value.split(":")[1].split(".")[0]

    def _resources(self, value: str) -> None:
        for part in value.split(","):
            key, _, word = part.partition("=")
            if key not in RESOURCES:
                self.error = (187, f"Unknown resource Resource_List.{key}")
            elif key == "walltime":
                hours, minutes, seconds = (int(one) for one in word.split(":"))
                self.walltime = (hours * 60 + minutes) * 60 + seconds
            elif key == "select":
                self._select(word)

    def _select(self, word: str) -> None:
        count, *chunk = word.split(":")
        if not count.isdigit():
            self.error = (166, "Illegal attribute or resource value Resource_List.select")
            return
        self.nodes = int(count)
        for part in chunk:
            key, _, number = part.partition("=")
            if key not in RESOURCES:
                self.error = (187, f"Unknown resource: {key}")
            elif key == "ncpus":
                self.cores = int(number)


def next_number(state: Path) -> int:
    """The next free number, from 0: taken by making a file that must not exist."""
    number = 0
    while True:
        try:
            os.close(os.open(state / f"{number}.id", os.O_CREAT | os.O_EXCL))
            return number
        except FileExistsError:
            number += 1


# --- qstat, qdel, qselect -------------------------------------------------------------------------


def qstat(state: Path, words: list[str]) -> int:
    """As `-f -F dsv`: a line a job. Asked for several in JSON a real one may tell of the first alone."""
    if words == ["-B"]:
        print(f"Server\n------\n{SERVER}  Active")
        return 0
    history = "-x" in words
    code = 0
    for number in (word for word in words if word[0] != "-" and word != "dsv"):
        short = number.split(".")[0]
        job = attributes(state, short)
        if job is None:
            code = refused("qstat", UNKNOWN, f"Unknown Job Id {short}.{SERVER}")
        elif job["job_state"] == "F" and not history:
            hint = "Job has finished, use -x or -H to obtain historical job information"
            code = refused("qstat", FINISHED, f"{short}.{SERVER} {hint}")
        else:
            told = (f"{key}={str(value).replace('|', chr(92) + '|')}" for key, value in job.items())
            print("|".join([f"Job Id: {short}.{SERVER}", *told]))
    return code


def qdel(state: Path, words: list[str]) -> int:
    code = 0
    for number in words:
        short = number.split(".")[0]
        job = attributes(state, short)
        if job is None:
            code = refused("qdel", UNKNOWN, f"Unknown Job Id {short}.{SERVER}")
        elif job["job_state"] == "F":
            code = refused("qdel", FINISHED, f"Job has finished {short}.{SERVER}")
        else:
            (state / f"{short}.deleted").touch()
            time.sleep(POLL if job["job_state"] != "R" else 0)  # what has not begun is history at once
    return code


def qselect(state: Path, words: list[str]) -> int:
    wanted = words[words.index("-u") + 1]
    for path in sorted(state.glob("*.job")):
        job = attributes(state, path.stem)
        if job is not None and job["job_state"] != "F" and read(path)["user"] == wanted:
            print(f"{path.stem}.{SERVER}")
    return 0


def attributes(state: Path, number: str) -> Record | None:
    """A job's attributes, as `qstat -f` has them; None for one that was never submitted."""
    if not (state / f"{number}.job").exists():
        return None
    job = read(state / f"{number}.job")
    started, ended = read(state / f"{number}.started"), read(state / f"{number}.ended")
    found: Record = {
        "Job_Name": job["name"],
        "Job_Owner": f"{job['user']}@login",
        "job_state": "F" if ended else "R" if started else "H" if job["after"] or job["held"] else "Q",
        "queue": "workq",
        "server": SERVER,
        "Resource_List.ncpus": job["cores"] * job["nodes"],
        "Resource_List.nodect": job["nodes"],
        "Variable_List": f"PBS_O_HOME={os.environ.get('HOME', '/')},PBS_O_LANG=C.UTF-8,PBS_O_ODD=a|b=c",
        "project": "_pbs_project_default",
    }
    if impossible(job) and not ended:
        words = f"ncpus (R: {job['cores']} A: {CORES} T: {CORES})"
        found["comment"] = f"Can Never Run: Insufficient amount of resource: {words}"
    if started:
        names = [f"node{place}" for place in range(job["nodes"])]
        found["exec_host"] = "+".join(f"{name}/0*{job['cores']}" for name in names)
        found["comment"] = f"Job run at Sat Nov 21 at 14:14 on ({names[0]}:ncpus={job['cores']})"
        if (state / f"{number}.deleted").exists():
            found["comment"] += f" and terminated by {job['user']}@login"
    if "code" in ended:
        found["Exit_status"] = ended["code"]
        found["comment"] += ended["words"]
    return found


# --- a job's own process, in the place of pbs_mom -------------------------------------------------


def mom(state: Path, number: str) -> int:
    """Waits until a job may start, runs it, watches its walltime, delivers its output."""
    job = read(state / f"{number}.job")
    if job["after"] and not (state / f"{job['after']}.job").exists():
        write(state / f"{number}.ended", {"unknown": job["after"]})  # taken by qsub, and F at once
        return 0
    while job["held"] or impossible(job) or (job["after"] and not over(state, job["after"])):
        if (state / f"{number}.deleted").exists() or not state.exists():
            write(state / f"{number}.ended", {"deleted": True})  # F, and no Exit_status
            return 0
        time.sleep(POLL / 4)
    spool = {key: state / f"{number}.{key}" for key in ("OU", "ER")}
    copy = state / f"{number}.SC"
    copy.write_text(job["script"], encoding="utf-8", errors="surrogateescape")
    with spool["OU"].open("wb") as out, spool["ER"].open("wb") as err:
        process = subprocess.Popen(
            ["/bin/bash", str(copy)],
            cwd=os.environ.get("HOME", "/"),
            env={**bare(), **(job.get("variables") or variables(job))},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        write(state / f"{number}.started", {"pid": process.pid})
        begun = time.monotonic()
        words = watch(state, job, process, begun)
        if words:
            err.write(words.encode())
    code = process.returncode
    kill(process, signal.SIGKILL)  # what the script left in its session
    for key, target in (("OU", job["out"]), ("ER", job["err"])):
        deliver(spool[key], Path(target))
    ended = (-29, " and exceeded resource walltime") if words else (code if code >= 0 else 256 - code, "")
    said = ended[1] or (
        "" if (state / f"{number}.deleted").exists() else " and finished" if code == 0 else " and failed"
    )
    write(state / f"{number}.ended", {"code": ended[0], "words": said})
    return 0


def watch(state: Path, job: Record, process: subprocess.Popen[bytes], begun: float) -> str:
    """Until the job's end; what PBS writes into its error output, where it ended it for its walltime."""
    told, deadline = "", None
    while process.poll() is None:
        now = time.monotonic()
        late = job["walltime"] and now - begun > job["walltime"]
        if deadline is None and (late or (state / f"{job['number']}.deleted").exists()):
            if late:
                told = (
                    f"=>> PBS: job killed: walltime {int(now - begun) + 1} exceeded limit {job['walltime']}\n"
                )
            kill(process, signal.SIGTERM)
            deadline = now + KILL_DELAY
        elif deadline is not None and now > deadline:
            kill(process, signal.SIGKILL)
        time.sleep(POLL / 4)
    return told


def kill(process: subprocess.Popen[bytes], number: int) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return


def deliver(spooled: Path, target: Path) -> None:
    """Copies output to where it was asked for; where there is no such folder it is lost without a word."""
    if target.parent.is_dir():
        target.write_bytes(spooled.read_bytes())
        target.chmod(0o600)


def impossible(job: Record) -> bool:
    return bool(job["cores"] > CORES or job["nodes"] > NODES)


def over(state: Path, number: str) -> bool:
    """Whether the job that another waits for has ended."""
    return (state / f"{number}.ended").exists()


def variables(job: Record) -> dict[str, str]:
    return {
        "PBS_ENVIRONMENT": "PBS_BATCH",
        "PBS_JOBID": f"{job['number']}.{SERVER}",
        "PBS_JOBNAME": job["name"],
        "PBS_O_WORKDIR": job["folder"],
        "NCPUS": str(job["cores"]),
        "OMP_NUM_THREADS": str(job["cores"]),
    }


def bare() -> dict[str, str]:
    """What a job gets of its submitter's environment."""
    kept = {key: os.environ[key] for key in ("HOME", "USER", "LOGNAME") if key in os.environ}
    return {**kept, "PATH": "/usr/local/bin:/usr/bin:/bin", "SHELL": "/bin/bash"}


def user() -> str:
    return pwd.getpwuid(os.getuid()).pw_name


def say(words: str, code: int) -> int:
    """Says what went wrong; returns the exit code for that."""
    print(words, file=sys.stderr)
    return code


def delete(state: Path, number: int | str, *, runs: bool) -> None:
    """Has a job end; the end of one that waits is seen at the next look."""
    (state / f"{number}.deleted").touch()
    time.sleep(0 if runs else POLL)


def refused(name: str, code: int, words: str) -> int:
    print(f"{name}: {words}", file=sys.stderr)
    return code


def write(path: Path, record: Record) -> None:
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        part.write_text(json.dumps(record), encoding="utf-8")
        part.replace(path)
    except FileNotFoundError:
        return  # the test is over, and its folder is gone


def read(path: Path) -> Record:
    try:
        found: Record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return found


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
