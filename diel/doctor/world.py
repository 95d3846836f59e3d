"""A real run in each pool: its block, the workers in it, and two MPI ranks that are to meet."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from diel.doctor.finding import Finding
from diel.doctor.folder import existing
from diel.doctor.probe import version_of
from diel.doctor.programs import last
from diel.doctor.trial import WAIT_LONGER
from diel.errors import DielError
from diel.journal.history import History
from diel.journal.segment import read_run
from diel.project.runs import find_run
from diel.site import Site, cores_of
from diel.values import format_duration

MEET = "from mpi4py import MPI; found = MPI.COMM_WORLD.allreduce(1); assert found == 2, f'{found} of 2 ranks'"
LAST_WORDS = 60.0
"""Seconds that a run has to take back its blocks after SIGTERM."""


@dataclass
class _Try:
    """The run of one pool."""

    pool: str
    folder: Path
    process: subprocess.Popen[bytes]
    ranks: bool

    def history(self) -> History:
        """What it wrote so far. Raises DielError if there is nothing."""
        return read_run(find_run(self.folder / "runs")).history


def try_runs(
    site: Site,
    name: str | None,
    pools: Sequence[str],
    runs: Path,
    wait: float,
    tell: Callable[[str], None],
) -> Iterator[Finding]:
    """Runs a workflow of one task in each pool and yields what became of it; no run or job of it is left.

    `name` is the site as it was asked for, `wait` in seconds.
    """
    folder = Path(tempfile.mkdtemp(prefix=".diel-doctor-", dir=existing(runs)))
    tries: list[_Try] = []
    try:
        for number, pool in enumerate(pools):
            tries.append(_start(site, name, pool, folder / str(number)))
            tell(f"pool '{pool}': a run of one task is started, as any other run")
        end = time.monotonic() + wait
        for each in tries:
            yield _ended(each, end, wait)
    finally:
        for each in tries:
            _stop(each)
        shutil.rmtree(folder, ignore_errors=True)


def _start(site: Site, name: str | None, pool: str, folder: Path) -> _Try:
    """Starts the run from the current directory, where the site's file is found as before. Raises OSError."""
    folder.mkdir()
    asked = site.pools[pool]
    ranks = version_of("mpi4py") is not None and (cores_of(asked) > 1 or asked.block_nodes > 1)
    spans = {"nodes": 2, "ranks_per_node": 1} if asked.block_nodes > 1 else {"ranks": 2}
    stage = {
        "command": [sys.executable, "-c", MEET] if ranks else ["true"],
        "resources": {"pool": pool, **(spans if ranks else {})},
    }
    document = {"diel": 1, "name": "doctor", "stages": {"ranks": stage}}
    (folder / "doctor.yaml").write_text(json.dumps(document), encoding="utf-8")
    command = [sys.executable, "-m", "diel", "run", str(folder / "doctor.yaml"), "-q", "--no-cache"]
    command += ["--runs", str(folder / "runs"), *(["--site", name] if name else [])]
    with (folder / "out").open("wb") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
    return _Try(pool, folder, process, ranks)


def _ended(each: _Try, end: float, wait: float) -> Finding:
    name = f"{each.pool}: run"
    try:
        code = each.process.wait(max(0.0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        found = f"not done after {format_duration(wait)}{_stands(each)}; stopped"
        return Finding(name, False, found, WAIT_LONGER, required=False)
    if code == 0:
        met = "two MPI ranks met" if each.ranks else "ranks were not tried, for want of mpi4py or of cores"
        return Finding(name, True, f"a task of a real run was done in a block; {met}")
    with contextlib.suppress(DielError, OSError):
        history = each.history()
        failure = history.failures.get(("ranks", 0))
        if failure is not None and history.workers:
            fix = "correct `launcher` or `setup` of the site file (docs/sites.md, MPI between nodes)"
            found = f"its workers started, but two ranks did not meet: {failure['message']}"
            stderr = str(failure.get("stderr_tail", ""))
            return Finding(name, False, f"{found} ({last(stderr)})" if stderr.strip() else found, fix)
    fix = "run a workflow of one task on this site by hand to see more: `diel status` and `diel explain` tell"
    said = last((each.folder / "out").read_text("utf-8", "replace"))
    return Finding(name, False, f"no worker took a task{_stands(each)}; {said}", fix)


def _stands(each: _Try) -> str:
    """What is known of its blocks, and what the scheduler says."""
    known: list[str] = []
    with contextlib.suppress(DielError, OSError):
        history = each.history()
        for block in history.blocks.values():
            reason = f" ({block['reason']})" if block["reason"] else ""
            known.append(f"block {block['job'] or block['block']} is {block['state']}{reason}")
        known += filter(None, (history.silent, history.trouble))
    return "".join(f"; {words}" for words in known)


def _stop(each: _Try) -> None:
    """Ends a run that goes on; its blocks are given back."""
    if each.process.poll() is not None:
        return
    each.process.send_signal(signal.SIGTERM)
    try:
        each.process.wait(LAST_WORDS)
    except subprocess.TimeoutExpired:
        each.process.kill()
        each.process.wait()
