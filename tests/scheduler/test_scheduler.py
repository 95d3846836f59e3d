"""Schedulers: their commands, time, environment and text; which are installed, and which answer."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from diel.site.scheduler import (
    Dialect,
    Job,
    JobState,
    JobStatus,
    SchedulerBusy,
    SchedulerRefused,
    scheduler_named,
)
from diel.site.scheduler.pbs import Pbs
from diel.site.scheduler.scheduler import Answer, BatchScheduler, find_dialects
from diel.site.scheduler.scheduler import ask as command
from diel.site.scheduler.slurm import Slurm
from diel.site.scheduler.torque import Torque
from tests.cluster.cluster import Cluster
from tests.descendants import gone
from tests.scheduler.edges import double, without_slurmctld
from tests.throwaway import wait_for


def commands(folder: Path, **texts: str) -> Path:
    """A folder with these commands, shell scripts."""
    folder.mkdir()
    for name, text in texts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    return folder


def test_a_site_names_its_scheduler() -> None:
    kinds = {name: type(scheduler_named(name)) for name in ("slurm", "pbs", "torque")}
    assert kinds == {"slurm": Slurm, "pbs": Pbs, "torque": Torque}


def test_nothing_answers_where_there_are_no_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_dialects() == {}


def test_slurm_answers_and_its_commands_in_torques_style_are_told_apart(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(cluster.slurm_conf))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    found = find_dialects()
    assert [(name, dialect.wrapper) for name, dialect in found.items()] == [
        ("slurm", False),
        ("torque", True),
    ]
    assert found["slurm"].version.startswith("slurm")


def test_commands_without_a_server_do_not_answer(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(without_slurmctld(cluster.slurm_conf, tmp_path)))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert find_dialects() == {}


def test_pbs_answers_by_its_version_and_not_as_torque(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, down, up = double("pbs", tmp_path / "pbs")
    monkeypatch.setenv("PATH", str(found))
    assert find_dialects() == {"pbs": Dialect("23.06.06")}
    down()
    assert find_dialects() == {}
    up()


def test_torque_answers_by_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'case "$1" in --version) echo "Version: 6.1.2" >&2;; -Q) echo Queue;; *) exit 1;; esac'
    monkeypatch.setenv("PATH", str(commands(tmp_path / "bin", qstat=text, qselect="true")))
    assert find_dialects() == {"torque": Dialect("6.1.2")}


@pytest.mark.parametrize(
    ("told", "up"),
    [
        ("Slurmctld(primary) at vm is UP", True),
        ("Slurmctld(primary) at vm is DOWN", False),
        ("Slurmctld(primary/backup) at a/b are UP/DOWN", True),
        ("Slurmctld(primary/backup) at a/b are DOWN/UP", True),
        ("Slurmctld(primary/backup) at a/b are DOWN/DOWN", False),
    ],
)
def test_slurm_answers_where_one_of_its_controllers_is_up(
    told: str, up: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = commands(tmp_path / "bin", sinfo="echo slurm 24.05.1", scontrol=f"echo '{told}'")
    monkeypatch.setenv("PATH", str(found))
    assert find_dialects() == ({"slurm": Dialect("slurm 24.05.1")} if up else {})


def test_a_machine_with_pbs_behind_slurms_commands_has_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, _, _ = double("pbs", tmp_path / "pbs")
    text = '[ "$1" = -Q ] || { echo "Unknown option: version" >&2; exit 2; }'
    before = commands(tmp_path / "bin", qstat=text, qsub="exit 1")
    monkeypatch.setenv("PATH", f"{before}:{found}")
    assert list(find_dialects()) == ["pbs", "torque"]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def have(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)


def test_what_is_not_on_the_path_is_named(programs: Path) -> None:
    have(programs, "squeue", "scancel")
    assert scheduler_named("slurm").lacking() == ("sbatch",)
    have(programs, "sbatch")
    assert scheduler_named("slurm").lacking() == ()


def test_the_commands_of_slurm_in_the_style_of_torque_are_no_pbs(programs: Path) -> None:
    have(programs, "qsub", "qstat", "qdel")
    assert scheduler_named("torque").lacking() == ()
    assert scheduler_named("pbs").lacking() == ("qselect",)


# --- a command ------------------------------------------------------------------------------------


def ask(words: list[str], **more: Any) -> Answer:
    return command(words, os.environ, **more)


def test_what_a_command_says_is_told_with_its_exit_code() -> None:
    answer = ask(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (answer.code, answer.out, answer.err) == (3, "out\n", "err\n")


def test_nothing_waits_on_a_terminal() -> None:
    assert ask(["cat"]).out == ""


def test_bytes_that_are_no_text_do_no_harm() -> None:
    assert ask(["printf", "a\\377b"]).out == "a\ufffdb"


def test_the_folder_is_the_commands(tmp_path: Path) -> None:
    assert ask(["pwd"], folder=tmp_path).out == f"{tmp_path}\n"


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(SchedulerBusy, match="no such folder"):
        ask(["pwd"], folder=tmp_path / "none")


def test_a_command_that_hangs_ends_with_its_children(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    begun = time.monotonic()
    with pytest.raises(SchedulerBusy, match="`sh` has not answered after 0.2 s"):
        ask(["sh", "-c", f"trap '' TERM; sleep 300 & echo $! > '{pid}'; wait; wait"], timeout=0.2)
    assert time.monotonic() - begun < 60
    wait_for(lambda: gone(int(pid.read_text())))


def test_a_child_that_left_the_group_does_not_hold_the_answer_up(tmp_path: Path) -> None:
    """It keeps the pipes open, as a daemon that a wrapper script starts would."""
    begun = time.monotonic()
    with pytest.raises(SchedulerBusy):
        ask(["setsid", "--fork", "sh", "-c", f"echo $$ > '{tmp_path}/pid'; exec sleep 300"], timeout=0.3)
    assert time.monotonic() - begun < 60
    pid = tmp_path / "pid"
    wait_for(lambda: pid.exists() and pid.read_text().endswith("\n"))
    os.kill(int(pid.read_text()), signal.SIGKILL)


def test_a_program_that_cannot_be_run_is_named(tmp_path: Path) -> None:
    (tmp_path / "odd").write_text("", encoding="utf-8")
    for words in (["no-such-program"], [str(tmp_path / "odd")], [str(tmp_path)]):
        with pytest.raises(SchedulerBusy, match=words[0]):
            ask(words)


class Batch(BatchScheduler):
    """A scheduler whose commands answer as a test says."""

    sentinel = "#B"
    queues_by = ("bqueue", "-q")
    held = ("--hold",)
    ends_by = ("bend",)
    accepted = r"^job (\d+)$"
    outputs = r"^#B --out=(.*)$"
    busy = "no server"
    settled = "unknown job"
    speaker = r"^bqueue: "

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, ...]] = []

    def ask(self, *words: str, **how: Any) -> Answer:
        self.asked.append(words)
        return self.answers.pop(0)

    def options(self, job: Job) -> Iterable[tuple[str, object]]:
        return (("--name={}", job.name), ("--queue={}", job.queue), ("--gpus={}", job.gpus))

    def jobs(self, ids: list[str]) -> Iterable[tuple[str, str, JobStatus]]:
        self.asked.append(("bstat", *ids))
        states = (JobState.RUNNING, JobState.COMPLETED, JobState.PENDING)
        return [(str(place), f"d-{place}", JobStatus(state)) for place, state in enumerate(states)]


def said(out: str = "", err: str = "", code: int = 0) -> Answer:
    return Answer(code, out, err)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "b.sh"
    path.write_text("#!/bin/sh\n#B --out=b.out\ntrue\n", encoding="utf-8")
    return path


def test_an_option_for_which_there_is_nothing_is_left_out(tmp_path: Path) -> None:
    job = Job("d", "true", tmp_path, tmp_path / "o", tmp_path / "e", nodes=3, cores=1, walltime=60)
    assert list(Batch().directives(job)) == ["--name=d"]


def test_a_queued_job_has_the_last_id_that_was_printed(script: Path) -> None:
    batch = Batch(said("Welcome\njob 7\njob 12\nhave fun\n"))
    assert batch.submit(script) == "12"
    assert batch.asked == [("bqueue", "-q", "b.sh")]


def test_an_output_that_can_go_nowhere_is_refused_before_the_scheduler_is_asked(script: Path) -> None:
    script.write_text("#B --out=no/such/b.out\n", encoding="utf-8")
    batch = Batch()
    with pytest.raises(SchedulerRefused, match="make that folder"):
        batch.submit(script)
    assert batch.asked == []


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (said(err="bqueue: no such queue", code=1), SchedulerRefused, "bqueue: no such queue"),
        (said(err="bqueue: No Server is there", code=1), SchedulerBusy, "bqueue: No Server is there"),
        (said(err="killed", code=-9), SchedulerBusy, "bqueue: killed"),
        (said("thank you"), SchedulerBusy, "bqueue printed no id of a job: thank you"),
    ],
)
def test_only_what_asking_again_cannot_help_is_a_refusal(
    script: Path, answer: Answer, error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        Batch(answer).submit(script)
    assert str(caught.value) == message


def test_a_job_that_is_tried_out_is_held_and_ended(script: Path) -> None:
    batch = Batch(said("job 3"), said())
    batch.try_out(script)
    assert batch.asked == [("bqueue", "-q", "--hold", "b.sh"), ("bend", "3")]


def test_one_question_is_asked_for_all_jobs_and_none_for_none() -> None:
    batch = Batch()
    assert set(batch.query(["1", "0", "1", "9"])) == {"0", "1"}
    assert batch.query([]) == {}
    assert batch.asked == [("bstat", "0", "1", "9")]


def test_jobs_are_found_by_name_while_they_have_not_ended() -> None:
    assert Batch().find("d-") == {"d-0": "0", "d-2": "2"}
    assert Batch().find("e-") == {}


def test_jobs_that_have_ended_before_are_ended_well() -> None:
    batch = Batch(said(err="unknown job 4\nUnknown Job 5\n", code=1))
    batch.cancel(["5", "4"])
    batch.cancel([])
    assert batch.asked == [("bend", "4", "5")]
    with pytest.raises(SchedulerBusy, match="bend: unknown job 4; not yours"):
        Batch(said(err="unknown job 4\nnot yours\n", code=1)).cancel(["4", "5"])


def test_a_question_that_fails_is_told_with_its_words() -> None:
    assert Batch(said("nodes")).output("bnodes") == "nodes"
    with pytest.raises(SchedulerBusy, match="`bnodes -l` says: nothing known"):
        Batch(said(err="bqueue: nothing known", code=2)).output("bnodes", "-l")
