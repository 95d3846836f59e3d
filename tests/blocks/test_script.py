"""The job script of a block, what its nodes run, and whether the scheduler takes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.backends.blocks.block import Block
from diel.backends.blocks.script import (
    NeverRuns,
    block_job,
    block_jobs,
    node_script,
    refusal,
    refuse_hopeless,
    try_out,
)
from diel.base.errors import UsageError
from diel.base.paths import RunPaths
from diel.planning.plan import Plan
from diel.site.scheduler import JobState, JobStatus, SchedulerRefused
from diel.site.shape import Shape
from tests.pretend import Pretend

WORK, WIDE = Shape("cpu", 0, 4), Shape("cpu", 2, 1)


def a_block(shape: Shape) -> Block:
    return Block("1-0", shape, 0, 60.0, 0.0, 3)


def test_a_block_starts_its_script_on_each_node_and_for_wide_tasks_on_the_first(
    plan: Plan, paths: RunPaths
) -> None:
    commands = [block_job(plan.site, Pretend(), paths, a_block(shape)).command for shape in (WORK, WIDE)]
    assert commands[0].startswith("each 2 /bin/sh ")
    assert commands[1].startswith("/bin/sh ")


def test_several_nodes_need_words_that_start_a_program_on_each(
    plan: Plan, paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pretend, "spread", ())
    with pytest.raises(UsageError, match=r"write `spread: \[WORDS, …\]`"):
        block_job(plan.site, Pretend(), paths, a_block(WORK))


def test_a_node_learns_its_run_its_block_and_when_that_ends(plan: Plan, paths: RunPaths) -> None:
    text = node_script(plan.site, Pretend(), paths, a_block(WORK), "pool --words")
    for line in (
        f"export DIEL_RUN_DIR={paths.root}",
        "export DIEL_BLOCK=1-0",
        "export DIEL_CONTROLLER_EPOCH=3",
        "export OMP_NUM_THREADS=4",
        "export DIEL_BLOCK_END=$(( began + DIEL_BLOCK_WALLTIME ))",
    ):
        assert f"{line}\n" in text
    assert text.rstrip().endswith("-m diel.backends.executors.node pool --words")


def test_a_refusal_names_the_keys_of_the_site_file(plan: Plan) -> None:
    pool = plan.site.pools["cpu"].model_copy(update={"queue": "long", "options": ("--x",)})
    told = refusal(plan.site.model_copy(update={"pools": {"cpu": pool}}), "cpu", "no such queue")
    assert "a block of pool 'cpu' of site 'cluster' (`queue: long`, `--x`): no such queue" in told
    assert "diel doctor --site cluster" in told


def test_a_job_that_the_scheduler_would_refuse_is_refused_before_there_is_a_run(
    plan: Plan, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = Pretend()
    scheduler.refuses = "diel-trial"
    monkeypatch.setattr("diel.backends.blocks.script.scheduler_named", lambda name: scheduler)
    with pytest.raises(NeverRuns, match="no such account"):
        try_out(plan, block_jobs(plan, workspace / "runs"))
    assert not (workspace / "runs").exists()


def test_a_job_that_would_wait_for_ever_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = Pretend()
    number = scheduler.add("d")
    refuse_hopeless(scheduler, number)  # it waits for its turn
    status = JobStatus(JobState.PENDING, "PartitionTimeLimit")._replace(hopeless=True)
    monkeypatch.setattr(scheduler, "query", lambda ids: {number: status})
    with pytest.raises(SchedulerRefused, match="would wait forever: PartitionTimeLimit"):
        refuse_hopeless(scheduler, number)
    assert scheduler.cancelled == [number]
