"""What a function leaves running meets no later task."""

from __future__ import annotations

from pathlib import Path

from tests.throwaway import Project

MONITOR = """
import os, signal, threading

def monitor(x: int) -> dict:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    return {"pid": os.getpid()}

def later(y: int) -> dict:
    return {"pid": os.getpid()}

def fork(x: int) -> dict:
    child = os.fork()
    if not child:
        signal.pause()
    os.kill(child, signal.SIGTERM)
    return {"signal": os.WTERMSIG(os.waitpid(child, 0)[1])}
"""
FLOW = """
axes: {x: {range: 4}, y: {range: 4}}
stages:
  monitor: {module: "monitor:monitor", over: [x]}
  later: {module: "monitor:later", over: [y], after: [monitor]}
  fork: {module: "monitor:fork", over: [x]}
"""


def test_a_worker_with_a_thread_that_a_function_left_runs_no_other_task(tmp_path: Path) -> None:
    project = Project(tmp_path).machine("one", 1).workflow(FLOW).module("monitor", MONITOR)
    run = project.run("--site", "one", "--no-cache")
    processes = [done["values"]["pid"] for done in run.records("done", "monitor")]
    after = {done["values"]["pid"] for done in run.records("done", "later")}
    assert len({*processes}) == 4
    assert after.isdisjoint(processes)
    assert len(after) == 1, "one that leaves nothing goes on"
    assert not run.records("fail")
    signals = [done["values"]["signal"] for done in run.records("done", "fork")]
    assert signals == [15] * 4, "a child ends by the signal, without code of its parent"
