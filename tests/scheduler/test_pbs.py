"""PBS: the text of its scripts, and its answers as OpenPBS 23.06 gave them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from diel.site.scheduler import Job, JobState, NodeKind, Queue, SchedulerBusy, SchedulerRefused
from diel.site.scheduler.pbs import Pbs, bytes_of, hosts, parse_nodes, parse_queues, parse_server
from diel.site.scheduler.scheduler import Answer
from diel.site.scheduler.torque import Torque
from tests.scheduler.edges import first_on_path, programs

FOLDER = Path("/scratch/ann's runs/melt: 1")
JOB = Job(
    name="d-melt-1.3",
    command="exec /opt/python -m block 'a b'",
    folder=FOLDER,
    stdout=FOLDER / "3.out",
    stderr=Path("/logs/3 x.err"),
    nodes=4,
    cores=64,
    walltime=90061.2,
    gpus=2,
    memory=5 * 2**30 + 1,
    queue="workq",
    account="m1234",
    options=("-l filesystems=home:eagle",),
    setup=("module load python",),
    exclude=("n7",),
    after="4711.pbs0",
)
SCRIPT = """\
#!/bin/bash
#PBS -N d-melt-1.3
#PBS -S /bin/bash
#PBS -o 3.out
#PBS -e "/logs/3 x.err"
#PBS -q workq
#PBS -A m1234
#PBS -l select=4:ncpus=64:mpiprocs=1:ngpus=2:mem=5121mb
#PBS -l place=scatter
#PBS -l walltime=25:01:02
#PBS -W depend=afterany:4711.pbs0
#PBS -r n
#PBS -l filesystems=home:eagle
cd '/scratch/ann'"'"'s runs/melt: 1' || exit 1
# The number of cores of a node, which is not that of a task.
unset OMP_NUM_THREADS NCPUS
module load python
exec /opt/python -m block 'a b'
"""
RUN = "Job run at Sat Nov 21 at 14:14 on (pbsn1:ncpus=1)"


def answer(code: int, jobs: dict[str, str], err: str = "") -> Answer:
    """What qstat prints of jobs, by their ids; their attributes are as in its line."""
    lines = [
        f"Job Id: {number}|Job_Name=d|{words}|project=_pbs_project_default\n"
        for number, words in jobs.items()
    ]
    return Answer(code, "".join(lines), err)


def test_the_script_holds_all_that_a_job_asks_for() -> None:
    assert Pbs().script(JOB) == SCRIPT


def test_an_option_of_the_site_replaces_what_diel_would_ask_for() -> None:
    options = ("-l select={nodes}:system=polaris", "-l place=excl")
    job = Job("d", "true", FOLDER, FOLDER / "o", FOLDER / "e", nodes=3, cores=1, walltime=60, options=options)
    script = Pbs().script(job)
    assert "#PBS -l select=3:system=polaris\n#PBS -l place=excl\n" in script
    assert script.count("select=") == script.count("place=") == 1


def test_a_path_that_no_directive_can_hold_is_refused() -> None:
    folder = Path("/scratch/a\nb")
    with pytest.raises(SchedulerRefused, match="cannot name"):
        Pbs().script(Job("d", "true", folder, folder / "o", folder / "e", nodes=1, cores=1, walltime=60))


@pytest.mark.parametrize(
    ("letter", "state"),
    [
        ("Q", JobState.PENDING),
        ("H", JobState.PENDING),
        ("W", JobState.PENDING),
        ("T", JobState.PENDING),
        ("R", JobState.RUNNING),
        ("S", JobState.RUNNING),
        ("E", JobState.ENDING),
        ("M", JobState.GONE),
        ("?", JobState.RUNNING),
    ],
)
def test_a_letter_of_pbs_is_one_of_diels_states(letter: str, state: JobState) -> None:
    assert Pbs().status({"job_state": letter}).state is state


@pytest.mark.parametrize(
    ("code", "state", "own"),
    [
        (0, JobState.COMPLETED, 0),
        (3, JobState.FAILED, 3),
        (271, JobState.CANCELLED, 143),
        (265, JobState.CANCELLED, 137),
        (267, JobState.FAILED, 139),
        (-29, JobState.TIMEOUT, None),
        (-28, JobState.TIMEOUT, None),
        (-27, JobState.OOM, None),
        (-4, JobState.NODE_FAILED, None),
        (-1, JobState.NODE_FAILED, None),
    ],
)
def test_an_exit_status_says_how_a_job_ended(code: int, state: JobState, own: int | None) -> None:
    status = Pbs().status(
        {"job_state": "F", "Exit_status": str(code), "comment": RUN, "exec_host": "n1/0*4+n2/0*4+n1/1"}
    )
    assert (status.state, status.exit_code, status.nodes) == (state, own, "n1,n2")
    assert bool(status.reason) is (state is not JobState.COMPLETED)


@pytest.mark.parametrize("job", [{}, {"comment": RUN}, {"exec_host": "n1/0"}, {"Exit_status": ""}])
def test_an_end_without_an_exit_status_is_never_a_success(job: dict[str, str]) -> None:
    status = Pbs().status({"job_state": "F", **job})
    assert status.state is (JobState.GONE if "exec_host" in job else JobState.CANCELLED)
    assert status.reason


def test_a_job_that_was_deleted_is_cancelled_whatever_its_script_made_of_it() -> None:
    """qdel's TERM may reach a child first; then a script ends by itself, with 0."""
    job = {
        "job_state": "F",
        "Exit_status": "0",
        "comment": f"{RUN} and terminated by ann@login",
        "exec_host": "n1/0",
    }
    status = Pbs().status(job)
    assert (status.state, status.exit_code) == (JobState.CANCELLED, 0)
    assert "terminated by ann" in status.reason
    assert Pbs().status({**job, "job_state": "R"}).state is JobState.ENDING


def test_a_job_that_can_never_run_is_hopeless_and_one_that_waits_is_not() -> None:
    never = "Can Never Run: Insufficient amount of resource: ncpus (R: 99 A: 4 T: 4)"
    status = Pbs().status({"job_state": "Q", "comment": never})
    assert (status.hopeless, status.reason) == (True, never)
    waits = "Not Running: Not enough free nodes available"
    status = Pbs().status({"job_state": "Q", "comment": waits})
    assert (status.hopeless, status.reason) == (False, waits)


@pytest.mark.parametrize(
    "words",
    [
        "Connection refused\nqstat: cannot connect to server pbs0",
        "qstat: 1.pbs0: cannot connect to server pbs0",
    ],
)
def test_a_server_that_is_down_knows_of_no_job_and_none_is_gone(words: str) -> None:
    down = answer(255, {}, f"{words} (errno=15010)\n")
    with pytest.raises(SchedulerBusy, match="cannot connect to server pbs0"):
        Pbs().parse_qstat(down, ["1.pbs0"])


def test_unknown_jobs_are_left_out_of_an_answer_that_holds_the_others() -> None:
    told = answer(153, {"21.pbs0": "job_state=R"}, "qstat: Unknown Job Id 9999.pbs0\n")
    assert set(Pbs().parse_qstat(told, ["21.pbs0", "9999"])) == {"21.pbs0"}
    assert (
        Pbs().parse_qstat(answer(153, {}, "qstat: Unknown Job Id 9.pbs0\n"), ["9.pbs0.of.some.where"]) == {}
    )


@pytest.mark.parametrize("code", [0, 153])
def test_a_job_that_the_answer_passes_over_in_silence_is_not_gone(code: int) -> None:
    told = answer(code, {"21.pbs0": "job_state=R"}, "qstat: Unknown Job Id 9999.pbs0\n")
    with pytest.raises(SchedulerBusy, match="nothing about 22.pbs0"):
        Pbs().parse_qstat(told, ["21.pbs0", "22.pbs0", "9999"])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]\n",
        "Job Id: 1.pbs0\n",
        "Job Id: 1.pbs0|Job_Name=d|job_state=F|Exit_st",
        '{\n"Jobs": {}}\n',
        "x=1|job_state=R\n",
    ],
)
def test_an_answer_that_is_no_line_a_job_is_no_answer(text: str) -> None:
    with pytest.raises(SchedulerBusy):
        Pbs().parse_qstat(Answer(0, text, ""), ["1.pbs0"])


def test_odd_values_of_a_jobs_environment_do_no_harm() -> None:
    """A line break and a delimiter in a value come with a backslash before them; other letters as they are."""
    odd = "Variable_List=A=new\\nline \\| job_state=F\\|b \u2028 \ufffd,B=x"
    told = Pbs().parse_qstat(answer(0, {"1.pbs0": f"{odd}|job_state=Q|comment=Not Running: a\\|b"}), ["1"])
    assert Pbs().status(told["1.pbs0"]).state is JobState.PENDING
    assert Pbs().status(told["1.pbs0"]).reason == "Not Running: a|b"


def test_ids_match_with_and_without_the_servers_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _answering(tmp_path, monkeypatch, answer(0, {"5.pbs0": "job_state=R", "6.pbs0": "job_state=Q"}))
    told = Pbs().query(["5", "6.pbs0.example.org"])
    assert {number: status.state for number, status in told.items()} == {
        "5": JobState.RUNNING,
        "6.pbs0.example.org": JobState.PENDING,
    }


def test_a_server_without_a_history_is_asked_for_what_still_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fakes = programs(tmp_path / "fakes", "exit 0")
    text = answer(0, {"5.pbs0": "job_state=R"}).out.strip()
    script = f"#!/bin/sh\n[ \"$1\" = -x ] && exit 36\necho 'qstat: Unknown Job Id 6.pbs0' >&2; echo '{text}'; exit 153\n"
    (fakes / "qstat").write_text(script, encoding="utf-8")
    monkeypatch.setenv("PATH", first_on_path(fakes))
    assert set(Pbs().query(["5", "6"])) == {"5"}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (162, "cannot connect to server pbs0 (errno=15010)"),
        (160, "Unknown Host.\\nqsub: cannot connect to server nohost (errno=15008)"),
        (212, "req rejected -server shutting down"),
        (185, "No free connections"),
    ],
)
def test_a_submission_that_did_not_reach_pbs_may_be_tried_again(
    code: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SchedulerBusy):
        _submitted(f"printf 'qsub: {words}\\n' >&2; exit {code}", tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (170, "Unknown queue"),
        (166, "Illegal attribute or resource value Resource_List.select"),
        (187, "Unknown resource: ngpus"),
        (188, "Job violates queue and/or server resource limits"),
        (32, "your account has expired"),
    ],
)
def test_a_refusal_is_told_in_pbs_own_words(
    code: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SchedulerRefused) as caught:
        _submitted(f"echo 'qsub: {words}' >&2; exit {code}", tmp_path, monkeypatch)
    assert str(caught.value) == f"qsub: {words}"


@pytest.mark.parametrize(("code", "busy"), [(0, False), (35, False), (153, False), (255, True), (159, True)])
def test_only_a_server_that_did_not_hear_of_a_cancellation_is_busy(
    code: int, busy: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", first_on_path(programs(tmp_path / "fakes", f"exit {code}")))
    if busy:
        with pytest.raises(SchedulerBusy):
            Pbs().cancel(["1"])
    else:
        Pbs().cancel(["1"])


def test_a_job_whose_node_is_dead_is_struck_off_the_books(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As OpenPBS answered when the job's first node had crashed."""
    words = "qdel: Unknown Job Id 6.pbs0\\nqdel: Server could not connect to MOM 7.pbs0\\n"
    text = f"echo \"$@\" >> '{tmp_path}/asked'; [ \"$1\" = -W ] && exit 0; printf '{words}' >&2; exit 222"
    monkeypatch.setenv("PATH", first_on_path(programs(tmp_path / "fakes", text)))
    Pbs().cancel(["6", "7"])
    assert (tmp_path / "asked").read_text(encoding="utf-8") == "6 7\n-W force 7.pbs0\n"


def test_another_dialects_commands_before_it_on_the_path_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a job of PBS its own folder comes last; Slurm's qsub and qstat have no qselect beside them."""
    slurm, pbs = programs(tmp_path / "slurm", "exit 1"), programs(tmp_path / "pbs", "exit 0")
    (slurm / "qselect").unlink()
    monkeypatch.setenv("PATH", f"{slurm}:{pbs}")
    assert Pbs().program("qstat") == str(pbs / "qstat")


def _answering(folder: Path, monkeypatch: pytest.MonkeyPatch, told: Answer) -> None:
    (folder / "answer").write_text(told.out, encoding="utf-8")
    monkeypatch.setenv(
        "PATH", first_on_path(programs(folder / "fakes", f"cat '{folder}/answer'; exit {told.code}"))
    )


def _submitted(qsub: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PATH", first_on_path(programs(folder / "fakes", qsub)))
    (folder / "job.sh").write_text("#!/bin/bash\n", encoding="utf-8")
    return Pbs().submit(folder / "job.sh")


def test_nodes_of_pbs_are_counted_by_their_shape() -> None:
    small = {"resources_available": {"ncpus": 64, "mem": "527672492kb", "ngpus": 4}}
    answer = json.dumps({"nodes": {"a": small, "b": small, "c": {"resources_available": {"ncpus": 8}}}})
    assert parse_nodes(answer) == [
        NodeKind("", 2, 64, 64, 527672492 * 1024, 4),
        NodeKind("", 1, 8, 8, 0, 0),
    ]
    assert parse_nodes("not JSON") == parse_nodes("[]") == []


def test_vnodes_of_one_host_are_told_with_what_the_host_has() -> None:
    has = {"resources_available": {"ncpus": 4, "host": "one"}, "pcpus": 2}
    kinds = parse_nodes(json.dumps({"nodes": dict.fromkeys("abcd", has)}))
    assert kinds == [NodeKind("", 4, 4, 4, 0, 0, physical=2, sharing=4)]


def test_queues_are_read_from_qstat_in_full() -> None:
    text = (
        "Queue: workq\n    queue_type = Execution\n    enabled = True\n\n"
        "Queue: a-queue-with-a-long-name\n    resources_max.walltime = 24:00:00\n"
    )
    assert parse_queues(text) == [Queue("workq"), Queue("a-queue-with-a-long-name", 86400.0)]


def test_queues_are_read_from_the_table_that_some_qstats_print() -> None:
    text = (
        "Queue              Max   Tot Ena Str   Que   Run\n"
        "---------------- ----- ----- --- --- ----- -----\n"
        "main                 0     0 yes yes     0     0\n"
        "spot                 0     0 yes yes     0     0\n"
    )
    assert [queue.name for queue in parse_queues(text)] == ["main", "spot"]
    assert parse_queues("nothing") == []


def test_the_default_queue_of_pbs_is_the_servers() -> None:
    queues = [Queue("workq", 60.0), Queue("long")]
    text = "Server: head\n    server_state = Active\n    default_queue = workq\n"
    assert parse_server(text, queues) == [Queue("workq", 60.0, default=True), Queue("long")]
    assert parse_server("head 0 0", queues) == queues


@pytest.mark.parametrize("kind", [Pbs, Torque])
def test_an_output_in_the_jobs_folder_goes_by_its_name_since_a_colon_would_mean_a_host(
    kind: type[Pbs | Torque],
) -> None:
    folder = Path("/scratch/a: b")
    job = Job("d", "true", folder, folder / "1.out", folder / "x y", nodes=1, cores=1, walltime=60)
    script = kind().script(job)
    assert "#PBS -o 1.out\n" in script
    assert '#PBS -e "/scratch/a: b/x y"\n' in script


def test_sizes_and_hosts_are_read() -> None:
    assert [bytes_of(text) for text in ("2kb", "1gb", "17", "soon")] == [2048, 2**30, 17, 0]
    assert hosts("n1/0*4+n2/0*4+n1/1") == "n1,n2"
