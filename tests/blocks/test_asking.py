"""How a block is asked for, and which of an earlier controller's are kept since the same would be asked for."""

from __future__ import annotations

import time
from typing import Any

import pytest

from diel.blocks.block import Block
from diel.blocks.requester import BlockRequester
from diel.blocks.script import block_job_name
from diel.paths import RunPaths
from diel.plan import Plan
from diel.project.submission import job_prefix
from diel.scheduler import JobState, Scheduler, scheduler_named
from diel.scheduler.allocation import Inside
from diel.site import Shape
from tests.pretend import Pretend

WORK = Shape("cpu", 0, 4)


def asking(plan: Plan, paths: RunPaths, scheduler: Scheduler | None = None, **pool: Any) -> BlockRequester:
    """That of a controller, maybe with another pool on its site."""
    pools = {"cpu": plan.site.pools["cpu"].model_copy(update=pool)}
    site = plan.site.model_copy(update={"pools": pools})
    return BlockRequester(plan._replace(site=site), paths, scheduler or scheduler_named("slurm"))


@pytest.fixture
def waiting(plan: Plan, paths: RunPaths) -> Block:
    """A block that an earlier controller asked for, with its job script."""
    block = Block("1-0", WORK, 0, 3600.0, 0.0, 1, job="100", adopted=True)
    paths.blocks.mkdir(parents=True)
    paths.block_script("1-0").write_text(asking(plan, paths)._script(block))
    return block


def test_a_block_is_kept_where_the_same_would_be_asked_for(
    plan: Plan, paths: RunPaths, waiting: Block
) -> None:
    assert asking(plan, paths).asks_the_same(waiting)


@pytest.mark.parametrize(
    "pool",
    [{"cores": 16}, {"block_nodes": 1}, {"queue": "long"}, {"walltime": 7200.0}, {"options": ("--x",)}],
)
def test_a_block_of_another_pool_is_not(
    plan: Plan, paths: RunPaths, waiting: Block, pool: dict[str, Any]
) -> None:
    assert not asking(plan, paths, **pool).asks_the_same(waiting)


def test_nor_is_one_that_might_get_a_node_to_avoid(plan: Plan, paths: RunPaths, waiting: Block) -> None:
    found = asking(plan, paths)
    found.excluded = frozenset({"n7"})
    assert not found.asks_the_same(waiting)


def test_nor_one_without_its_script_or_its_pool(plan: Plan, paths: RunPaths, waiting: Block) -> None:
    found = asking(plan, paths)
    waiting.shape = WORK._replace(pool="gone")
    assert not found.asks_the_same(waiting)
    waiting.shape = WORK
    paths.block_script("1-0").unlink()
    assert not found.asks_the_same(waiting)


def test_nor_one_within_an_allocation_that_ended(plan: Plan, paths: RunPaths, waiting: Block) -> None:
    inside = Inside(scheduler_named("slurm"), ("n1", "n2"), "7", time.time() + 36000)
    paths.block_script("1-0").write_text(asking(plan, paths, inside)._script(waiting))
    assert not asking(plan, paths, inside).asks_the_same(waiting)


def test_jobs_of_the_run_that_nobody_knows_of_are_ended_and_no_others(plan: Plan, paths: RunPaths) -> None:
    """A controller may have been killed after it had queued a job; controllers that wait are jobs too."""
    scheduler = Pretend()
    found = asking(plan, paths, scheduler)
    prefix = f"{job_prefix(paths)}-"
    known, unknown = scheduler.add(f"{prefix}1-0"), scheduler.add(f"{prefix}1-1")
    scheduler.add(f"{prefix}c2")
    scheduler.add("another-1-0")
    found.end_unknown({"1-0": Block("1-0", WORK, 0, 0.0, 0.0, 1, job=known)})
    assert scheduler.cancelled == [unknown]


def test_a_job_that_was_queued_without_an_answer_is_not_queued_again(plan: Plan, paths: RunPaths) -> None:
    scheduler = Pretend()
    found = asking(plan, paths, scheduler)
    block = Block("1-0", WORK, 0, 3600.0, 0.0, 1, tried=True)
    job = scheduler.add(block_job_name(paths, block), JobState.PENDING)
    assert found.ask(block) == job


def test_within_an_allocation_a_block_lasts_no_longer_than_that(plan: Plan, paths: RunPaths) -> None:
    inside = Inside(scheduler_named("slurm"), ("n1", "n2"), "7", time.time() + 100)
    found = asking(plan, paths, inside)
    assert 0 < found.walltime(WORK) < 100
    assert found.is_worth_it(WORK, 0.0)
    assert not found.is_worth_it(WORK._replace(walltime=200.0), 0.0)
    assert asking(plan, paths).walltime(WORK) == 3600.0
