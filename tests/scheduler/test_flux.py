"""Flux: the text of its scripts, and its answers as flux-core 0.88.0 gave them."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.site.scheduler import Answer, Job, JobState, NodeKind, Queue, SchedulerBusy
from diel.site.scheduler.flux import Flux, parse_jobs, parse_queues, parse_resources

FOLDER = Path("/scratch/run 1")
SCRIPT = """\
#!/bin/bash -l
#flux: --job-name=d-1
#flux: --output="/scratch/run 1/1.out"
#flux: --error="/scratch/run 1/1.err"
#flux: --queue=batch
#flux: --nodes=2
#flux: --nslots=2
#flux: --cores-per-slot=8
#flux: --gpus-per-slot=1
#flux: --time-limit=90s
#flux: --requires=-host:n7,n9
#flux: --env=-*
#flux: --env=PATH
#flux: --env=HOME
#flux: --env=USER
#flux: --env=LOGNAME
#flux: --env=SHELL
#flux: --env=DIEL_FLUX_PATH=$PATH
#flux: --exclusive
"""


def line(*fields: str) -> str:
    return "|".join(("f2A", "d-1", *fields)) + "\n"


def test_the_script_holds_all_that_a_job_asks_for_and_memory_is_no_resource() -> None:
    job = Job(
        "d-1",
        "true",
        FOLDER,
        FOLDER / "1.out",
        FOLDER / "1.err",
        nodes=2,
        cores=8,
        walltime=90.0,
        gpus=1,
        memory=2**30,
        queue="batch",
        options=("--exclusive",),
        exclude=("n7", "n9"),
    )
    assert Flux().script(job).partition("cd ")[0] == SCRIPT


@pytest.mark.parametrize(
    ("fields", "state", "code", "hopeless"),
    [
        (("SCHED", "", "", "", "", "eta:now", ""), JobState.PENDING, None, False),
        (("RUN", "", "", "", "n1", "n1", ""), JobState.RUNNING, None, False),
        (("INACTIVE", "COMPLETED", "0", "", "n1", "n1", ""), JobState.COMPLETED, 0, False),
        (("INACTIVE", "FAILED", "7", "", "n1", "n1", ""), JobState.FAILED, 7, False),
        (("INACTIVE", "FAILED", "-9", "", "n1", "n1", ""), JobState.FAILED, 137, False),
        (("INACTIVE", "TIMEOUT", "142", "timeout", "n1", "", "expired"), JobState.TIMEOUT, 142, False),
        (("INACTIVE", "FAILED", "1", "node-failure", "n1", "", "a|b"), JobState.NODE_FAILED, 1, False),
        (("INACTIVE", "FAILED", "1", "alloc", "", "", "unsatisfiable"), JobState.FAILED, 1, True),
    ],
)
def test_a_state_of_flux_is_one_of_diels(
    fields: tuple[str, ...], state: JobState, code: int | None, hopeless: bool
) -> None:
    ((number, name, status),) = parse_jobs(Answer(0, line(*fields), ""))
    assert (number, name) == ("f2A", "d-1")
    assert (status.state, status.exit_code, status.hopeless) == (state, code, hopeless)


def test_an_answer_with_another_line_is_no_answer() -> None:
    with pytest.raises(SchedulerBusy, match="something else than jobs"):
        list(parse_jobs(Answer(0, "<html>\n", "")))


def test_queues_and_nodes_are_read() -> None:
    assert list(parse_queues(["batch*|8.0h", "debug|30m", "|inf"])) == [
        Queue("batch", 28800.0, default=True),
        Queue("debug", 1800.0),
    ]
    assert list(parse_resources(["batch|rank[0-3]/core[0-1],gpu0 rank4/core[0-7]"])) == [
        NodeKind("batch", 4, 2, 2, 0, 1),
        NodeKind("batch", 1, 8, 8, 0, 0),
    ]
