"""LSF: the text of its scripts, and answers as its manual has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.site.scheduler import Answer, Job, JobState, NodeKind, Queue, SchedulerBusy
from diel.site.scheduler.lsf import Lsf, parse_hosts, parse_jobs, parse_queues

FOLDER = Path("/scratch/run")
SCRIPT = """\
#!/bin/bash -l
#BSUB -J d-1
#BSUB -o /dev/null
#BSUB -e /dev/null
#BSUB -env none
#BSUB -q normal
#BSUB -n 16
#BSUB -R "span[ptile=8]"
#BSUB -R "rusage[mem=1024MB/host]"
#BSUB -gpu "num=1/host"
#BSUB -W 2
#BSUB -R "select[hname!='n7']"
#BSUB -w "ended(12)"
#BSUB -rn
exec > /scratch/run/1.out
exec 2> /scratch/run/1.err
cd /scratch/run || exit 1
true
"""


def job(*options: str) -> Job:
    out, err = FOLDER / "1.out", FOLDER / "1.err"
    more = ((), ("n7",), "12")
    return Job("d-1", "true", FOLDER, out, err, 2, 8, 90.0, 1, 2**30, "normal", None, options, *more)


def test_the_script_holds_all_that_a_job_asks_for() -> None:
    assert Lsf().script(job()) == SCRIPT


def test_a_site_that_gives_whole_nodes_by_their_number_is_asked_for_nothing_else() -> None:
    script = Lsf().script(job("-nnodes {nodes}"))
    assert "#BSUB -nnodes 2\n" in script
    assert not any(word in script for word in ("-n 16", "ptile", "rusage", "-gpu"))


@pytest.mark.parametrize(
    ("fields", "state", "code", "hopeless"),
    [
        ("PEND|-|-|-|New job is waiting for scheduling;", JobState.PENDING, None, False),
        ("PEND|-|-|-|requirements never satisfied;", JobState.PENDING, None, True),
        ("RUN|-|-|8*n1:8*n2|-", JobState.RUNNING, None, False),
        ("DONE|-|-|8*n1|-", JobState.COMPLETED, 0, False),
        ("EXIT|7|-|8*n1|-", JobState.FAILED, 7, False),
        ("EXIT|140|TERM_RUNLIMIT: run limit|8*n1|-", JobState.TIMEOUT, 140, False),
        ("EXIT|137|TERM_MEMLIMIT: memory|8*n1|-", JobState.OOM, 137, False),
        ("ZOMBI|-|-|8*n1|-", JobState.NODE_FAILED, None, False),
    ],
)
def test_a_state_of_lsf_is_one_of_diels(
    fields: str, state: JobState, code: int | None, hopeless: bool
) -> None:
    ((number, name, status),) = parse_jobs(Answer(0, f"12|{fields}|d-1\n", ""))
    assert (number, name) == ("12", "d-1")
    assert (status.state, status.exit_code, status.hopeless) == (state, code, hopeless)


def test_an_answer_with_another_line_is_no_answer() -> None:
    with pytest.raises(SchedulerBusy, match="something else than jobs"):
        list(parse_jobs(Answer(0, "12|RUN\n", "")))


def test_queues_and_hosts_are_read() -> None:
    text = "QUEUE: normal\nMAXIMUM LIMITS:\n RUNLIMIT\n 120.0 min\n\nQUEUE: night\n"
    parameters = "Default Queues:  normal night\n"
    assert parse_queues(text, parameters) == [Queue("normal", 7200.0, default=True), Queue("night")]
    hosts = "HOST_NAME type model cpuf ncpus maxmem maxswp server RESOURCES\nn1 X86 Xeon 60.0 16 64G 4G Yes (mg)\n"
    assert list(parse_hosts(hosts)) == [NodeKind("", 1, 16, 16, 64 * 2**30, 0)]
