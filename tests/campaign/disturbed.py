"""One run of a workflow, disturbed until it was killed often enough, and followed to its end."""

from __future__ import annotations

import contextlib
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from diel.worker.attempt.reaper import OomKills
from tests.campaign.descent import Descent, kill, told
from tests.campaign.evidence import Outcome, breaches, outcome, said_by
from tests.campaign.flows import MODULES, Flow
from tests.campaign.roles import Roles
from tests.descendants import alive
from tests.throwaway import Project, Run

SITE = "name: wide\nscheduler: local\npools:\n  local: {cores: 4}\n"
ROOT = Path(__file__).resolve().parents[2]
MPICH = ("/dev/shm/mpich_shm_", "/tmp/hydra_hwloc_xmlfile_")
"""MPICH leaves these where it is killed; nobody but MPICH can know of them (docs/reliability.md)."""
EARLY = 2.0
"""Seconds of a start or a resume in which things are half made."""
STUCK = 90.0
"""Seconds without a new line in the journal after which a run counts as one that hangs."""
GONE = 12.0
"""Seconds after its controller's death, or its end, in which all that belongs to a run on one machine must be gone."""
REFUSED = 2
SHARED = ("/tmp/", "/dev/shm/", "/var/tmp/")
"""Directories in which a run could leave files that nobody would find."""
PATIENCE = 40
"""How often a resume may be refused, half a second apart."""
WAIT = 4.0
"""Seconds that are waited for a process of the kind that is to be killed."""


@dataclass(frozen=True)
class Kill:
    """What was killed, and when: within the first seconds of a start or resume, or later."""

    kind: str
    moment: str
    seconds: float
    """Since its controller was started."""


class Place(Project):
    """A project with a home and a temporary directory of its own, so that whatever is left there is the run's."""

    site = "wide"
    blocks = False

    def __init__(self, folder: Path, flow: Flow, kills: int) -> None:
        super().__init__(folder)
        self.flow = flow
        self.kinds = flow.kinds
        self.known: tuple[str, ...] = (str(folder), str(ROOT), sys.prefix, *MPICH)
        """Where files of the run may lie, what was there before, and what an MPI library did not take away."""
        for name in ("home", "tmp", "schedulers", *(f"locks/{stage}" for stage in flow.stages)):
            (folder / name).mkdir(parents=True)
        (folder / "marks").touch()
        (folder / "schedulers" / "wide.yaml").write_text(SITE, encoding="utf-8")
        self.module("ends", MODULES.replace("OUT", str(folder)))
        self.workflow(flow.workflow(kills, str(folder)))

    def environment(self) -> dict[str, str]:
        own = {"HOME": self.folder / "home", "TMPDIR": self.folder / "tmp"}
        return {**self.base(), **{name: str(path) for name, path in own.items()}}

    def base(self) -> dict[str, str]:
        return super().environment()

    def jobs(self) -> list[str]:
        """The scheduler's jobs that are left."""
        return []

    def begin(self, *words: str) -> subprocess.Popen[bytes]:
        """Starts a controller; what it prints goes to the file `said`."""
        with open(self.folder / "said", "ab") as file:
            return subprocess.Popen(
                [sys.executable, "-m", "diel", *words],
                cwd=self.folder,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )


@dataclass
class Disturbed:
    """A run, who is killed in it, and what was found wrong."""

    place: Place
    descent: Descent
    dice: random.Random
    kills: list[Kill] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    is_void: bool = False
    """Whether the system killed for want of memory meanwhile, and a kill was put down to that."""
    held: set[str] = field(default_factory=set)
    """Files outside the project that were seen open or mapped."""
    _refused: int = 0

    def follow(self, kills: int, expected: Outcome) -> None:
        """Starts the run, kills, resumes, and looks at what there is in the end."""
        memory = OomKills()
        self._launch("run", f"{self.place.name}.yaml", "--site", self.place.site, "--no-cache", "--quiet")
        while len(self.kills) < kills:
            kind, moment = self._next()
            if not self._wait_until(moment):
                break
            self._kill(kind)
        self._to_the_end()
        if not self.descent.is_empty_within(GONE):
            self.wrong += [f"a process is left: {told(process)}" for process in self.descent.processes()]
            kill(self.descent.processes)
        self.wrong += [f"a job is left: {job}" for job in self.place.jobs()]
        self.wrong += [f"left behind: {path}" for path in sorted(self.held) if Path(path).exists()]
        if not self.wrong or self._run() is not None:
            self.wrong += breaches(self.place, self.place.flow, expected)
        self.is_void = memory.grew() and any("oom" in words for words in self.wrong)

    # --- its controllers --------------------------------------------------------------------------

    def _launch(self, *words: str) -> None:
        self._launched_as = "start" if words[0] == "run" else "resume"
        self._process = self.place.begin(*words)
        self.descent.own(self._process.pid)
        self._launched = time.monotonic()
        self._fresh = True

    def _again(self) -> None:
        """Resumes the run; starts it where it was killed before there was one."""
        if self._run() is None:
            shutil.rmtree(self.place.folder / "runs", ignore_errors=True)  # as `diel clean` does
            self._launch("run", f"{self.place.name}.yaml", "--site", self.place.site, "--no-cache", "--quiet")
        else:
            self._launch("resume", "--quiet")

    def _run(self) -> Run | None:
        runs = list((self.place.folder / "runs").glob(f"{self.place.name}-*/run.json"))
        return self.place.newest() if runs else None

    # --- kills ------------------------------------------------------------------------------------

    def _next(self) -> tuple[str, float]:
        """What is killed next, and when, in seconds since the controller was started.

        A third of all kills are early ones. Most of those hit the controller or everything, for little else is
        there so soon. Where an early one is due and the run goes on, its controller dies first.
        """
        now = time.monotonic() - self._launched
        due = 3 * sum(kill.moment != "later" for kill in self.kills) <= len(self.kills) + 1
        early = due and self._fresh
        moment = self.dice.uniform(0, EARLY) if early else max(EARLY, now) + self.dice.uniform(0, 1.5)
        alone = self.dice.random() < 0.67 if early else due
        kinds = ("controller", "everything") if alone else self.place.kinds
        counts = Counter(kill.kind for kill in self.kills)
        return min(kinds, key=lambda kind: (counts[kind], self.dice.random())), moment

    def _wait_until(self, moment: float) -> bool:
        """Whether the run is still going at that moment."""
        while (left := self._launched + moment - time.monotonic()) > 0:
            if self._ended():
                return False
            time.sleep(min(left, 0.02))
        return not self._ended()

    def _ended(self) -> bool:
        """Whether the run is over. A controller that ends for another reason is followed by the next."""
        code = self._process.poll()
        if code is None:
            return False
        if code == 0:
            return True
        if code == REFUSED and self._launched_as == "resume" and self._refused < PATIENCE:
            time.sleep(0.5)  # its predecessor was killed while it took the run over
            self._refused += 1
        else:
            killed = ", ".join(kill.kind for kill in self.kills[-3:])
            said = said_by(self.place)
            self.wrong.append(f"it ended by itself with exit code {code} after kills of {killed}: {said}")
        self._again()
        return len(self.wrong) > 2

    def _kill(self, kind: str) -> None:
        """Kills one of a kind as soon as there is one; nothing where none comes."""
        end = time.monotonic() + WAIT
        victims: list[psutil.Process] = []
        while not victims:
            if self._ended() or time.monotonic() > end:
                return
            processes = self.descent.processes()
            victims = Roles(processes, self._process.pid, self._run()).victims(kind, self.dice)
            time.sleep(0 if victims else 0.05)
        seconds = time.monotonic() - self._launched
        self._note_files(processes)
        if kind == "everything":
            kill(lambda: Roles(self.descent.processes(), self._process.pid, None).victims(kind, self.dice))
        else:
            kill(lambda: filter(alive, victims))
        self.kills.append(Kill(kind, self._launched_as if seconds < EARLY else "later", seconds))
        self._fresh = False
        if kind in ("controller", "everything"):
            self._process.wait()
            if not self.place.blocks and self.dice.random() < 0.25 and not self.descent.is_empty_within(GONE):
                left = [told(process) for process in self.descent.processes()]
                self.wrong.append(f"{GONE:.0f} s after the controller was killed: {left}")
            self._refused = 0
            self._again()

    def _note_files(self, processes: list[psutil.Process]) -> None:
        for process in processes:
            with contextlib.suppress(psutil.Error, OSError):
                paths = {file.path for file in process.open_files()} | {m.path for m in process.memory_maps()}
                self.held |= {p for p in paths if p.startswith(SHARED) and not p.startswith(self.place.known)}

    # --- its end ----------------------------------------------------------------------------------

    def _to_the_end(self) -> None:
        size, since = -1, time.monotonic()
        while not self._ended():
            now = self._size()
            if now != size:
                size, since = now, time.monotonic()
            if time.monotonic() - since > STUCK:
                processes = "\n  ".join(told(process) for process in self.descent.processes())
                self.wrong.append(f"nothing went on for {STUCK:.0f} s: {said_by(self.place)}\n  {processes}")
                kill(self.descent.processes)
                self._process.wait()
                self._again()
                since = time.monotonic()
                if len(self.wrong) > 3:
                    return
            time.sleep(0.05)

    def _size(self) -> int:
        run = self._run()
        return 0 if run is None else sum(path.stat().st_size for path in (run.root / "journal").iterdir())


def undisturbed(place: Place, descent: Descent) -> Outcome:
    """The outcome of a run that is left alone."""
    process = place.begin("run", f"{place.name}.yaml", "--site", place.site, "--no-cache", "--quiet")
    descent.own(process.pid)
    assert process.wait(timeout=300) == 0, said_by(place)
    assert descent.is_empty_within(GONE), [told(process) for process in descent.processes()]
    return outcome(place, place.flow)
