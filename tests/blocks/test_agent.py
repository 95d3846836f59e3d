"""The agent asks the scheduler in a thread of its own, whatever the scheduler does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import pytest

from diel.blocks.requester import Agent, BlockQueued, BlockRefused, Heard, Silent
from diel.scheduler import JobState, JobStatus, SchedulerBusy, SchedulerRefused
from tests.pretend import Pretend

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
