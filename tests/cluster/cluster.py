"""A throwaway Slurm: munged, slurmctld and a slurmd for each of four virtual nodes, all below one folder.

Nothing of it is known to systemd or lies outside the folder, and it is taken down by pid. All nodes have the
machine's hostname; SLURMD_NODENAME tells them apart. `configuration` says what was measured on it.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.cluster.configuration import GPUS, MPICH, NODES, gres_conf, slurm_conf
from tests.cluster.daemon import ClusterError, Daemon, kill, wait_until
from tests.cluster.sites import write_sites
from tests.descendants import alive

PREFIX = "diel-cluster-"
PACKAGES = {"slurmctld": "slurmctld", "slurmd": "slurmd", "munged": "munge", "srun": "slurm-client"}
_PATH = "/usr/sbin:/sbin"
_WITHOUT_LOGIN_FILES = (
    *("unshare", "--mount", "--propagation", "slave", "sh", "-c"),
    "for file in ~/.bash_profile ~/.bash_login ~/.profile; do [ ! -e $file ] || mount --bind /dev/null $file; done;"
    ' exec "$@"',
    "sh",
)
"""For each batch job slurmd asks a login shell for the user's environment. What this machine's user does there
is not the tests' matter: pyenv's shell code takes a lock, and where it was killed, later ones wait a minute."""
_LONGEST = 60
"""Characters of a folder's path: sockets lie below it, and their paths have at most 107."""


@dataclass(frozen=True)
class Job:
    """A line of squeue."""

    id: str
    name: str
    partition: str
    state: str
    reason: str
    nodes: str


class Cluster:
    """A cluster below a folder, up or down."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    # --- up and down ------------------------------------------------------------------------------

    @property
    def slurm_conf(self) -> Path:
        return self.folder / "slurm.conf"

    def site(self, name: str = "virtual") -> Path:
        """A site file: virtual, virtual_job, virtual_inside, virtual_torque."""
        return self.folder / "schedulers" / f"{name}.yaml"

    @property
    def disks(self) -> Path:
        """Where file systems may be mounted that the nodes shall see, too: they have mounts of their own."""
        return self.folder / "disks"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a shell that uses the cluster: this one's, without what other clusters say."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("DIEL_", "SLURM", "PBS_"))}
        path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}:{_PATH}"
        return {**kept, **MPICH, "SLURM_CONF": str(self.slurm_conf), "PATH": path}

    def up(self) -> None:
        """Starts everything, and returns when all nodes are idle. Raises ClusterError, and leaves nothing."""
        reason = missing()
        if reason:
            raise ClusterError(reason)
        if self.slurm_conf.exists():
            raise ClusterError(f"there is a cluster in {self.folder} already; take it down first")
        if len(str(self.folder)) > _LONGEST or not re.fullmatch(r"[\w./-]+", str(self.folder)):
            raise ClusterError(f"{self.folder}: expected a path of plain letters, at most {_LONGEST} of them")
        if self.folder.exists() and any(p.name != "owner.json" for p in self.folder.iterdir()):
            raise ClusterError(f"{self.folder} is not empty; name a new directory")
        try:
            self._lay_out()
            for daemon in self._daemons():
                daemon.start(self.environment)
            self.wait_for_nodes()
        except BaseException:
            self.down()
            raise

    def _lay_out(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)  # munged refuses a socket that not everybody can reach
        for name in ("munge", "run", "log", "spool", "dev", "disks"):
            (self.folder / name).mkdir()
        self.run("mount", "--bind", str(self.disks), str(self.disks))
        self.run("mount", "--make-shared", str(self.disks))
        (self.folder / "state").mkdir(mode=0o700)
        key = self.folder / "munge" / "key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))
        for number in range(GPUS):
            (self.folder / "dev" / f"gpu{number}").symlink_to("/dev/null")
        (self.folder / "gres.conf").write_text(gres_conf(self.folder), encoding="utf-8")
        text = slurm_conf(self.folder, socket.gethostname(), _free_ports(1 + len(NODES)))
        self.slurm_conf.write_text(text, encoding="utf-8")
        write_sites(self.folder / "schedulers")

    def wait_for_nodes(self, seconds: float = 30) -> None:
        """Waits until all nodes are idle. Raises ClusterError."""
        try:
            wait_until(lambda: set(self.nodes().values()) == {"idle"}, seconds)
        except TimeoutError:
            raise ClusterError(f"the nodes are not idle after {seconds} s: {self.nodes()}") from None

    def exists(self) -> bool:
        """Whether the folder holds a cluster made here, and not some machine's own configuration."""
        try:
            return f"AuthInfo=socket={self.folder}/munge/" in self.slurm_conf.read_text(encoding="utf-8")
        except OSError:
            return False

    def down(self) -> None:
        """Cancels all jobs and ends every process of the cluster, then removes its folder."""
        if self.slurm_conf.exists():
            controller = self._controller().process()
            if controller is not None and self._steps():
                with contextlib.suppress(ClusterError, psutil.Error, TimeoutError):
                    controller.resume()
                    self.scancel()
                    wait_until(lambda: not self._steps(), 5)
            # slurmd and slurmctld first: they start processes.
            for daemon in reversed(self._daemons()[1:]):
                daemon.kill()
            kill([*self._steps(), *self.processes()])
            self._munged().kill()
        self._ask("umount", "--quiet", "--lazy", "--recursive", str(self.disks), seconds=10)
        shutil.rmtree(self.folder, ignore_errors=True)

    def running(self) -> list[psutil.Process]:
        """Every process of the cluster: daemons, job steps, and what runs in jobs."""
        daemons = [daemon.process() for daemon in self._daemons()]
        return [*(p for p in daemons if p is not None), *self._steps(), *self.processes()]

    # --- daemons ----------------------------------------------------------------------------------

    def _munged(self) -> Daemon:
        place = self.folder / "munge"
        mark = f"--socket={place}/socket"
        words = (
            "munged",
            mark,
            f"--key-file={place}/key",
            f"--pid-file={self.folder}/run/munged.pid",
            f"--log-file={self.folder}/log/munged.log",
            f"--seed-file={place}/seed",
        )
        run, log = self.folder / "run", self.folder / "log"
        return Daemon("munged", words, run / "munged.pid", mark, log / "munged.log")

    def _controller(self) -> Daemon:
        conf = str(self.slurm_conf)
        run, log = self.folder / "run", self.folder / "log"
        words = ("slurmctld", "-f", conf)
        return Daemon("slurmctld", words, run / "slurmctld.pid", conf, log / "slurmctld.log")

    def _slurmd(self, node: str) -> Daemon:
        conf = str(self.slurm_conf)
        run, log = self.folder / "run", self.folder / "log"
        words = (*_WITHOUT_LOGIN_FILES, "slurmd", "-f", conf, "-N", node)
        return Daemon(f"slurmd of {node}", words, run / f"{node}.pid", conf, log / f"{node}.log")

    def _daemons(self) -> list[Daemon]:
        """In the order in which they start."""
        return [self._munged(), self._controller(), *(self._slurmd(node) for node in NODES)]

    def kill_slurmd(self, node: str) -> None:
        """kill -9 of a node's slurmd; what runs on the node goes on until slurmd is back."""
        self._slurmd(node).kill()

    def start_slurmd(self, node: str) -> None:
        """Starts a node's slurmd again, and waits until Slurm takes the node for up."""
        if self._slurmd(node).process() is None:
            self._slurmd(node).start(self.environment)
        wait_until(lambda: self.nodes().get(node) in ("idle", "mixed", "allocated"), 30)

    def kill_node(self, node: str) -> None:
        """As if a node had lost its power: slurmd and all that runs there are gone at once."""
        self.kill_slurmd(node)
        kill([*self._steps(node), *(p for p in self.processes() if node_of(p) == node)])

    def stop_controller(self) -> None:
        """SIGSTOP to slurmctld: commands connect, and wait for an answer until they give up."""
        process = self._controller().process()
        if process is None:
            raise ClusterError("slurmctld does not run")
        process.suspend()

    def end_controller(self) -> None:
        """SIGTERM to slurmctld, as for maintenance: it saves its state, then nobody listens. Jobs go on."""
        process = self._controller().process()
        if process is not None:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            wait_until(lambda: not alive(process), 20)

    def kill_controller(self) -> None:
        """SIGKILL to slurmctld. What it has not saved yet is lost: jobs of the last seconds are pending
        again or unknown, and **their ids are given out again**."""
        self._controller().kill()

    def continue_controller(self) -> None:
        """After any of these: slurmctld runs again, and knows its nodes."""
        process = self._controller().process()
        if process is None:
            self._controller().start(self.environment)
        else:
            process.send_signal(signal.SIGCONT)
        wait_until(lambda: self.nodes() and not any("unk" in s for s in self.nodes().values()), 30)

    # --- jobs and processes -----------------------------------------------------------------------

    def run(self, *words: str, seconds: float = 30) -> str:
        """What a command of the cluster prints. Raises ClusterError where it fails."""
        done = self._ask(*words, seconds=seconds)
        if done.returncode:
            said = (done.stdout + done.stderr).strip()
            raise ClusterError(f"{' '.join(words)}: exit code {done.returncode}: {said}")
        return done.stdout

    def _ask(self, *words: str, seconds: float) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                words,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(words, 124, "", f"no answer within {seconds} s")

    def nodes(self) -> dict[str, str]:
        """State of each node: idle, mixed, allocated, down*, …; empty where slurmctld does not answer."""
        answer = self._ask("sinfo", "--noheader", "--Node", "--format=%N %T", seconds=10)
        return dict(line.split() for line in answer.stdout.splitlines()) if answer.returncode == 0 else {}

    def squeue(self) -> list[Job]:
        """Jobs that have not ended. Raises ClusterError where slurmctld does not answer."""
        lines = self.run("squeue", "--noheader", "--format=%i|%j|%P|%T|%r|%N").splitlines()
        return [Job(*line.split("|")) for line in lines]

    def job(self, id: str) -> dict[str, str]:
        """What Slurm knows of a job, ended or not: JobState, Reason, ExitCode, NodeList, …"""
        text = self.run("scontrol", "--oneliner", "show", "job", id)
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    def state(self, id: str) -> str:
        """A job's state: PENDING, RUNNING, COMPLETED, …"""
        return self.job(id)["JobState"]

    def wait_for(self, id: str, *states: str, seconds: float = 30) -> None:
        """Waits until a job is in one of these states. Raises ClusterError, with what the job does instead."""
        try:
            wait_until(lambda: self.state(id) in states, seconds)
        except TimeoutError:
            now = self.job(id)
            said = f"job {id} is {now['JobState']} ({now.get('Reason')}), not {' or '.join(states)}"
            raise ClusterError(f"{said}, after {seconds} s\n{self._doings(id)}") from None

    def _doings(self, id: str) -> str:
        """When a job began, its steps, its processes, and what it has printed."""
        job = self.job(id)
        path = Path(job.get("StdOut", "/dev/null"))
        printed = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        lines = [
            *(f"{key}={job.get(key)}" for key in ("SubmitTime", "StartTime", "NodeList")),
            self._ask("squeue", "--steps", f"--jobs={id}", seconds=10).stdout,
            *(_line(process) for process in self.processes()),
            printed,
            *(self._slurmd(node).last_words() for node in NODES),
        ]
        return "\n".join(lines)

    def sbatch(self, script: str, *words: str) -> str:
        """Submits a script, a shell's text; its output is dropped unless `words` say where. Gives the id."""
        options = ("--parsable", "--output=/dev/null", "--no-requeue", *words)
        return self.run("sbatch", *options, f"--wrap={script}").strip().partition(";")[0]

    def scancel(self, *ids: str) -> None:
        """Cancels jobs; all of them, whoever's they are, where none is named."""
        wanted = ids or tuple(job.id for job in self.squeue())
        if wanted:
            self.run("scancel", *wanted)

    def end_in(self, id: str, seconds: float) -> None:
        """Moves the end of a running job, in seconds from now; slurmctld looks at limits every 30 s only."""
        end = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + seconds))
        self.run("scontrol", "update", f"JobId={id}", f"EndTime={end}")

    def clear(self) -> None:
        """Back to an idle cluster: no job, every daemon running, every node idle. For between tests."""
        self.continue_controller()
        self.scancel()
        for node in NODES:
            self.start_slurmd(node)
        with contextlib.suppress(TimeoutError):
            wait_until(lambda: not self._steps() and not self.squeue(), 30)
        kill([*self._steps(), *self.processes()])
        self.wait_for_nodes()

    def processes(self) -> list[psutil.Process]:
        """Every living process of the cluster's jobs, wherever it hides; slurmstepd's apart."""
        return [p for p in psutil.process_iter() if self._runs_in_a_job(p)]

    def _runs_in_a_job(self, process: psutil.Process) -> bool:
        environment = _environment(process)
        ours = environment.get("SLURM_CONF") == str(self.slurm_conf)
        return ours and environment.get("SLURMD_NODENAME") in NODES and "SLURM_JOB_ID" in environment

    def _steps(self, node: str = "") -> list[psutil.Process]:
        """The slurmstepd's of a node, or of all: they rewrite their environment, but keep their log open."""
        logs = {str(self.folder / "log" / f"{name}.log") for name in NODES if node in ("", name)}
        return [process for process in psutil.process_iter() if logs & _files_of_a_step(process)]


def node_of(process: psutil.Process) -> str:
    """The virtual node on which a process of a job runs."""
    return _environment(process).get("SLURMD_NODENAME", "")


def _line(process: psutil.Process) -> str:
    """A process, for people: where, which, since when, how it does."""
    try:
        used = sum(process.cpu_times()[:2])
        words = " ".join(process.cmdline())[:200]
        return f"{node_of(process)} {process.pid} < {process.ppid()} {process.status()} {used:.1f} s: {words}"
    except psutil.Error as gone:
        return str(gone)


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return dict(process.environ()) if alive(process) else {}
    except (psutil.Error, OSError):
        return {}


def _files_of_a_step(process: psutil.Process) -> set[str]:
    """The files that a slurmstepd has open; none for all other processes, and for a dead one."""
    try:
        step = process.name().startswith("slurmstepd") and alive(process)
        return {file.path for file in process.open_files()} if step else set()
    except (psutil.Error, OSError):
        return set()


def _free_ports(count: int) -> tuple[int, ...]:
    """Ports that nobody listens on, below those that the kernel gives to connections on its own."""
    while True:
        first = random.randrange(20000, 32000)
        ports = tuple(range(first, first + count))
        if all(_free(port) for port in ports):
            return ports


def _free(port: int) -> bool:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("", port))
        except OSError:
            return False
        return True


def missing() -> str:
    """Why no cluster can be brought up here; empty where one can."""
    path = f"{os.environ.get('PATH', '')}:{_PATH}"
    packages = [package for name, package in PACKAGES.items() if shutil.which(name, path=path) is None]
    if packages:
        return f"the virtual Slurm needs Debian packages; as root: apt-get install {' '.join(packages)}"
    if os.geteuid() != 0:
        return "the virtual Slurm needs root: slurmd starts jobs as any user (try sudo, or a container)"
    return ""


def new_folder() -> Path:
    """An empty folder for a cluster, with a short path."""
    return Path(tempfile.mkdtemp(prefix=PREFIX, dir=temporary()))


def temporary() -> Path:
    """Where clusters lie that were not told where to lie: the system's directory, if its path is short."""
    usual = Path(tempfile.gettempdir())
    return usual if len(str(usual)) + len(PREFIX) + 8 < _LONGEST else Path("/tmp")


def own(folder: Path) -> None:
    """Notes that a cluster must not outlive this process; `clean_up` holds to it."""
    me = psutil.Process()
    text = json.dumps({"pid": me.pid, "started": me.create_time(), "pids": _pid_namespace()})
    (folder / "owner.json").write_text(text, encoding="utf-8")


def clean_up() -> None:
    """Takes down the clusters of processes that were killed before they could do it themselves."""
    for note in temporary().glob(f"{PREFIX}*/owner.json"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            owner = json.loads(note.read_text(encoding="utf-8"))
            # Of another container that shares /tmp nothing can be said.
            if owner["pids"] == _pid_namespace() and not _same(owner["pid"], owner["started"]):
                Cluster(note.parent).down()


def _pid_namespace() -> str:
    return os.readlink("/proc/self/ns/pid")


def _same(pid: int, started: float) -> bool:
    try:
        return abs(psutil.Process(pid).create_time() - started) < 1
    except psutil.Error:
        return False
