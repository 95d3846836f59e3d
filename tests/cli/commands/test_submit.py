"""`diel submit`, and what becomes of a run without a terminal: on this machine, its controller a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from diel.base.paths import RunPaths
from diel.store.project.lease import DOUBT, HEARTBEAT, SILENCE, read_lease
from tests.cli.call import call
from tests.throwaway import Project, wait_for

SHORT = """
    axes:
      i: {range: 3}
    stages:
      work: {over: [i], command: "echo ${{ i }}", outputs: {}}
"""
GATED = """
    axes:
      i: {range: 3}
    stages:
      wait: {over: [i], command: "touch '${{ run.dir }}/begun'; while [ ! -e '${{ run.dir }}/go' ]; do sleep 0.05; done"}
      after: {after: [wait], command: "true"}
"""


def state(project: Project, run: str = "last") -> str:
    return str(json.loads(project.diel("status", run, "--json"))["state"])


def controller(root: Path) -> psutil.Process:
    held = read_lease(RunPaths(root))
    assert held is not None
    return psutil.Process(held[0].pid)


def end_of(process: psutil.Process) -> None:
    psutil.wait_procs([process], timeout=30)


@pytest.fixture
def gated(tmp_path: Path) -> Project:
    return Project(tmp_path).workflow(GATED)


def submitted(project: Project, *words: str) -> psutil.Process:
    """Submits the gated workflow and waits until it is at its tasks; returns its controller."""
    project.diel("submit", "flow.yaml", *words)
    root = project.newest().root
    wait_for((root / "begun").exists)
    return controller(root)


def test_a_run_outlives_the_shell_and_the_terminal_that_submitted_it(gated: Project) -> None:
    """The shell is the leader of a session with a terminal: when it exits, all in it get SIGHUP."""
    words = [sys.executable, "-m", "diel", "submit", "flow.yaml"]
    shell = subprocess.run(
        ["script", "-qec", f"sh -c '{' '.join(words)}; exit'", "/dev/null"],
        cwd=gated.folder,
        env=gated.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert shell.returncode == 0, shell.stdout
    for command in ("diel status flow-1", "diel logs flow-1 TASK", "diel cancel flow-1"):
        assert command in shell.stdout
    root = gated.newest().root
    process = controller(root)
    assert os.getsid(process.pid) == process.pid
    assert process.terminal() is None
    wait_for((root / "begun").exists)
    assert state(gated) == "running"
    (root / "go").touch()
    end_of(process)
    assert state(gated) == "succeeded"
    assert "flow-1 succeeded" in (root / "logs/controller.log").read_text()


def test_its_controller_holds_nothing_that_its_caller_had_open(gated: Project) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    try:
        subprocess.run(
            [sys.executable, "-m", "diel", "submit", "flow.yaml"],
            cwd=gated.folder,
            env=gated.environment(),
            pass_fds=(writer,),
            stdout=subprocess.DEVNULL,
            check=True,
            timeout=60,
        )
        os.close(writer)
        assert os.read(reader, 1) == b""  # would wait forever if somebody still held the other end
    finally:
        os.close(reader)
        gated.diel("cancel")


def test_what_was_submitted_is_told_as_json(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(SHORT)
    told = json.loads(project.diel("submit", "flow.yaml", "--json"))
    assert (told["run"], told["home"], told["job"]) == ("flow-1", "login", None)
    assert told["state"] in ("running", "succeeded")
    wait_for(lambda: state(project) == "succeeded")
    controller_ = json.loads(project.diel("status", "--json"))["controller"]
    assert (controller_["home"], controller_["awaited"], controller_["epoch"]) == ("login", False, 1)
    assert json.loads(project.diel("results", "flow-1", "--json"))["run"] == "flow-1"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothere.yaml"], "nothere.yaml"),
        (["flow.yaml", "--site", "nowhere"], "no site 'nowhere'"),
        (["flow.yaml", "--set", "hp.x=1"], "hp.x"),
        (["flow.yaml", "--from", "wrk"], "no stage 'wrk'"),
        (["flow.yaml", "--home", "job"], "site 'local' has no scheduler"),
        (["flow.yaml", "--home", "attic"], "'attic' is not one of"),
    ],
)
def test_what_is_wrong_is_refused_before_anything_is_made(
    workspace: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    Project(workspace).workflow(SHORT)
    answer = call(capsys, "submit", *words)
    assert answer.code == 2
    assert said in answer.err
    assert not (workspace / "runs").exists()


def test_a_controller_that_does_not_come_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    """Its Python breaks down as it starts: what it said is all that there is to go by."""
    project = Project(tmp_path).workflow(SHORT)
    (tmp_path / "lame").mkdir()
    (tmp_path / "lame/sitecustomize.py").write_text(
        "import sys\nif '--submission' in sys.orig_argv: sys.exit('the module system is down')\n"
    )
    result = subprocess.run(
        [sys.executable, "-m", "diel", "submit", "flow.yaml"],
        cwd=tmp_path,
        env={**project.environment(), "PYTHONPATH": str(tmp_path / "lame")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 1
    assert "the module system is down" in result.stderr
    assert "diel resume flow-1" in result.stderr
    assert state(project) == "interrupted"
    project.diel("resume")
    wait_for(lambda: state(project) == "succeeded")


# --- dead, resumed, cancelled ---------------------------------------------------------------------


def test_a_killed_controller_leaves_an_interrupted_run_which_resume_submits_again(gated: Project) -> None:
    process = submitted(gated)
    root = gated.newest().root
    process.kill()
    end_of(process)
    assert state(gated) == "interrupted"
    told = json.loads(gated.diel("resume", "--json"))
    assert (told["run"], told["home"]) == ("flow-1", "login")
    after = controller(root)
    assert after.pid != process.pid
    assert "is driven by process" in gated.diel("resume", code=2)
    (root / "go").touch()
    end_of(after)
    assert state(gated) == "succeeded"
    assert gated.newest().counts("wait") == {"done": 3}
    assert json.loads(gated.diel("status", "--json"))["controller"]["epoch"] == 2


def test_a_submitted_run_can_go_on_in_the_foreground_and_the_other_way_round(gated: Project) -> None:
    process = submitted(gated)
    root = gated.newest().root
    process.kill()
    end_of(process)
    here = gated.start("resume", "--here")
    wait_for(lambda: len(list((root / "journal").glob("controller-*"))) == 2)
    wait_for(lambda: state(gated) == "running")
    here.send_signal(signal.SIGTERM)
    gated.end(here, 130)
    assert "submitted to site 'local'" in gated.diel("resume", "--home", "login")
    (root / "go").touch()
    wait_for(lambda: state(gated) == "succeeded")
    assert "one of them" in gated.diel("resume", "--here", "--home", "login", code=2)


def test_a_run_of_the_foreground_is_resumed_there(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(f"stages: {{a: {{command: [test, -e, {tmp_path}/go]}}}}")
    project.run(code=1)
    (tmp_path / "go").touch()
    assert "flow-1 succeeded" in project.diel("resume")
    assert not (project.newest().root / "submissions").exists()


def test_a_signal_leaves_the_run_interrupted_and_nothing_running(gated: Project) -> None:
    process = submitted(gated)
    process.terminate()
    end_of(process)
    assert state(gated) == "interrupted"
    assert gated.newest().processes() == []


def test_a_submitted_run_is_cancelled_as_any_other(gated: Project) -> None:
    process = submitted(gated)
    assert gated.diel("cancel") == "flow-1 cancelled\n"
    end_of(process)
    assert state(gated) == "cancelled"
    assert gated.newest().processes() == []


# --- another host ---------------------------------------------------------------------------------


HOST = ("unshare", "--uts", "--pid", "--fork", "--mount-proc")
"""A host with a name of its own, that sees no process of this one."""


def elsewhere(project: Project, *words: str) -> subprocess.CompletedProcess[str]:
    """Calls `diel` on another host that shares the file system."""
    command = 'hostname elsewhere && exec "$@"'
    return subprocess.run(
        [*HOST, "sh", "-c", command, "sh", sys.executable, "-m", "diel", *words],
        cwd=project.folder,
        env=project.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def may_rename_host() -> bool:
    words = [*HOST, "hostname", "elsewhere"]
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


another_host = pytest.mark.skipif(not may_rename_host(), reason="needs root, to give this host another name")


@another_host
def test_a_run_is_followed_and_cancelled_from_another_host(gated: Project) -> None:
    process = submitted(gated)
    told = json.loads(elsewhere(gated, "status", "--json").stdout)
    assert told["state"] == "running"
    assert told["controller"]["alive"] is True
    assert told["controller"]["heartbeat_age_s"] < 30
    refused = elsewhere(gated, "resume")
    assert refused.returncode == 2
    assert "is driven by process" in refused.stderr
    cancelled = elsewhere(gated, "cancel")
    assert (cancelled.returncode, cancelled.stdout) == (0, "flow-1 cancelled\n")
    end_of(process)
    assert state(gated) == "cancelled"


@another_host
def test_from_another_host_a_controller_is_gone_when_it_was_silent_for_long(gated: Project) -> None:
    process = submitted(gated)
    root = gated.newest().root
    process.kill()
    end_of(process)
    assert json.loads(elsewhere(gated, "status", "--json").stdout)["state"] == "running"
    lease = root / "lease.json"
    then = lease.stat().st_mtime - SILENCE - DOUBT
    os.utime(lease, (then, then))
    assert json.loads(elsewhere(gated, "status", "--json").stdout)["state"] == "interrupted"
    (root / "go").touch()
    resumed = elsewhere(gated, "resume", "--here")
    assert resumed.returncode == 0, resumed.stderr
    assert state(gated) == "succeeded"


@another_host
def test_a_run_that_was_let_go_is_taken_over_on_another_host_at_once(gated: Project) -> None:
    """The heartbeat is young, but its controller wrote that it is through."""
    process = submitted(gated)
    process.terminate()
    end_of(process)
    (gated.newest().root / "go").touch()
    resumed = elsewhere(gated, "resume", "--here")
    assert resumed.returncode == 0, resumed.stderr


@another_host
def test_a_controller_that_slept_while_another_took_its_run_stops_without_a_word(gated: Project) -> None:
    process = submitted(gated)
    root = gated.newest().root
    process.suspend()
    asleep = time.monotonic()
    try:
        lease = root / "lease.json"
        then = lease.stat().st_mtime - SILENCE - DOUBT
        os.utime(lease, (then, then))
        (root / "go").touch()
        resumed = elsewhere(gated, "resume", "--here")
        assert resumed.returncode == 0, resumed.stderr
        wait_for(lambda: time.monotonic() - asleep > HEARTBEAT)  # as long as it slept, at the least
        written = (root / "journal/controller-0001.jsonl").read_bytes()
    finally:
        process.resume()
    end_of(process)
    assert not process.is_running()
    assert (root / "journal/controller-0001.jsonl").read_bytes() == written
    assert state(gated) == "succeeded"
    assert "another controller" in (root / "logs/controller.log").read_text()
