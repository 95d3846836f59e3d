"""Whatever is killed on a real Slurm: each task is committed once, results are right, and nothing is left behind.

`make test` runs the short form, each fault once or twice; `make campaign` the long one.
"""

from __future__ import annotations

import contextlib
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.cluster.campaign import (
    Fault,
    OnCluster,
    assert_sum,
    commands_of,
    dice_of,
    end,
    fold,
    kill_controller,
    placed,
    wait_for_done,
    wait_for_start,
)
from tests.cluster.cluster import Cluster, node_of
from tests.descendants import alive
from tests.throwaway import wait_for

TASKS = 24
"""Of four tenths of a second, four at a time on each node."""


@pytest.fixture
def project(tmp_path: Path, cluster: Cluster) -> Iterator[OnCluster]:
    """The sum of many short tasks, on two blocks of one node."""
    project = OnCluster(tmp_path, cluster)
    yield project.site(pools={"small": {"blocks": 2}}).sum(TASKS, seconds=0.4)
    cluster.clear()


# --- something is killed under a run ----------------------------------------------------------------


def scancel(project: OnCluster, dice: random.Random) -> None:
    project.cluster.scancel(dice.choice(project.blocks()).id)


def slurmd(project: OnCluster, dice: random.Random) -> None:
    """It is back before Slurm gives its node up."""
    node = dice.choice(project.blocks()).nodes
    project.cluster.kill_slurmd(node)
    project.cluster.start_slurmd(node)


def slurmd_for_long(project: OnCluster, dice: random.Random) -> None:
    """Slurm gives its node up while the tasks there go on."""
    job = dice.choice(project.blocks())
    project.cluster.kill_slurmd(job.nodes)
    project.cluster.wait_for(job.id, "NODE_FAIL", seconds=60)
    project.cluster.start_slurmd(job.nodes)


def node(project: OnCluster, dice: random.Random) -> None:
    lost = dice.choice(project.blocks()).nodes
    project.cluster.kill_node(lost)
    project.cluster.start_slurmd(lost)


def worker(project: OnCluster, dice: random.Random) -> None:
    """A worker that is at a task; the task's command lives on."""
    for command in commands_of(project.newest()):
        with contextlib.suppress(psutil.Error):
            parent = command.parent()
            assert parent is not None
            parent.kill()
            return


def scheduler(project: OnCluster, dice: random.Random) -> None:
    """Nobody answers, until the run has noticed that."""
    project.cluster.end_controller()
    wait_until_noticed(project)
    project.cluster.continue_controller()


def scheduler_asleep(project: OnCluster, dice: random.Random) -> None:
    """It takes calls and does not answer, until the run has noticed that: half a minute."""
    project.cluster.stop_controller()
    wait_until_noticed(project)
    project.cluster.continue_controller()


def wait_until_noticed(project: OnCluster) -> None:
    """Waits until the run says that its scheduler does not answer; one that has ended never does."""
    run = project.newest()
    wait_for(lambda: fold(run).silent or fold(run).ended is not None, 90)


FAULTS: dict[str, Fault] = {
    "scancel": scancel,
    "slurmd": slurmd,
    "node": node,
    "worker": worker,
    "scheduler": scheduler,
}
LONG: dict[str, Fault] = {**FAULTS, "slurmd for long": slurmd_for_long, "scheduler asleep": scheduler_asleep}


def disturb(project: OnCluster, faults: list[str], dice: random.Random, tasks: int) -> None:
    """Runs the sum, again and again until each fault had its turn, at a random moment while tasks run."""
    left = list(faults)
    while left:
        process = project.begin()
        while left and wait_until_at_work(project, process):
            time.sleep(dice.uniform(0, 1))  # the moment is drawn, not waited for
            if project.blocks():
                print(left[0])
                LONG[left.pop(0)](project, dice)
        end(project, process, tasks)


def wait_until_at_work(project: OnCluster, process: subprocess.Popen[str]) -> bool:
    """Waits until a task begins that had not before; False where the run ends instead."""
    run, now = project.newest(), time.time()

    def begun() -> bool:
        return any(record["time"] > now for record in run.records("start"))

    wait_for(lambda: process.poll() is not None or begun(), 90)
    return process.poll() is None


def test_a_run_survives_whatever_is_killed_under_it(project: OnCluster) -> None:
    """Blocks, nodes, daemons, workers, in an order that is drawn."""
    dice = dice_of(5)
    faults = [*FAULTS, "scancel"]
    dice.shuffle(faults)
    disturb(project.sum(80, seconds=0.4), faults, dice, 80)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("fault", LONG)
def test_a_run_survives_it_ten_times(project: OnCluster, fault: str, seed: int) -> None:
    times = {"scheduler asleep": 1, "slurmd for long": 2, "scheduler": 3}.get(fault, 10)
    disturb(project.sum(200), [fault] * times, dice_of(seed), 200)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(5))
def test_a_run_survives_all_of_it_together(project: OnCluster, seed: int) -> None:
    dice = dice_of(seed)
    disturb(project.sum(200), dice.choices(list(FAULTS), k=10), dice, 200)


def test_a_killed_block_is_noticed_soon(project: OnCluster) -> None:
    """From the kill of the only block to the first task in another one."""
    project.site(pools={"small": {"blocks": 1}}, poll="2s", silence="8s").sum(12, seconds=1)
    process = project.begin()
    wait_for_start(project)
    (block,) = project.blocks()
    killed = time.time()
    project.cluster.scancel(block.id)
    run = end(project, process, 12)
    again = [start["time"] for start in placed(run, "work") if start["worker"]["block"] == "1-1"]
    assert min(again) - killed < 40


# --- the controller is killed -----------------------------------------------------------------------


def cancel_controller(project: OnCluster) -> None:
    """scancel of its job."""
    project.cluster.scancel(project.status()["controller"]["job"])
    wait_for(lambda: project.status()["state"] == "interrupted", 30)


CONTROLLERS = {"login": kill_controller, "job": cancel_controller, "inside": cancel_controller}


@pytest.mark.parametrize("home", [pytest.param("login", marks=pytest.mark.campaign), "job"])
def test_resume_goes_on_after_its_controller_was_killed(project: OnCluster, home: str) -> None:
    lose_controllers(project, home, times=1, seed=1, tasks=TASKS)


def test_a_task_is_not_awaited_whose_worker_died_with_the_controller(project: OnCluster) -> None:
    """Its block goes on without a controller, and could do so for the whole walltime."""
    gate = "while [ ! -e '${{ run.dir }}/go' ]; do sleep 0.1; done; "
    flow = project.sum(8, walltime="5m").folder / "flow.yaml"
    flow.write_text(flow.read_text(encoding="utf-8").replace("sleep 0.5; ", gate), encoding="utf-8")
    run = project.submit()
    wait_for(lambda: commands_of(run), 60)
    kill_controller(project)
    worker(project, random.Random(0))
    (run.root / "go").touch()
    project.diel("resume")
    project.wait_for_end(60)
    assert_sum(run, 8)
    (lost,) = run.records("fail")
    assert lost["message"] == "its worker died while the run's controller was gone"
    project.assert_nothing_is_left()


@pytest.mark.campaign
@pytest.mark.parametrize("home", CONTROLLERS)
def test_resume_goes_on_five_times(project: OnCluster, home: str) -> None:
    lose_controllers(project.sum(200), home, times=5, seed=2, tasks=200)


def lose_controllers(project: OnCluster, home: str, times: int, seed: int, tasks: int) -> None:
    """Kills one controller after the other, each while tasks run, and resumes."""
    dice = dice_of(seed)
    run = project.submit("--home", home)
    moment = 0.0
    for _ in range(times):
        wait_for_start(project, moment)  # by the controller of this round
        time.sleep(dice.uniform(0, 1))
        CONTROLLERS[home](project)
        moment = time.time()
        assert project.state() == "interrupted"
        project.diel("resume")
    project.wait_for_end(120)
    assert_sum(run, tasks)
    project.assert_nothing_is_left()


@pytest.mark.campaign
def test_a_job_hands_its_run_over_before_slurm_ends_it(project: OnCluster) -> None:
    """More work than a controller may last, under its real walltime: the shortest that diel takes."""
    project.site("virtual_job", controller={"home": "job", "walltime": "5m"}, pools={"small": {"blocks": 2}})
    run = project.sum(260, seconds=12).submit()
    project.wait_for_end(900)
    assert len(list((run.root / "journal").glob("controller-*"))) >= 2
    assert_sum(run, 260)
    project.assert_nothing_is_left()


# --- MPI, memory, walltime, preemption --------------------------------------------------------------

RANKS = """
    stages:
      pair:
        command: [python, "${{ files.script }}"]
        files: {script: ranks.py}
        outputs: {size: {value: int}}
        resources: {nodes: 2, ranks_per_node: 1, pool: cpu}
        retries: 1
"""
RANKS_PY = """\
import json, os, time
from pathlib import Path
from mpi4py import MPI

comm = MPI.COMM_WORLD
pids = comm.gather(os.getpid())
first = Path(os.environ["DIEL_RUN_DIR"], "pids")
if comm.rank == 0 and os.environ["DIEL_ATTEMPT"] == "1":
    first.with_suffix(".part").write_text(" ".join(map(str, pids)))
    first.with_suffix(".part").replace(first)
if os.environ["DIEL_ATTEMPT"] == "1":
    time.sleep(3600)
if comm.rank == 0:
    Path(os.environ["DIEL_RESULT"]).write_text(json.dumps({"size": comm.size}))
"""
COUNT = """
    axes: {i: {range: 3}}
    stages:
      count:
        over: [i]
        command: [python, "${{ files.script }}"]
        files: {script: count.py}
        outputs: {steps: {value: int}, lives: {value: int}}
        resources: {pool: small}
        checkpoint: true
        retries: 0
"""
COUNT_PY = """\
import json, os, signal, sys, time
from pathlib import Path

told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(1))
save = Path(os.environ["DIEL_CHECKPOINT_DIR"], "state")
steps, lives = map(int, save.read_text().split()) if save.exists() else (0, 0)
lives += 1
while steps < 24:
    if told:
        save.write_text(f"{steps} {lives}")
        sys.exit(75)
    time.sleep(0.4)
    steps += 1
Path(os.environ["DIEL_RESULT"]).write_text(json.dumps({"steps": steps, "lives": lives}))
"""


def test_a_killed_rank_is_not_its_programs_failure(project: OnCluster) -> None:
    """The other rank would sleep for an hour."""
    pytest.importorskip("mpi4py", reason="needs mpi4py, of the extra `examples`")
    project.site(pools={"cpu": {"nodes": 2, "block_nodes": 2}})
    (project.folder / "ranks.py").write_text(RANKS_PY, encoding="utf-8")
    process = project.workflow(RANKS).begin()
    run = project.newest()
    wait_for((run.root / "pids").exists, 60)
    psutil.Process(int((run.root / "pids").read_text().split()[1])).kill()
    project.end(process)
    (failed,) = run.records("fail")
    assert (failed["class"], failed["attempt"]) == ("node", 1)
    assert "Killed" in failed["stderr_tail"]
    assert run.value("pair", "size") == 2
    project.assert_nothing_is_left()


def test_a_task_that_keeps_checkpoints_goes_on_in_the_next_block(project: OnCluster) -> None:
    """Ten seconds of work in blocks that last twenty, start-up and the time to save included."""
    (project.folder / "count.py").write_text(COUNT_PY, encoding="utf-8")
    limits = {"walltime": "20s", "max_walltime": "20s"}
    project.workflow(COUNT).site(grace="6s", pools={"small": limits})
    project.end(project.begin(), seconds=120)
    run = project.newest()
    assert run.values("count", "steps") == [24] * 3
    lives = run.values("count", "lives")
    assert min(lives) >= 2
    assert [len(run.attempts("count", index)) for index in range(3)] == lives
    assert {record["class"] for record in run.records("fail")} == {"interrupted"}
    project.assert_nothing_is_left()


def test_preempted_tasks_run_again_uncharged(project: OnCluster) -> None:
    project.site(pools={"spot": {"blocks": 2}})
    flow, over = project.folder / "flow.yaml", project.folder / "over"
    text = flow.read_text(encoding="utf-8").replace("pool: small", "pool: spot")
    flow.write_text(text.replace("sleep 0.4", f"until [ -e {over} ]; do sleep 0.1; done"), encoding="utf-8")
    process = project.begin()
    wait_for_start(project)
    urgent = project.cluster.sbatch("sleep 2", "-N4", "--exclusive")
    project.cluster.wait_for(urgent, "COMPLETED")
    over.touch()
    run = end(project, process, TASKS)
    assert {record["class"] for record in run.records("fail")} == {"preempted"}
    states = {block["state"] for block in fold(run).blocks.values()}
    assert "preempted" in states


@pytest.mark.campaign
def test_blocks_that_slurm_ends_for_their_walltime_cost_no_retry(project: OnCluster) -> None:
    """Slurm's own time limit, which diel learns of when it strikes."""
    project.site(pools={"small": {"blocks": 1}})
    process = project.sum(60, seconds=3).begin()
    for _ in range(2):
        assert wait_until_at_work(project, process)
        job = project.blocks()[0].id
        project.cluster.end_in(job, 1)
        project.cluster.wait_for(job, "TIMEOUT", seconds=60)
    run = end(project, process, 60)
    assert "timeout" in {block["state"] for block in fold(run).blocks.values()}
    assert {record["class"] for record in run.records("fail")} == {"walltime"}


# --- disks, other hosts, cancelling -----------------------------------------------------------------


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of its own, mounted for a while."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Takes all that is left of a file system."""
    path = folder / "filler"
    with contextlib.suppress(OSError), open(path, "wb", buffering=0) as file:
        while True:
            file.write(b"\0" * 4096)
    return path


def test_a_full_disk_ends_the_controller_and_resume_goes_on_once_there_is_space(project: OnCluster) -> None:
    with small_disk(project.cluster.disks / "small", "4m") as runs:
        (project.folder / "runs").symlink_to(runs)
        process = project.begin()
        run = project.newest()
        wait_for_done(run, 5)
        filler = fill(runs)
        said = project.end(process, code=None)
        assert process.returncode == 1, said
        assert "No space left" in said
        filler.unlink()
        project.diel("resume", "--quiet", seconds=120)
        assert_sum(run, TASKS)
        project.assert_nothing_is_left()


LONG_LIVED = """
    axes:
      i: {range: 8}
    stages:
      wait:
        over: [i]
        command: "(setsid env -u DIEL_TASK_DIR sleep 300 &); touch '${{ run.dir }}/begun'; sleep 300"
        resources: {pool: small}
"""


def test_a_block_that_ends_leaves_no_process_on_its_node_while_the_run_goes_on(project: OnCluster) -> None:
    """Not even those that made a session of their own, which Slurm does not find.

    They are not marked as the task's either: on this one host the controller would find them for the node.
    """
    process = project.workflow(LONG_LIVED).begin()
    wait_for(project.blocks, 30)
    (first,) = project.blocks()
    wait_for(lambda: len(project.cluster.processes()) >= 8 * 2, 60)
    old = project.cluster.processes()
    project.cluster.scancel(first.id)
    wait_for(lambda: not any(map(alive, old)))
    assert process.poll() is None
    project.diel("cancel", seconds=60)
    project.end(process, code=3)
    project.assert_nothing_is_left()


SECOND_LIFE = """
    axes: {i: {range: 2}}
    stages:
      wait:
        over: [i]
        command: |
          touch '${{ run.dir }}/begun.${{ i }}'.$DIEL_ATTEMPT
          until [ -e '${{ run.dir }}/go' ]; do sleep 0.1; done
        resources: {pool: small}
"""


def test_what_runs_on_where_its_node_was_lost_is_ended_and_commits_nothing(project: OnCluster) -> None:
    """Slurm hears no more of the node and gives it up; all that runs there does so on."""
    process = project.workflow(SECOND_LIFE).begin()
    run = project.newest
    wait_for(lambda: project.runs() == 1 and all((run().root / f"begun.{i}.1").exists() for i in (0, 1)), 60)
    (block,) = project.blocks()
    before = project.cluster.processes()
    project.cluster.kill_slurmd(block.nodes)
    try:
        wait_for(lambda: all((run().root / f"begun.{i}.2").exists() for i in (0, 1)), 90)
        wait_for(lambda: not any(map(alive, before)))
        (run().root / "go").touch()
        project.end(process)
    finally:
        project.cluster.start_slurmd(block.nodes)
    assert [done["attempt"] for done in run().records("done")] == [2, 2]
    project.assert_nothing_is_left()


@pytest.mark.parametrize("home", ["login", "job", "inside"])
def test_cancel_leaves_no_job_and_no_process_and_any_host_can_see_it(project: OnCluster, home: str) -> None:
    run = project.workflow(LONG_LIVED).submit("--home", home)
    wait_for((run.root / "begun").exists, 60)
    nodes = {node_of(process) for process in project.cluster.processes()}
    assert nodes
    seen = elsewhere(project)
    assert (seen["state"], seen["controller"]["alive"]) == ("running", True)
    project.diel("cancel", seconds=120)
    wait_for(lambda: project.status()["state"] == "cancelled", 30)
    assert elsewhere(project)["state"] == "cancelled"
    project.assert_nothing_is_left()


def elsewhere(project: OnCluster) -> Any:
    """What `diel status` says on a host of another name, which shares the file system and has no Slurm."""
    command = [
        "unshare",
        "--uts",
        "--pid",
        "--fork",
        "--mount-proc",
        "sh",
        "-c",
        'hostname elsewhere; exec "$@"',
        "sh",
    ]
    done = subprocess.run(
        [*command, sys.executable, "-m", "diel", "status", "--json"],
        cwd=project.folder,
        env={**project.environment(), "SLURM_CONF": "/nowhere"},
        capture_output=True,
        text=True,
        check=True,
    )
    document: dict[str, object] = json.loads(done.stdout)
    return document


def test_no_semaphore_and_no_directory_is_left_on_a_node_whose_processes_were_all_killed(
    project: OnCluster,
) -> None:
    """Those of the first block go with the second one, which comes to the same node."""
    scratch = short_folder()
    project.site(pools={"small": {"blocks": 1}}, setup=[f"export TMPDIR={scratch}"])
    process = project.sum(16, seconds=0.5).begin()
    wait_for_start(project)
    first = {path.name for path in scratch.iterdir()}
    assert semaphores(first), "they go by other names"
    for one in project.cluster.processes():
        with contextlib.suppress(psutil.Error):
            one.send_signal(signal.SIGKILL)
    end(project, process, 16)
    assert list(scratch.iterdir()) == []
    assert semaphores(first) == []
    scratch.rmdir()


def short_folder() -> Path:
    """A directory whose name is short enough for the pool's sockets to be there."""
    return Path(tempfile.mkdtemp(prefix="diel-"))


def semaphores(folders: set[str]) -> list[Path]:
    """Those of pools with these directories."""
    return [path for name in folders for path in Path("/dev/shm").glob(f"sem.{name}*")]


def test_an_interchange_that_is_killed_is_started_anew(project: OnCluster) -> None:
    """What runs in the blocks runs on, and no task of it runs twice."""
    process = project.site(pools={"small": {"blocks": 1}}).sum(16, seconds=1).begin()
    wait_for_start(project)
    (interchange,) = (
        child
        for child in psutil.Process(process.pid).children(recursive=True)
        if "interchange" in " ".join(child.cmdline())
    )
    interchange.kill()
    run = end(project, process, 16)
    (told,) = (record["message"] for record in run.records("trouble"))
    assert told.startswith("Parsl's interchange is gone")
    assert told.endswith("it is started again")
    assert len(run.records("start")) == 17


AT_ONCE = """
import os, sys

def killed(event, words):
    if event == "open" and "/journal/worker-" in str(words[0]) and "forkserver" in " ".join(sys.orig_argv):
        os.kill(os.getpid(), 9)

sys.addaudithook(killed)
"""


def test_workers_that_are_killed_before_their_first_word_end_the_run_with_the_reason(
    project: OnCluster,
) -> None:
    """A node's environment kills each worker as it begins: the run neither tries for ever nor fails tasks."""
    (project.folder / "sitecustomize.py").write_text(AT_ONCE)
    process = project.site(setup=[f"export PYTHONPATH={project.folder}"]).sum(2).begin()
    _, said = process.communicate(timeout=90)
    assert process.returncode == 1
    assert "no worker can begin, 5 tries in a row: " in said
    assert "loss of worker" in said
    assert "`diel doctor --site mine --job`; `diel resume` then continues" in " ".join(said.split())
    run = project.newest()
    assert run.records("start") == run.records("fail") == []
    assert len(run.records("queued")) <= 2 * 6
    (project.folder / "sitecustomize.py").unlink()
    project.diel("resume", "--quiet")
    assert_sum(run, 2)
