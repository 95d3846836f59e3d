"""Homes of controllers that nobody watches: what their jobs ask for, and what becomes of them."""

from __future__ import annotations

import json
import os
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from diel import api
from diel.controller.home import (
    choose_home,
    controller_job,
    controller_script,
    job_walltime,
    margin,
    persist,
    submit,
    submit_new,
)
from diel.controller.start import create, prepare
from diel.errors import UsageError
from diel.lease import take
from diel.paths import RunPaths
from diel.plan import Plan
from diel.scheduler.job import JobState
from diel.scheduler.scheduler import SchedulerBusy, SchedulerRefused
from diel.status import read_status
from diel.submission import job_name, job_prefix, make_submission, newest_submission
from tests.cli.call import call
from tests.pretend import Pretend

SITE = """
name: cluster
scheduler: slurm
account: chem
options: [--qos=normal]
setup: [module load python]
grace: 20s
controller: {home: job, walltime: 24h, cores: 2, memory: 2GiB}
pools:
  cpu: {queue: short, cores: 8, nodes: 4, block_nodes: 2, walltime: 1h, max_walltime: 2h, options: [--constraint=cpu]}
  gpu: {queue: gpu, cores: 16, gpus: 4, account: ai}
"""
FLOW = """
diel: 1
name: flow
stages:
  wide: {command: "true", resources: {ranks: 8, nodes: 4, walltime: 90m}}
  small: {command: "true", after: [wide]}
"""


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> Pretend:
    """One for all, without pauses between two questions."""
    found = Pretend()
    for module in ("diel.controller.home", "diel.controller.leftovers", "diel.cli.resume"):
        monkeypatch.setattr(f"{module}.scheduler_named", lambda name: found)
    monkeypatch.setattr("diel.controller.home.time.sleep", lambda seconds: None)
    return found


def made(workspace: Path, site: str = SITE, flow: str = FLOW) -> Plan:
    (workspace / "schedulers").mkdir()
    (workspace / "schedulers/cluster.yaml").write_text(textwrap.dedent(site))
    (workspace / "flow.yaml").write_text(textwrap.dedent(flow))
    bin_ = workspace / "bin"
    bin_.mkdir()
    (bin_ / "srun").write_text("#!/bin/sh\n")
    (bin_ / "srun").chmod(0o755)
    return prepare(workspace / "flow.yaml", site="cluster")


@pytest.fixture
def plan(workspace: Path, scheduler: Pretend) -> Plan:
    return made(workspace)


@pytest.fixture
def run(plan: Plan, workspace: Path) -> RunPaths:
    return create(plan, workspace / "runs")


# --- where ----------------------------------------------------------------------------------------


def test_a_controller_lives_where_the_site_says_unless_told_otherwise(plan: Plan) -> None:
    assert choose_home(plan.site) == "job"
    assert choose_home(plan.site, "inside") == "inside"
    local = plan.site.model_copy(update={"scheduler": "local"})
    assert choose_home(local) == choose_home(local, "login") == "login"
    with pytest.raises(UsageError, match="site 'cluster' has no scheduler"):
        choose_home(local, "job")


def test_a_controllers_job_asks_for_little_and_for_what_its_queue_wants(plan: Plan, run: RunPaths) -> None:
    job = controller_job(plan, run, "job", 3, "41", "python3")
    assert job.name == f"{job_prefix(run)}-c3"
    assert (job.nodes, job.cores, job.gpus, job.memory) == (1, 2, 0, 2 * 2**30)
    assert (job.queue, job.account, job.after) == ("short", "chem", "41")
    assert job.options == ("--qos=normal", "--constraint=cpu")
    assert job.setup == ("module load python",)
    assert job.walltime == 2 * 3600  # what the pool's queue allows at most


def test_a_queue_of_its_own_brings_neither_the_pools_options_nor_its_limit(plan: Plan, run: RunPaths) -> None:
    own = plan.site.controller.model_copy(update={"queue": "service", "options": ("--nice",)})
    plan = replace(plan, site=plan.site.model_copy(update={"controller": own}))
    job = controller_job(plan, run, "job", 1, None, "python3")
    assert (job.queue, job.walltime, job.options) == ("service", 24 * 3600, ("--qos=normal", "--nice"))


def test_one_allocation_is_as_wide_and_as_long_as_the_largest_stage_needs(plan: Plan, run: RunPaths) -> None:
    job = controller_job(plan, run, "inside", 1, None, "python3")
    assert (job.nodes, job.cores, job.queue) == (4, 8, "short")
    assert job.walltime == job_walltime(plan, "inside") == 90 * 60 + 20


def test_one_allocation_cannot_be_of_two_kinds_of_node(workspace: Path, scheduler: Pretend) -> None:
    flow = FLOW + "  learn: {command: 'true', resources: {gpus_per_rank: 1}}\n"
    plan = made(workspace, flow=flow)
    with pytest.raises(UsageError, match="pools 'cpu', 'gpu'; give them one `pool`"):
        submit_new(plan, workspace / "runs", home="inside")
    assert not (workspace / "runs").exists()


def test_the_script_of_a_controller_quotes_what_a_shell_would_read(
    workspace: Path, scheduler: Pretend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/opt/it's here")
    plan = made(workspace)
    run = create(plan, workspace / "my runs; $(rm)")
    text = controller_script(plan, run, "job", 2, python="/opt/py thon")
    command = text.splitlines()[-1]
    assert command.startswith(f"'/opt/py thon' -m diel.controller '{run.root}' --submission 2 --end ")
    assert command.endswith(f">> '{run.controller_log}' 2>&1")
    assert "export PYTHONPATH='/opt/it'\"'\"'s here'" in text


@pytest.mark.parametrize(("walltime", "kept"), [(60, 30), (600, 60), (7200, 360), (86400, 600), (40, 20)])
def test_a_job_keeps_time_for_its_successor(walltime: float, kept: float) -> None:
    assert margin(walltime, 60) == kept


# --- queued ---------------------------------------------------------------------------------------


def test_a_queued_controller_is_noted_and_the_run_is_pending(
    plan: Plan, run: RunPaths, scheduler: Pretend, capsys: pytest.CaptureFixture[str]
) -> None:
    done = submit(run, plan, "job")
    assert scheduler.jobs == {"100": job_name(run, 1)}
    assert newest_submission(run) == done
    assert (done.job, done.home) == ("100", "job")
    status = read_status(run)
    assert (status.state, status.alive) == ("pending", False)
    shown = call(capsys, "status").out
    assert "flow-1 pending" in shown
    assert "waits for its controller, asked for as job 100" in shown
    assert json.loads(call(capsys, "list", "--json").out)["runs"][0]["state"] == "pending"


def test_submitting_prints_the_job_and_how_to_follow_the_run(
    plan: Plan, scheduler: Pretend, capsys: pytest.CaptureFixture[str]
) -> None:
    said = call(capsys, "submit", "flow.yaml", "--site", "cluster")
    assert said.code == 0
    assert "flow-1: submitted to site 'cluster', its controller is job 100" in said.out
    assert "diel cancel flow-1" in said.out
    told = json.loads(call(capsys, "submit", "flow.yaml", "--site", "cluster", "--json").out)
    assert (told["run"], told["state"], told["home"], told["job"]) == ("flow-2", "pending", "job", "101")


def test_a_refused_job_leaves_no_run(
    plan: Plan, workspace: Path, scheduler: Pretend, capsys: pytest.CaptureFixture[str]
) -> None:
    scheduler.refuses = True
    said = call(capsys, "submit", "flow.yaml", "--site", "cluster")
    assert (said.code, "no such account" in said.err) == (1, True)
    assert os.listdir(workspace / "runs") == []


def test_a_busy_scheduler_is_asked_again(plan: Plan, run: RunPaths, scheduler: Pretend) -> None:
    scheduler.busy = 3
    assert submit(run, plan, "job").job == "100"


def test_a_job_that_was_queued_although_no_answer_came_is_not_queued_twice(
    plan: Plan, run: RunPaths, scheduler: Pretend
) -> None:
    scheduler.silent_queueing = True
    assert submit(run, plan, "job").job == "100"
    assert len(scheduler.jobs) == 1


def test_a_scheduler_that_stays_busy_leaves_nothing_submitted(
    plan: Plan, run: RunPaths, scheduler: Pretend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diel.controller.home.PATIENCE", 0.0)
    scheduler.busy = 1000
    with pytest.raises(SchedulerBusy):
        submit(run, plan, "job")
    assert newest_submission(run) is None


def test_a_run_that_is_driven_is_not_submitted_again(plan: Plan, run: RunPaths) -> None:
    take(run)
    with pytest.raises(UsageError, match="is driven by process"):
        submit(run, plan, "job")


def test_asking_again_gives_up_in_the_end() -> None:
    def never() -> str:
        raise SchedulerBusy("no")

    with pytest.raises(SchedulerBusy):
        persist(never, 0.0)


def test_a_refusal_is_not_asked_again(plan: Plan, run: RunPaths, scheduler: Pretend) -> None:
    scheduler.refuses = True
    with pytest.raises(SchedulerRefused):
        submit(run, plan, "job")
    assert newest_submission(run) is None


# --- resumed and cancelled while it waits ---------------------------------------------------------

Capture = pytest.CaptureFixture[str]


def test_a_run_whose_controller_waits_is_not_resumed_twice(
    plan: Plan, run: RunPaths, scheduler: Pretend, capsys: Capture
) -> None:
    submit(run, plan, "job")
    said = call(capsys, "resume")
    assert said.code == 2
    assert "waits for its controller, job 100 (pending: Priority)" in said.err
    scheduler.states["100"] = JobState.CANCELLED  # by somebody's own scancel
    said = call(capsys, "resume")
    assert (said.code, "job 101" in said.out) == (0, True)
    assert newest_submission(run) is not None
    assert len(scheduler.jobs) == 2


def test_cancelling_a_run_that_is_still_queued_takes_its_job_back(
    plan: Plan, run: RunPaths, scheduler: Pretend, capsys: Capture
) -> None:
    submit(run, plan, "job")
    said = call(capsys, "cancel")
    assert (said.code, said.out) == (0, "flow-1 cancelled; its controller had not come yet (job 100)\n")
    assert scheduler.cancelled == ["100"]
    assert read_status(run).state == "cancelled"
    assert call(capsys, "cancel").code == 2


def test_cancelling_ends_every_job_of_a_run_whose_controller_is_gone(
    plan: Plan, run: RunPaths, scheduler: Pretend, capsys: Capture
) -> None:
    """Those named as the run's are, in its journal or not; not one that was given an old id of the run's."""
    noted, unnoted = (scheduler.add(f"{job_prefix(run)}-1-{n}") for n in (0, 4))
    reused = scheduler.add("somebodys")
    others = scheduler.add("dielothers-c1")
    _, segment = take(run)
    for number, job in enumerate((noted, reused)):
        segment.append(block(f"1-{number}", job, "running"))
    segment.append({"event": "handover", "time": 2.0})
    said = call(capsys, "cancel")
    assert said.code == 0, said.err
    assert scheduler.cancelled == [noted, unnoted]
    assert {scheduler.states[job] for job in (reused, others)} == {JobState.PENDING}


def block(name: str, job: str, state: str) -> dict[str, object]:
    """What a controller writes of a block."""
    shape = {"pool": "cpu", "shape": "cpu-1c", "asked": 1.0, "walltime": 60.0}
    return {"event": "block", "block": name, "job": job, "state": state, "time": 1.0, **shape}


def test_a_scheduler_that_does_not_answer_leaves_word_of_what_may_still_be_there(
    plan: Plan, run: RunPaths, scheduler: Pretend, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diel.controller.leftovers.PATIENCE", 0.0)
    submit(run, plan, "job")
    scheduler.busy = 1
    said = call(capsys, "cancel")
    assert said.code == 1
    assert (
        "jobs 100 may still be there: the scheduler does not answer (slurmctld does not answer)" in said.err
    )
    assert "`diel cancel flow-1` tries again" in said.err
    assert read_status(run).state == "cancelled"  # its job will find that it came too late
    again = call(capsys, "cancel")
    assert (again.code, "ended jobs that it had left: 100" in again.out) == (0, True)
    assert scheduler.states["100"] is JobState.CANCELLED


def test_jobs_that_do_not_end_are_told(
    plan: Plan, run: RunPaths, scheduler: Pretend, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diel.controller.leftovers.PATIENCE", 0.0)
    submit(run, plan, "job")
    scheduler.deaf = True
    said = call(capsys, "cancel")
    assert (said.code, "jobs 100 may still be there: they have not ended yet" in said.err) == (1, True)


def test_a_controller_that_comes_too_late_leaves_the_run_alone(
    plan: Plan, run: RunPaths, scheduler: Pretend, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from diel.controller.__main__ import main

    submit(run, plan, "job")
    make_submission(run, "job")
    monkeypatch.setattr("sys.argv", ["controller", str(run.root), "--submission", "1"])
    assert main() == 2
    assert "submission 1 was taken back or replaced" in capsys.readouterr().out
    assert os.listdir(run.journal) == []


def test_a_script_or_notebook_can_submit_as_well(plan: Plan, workspace: Path, scheduler: Pretend) -> None:
    run = api.submit("flow.yaml", site="cluster", home="inside")
    assert (run.id, run.state) == ("flow-1", "pending")
    assert run.status()["controller"]["home"] == "inside"
    assert scheduler.jobs == {"100": job_name(RunPaths(run.dir), 1)}
