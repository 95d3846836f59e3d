"""Slurm: the text of its scripts, its answers read, and what only a real one can show."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from diel.site.scheduler import Job, JobState, NodeKind, Offer, Queue, SchedulerBusy, SchedulerRefused
from diel.site.scheduler.slurm import STATES, Slurm, parse_sacct, parse_sinfo, parse_squeue
from tests.cluster.cluster import Cluster
from tests.cluster.daemon import ClusterError
from tests.scheduler.edges import Edge, clean_up, first_on_path, programs, text
from tests.throwaway import wait_for

FOLDER = Path("/scratch/ann's runs/melt-1")
JOB = Job(
    name="d-melt-1.3",
    command="exec /opt/python -m block 'a b'",
    folder=FOLDER,
    stdout=FOLDER / "3%j.out",
    stderr=FOLDER / "3.err",
    nodes=4,
    cores=64,
    walltime=90061.2,
    gpus=2,
    memory=5 * 2**30 + 1,
    queue="compute",
    account="m1234",
    options=("--constraint=gpu", "--switches={nodes}"),
    setup=("module load python",),
    exclude=("n7", "n9"),
    after="4711",
)
SCRIPT = """\
#!/bin/bash -l
#SBATCH --job-name=d-melt-1.3
#SBATCH --chdir="/scratch/ann's runs/melt-1"
#SBATCH --output="/scratch/ann's runs/melt-1/3%%j.out"
#SBATCH --error="/scratch/ann's runs/melt-1/3.err"
#SBATCH --partition=compute
#SBATCH --account=m1234
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=64
#SBATCH --gres=gpu:2
#SBATCH --mem=5121M
#SBATCH --time=25:01:02
#SBATCH --exclude=n7,n9
#SBATCH --dependency=afterany:4711
#SBATCH --no-requeue
#SBATCH --no-kill
#SBATCH --export=NONE
#SBATCH --constraint=gpu
#SBATCH --switches=4
cd '/scratch/ann'"'"'s runs/melt-1' || exit 1
# The job got no variables from the shell that submitted it; its own steps get those set below.
export SLURM_EXPORT_ENV=ALL
# diel's workers are a step that holds all cores: MPI tasks are further steps beside it.
export SLURM_OVERLAP=1
module load python
exec /opt/python -m block 'a b'
"""


def line(word: str, code: int = 0, reason: str = "None", nodes: str = "", name: str = "d-1") -> str:
    fields = (f"{'12':32}", f"{word:32}", f"{code:<16}", f"{reason:400}", f"{nodes:2000}", f"{name:200}")
    return "|".join(fields) + "|\n"


def test_the_script_holds_all_that_a_job_asks_for() -> None:
    assert Slurm().script(JOB) == SCRIPT


def test_a_script_says_nothing_of_what_a_job_leaves_open() -> None:
    job = Job("d", "true", FOLDER, FOLDER / "o", FOLDER / "e", nodes=1, cores=1, walltime=0.2)
    script = Slurm().script(job)
    for word in ("partition", "account", "gres", "mem", "exclude", "dependency"):
        assert f"--{word}" not in script
    assert "--time=00:00:01" in script


@pytest.mark.parametrize("letter", ["\n", "\r", '"', "\\"])
def test_a_path_that_no_directive_can_hold_is_refused(letter: str) -> None:
    folder = Path(f"/scratch/a{letter}b")
    job = Job("d", "true", folder, folder / "o", folder / "e", nodes=1, cores=1, walltime=60)
    with pytest.raises(SchedulerRefused, match="cannot name"):
        Slurm().script(job)


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("PENDING", JobState.PENDING),
        ("CONFIGURING", JobState.PENDING),
        ("RUNNING", JobState.RUNNING),
        ("SUSPENDED", JobState.RUNNING),
        ("COMPLETING", JobState.ENDING),
        ("COMPLETED", JobState.COMPLETED),
        ("FAILED", JobState.FAILED),
        ("TIMEOUT", JobState.TIMEOUT),
        ("DEADLINE", JobState.TIMEOUT),
        ("OUT_OF_MEMORY", JobState.OOM),
        ("NODE_FAIL", JobState.NODE_FAILED),
        ("BOOT_FAIL", JobState.NODE_FAILED),
        ("PREEMPTED", JobState.PREEMPTED),
        ("CANCELLED", JobState.CANCELLED),
    ],
)
def test_a_state_of_slurm_is_one_of_diels(word: str, state: JobState) -> None:
    ((number, name, status),) = parse_squeue(line(word))
    assert (number, name, status.state) == ("12", "d-1", state)


def test_every_state_of_the_table_is_understood_by_sacct_too() -> None:
    for word, state in STATES.items():
        told = list(parse_sacct(f"12|{word} by 1000|0:0|n1\n"))
        assert [status.state for _, status in told] == ([state] if state.ended else [])


def test_a_state_that_nobody_knows_yet_does_not_end_a_job() -> None:
    ((_, _, status),) = parse_squeue(line("TELEPORTING"))
    assert status.state is JobState.RUNNING
    assert status.reason == "TELEPORTING"


@pytest.mark.parametrize(("raw", "code"), [(0, 0), (768, 3), (9, 137), (15, 143), (0x8B, 139)])
def test_a_status_of_wait_is_an_exit_code(raw: int, code: int) -> None:
    ((_, _, status),) = parse_squeue(line("FAILED", raw, "NonZeroExitCode", "n[1-3]"))
    assert status.exit_code == code
    assert (status.reason, status.nodes) == ("FAILED: NonZeroExitCode", "n[1-3]")


def test_a_name_may_hold_the_separator() -> None:
    ((_, name, _),) = parse_squeue(line("RUNNING", name="x|y|"))
    assert name.startswith("x|y")


@pytest.mark.parametrize(
    "reason",
    [
        "AccountNotAllowed",
        "AssocMaxNodePerJobLimit",
        "AssocMaxMemPerJob",
        "BadConstraints",
        "InvalidQOS",
        "PartitionConfig",
        "PartitionTimeLimit",
        "QOSMaxWallDurationPerJobLimit",
        "QOSMaxGRESPerJob",
    ],
)
def test_a_request_beyond_a_limit_is_hopeless(reason: str) -> None:
    ((_, _, status),) = parse_squeue(line("PENDING", reason=reason))
    assert (status.state, status.reason, status.hopeless) == (JobState.PENDING, reason, True)


@pytest.mark.parametrize(
    "reason",
    [
        "Resources",
        "Priority",
        "JobHeldUser",
        "BeginTime",
        "ReqNodeNotAvail, UnavailableNodes:n3",
        "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
        "AssocGrpCPUMinutesLimit",
        "QOSMaxJobsPerUserLimit",
    ],
)
def test_what_may_pass_by_waiting_is_not_hopeless(reason: str) -> None:
    ((_, _, status),) = parse_squeue(line("PENDING", reason=reason))
    assert (status.reason, status.hopeless) == (reason, False)


@pytest.mark.parametrize("answer", ["CLUSTER: east\n", "12|RUNNING\n", line("RUNNING") + "slurm: oops\n"])
def test_an_answer_with_a_line_that_is_no_job_is_no_answer(answer: str) -> None:
    with pytest.raises(SchedulerBusy, match="something else than jobs"):
        list(parse_squeue(answer))


def test_jobs_that_squeue_has_forgotten_are_asked_of_sacct(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fakes = programs(tmp_path / "fakes", "exit 0")
    answer = "11|TIMEOUT|0:0|n1\\n12|CANCELLED by 7|0:15|n2\\n13|RUNNING|0:0|n1\\n14|FAILED|6:0|n1\\nodd\\n"
    (fakes / "sacct").write_text(f"#!/bin/sh\nprintf '{answer}'\n", encoding="utf-8")
    monkeypatch.setenv("PATH", first_on_path(fakes))
    told = Slurm().query(["11", "12", "13", "14"])
    assert {number: status.state for number, status in told.items()} == {
        "11": JobState.TIMEOUT,
        "12": JobState.CANCELLED,
        "14": JobState.FAILED,
    }
    assert (told["14"].exit_code, told["12"].reason) == (6, "CANCELLED by 7")


@pytest.mark.parametrize(
    "sacct", ["echo 'Slurm accounting storage is disabled' >&2; exit 1", "exit 0", "sleep 60"]
)
def test_a_site_without_an_accounting_is_no_fault(
    sacct: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fakes = programs(tmp_path / "fakes", "exit 0")
    (fakes / "sacct").write_text(f"#!/bin/sh\n{sacct}\n", encoding="utf-8")
    monkeypatch.setenv("PATH", first_on_path(fakes))
    assert Slurm(timeout=1.0).query(["11"]) == {}


@pytest.mark.parametrize(
    "words",
    [
        "Batch job submission failed: Unable to contact slurm controller (connect failure)",
        "Batch job submission failed: Socket timed out on send/recv operation",
        "Batch job submission failed: Slurm temporarily unable to accept job, sleeping and retrying",
        "Munge encode failed: Failed to access /run/munge/munge.socket.2: No such file or directory",
    ],
)
def test_a_submission_that_did_not_reach_slurm_may_be_tried_again(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        SchedulerBusy, match=words.split(":")[-1].strip().replace("(", "\\(").replace(")", "\\)")
    ):
        _submitted(f"echo 'sbatch: error: {words}' >&2; exit 1", tmp_path, monkeypatch)


def test_a_refusal_that_is_not_known_is_told_in_its_first_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = 'for n in 1 2 3 4 5 6; do echo "sbatch: error: line $n" >&2; done; exit 1'
    with pytest.raises(SchedulerRefused) as caught:
        _submitted(answer, tmp_path, monkeypatch)
    assert str(caught.value) == "sbatch: line 1; line 2; line 3; line 4"


def test_an_id_is_found_below_a_sites_greetings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = "echo 'Welcome to HPC 2026'; echo '--> Verifying quota... OK'; echo '815;east'"
    assert _submitted(answer, tmp_path, monkeypatch) == "815"


@pytest.mark.parametrize(
    ("states", "refused"), [("idle mixed allocated", True), ("idle drained down*", False)]
)
def test_a_trial_is_not_believed_about_nodes_that_are_out_of_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, states: str, refused: bool
) -> None:
    """To sbatch, nodes that are down for maintenance and nodes that a cluster has not are the same."""
    said = "echo 'allocation failure: Requested node configuration is not available' >&2; exit 1"
    fakes = programs(tmp_path / "fakes", said)
    (fakes / "sinfo").write_text(f"#!/bin/sh\necho {states}\n", encoding="utf-8")
    (fakes / "sinfo").chmod(0o755)
    monkeypatch.setenv("PATH", first_on_path(fakes))
    (tmp_path / "job.sh").write_text("#!/bin/bash\n", encoding="utf-8")
    with pytest.raises(SchedulerRefused) if refused else contextlib.nullcontext():
        Slurm().try_out(tmp_path / "job.sh")


def _submitted(sbatch: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PATH", first_on_path(programs(folder / "fakes", sbatch)))
    (folder / "job.sh").write_text("#!/bin/bash\n", encoding="utf-8")
    return Slurm().submit(folder / "job.sh")


def test_a_program_is_spread_over_the_nodes_and_none_ends_the_others(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variables of the script reach it, those of PMI do not, and steps of its own fit beside it."""
    monkeypatch.setenv("SLURM_CONF", str(cluster.slurm_conf))
    edge = Edge("slurm", Slurm(), tmp_path)
    words = " ".join(edge.scheduler.spread).replace("{nodes}", "2")
    program = (
        '[ "$SLURMD_NODENAME" = n1 ] && exit 3; sleep 1; '
        'echo "$SLURMD_NODENAME $MINE ${PMI_RANK-none} $(srun -N1 -n1 -w "$SLURMD_NODENAME" echo step)"'
    )
    job, number = edge.run(
        f"export MINE=mine\n{words} sh -c '{program}'", nodes=2, cores=4, options=("--nodelist=n[1-2]",)
    )
    try:
        assert edge.ended(number).exit_code == 3
        assert text(job.stdout) == "n2 mine none step\n"
    finally:
        clean_up(edge)


def test_a_node_that_is_lost_takes_no_other_node_with_it(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(cluster.slurm_conf))
    edge = Edge("slurm", Slurm(), tmp_path)
    words = " ".join(edge.scheduler.spread).replace("{nodes}", "2")
    go = tmp_path / "go"
    program = (
        f"echo $SLURMD_NODENAME begins; until [ -e {go} ]; do sleep 0.1; done; echo $SLURMD_NODENAME ends"
    )
    job, number = edge.run(f"{words} sh -c '{program}'", nodes=2, options=("--nodelist=n[1-2]",))
    try:
        edge.running(number)
        wait_for(lambda: text(job.stdout).count("begins") == 2)
        cluster.run("scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=test")
        assert edge.running(number).nodes
        go.touch()
        edge.ended(number)
        assert "n1 ends" in text(job.stdout)
    finally:
        with contextlib.suppress(ClusterError):  # where it has come back by itself
            cluster.run("scontrol", "update", "NodeName=n2", "State=RESUME")
        clean_up(edge)
        cluster.wait_for_nodes()


def test_a_node_to_be_left_out_is_left_out(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(cluster.slurm_conf))
    edge = Edge("slurm", Slurm(), tmp_path)
    _, number = edge.run("true", exclude=("n1", "n3"), nodes=2)
    assert edge.ended(number).nodes == "n[2,4]"


SINFO = """\
regular*|3072|2:64:2|512000|(null)|2-00:00:00
gpu|1536|1:64:2|245000|gpu:a100:4(S:0-3)|1-00:00:00
debug|8|2:64:2|512000|(null)|30:00
free|4+|1:4:1|8000+|gpu:v100:2,gpu:a100:1,lustre:1|infinite
"""


def test_partitions_and_their_nodes_are_read_from_sinfo() -> None:
    offer = parse_sinfo(SINFO)
    queues, kinds = offer.queues, offer.nodes
    assert queues == [
        Queue("regular", 2 * 86400.0, default=True), Queue("gpu", 86400.0), Queue("debug", 1800.0), Queue("free"),
    ]  # fmt: skip
    assert kinds[0] == NodeKind("regular", 3072, 128, 256, 512000 * 2**20, 0)
    assert kinds[1] == NodeKind("gpu", 1536, 64, 128, 245000 * 2**20, 4)
    assert kinds[3] == NodeKind("free", 4, 4, 4, 8000 * 2**20, 3)


@pytest.mark.parametrize("text", ["", "\n", "sinfo: error\n", "a|b\n"])
def test_an_answer_that_is_none_gives_no_partitions(text: str) -> None:
    assert parse_sinfo(text) == Offer([], [])


def test_variables_of_a_job_and_of_a_users_habits_stay_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_JOB_ID", "SQUEUE_FORMAT", "SACCT_FORMAT", "SLURM_CONF"):
        monkeypatch.setenv(name, "here")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    lines = Slurm().ask("env").out.splitlines()
    assert [line for line in lines if line.endswith("=here")] == ["SLURM_CONF=here"]
    assert "LC_ALL=C" in lines
