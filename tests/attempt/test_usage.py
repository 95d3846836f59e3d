"""What an attempt uses is counted by the kernel, however it runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from diel.base.paths import RunPaths
from diel.worker.attempt.bundle import Work
from diel.worker.attempt.command import spawn
from diel.worker.attempt.usage import Usage, descendants
from diel.worker.attempt.watchdog import RunningAttempt, Watchdog
from tests.throwaway import Project, Record, wait_for
from tests.worker.bench import request

MIB = 1 << 20
TAKES = "x = bytearray([1]) * ({mib} << 20)"
BUSY = "import time\nwhile time.process_time() < 0.5: pass"
ALONE = Work("s", None, {}, None, (), 1)


def python(*lines: str) -> int:
    """Starts a Python that runs these lines."""
    return os.posix_spawn(sys.executable, [sys.executable, "-c", "\n".join(lines)], os.environ)


COUNTING = """
import json, os, sys
from diel.worker.attempt.usage import Usage
usage = Usage()
child = os.posix_spawn("/bin/sh", ["sh", "-c", sys.argv[1] + ' -c "$0"; true', sys.argv[2]], os.environ)
os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
assert usage.reap(child) == 0
print(json.dumps(usage.facts()))
"""


def test_a_command_is_counted_with_all_that_it_waited_for(tmp_path: Path) -> None:
    """By a process as small as a worker: these tests' own may be larger than the command."""
    code = f"{TAKES.format(mib=100)}\n{BUSY}\nopen('out', 'wb').write(x[:5 << 20])\nopen('out', 'rb').read()"
    small = ["sh", "-c", '"$0" "$@"; true']  # what begins in a large process has its peak
    words = [*small, sys.executable, "-c", COUNTING, sys.executable, code]
    facts = json.loads(subprocess.run(words, cwd=tmp_path, check=True, capture_output=True, text=True).stdout)
    assert 0.5 <= facts["cpu_seconds"] < 2.0
    assert 0.0 < facts["system_seconds"] < facts["cpu_seconds"]
    assert 100 * MIB < facts["memory_bytes"] < 118 * MIB
    assert 5 * MIB <= facts["read_bytes"] < 6 * MIB
    assert 5 * MIB <= facts["written_bytes"] < 6 * MIB
    assert "memory_at_most" not in facts


def test_a_short_command_that_is_smaller_than_its_worker_took_at_most_so_much() -> None:
    usage = Usage()
    usage.reap(os.posix_spawn("/bin/true", ["true"], os.environ))
    facts = usage.facts()
    assert facts is not None
    assert facts["memory_at_most"]
    assert facts["memory_bytes"] > MIB


def test_processes_that_run_at_the_same_time_are_added_up() -> None:
    code = f"import os; os.fork(); {TAKES.format(mib=40)}; os.read(0, 1); os.wait()"
    usage = Usage()

    def are_there() -> bool:
        usage.look(parent.pid)
        return usage._together > 80 * MIB

    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as parent:
        wait_for(are_there)
        assert len(descendants(parent.pid)) == 1
        parent.kill()
        usage.reap(parent.pid)
        parent.returncode = -9
    facts = usage.facts()
    assert facts is not None
    assert 80 * MIB < facts["memory_bytes"] < 105 * MIB


def test_the_watchdog_looks_at_what_runs_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    dog = Watchdog(RunPaths(tmp_path), lambda: None, lambda _: None)
    attempt = RunningAttempt(ALONE, request(0, "x"), str(tmp_path))
    dog.begin(attempt)
    wait = f"{sys.executable} -c 'import time; {TAKES.format(mib=40)}; time.sleep(1)' &"
    spawn(("sh", "-c", f"{wait} {wait} wait"), {"PATH": os.environ["PATH"]}, dog, attempt)
    facts = attempt.usage.facts()
    assert facts is not None
    assert 80 * MIB < facts["memory_bytes"] < 120 * MIB


WAYS = """
    import os
    import subprocess
    import sys

    @diel.module(kind="analysis")
    def big() -> dict:
        x = bytearray(200 << 20)
        x[::4096] = b"1" * (200 << 8)
        return {"x": 1}

    @diel.module(kind="analysis")
    def keeps(context: diel.Context) -> dict:
        x = context.cached("x", lambda: bytearray(b"1") * (60 << 20))
        return {"x": 1}

    @diel.module(kind="analysis")
    def moves() -> dict:
        subprocess.run([sys.executable, "-c", "while __import__('time').process_time() < 0.4: pass"], check=True)
        for _ in range(10):
            with open("out", "wb") as file:
                file.write(bytes(1 << 20))
        return {"x": len(open("out", "rb").read())}

    @diel.module(kind="analysis")
    def fails() -> dict:
        x = bytearray(b"1") * (50 << 20)
        raise ValueError(len(x))
"""
LEFT = f"{TAKES.format(mib=150)}\n{BUSY}\nopen('up', 'w')\ntime.sleep(int(sys.argv[1]))\n"
ONE_AFTER_THE_OTHER = """
    axes: {n: {range: 3}}
    stages:
      big: {module: "ways:big"}
      after: {command: ["true"], after: [big]}
      keeps: {module: "ways:keeps", over: [n], after: [after]}
      hides: {command: "(setsid python ${{ files.left }} 0 &); until [ -e up ]; do sleep 0.01; done", files: {left: left.py}, after: [keeps]}
      leaves: {command: "(setsid python ${{ files.left }} 60 &); until [ -e up ]; do sleep 0.01; done", files: {left: left.py}, after: [hides]}
      moves: {module: "ways:moves", after: [leaves], resources: {memory: 140MiB}}
      fails: {module: "ways:fails", after: [moves]}
      exits: {command: "exit 3", after: [moves]}
"""


def test_a_function_is_counted_by_differences_and_what_fails_alike(tmp_path: Path) -> None:
    project = Project(tmp_path).module("ways", WAYS).workflow(ONE_AFTER_THE_OTHER).machine("one", 1)
    (tmp_path / "left.py").write_text(f"import sys\n{LEFT}")
    run = project.run("-q", "--site", "one", code=1)
    told: dict[str, list[Record]] = {}
    for record in run.records():
        if record["event"] in ("done", "fail"):
            told.setdefault(record["stage"], []).append(record["usage"])
    assert 200 * MIB < told["big"][0]["memory_bytes"] < 225 * MIB
    assert told["after"][0]["memory_bytes"] < 60 * MIB, "what a function took before is not the command's"
    assert all(60 * MIB < one["memory_bytes"] < 85 * MIB for one in told["keeps"]), "what it keeps is its own"
    for stage in ("hides", "leaves"):
        assert 150 * MIB < told[stage][0]["memory_bytes"] < 175 * MIB, "what left the command is its own"
        assert 0.5 <= told[stage][0]["cpu_seconds"] < 1.5
    moves = told["moves"][0]
    assert moves["memory_bytes"] < 120 * MIB, "what an earlier command left behind is not the function's"
    assert 0.4 <= moves["cpu_seconds"] < 2.0
    assert 10 * MIB <= moves["written_bytes"] < 11 * MIB
    assert MIB <= moves["read_bytes"] < 3 * MIB
    assert 50 * MIB < told["fails"][0]["memory_bytes"] < 200 * MIB
    assert told["exits"][0]["cpu_seconds"] > 0


def test_ranks_are_counted_each_by_itself_and_added_up(tmp_path: Path) -> None:
    code = f"{TAKES.format(mib=60)}; open('out', 'wb').write(x)"
    text = f"""
    stages:
      whole: {{command: [{sys.executable}, -c, "{code}"], resources: {{ranks: 2}}}}
      script:
        command: |
          ${{{{ launcher }}}} {sys.executable} -c "{code}"
          ${{{{ launcher }}}} {sys.executable} -c "{code}"
        resources: {{ranks: 2}}
        after: [whole]
    """
    run = Project(tmp_path).workflow(text).machine("two", 2).run("-q", "--site", "two")
    found = {record["stage"]: record["usage"] for record in run.records("done")}
    for stage, launches in (("whole", 1), ("script", 2)):
        assert 2 * 60 * MIB < found[stage]["memory_bytes"] < 2 * 85 * MIB
        assert launches * 2 * 60 * MIB <= found[stage]["written_bytes"] < launches * 2 * 62 * MIB
    assert not list(run.root.glob("tasks/*/*/.usage"))
