"""How a block is asked for, and which of an earlier controller's are kept since the same would be asked for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import pytest

from diel.backends.blocks.block import Block
from diel.backends.blocks.requester import Agent, BlockQueued, BlockRefused, BlockRequester, Heard, Silent
from diel.backends.blocks.script import block_job_name
from diel.base.paths import RunPaths
from diel.planning.plan import Plan
from diel.site.scheduler import (
    JobState,
    JobStatus,
    Scheduler,
    SchedulerBusy,
    SchedulerRefused,
    scheduler_named,
)
from diel.site.scheduler.allocation import AllocationScheduler
from diel.site.shape import Shape
from diel.store.project.submission import job_prefix
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
    inside = AllocationScheduler(scheduler_named("slurm"), ("n1", "n2"), "7", time.time() + 36000)
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
    inside = AllocationScheduler(scheduler_named("slurm"), ("n1", "n2"), "7", time.time() + 100)
    found = asking(plan, paths, inside)
    assert 0 < found.walltime(WORK) < 100
    assert found.is_worth_it(WORK, 0.0)
    assert not found.is_worth_it(WORK._replace(walltime=200.0), 0.0)
    assert asking(plan, paths).walltime(WORK) == 3600.0


Told = TypeVar("Told", BlockQueued, BlockRefused, Silent, Heard)


class Scripted(Pretend):
    """A scheduler that answers as it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.answer: Callable[[], Mapping[str, JobStatus]] = dict
        self.queries = 0

    def query(self, ids: Iterable[str]) -> Mapping[str, JobStatus]:
        self.queries += 1
        return self.answer()

    def cancel(self, ids: Iterable[str]) -> None:
        self.cancelled += ids


@pytest.fixture
def scheduler() -> Scripted:
    return Scripted()


@pytest.fixture
def agent(scheduler: Scripted) -> Iterator[Agent]:
    made = Agent(scheduler, 0.05, dict)
    yield made
    made.stop(5.0)


def first(agent: Agent, kind: type[Told], where: Callable[[Told], bool] = lambda news: True) -> Told:
    """The next news of a kind."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        news = agent.news.get(timeout=20)
        if isinstance(news, kind) and where(news):
            return news
    raise AssertionError(f"no {kind.__name__}")


def fails(error: Exception) -> Callable[[], Mapping[str, JobStatus]]:
    def answer() -> Mapping[str, JobStatus]:
        raise error

    return answer


def test_a_block_that_was_queued_is_told_with_its_job(agent: Agent) -> None:
    agent.ask("1-0", lambda: "77")
    assert first(agent, BlockQueued) == BlockQueued("1-0", "77")


def test_a_refusal_is_told_in_the_schedulers_words(agent: Agent) -> None:
    def refuse() -> str:
        raise SchedulerRefused("invalid partition")

    agent.ask("1-0", refuse)
    assert first(agent, BlockRefused) == BlockRefused("1-0", "invalid partition")


@pytest.mark.parametrize(
    "error", [SchedulerBusy("no answer"), OSError(28, "No space left on device"), ValueError("odd")]
)
def test_what_fails_otherwise_is_asked_again(agent: Agent, error: Exception) -> None:
    tries: list[int] = []

    def grow() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise error
        return "78"

    agent.ask("1-0", grow)
    assert first(agent, BlockQueued) == BlockQueued("1-0", "78")
    assert len(tries) == 3


@pytest.mark.parametrize("error", [SchedulerBusy("no answer"), ValueError("garbage")])
def test_a_scheduler_that_fails_to_answer_says_nothing_of_any_job(
    agent: Agent, scheduler: Scripted, error: Exception
) -> None:
    agent.jobs = frozenset({"5"})
    scheduler.answer = fails(error)
    agent.look_now()
    assert str(error) in str(first(agent, Silent, lambda news: bool(getattr(news, "message", ""))))
    scheduler.answer = lambda: {"5": JobStatus(JobState.RUNNING)}
    heard = first(agent, Heard, lambda news: "5" in getattr(news, "jobs", {}))
    assert isinstance(heard, Heard)
    assert heard.jobs["5"].state is JobState.RUNNING


def test_a_job_is_gone_only_when_it_was_not_known_for_a_while(agent: Agent, scheduler: Scripted) -> None:
    agent.jobs = frozenset({"9"})
    answers: list[Heard] = []
    while not answers or "9" not in answers[-1].jobs:
        answers.append(first(agent, Heard))
    assert answers[-1].jobs["9"].state is JobState.GONE
    assert len(answers) >= 3


def test_looking_now_asks_no_more_than_once_a_second(agent: Agent, scheduler: Scripted) -> None:
    agent._poll = 1000.0
    agent.jobs = frozenset({"5"})
    agent.look_now()
    first(agent, Heard)
    before = scheduler.queries
    for _ in range(50):
        agent.look_now()
        time.sleep(0.002)
    assert scheduler.queries <= before + 1


def test_what_was_not_yet_asked_for_can_be_taken_back(agent: Agent) -> None:
    began, go_on = threading.Event(), threading.Event()

    def slow() -> str:
        began.set()
        go_on.wait(20)
        return "1"

    agent.ask("1-0", slow)
    began.wait(20)
    agent.ask("1-1", lambda: "2")
    agent.ask("1-2", lambda: "3")
    assert agent.unask() == {"1-1", "1-2"}
    go_on.set()
    assert first(agent, BlockQueued) == BlockQueued("1-0", "1")


def test_jobs_are_ended_even_by_the_last_order(scheduler: Scripted) -> None:
    agent = Agent(scheduler, 0.05, dict)
    agent.end(["3", "4"])
    agent.stop(10.0)
    assert scheduler.cancelled == ["3", "4"]
