"""Homes of controllers that nobody watches: what their jobs ask for, and what becomes of them."""

from __future__ import annotations

import json
import os
import shlex
import textwrap
import threading
from pathlib import Path

import pytest

from diel import api
from diel.base.errors import UsageError
from diel.base.paths import RunPaths
from diel.controller.home import (
    choose_home,
    controller_job,
    job_walltime,
    margin,
    persist,
    submit,
    submit_new,
)
from diel.controller.start import create
from diel.observe.status.run import read_status
from diel.planning.plan import Plan, prepare
from diel.site.find import read_kept_site
from diel.site.scheduler import JobState, SchedulerBusy, SchedulerRefused, scheduler_named
from diel.store.project.lease import take
from diel.store.project.submission import job_name, job_prefix, make_submission, newest_submission
from tests.cli.call import call
from tests.pretend import Pretend
from tests.record import as_record

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
    for module in (
        "controller.home",
        "controller.start",
        "backends.blocks.script",
        "backends.blocks.leftovers",
    ):
        monkeypatch.setattr(f"diel.{module}.scheduler_named", lambda name: found)
    monkeypatch.setattr("diel.cli.commands.resume.scheduler_named", lambda name: found)
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
    with pytest.raises(UsageError, match="site 'cluster' has no scheduler"):
        choose_home(local, "job")


def test_a_home_that_a_site_without_a_scheduler_cannot_give_is_not_passed_over(plan: Plan) -> None:
    local = plan.site.model_copy(update={"scheduler": "local"})
    with pytest.raises(UsageError, match="says `controller: {home: job}` and has no scheduler"):
        choose_home(local)
    plain = local.model_copy(update={"controller": plan.site.controller.model_copy(update={"home": "login"})})
    assert choose_home(plain) == choose_home(local, "login") == "login"


@pytest.mark.parametrize(
    ("own", "pool", "short"),
    [("4m", "1h", "`controller: {walltime: …}` of site 'cluster' gives it 4m"), ("24h", "4m", "pool 'cpu'")],
)
def test_a_job_in_which_a_controller_would_only_hand_over_is_refused(
    workspace: Path, scheduler: Pretend, capsys: pytest.CaptureFixture[str], own: str, pool: str, short: str
) -> None:
    site = SITE.replace("walltime: 24h", f"walltime: {own}").replace(
        "walltime: 1h, max_walltime: 2h", f"walltime: {pool}"
    )
    flow = FLOW.replace("90m", "1m")
    made(workspace, site=site, flow=flow)
    said = call(capsys, "submit", "flow.yaml", "--site", "cluster")
    assert (said.code, short in said.err) == (2, True), said.err
    assert not (workspace / "runs").exists()
    assert call(capsys, "submit", "flow.yaml", "--site", "cluster", "--home", "inside").code == 0


def test_a_controllers_job_asks_for_little_and_for_what_its_queue_wants(plan: Plan, run: RunPaths) -> None:
    job = controller_job(plan, run, "job", 3, "41")
    assert job.name == f"{job_prefix(run)}-c3"
    assert (job.nodes, job.cores, job.gpus, job.memory) == (1, 2, 0, 2 * 2**30)
    assert (job.queue, job.account, job.after) == ("short", "chem", "41")
    assert job.options == ("--qos=normal", "--constraint=cpu")
    assert job.setup == ("module load python",)
    assert job.walltime == 2 * 3600  # what the pool's queue allows at most


def test_a_queue_of_its_own_brings_neither_the_pools_options_nor_its_limit(plan: Plan, run: RunPaths) -> None:
    own = plan.site.controller.model_copy(update={"queue": "service", "options": ("--nice",)})
    plan = plan._replace(site=plan.site.model_copy(update={"controller": own}))
    job = controller_job(plan, run, "job", 1, None)
    assert (job.queue, job.walltime, job.options) == ("service", 24 * 3600, ("--qos=normal", "--nice"))


def test_options_of_its_own_bring_their_own_limit_where_pools_name_no_queue(
    workspace: Path, scheduler: Pretend
) -> None:
    """A QOS for long and light processes, say."""
    site = SITE.replace("queue: short, ", "").replace("cores: 2, ", "cores: 2, options: [--qos=workflow], ")
    plan = made(workspace, site=site.replace("walltime: 24h", "walltime: 30d"))
    assert job_walltime(plan, "job") == 30 * 24 * 3600


def test_one_allocation_is_as_wide_and_as_long_as_the_largest_stage_needs(plan: Plan, run: RunPaths) -> None:
    own = plan.site.controller.model_copy(update={"walltime": None})
    plan = plan._replace(site=plan.site.model_copy(update={"controller": own}))
    job = controller_job(plan, run, "inside", 1, None)
    assert (job.nodes, job.cores, job.queue) == (4, 8, "short")
    assert job.walltime == job_walltime(plan, "inside") == 90 * 60 + 20


@pytest.mark.parametrize(("own", "given"), [("100m", 6000), ("24h", 7200)])
def test_one_allocation_lasts_as_long_as_the_site_gives_the_controller_and_the_queue_allows(
    workspace: Path, scheduler: Pretend, own: str, given: float
) -> None:
    plan = made(workspace, site=SITE.replace("walltime: 24h", f"walltime: {own}"))
    run = create(plan, workspace / "runs")
    job = controller_job(plan, run, "inside", 1, None)
    assert job.walltime == job_walltime(plan, "inside") == given


def test_one_allocation_that_is_too_short_for_a_task_is_refused(
    workspace: Path, scheduler: Pretend, capsys: pytest.CaptureFixture[str]
) -> None:
    made(workspace, site=SITE.replace("walltime: 24h", "walltime: 90m"))
    said = call(capsys, "submit", "flow.yaml", "--site", "cluster", "--home", "inside")
    assert (said.code, "stage 'wide' needs 1h30m" in said.err) == (2, True), said.err
    assert not (workspace / "runs").exists()


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
    monkeypatch.setattr("diel.controller.home.PYTHON", ("/opt/py thon", "-P"))
    job = controller_job(plan, run, "job", 2)
    text = scheduler_named("slurm").script(job)
    command = text.splitlines()[-1]
    assert command.startswith(f"'/opt/py thon' -P -m diel.controller '{run.root}' --submission 2 --end ")
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
    assert "waits for its controller, requested as job 100" in shown
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
    scheduler.refuses = "queue short"
    said = call(capsys, "submit", "flow.yaml", "--site", "cluster")
    assert (said.code, "no such account" in said.err) == (2, True)
    assert "pool 'cpu' of site 'cluster' (`queue: short`, `account: chem`, `--qos=normal`" in said.err
    assert scheduler.jobs == {}
    assert not (workspace / "runs").exists()


def test_a_refused_job_is_told_by_the_queue_that_the_site_gives_the_controller(
    plan: Plan, workspace: Path, scheduler: Pretend
) -> None:
    own = plan.site.controller.model_copy(update={"queue": "servce"})
    plan = plan._replace(site=plan.site.model_copy(update={"controller": own}))
    scheduler.refuses = "queue servce"
    (workspace / "runs").mkdir()
    with pytest.raises(SchedulerRefused, match="`controller: {queue: servce}` of site 'cluster'"):
        submit_new(plan, workspace / "runs")
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


def test_a_run_stays_whose_job_a_busy_scheduler_may_have_queued(
    plan: Plan, scheduler: Pretend, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its job may come after all: then its run must be there, and known to be awaited."""
    monkeypatch.setattr("diel.controller.home.PATIENCE", 0.0)
    scheduler.busy = 1000
    scheduler.silent_queueing = True
    said = call(capsys, "submit", "flow.yaml", "--site", "cluster", "--runs", "there/../runs")
    assert (said.code, "flow-1 was requested, and its job may still be queued" in said.err) == (1, True)
    assert "`diel cancel flow-1` withdraws it" in said.err
    assert "flow-1 pending" in call(capsys, "status").out
    told = call(capsys, "clean", "flow-1", "--yes")
    assert (told.code, "`diel cancel flow-1` stops it" in told.err) == (2, True)
    scheduler.busy = 0
    assert call(capsys, "cancel", "flow-1").code == 0
    assert scheduler.cancelled == ["100"]


def test_the_commands_that_submit_names_can_be_copied_as_whole_lines(
    plan: Plan, workspace: Path, scheduler: Pretend, capsys: pytest.CaptureFixture[str]
) -> None:
    (workspace / "a").mkdir()
    said = call(capsys, "submit", "flow.yaml", "--site", "cluster", "--runs", "a/../else where")
    lines = [line for line in said.out.splitlines() if line.startswith("    ")]
    assert len(lines) == 3
    for line in lines:
        words = shlex.split(line, comments=True)
        assert words[0] == "diel"
        assert words[-2:] == ["--runs", str(workspace.resolve() / "else where")]


def test_waiting_for_a_scheduler_is_told(
    plan: Plan, scheduler: Pretend, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = threading.Event()
    said = []

    def echo(words: str, **_: object) -> None:
        said.append(words)
        told.set()

    monkeypatch.setattr("diel.cli.commands.run.SOON", 0.01)
    monkeypatch.setattr("diel.cli.commands.run.click.echo", echo)
    monkeypatch.setattr("diel.controller.home.time.sleep", lambda seconds: told.wait(10))
    scheduler.busy = 2
    assert call(capsys, "submit", "flow.yaml", "--site", "cluster").code == 0
    assert "waiting at most two minutes for the scheduler to take the run" in said[0]


@pytest.mark.parametrize("name", ['quo"te', "back\\slash", "line\nbreak"])
def test_a_directory_that_no_job_script_can_name_is_refused_before_anything_is_made(
    plan: Plan, workspace: Path, scheduler: Pretend, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    from diel.site.scheduler.slurm import Slurm

    scheduler.script = Slurm().script  # type: ignore[method-assign]
    for command in (["submit"], ["run"]):
        said = call(capsys, *command, "flow.yaml", "--site", "cluster", "--runs", name)
        assert (said.code, "without line breaks, quotes and backslashes" in said.err) == (2, True)
        assert not (workspace / name).exists()


def test_a_machine_without_the_schedulers_commands_is_told_at_once(
    workspace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made(workspace)
    monkeypatch.setenv("PATH", str(workspace / "bin"))
    for command in (["submit"], ["run"]):
        said = call(capsys, *command, "flow.yaml", "--site", "cluster")
        assert (said.code, "site 'cluster' needs sbatch, squeue and scancel" in said.err) == (2, True), (
            said.err
        )
        assert "submit on a login node" in said.err
        assert not (workspace / "runs").exists()
    assert call(capsys, "plan", "flow.yaml", "--site", "cluster").code == 0
    assert call(capsys, "validate", "flow.yaml", "--site", "cluster").code == 0


def test_cancelling_where_the_schedulers_commands_are_not_does_not_wait_for_them(
    plan: Plan,
    run: RunPaths,
    scheduler: Pretend,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    submit(run, plan, "job")
    scheduler.busy = 1000
    monkeypatch.setattr(Pretend, "lacking", lambda self: ("squeue",))
    said = call(capsys, "cancel")
    assert (said.code, "jobs 100 may still exist" in said.err) == (1, True)
    assert "no squeue here" in said.err


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
    scheduler.refuses = "queue short"
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
        segment.append(as_record(block(f"1-{number}", job, "running")))
    segment.append({"event": "handover", "time": 2.0})
    said = call(capsys, "cancel")
    assert said.code == 0, said.err
    assert scheduler.cancelled == [noted, unnoted]
    assert {scheduler.states[job] for job in (reused, others)} == {JobState.PENDING}
    blocks = {block["block"]: block["state"] for block in read_status(run).blocks}
    assert blocks == {"1-0": "cancelled", "1-1": "gone"}  # none is left as if it waited


def test_a_block_whose_job_may_still_be_there_is_not_told_to_have_ended(
    plan: Plan, run: RunPaths, scheduler: Pretend, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diel.backends.blocks.leftovers.PATIENCE", 0.0)
    job = scheduler.add(f"{job_prefix(run)}-1-0")
    _, segment = take(run)
    segment.append(as_record(block("1-0", job, "running")))
    segment.append({"event": "handover", "time": 2.0})
    scheduler.deaf = True
    assert call(capsys, "cancel").code == 1
    assert [block["state"] for block in read_status(run).blocks] == ["running"]


# --- another site ---------------------------------------------------------------------------------


def test_resuming_reads_a_corrected_site_file_where_it_is_named(
    plan: Plan, run: RunPaths, workspace: Path, scheduler: Pretend, capsys: Capture
) -> None:
    _, segment = take(run)
    segment.append({"event": "trouble", "message": "a block was refused: no such queue", "time": 1.0})
    segment.append({"event": "handover", "time": 2.0})
    told = "fix the site file, then `diel resume flow-1 --site cluster` reads it again"
    assert told in call(capsys, "status").out
    right = textwrap.dedent(SITE).replace("queue: short", "queue: right")
    (workspace / "schedulers/cluster.yaml").write_text(right)
    said = call(capsys, "resume", "--site", "cluster", "--home", "job")
    assert said.code == 0, said.err
    assert "#queue right" in (run.controllers / "c1.sh").read_text()
    assert read_kept_site(run).pools["cpu"].queue == "right"


def test_a_site_that_does_not_do_changes_nothing_of_a_run(
    plan: Plan, run: RunPaths, workspace: Path, scheduler: Pretend, capsys: Capture
) -> None:
    before = run.site.read_bytes()
    small = textwrap.dedent(SITE).replace("nodes: 4, block_nodes: 2", "nodes: 1")
    (workspace / "schedulers/small.yaml").write_text(small.replace("name: cluster", "name: small"))
    assert call(capsys, "resume", "--site", "small", "--home", "job").code == 2  # a stage needs 4 nodes
    assert call(capsys, "resume", "--site", "nowhere", "--home", "job").code == 2
    _, segment = take(run)
    segment.append(as_record(block("1-0", "62", "running")))
    segment.append({"event": "handover", "time": 2.0})
    said = call(capsys, "resume", "--site", "local", "--here")
    assert (said.code, "may still have job 62 in pool 'cpu'" in said.err) == (2, True), said.err
    assert run.site.read_bytes() == before
    assert scheduler.jobs == {}


def block(name: str, job: str, state: str) -> dict[str, object]:
    """What a controller writes of a block."""
    shape = {"pool": "cpu", "shape": "cpu-1c", "asked": 1.0, "walltime": 60.0}
    return {"event": "block", "block": name, "job": job, "state": state, "time": 1.0, **shape}


def test_a_scheduler_that_does_not_answer_leaves_word_of_what_may_still_be_there(
    plan: Plan, run: RunPaths, scheduler: Pretend, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diel.backends.blocks.leftovers.PATIENCE", 0.0)
    submit(run, plan, "job")
    scheduler.busy = 1
    said = call(capsys, "cancel")
    assert said.code == 1
    assert "jobs 100 may still exist: the scheduler does not answer (slurmctld does not answer)" in said.err
    assert "`diel cancel flow-1` tries again" in said.err
    assert read_status(run).state == "cancelled"  # its job will find that it came too late
    again = call(capsys, "cancel")
    assert (again.code, "ended the jobs it had left: 100" in again.out) == (0, True)
    assert scheduler.states["100"] is JobState.CANCELLED


def test_jobs_that_do_not_end_are_told(
    plan: Plan, run: RunPaths, scheduler: Pretend, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diel.backends.blocks.leftovers.PATIENCE", 0.0)
    submit(run, plan, "job")
    scheduler.deaf = True
    said = call(capsys, "cancel")
    assert (said.code, "jobs 100 may still exist: they have not ended yet" in said.err) == (1, True)


def test_a_controller_that_comes_too_late_leaves_the_run_alone(
    plan: Plan, run: RunPaths, scheduler: Pretend, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from diel.controller.__main__ import main

    submit(run, plan, "job")
    make_submission(run, "job")
    monkeypatch.setattr("sys.argv", ["controller", str(run.root), "--submission", "1"])
    assert main() == 2
    assert "submission 1 was withdrawn or replaced" in capsys.readouterr().out
    assert os.listdir(run.journal) == []


def test_a_script_or_notebook_can_submit_as_well(plan: Plan, workspace: Path, scheduler: Pretend) -> None:
    run = api.submit("flow.yaml", site="cluster", home="inside")
    assert (run.id, run.state) == ("flow-1", "pending")
    assert run.status()["controller"]["home"] == "inside"
    assert scheduler.jobs == {"100": job_name(RunPaths(run.dir), 1)}
