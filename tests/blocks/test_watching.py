"""What is heard of blocks: refused, ended before any node was heard of, or given another's id."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from diel.blocks.block import Block
from diel.blocks.blocks import BARREN, REFUSALS, BlockMonitor
from diel.blocks.requester import Agent, BlockQueued, BlockRefused, BlockRequester, Heard, Silent
from diel.blocks.script import ATTENDED, NeverRuns
from diel.errors import DielError
from diel.executors import Load
from diel.paths import RunPaths
from diel.plan import Plan
from diel.project.lease import take
from diel.scheduler import JobState, JobStatus
from diel.site import Shape
from diel.tasks.ledger import Ledger
from tests.pretend import Pretend

WORK = Shape("cpu", 0, 4)


class Watched:
    """The blocks of a run whose user has long left; a test says what is heard."""

    def __init__(self, plan: Plan, paths: RunPaths) -> None:
        self.segment = take(paths)[1]
        self.ledger = Ledger(paths, self.segment)
        self.ledger.read_all()
        self.ledger.history.began = time.time() - 2 * ATTENDED
        self.blocks: dict[str, Block] = {}
        self.lost: list[Block] = []
        self.asking = BlockRequester(plan, paths, Pretend())
        self.agent = Agent(Pretend(), 1000.0, dict)
        self.watching = BlockMonitor(
            self.blocks, self.agent, self.asking, self.ledger, plan.site, self.lost.append
        )

    def add(self, name: str, job: str = "", state: JobState = JobState.PENDING) -> Block:
        block = self.blocks[name] = Block(name, WORK, 4, 3600.0, 0.0, 1, job=job, state=state)
        return block

    def hear(self, *news: BlockQueued | BlockRefused | Heard | Silent) -> None:
        for one in news:
            self.agent.news.put(one)
        self.watching.take_news()


@pytest.fixture
def watched(plan: Plan, paths: RunPaths) -> Iterator[Watched]:
    found = Watched(plan, paths)
    yield found
    found.agent.stop(1.0)
    found.segment.close()


def heard(job: str, state: JobState, reason: str = "", *, hopeless: bool = False) -> Heard:
    return Heard(time.monotonic(), {job: JobStatus(state, reason, hopeless=hopeless)})


def test_a_refused_block_is_asked_for_later_and_not_for_ever(watched: Watched) -> None:
    for number in range(REFUSALS - 1):
        watched.add(f"1-{number}")
        watched.hear(BlockRefused(f"1-{number}", "no such partition"))
        assert watched.blocks == {}
        assert watched.watching.not_before[WORK.label] > time.monotonic()
    assert "no such partition" in watched.ledger.history.trouble
    watched.add("1-9")
    with pytest.raises(DielError, match="refuses blocks of pool 'cpu': no such partition"):
        watched.hear(BlockRefused("1-9", "no such partition"))


def test_nodes_to_avoid_are_forgiven_where_blocks_without_them_are_refused(watched: Watched) -> None:
    watched.asking.excluded = frozenset({"n7"})
    watched.add("1-0")
    watched.hear(BlockRefused("1-0", "not enough nodes"))
    assert watched.watching.forgiven == {"n7"}


def test_a_site_whose_blocks_all_end_unheard_of_is_given_up(watched: Watched, paths: RunPaths) -> None:
    Path(paths.blocks).mkdir(parents=True)
    for number in range(BARREN):
        watched.add(f"1-{number}", str(number))
        (paths.blocks / f"1-{number}.err").write_text("python: not found\n")
    for number in range(BARREN - 1):
        watched.hear(heard(str(number), JobState.FAILED))
    with pytest.raises(DielError, match="ended before any worker reported.*python: not found"):
        watched.hear(heard(str(BARREN - 1), JobState.FAILED))
    assert len(watched.lost) == BARREN


def test_an_id_that_the_scheduler_gives_again_ends_the_block_that_had_it(watched: Watched) -> None:
    old, new = watched.add("1-0", "5", JobState.RUNNING), watched.add("1-1")
    watched.hear(BlockQueued("1-1", "5"))
    assert (old.state, new.job) == (JobState.GONE, "5")
    assert watched.lost == [old]


def test_a_first_block_that_can_never_run_is_told_to_the_user_who_is_there(watched: Watched) -> None:
    watched.add("1-0", "5")
    watched.ledger.history.began = time.time()
    with pytest.raises(NeverRuns, match="job 5 would wait forever: PartitionTimeLimit"):
        watched.hear(heard("5", JobState.PENDING, "PartitionTimeLimit", hopeless=True))


def test_a_block_is_connected_once_one_of_its_nodes_is_and_held_when_all_are_gone(watched: Watched) -> None:
    block = watched.add("1-0", "5", JobState.RUNNING)
    block.number = "0"
    watched.agent.loads = {WORK.label: {"0": Load(1, 3, 0.0)}}
    watched.hear()
    assert (block.connected, block.bundles, block.held) == (True, 3, False)
    watched.agent.loads = {}
    watched.hear()
    assert (block.bundles, block.held) == (0, True)


def test_a_scheduler_that_is_silent_is_told_once_and_again_when_it_answers(watched: Watched) -> None:
    watched.hear(Silent("timed out"), Silent("timed out"))
    assert watched.ledger.history.silent == "timed out"
    since = time.monotonic()
    assert not watched.watching.knows(since)
    watched.add("1-0", "5")
    watched.hear(heard("5", JobState.RUNNING))
    assert watched.ledger.history.silent == ""
    assert watched.watching.knows(since)
