"""What every scheduler does for diel: real Slurm, Slurm through Torque's commands, doubles of PBS, Flux and LSF.

With DIEL_TEST_REAL=pbs, flux or lsf the commands of a real one are on PATH, and it is held to the same; PBS
refuses root's jobs, so pytest is then another user's; for Flux `flux start --test-size=4 pytest …` will do.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from diel.site.scheduler import JobState, SchedulerBusy, SchedulerRefused, scheduler_named
from tests.cluster.cluster import Cluster
from tests.descendants import gone
from tests.scheduler.edges import (
    Edge,
    clean_up,
    double,
    first_on_path,
    programs,
    text,
    without_slurmctld,
)
from tests.throwaway import wait_for

REAL = os.environ.get("DIEL_TEST_REAL", "")
NAMES = (REAL,) if REAL else ("slurm", "torque", "pbs", "flux", "lsf")


@pytest.fixture(params=NAMES)
def edge(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Edge]:
    folder = tmp_path / "jobs"
    folder.mkdir()
    made = _edge(request, folder, tmp_path, monkeypatch)
    yield made
    clean_up(made)


def _edge(request: pytest.FixtureRequest, folder: Path, scratch: Path, patch: pytest.MonkeyPatch) -> Edge:
    name = request.param
    if REAL:
        return Edge(name, scheduler_named(name), folder, walltime=5)
    if name in ("pbs", "flux", "lsf"):
        commands, down, up = double(name, scratch / name)
        patch.setenv("PATH", first_on_path(commands))
        return Edge(name, scheduler_named(name), folder, down, up, walltime=1)
    config: Path = request.getfixturevalue("cluster").slurm_conf
    request.getfixturevalue("expiring")
    patch.setenv("SLURM_CONF", str(config))
    nowhere = without_slurmctld(config, scratch)
    down = lambda: patch.setenv("SLURM_CONF", str(nowhere))  # noqa: E731
    up = lambda: patch.setenv("SLURM_CONF", str(config))  # noqa: E731
    if name == "slurm":
        return Edge(name, scheduler_named("slurm"), folder, down, up)
    # Slurm's qstat tells neither how a job ended nor why one waits; its qsub refuses what no node has.
    return Edge(name, scheduler_named("torque"), folder, down, up, tells=False, impossible={"memory": 2**42})


@pytest.fixture(scope="module")
def expiring(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A job at the end of its walltime: slurmctld looks twice a minute only, so it comes first and is met last."""
    number = cluster.sbatch("sleep 300", f"--chdir={tmp_path_factory.mktemp('expiring')}")
    cluster.wait_for(number, "RUNNING")
    cluster.end_in(number, 2)
    return number


def test_a_job_runs_and_is_told_to_have_completed(edge: Edge) -> None:
    go = edge.folder / "go"
    job, number = edge.run(f"echo out; echo err >&2; until [ -e '{go}' ]; do sleep 0.1; done")
    assert number
    assert not any(letter.isspace() for letter in number)
    assert edge.running(number).nodes
    assert edge.scheduler.find(job.name[:4]) == {job.name: number}
    assert edge.scheduler.find("another") == {}
    go.touch()
    status = edge.ended(number)
    assert status.state is edge.as_told(JobState.COMPLETED)
    assert status.exit_code == (0 if edge.tells else None)
    assert edge.scheduler.find(job.name[:4]) == {}
    assert (text(job.stdout), text(job.stderr)) == ("out\n", "err\n")


def test_the_exit_code_of_a_job_that_fails_is_told(edge: Edge) -> None:
    _, number = edge.run("exit 7")
    status = edge.ended(number)
    assert status.state is edge.as_told(JobState.FAILED)
    assert status.exit_code == (7 if edge.tells else None)
    assert status.reason


def test_a_running_job_is_cancelled_with_its_processes(edge: Edge) -> None:
    pid = edge.folder / "pid"
    _, number = edge.run(f"sleep 300 & echo $! > '{pid}'; wait")
    wait_for(lambda: pid.exists() and pid.read_text().strip() != "")
    edge.scheduler.cancel([number])
    status = edge.ended(number)
    assert status.state is edge.as_told(JobState.CANCELLED)
    wait_for(lambda: gone(int(pid.read_text())))


def test_a_job_waits_for_the_one_that_it_comes_after(edge: Edge) -> None:
    """The first one's failure does not matter, only its end; a job that waits can be cancelled."""
    go, order = edge.folder / "go", edge.folder / "order"
    _, first = edge.run(f"until [ -e '{go}' ]; do sleep 0.1; done; echo first >> '{order}'; exit 3")
    _, second = edge.run(f"echo second >> '{order}'", after=first)
    _, third = edge.run(f"echo third >> '{order}'", after=first)
    edge.running(first)
    waiting = edge.status(second)
    assert waiting is not None
    assert waiting.state is JobState.PENDING
    assert not waiting.hopeless
    edge.scheduler.cancel([third])
    status = edge.ended(third)
    assert status.state is edge.as_told(JobState.CANCELLED)
    go.touch()
    assert edge.ended(second).state is edge.as_told(JobState.COMPLETED)
    assert order.read_text(encoding="utf-8").split() == ["first", "second"]


def test_a_job_that_the_scheduler_does_not_know_is_not_in_its_answer(edge: Edge) -> None:
    _, number = edge.run("true")
    assert set(edge.scheduler.query([number, "999999"])) == {number}
    assert edge.scheduler.query(["999999"]) == {}
    assert edge.scheduler.query([]) == {}


def test_several_jobs_are_told_of_in_one_answer(edge: Edge) -> None:
    """OpenPBS's main branch, asked for several jobs in JSON, tells of the first alone (its issue 2672)."""
    numbers = {edge.run("true")[1] for _ in range(3)}
    assert set(edge.scheduler.query(numbers)) == numbers


def test_cancelling_what_has_ended_is_nothing(edge: Edge) -> None:
    _, number = edge.run("true")
    edge.ended(number)
    edge.scheduler.cancel([number, "999999"])
    edge.scheduler.cancel([])
    status = edge.status(number)
    assert status is not None
    assert status.state is edge.as_told(JobState.COMPLETED)


def test_an_impossible_job_is_refused_or_told_to_be_hopeless_in_the_schedulers_words(edge: Edge) -> None:
    job = edge.job("true", **edge.impossible)
    try:
        number = edge.submit(job)
    except SchedulerRefused as error:
        assert "can not be satisfied" in str(error)  # noqa: PT017
        return
    status = edge.until(number, lambda status: status.hopeless)
    assert status.state is (JobState.FAILED if edge.name == "flux" else JobState.PENDING)
    assert re.search(r"Partition(Config|NodeLimit)|Can Never Run|unsatisfiable|never", status.reason)


def test_a_refused_job_is_told_in_the_schedulers_words(edge: Edge) -> None:
    with pytest.raises(SchedulerRefused, match="(?i)partition|queue") as caught:
        edge.submit(edge.job("true", queue="nowhere"))
    assert "\n" not in str(caught.value)


def test_a_trial_says_whether_a_job_would_be_taken_and_leaves_none(edge: Edge) -> None:
    """Its folder is not there yet: nothing of a run is made before."""
    nowhere = edge.folder / "none" / "yet"
    job = edge.job(f"touch '{edge.folder}/begun'")._replace(
        folder=nowhere,
        stdout=nowhere / "out",
        stderr=nowhere / "err",
    )
    script = edge.folder / "trial.sh"
    script.write_text(edge.scheduler.script(job), encoding="utf-8")
    edge.scheduler.try_out(script)
    assert edge.scheduler.find(job.name) == {}
    assert not (edge.folder / "begun").exists()
    script.write_text(edge.scheduler.script(job._replace(queue="nowhere")), encoding="utf-8")
    with pytest.raises(SchedulerRefused, match="(?i)partition|queue"):
        edge.scheduler.try_out(script)


def test_a_job_whose_output_has_no_folder_is_refused(edge: Edge) -> None:
    job = edge.job("true")
    with pytest.raises(SchedulerRefused, match="make that folder"):
        edge.submit(job._replace(stdout=edge.folder / "none" / "out"))


def test_folders_with_odd_names_are_taken(edge: Edge) -> None:
    folder = edge.folder / "it's a «folder», née: 1"
    folder.mkdir()
    job, number = edge.run("pwd; exit 5", folder=folder)
    status = edge.ended(number)
    assert text(job.stdout) == f"{folder}\n"
    assert status.exit_code == (5 if edge.tells else None)


def test_nothing_of_the_submitting_shell_is_needed_or_handed_on(
    edge: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_SHELL", "here")
    monkeypatch.setenv("SLURM_MEM_PER_CPU", "1")
    monkeypatch.setenv("SQUEUE_PARTITION", "nowhere")
    job, number = edge.run('echo "[$OF_THE_SHELL$SLURM_MEM_PER_CPU]" "$HOME"; echo "${OMP_NUM_THREADS-none}"')
    edge.ended(number)
    kept = "here" if edge.name == "torque" else ""  # Slurm's qsub hands it on, whatever is asked
    assert text(job.stdout) == f"[{kept}] {Path.home()}\nnone\n"


def test_a_scheduler_that_is_down_is_busy_and_no_job_has_ended(edge: Edge) -> None:
    if edge.take_down is None:
        pytest.skip("a real server that others use is not taken down")
    go = edge.folder / "go"
    job, number = edge.run(f"until [ -e '{go}' ]; do sleep 0.1; done")
    script = edge.write(edge.job("true"))
    edge.running(number)
    edge.take_down()
    for ask in (
        lambda: edge.scheduler.submit(script),
        lambda: edge.scheduler.query([number]),
        lambda: edge.scheduler.cancel([number]),
        lambda: edge.scheduler.find(job.name),
    ):
        with pytest.raises(SchedulerBusy):
            ask()
    edge.put_back()
    assert edge.running(number)
    assert edge.scheduler.find("t") == {job.name: number}
    go.touch()
    edge.ended(number)


@pytest.mark.skipif(not REAL, reason="no real PBS, Flux or LSF here; test_slurm.py has the same for Slurm")
def test_a_program_is_spread_over_the_nodes_of_a_job(edge: Edge) -> None:
    words = " ".join(edge.scheduler.spread).replace("{nodes}", "2")
    job, number = edge.run(f"{words} /bin/sh -c 'echo begun'", nodes=2)
    assert edge.ended(number).state is JobState.COMPLETED
    assert text(job.stdout).splitlines() == ["begun", "begun"]


@pytest.mark.parametrize(
    "words",
    ["echo '<html>502 Bad Gateway</html>'", "echo '{\"Jobs\": [1'", "printf '\\377\\376 \\n'", "kill -9 $$"],
)
def test_an_answer_without_sense_is_no_answer(
    edge: Edge, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = edge.write(edge.job("true"))
    with monkeypatch.context() as patch:
        patch.setenv("PATH", first_on_path(programs(tmp_path / "fakes", words)))
        for ask in (
            lambda: edge.scheduler.submit(script),
            lambda: edge.scheduler.query(["1"]),
            lambda: edge.scheduler.find("t"),
        ):
            with pytest.raises(SchedulerBusy):
                ask()


def test_a_command_that_hangs_is_killed_with_what_it_started(
    edge: Edge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, pid = edge.write(edge.job("true")), tmp_path / "pid"
    hurried = type(edge.scheduler)(timeout=0.3)
    fakes = programs(tmp_path / "fakes", f"sleep 300 & echo $! > '{pid}'; wait")
    with monkeypatch.context() as patch:
        patch.setenv("PATH", first_on_path(fakes))
        for ask in (
            lambda: hurried.submit(script),
            lambda: hurried.query(["1"]),
            lambda: hurried.cancel(["1"]),
            lambda: hurried.find("t"),
        ):
            with pytest.raises(SchedulerBusy, match="has not answered after 0.3 s"):
                ask()
            wait_for(lambda: gone(int(pid.read_text())))


def test_without_its_commands_a_scheduler_is_busy(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    script = edge.write(edge.job("true"))
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(edge.folder))
        for ask in (
            lambda: edge.scheduler.submit(script),
            lambda: edge.scheduler.query(["1"]),
            lambda: edge.scheduler.cancel(["1"]),
            lambda: edge.scheduler.find("t"),
        ):
            with pytest.raises(SchedulerBusy, match="on PATH"):
                ask()


def test_a_job_beyond_its_walltime_is_told_to_have_timed_out(
    edge: Edge, request: pytest.FixtureRequest
) -> None:
    if edge.name in ("slurm", "torque"):
        number = request.getfixturevalue("expiring")
    else:
        job, number = edge.run("echo begun; sleep 300", walltime=edge.walltime)
        wait_for(lambda: text(job.stdout) == "begun\n")
        assert edge.name != "pbs" or "walltime" in text(job.stderr)
    status = edge.ended(number)
    assert status.state is edge.as_told(JobState.TIMEOUT)
    assert status.reason
