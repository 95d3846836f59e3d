"""Blocks of a run: how many tasks they could hold, and whose nodes come over from an earlier controller."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from diel.backends.blocks.block import Block, Outlook
from diel.backends.blocks.blocks import BARREN, REFUSALS, BlockMonitor, Blocks, Imports
from diel.backends.blocks.requester import Agent, BlockQueued, BlockRefused, BlockRequester, Heard, Silent
from diel.backends.blocks.script import ATTENDED, NeverRuns
from diel.backends.executors import Load
from diel.base.errors import DielError
from diel.base.paths import RunPaths
from diel.controller.start import create
from diel.planning.check import check
from diel.planning.plan import Plan, make_plan
from diel.site.scheduler import JobState, JobStatus
from diel.site.shape import Shape
from diel.site.site import Site
from diel.store.journal.segment import SegmentWriter, worker_segment_name
from diel.store.project.lease import take
from diel.tasks.ledger import Ledger
from diel.worker.attempt.bundle import Bundle, Work
from tests.pretend import Pretend
from tests.throwaway import wait_for

WORK = Shape("cpu", 0, 4)
"""Four of them fit into a block of two nodes, and the pool has two blocks."""
OTHER = Shape("cpu", 0, 8)


# --- what could be held ---------------------------------------------------------------------------


@pytest.fixture
def blocks(plan: Plan, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Blocks]:
    """Blocks whose bundles go nowhere."""
    monkeypatch.setattr(BlockRequester, "submit", lambda self, shape, cores, bundle: Future())
    monkeypatch.setattr(BlockRequester, "start", lambda self: None)
    monkeypatch.setattr(BlockRequester, "ask", lambda self, block: "100")
    paths = create(plan, workspace / "runs")
    lease, segment = take(paths)
    ledger = Ledger(paths, segment)
    found = Blocks(plan, ledger, lease.epoch, Pretend(), lambda block: None, set)
    yield found
    found.detach()
    segment.close()


def could_hold(blocks: Blocks, most: int) -> bool:
    """Whether so many tasks could run at the same time, and not one more."""
    return blocks.could_hold([(WORK, 4)] * most) and not blocks.could_hold([(WORK, 4)] * (most + 1))


def hand_out(blocks: Blocks, number: int, shape: Shape, service: object) -> None:
    work: Any = SimpleNamespace(service=service)
    bundle: Any = SimpleNamespace(number=number, work=work)
    blocks.submit(shape, shape.cores, bundle)


def test_a_pool_could_hold_what_fits_into_all_of_its_blocks(blocks: Blocks) -> None:
    assert could_hold(blocks, 8)
    hand_out(blocks, 1, WORK, None)
    assert could_hold(blocks, 8)  # what ends makes room


def test_a_service_holds_its_place_while_it_is_up(blocks: Blocks) -> None:
    hand_out(blocks, 1, WORK, "service")
    assert could_hold(blocks, 7)
    hand_out(blocks, 2, OTHER, "service")  # another shape shares no block
    assert could_hold(blocks, 3)
    blocks.ended(1)
    assert could_hold(blocks, 4)
    blocks.ended(2)
    assert could_hold(blocks, 8)


@pytest.mark.parametrize(("needed", "held"), [(0.0, False), (200.0, False), (400.0, True)])
def test_a_block_that_ends_sooner_than_such_tasks_were_seen_to_gets_no_more(
    blocks: Blocks, needed: float, held: bool
) -> None:
    hand_out(blocks, 1, WORK, None)
    (block,) = blocks._blocks.values()
    block.state, block.connected, block.began = JobState.RUNNING, True, time.time() - 3300.0
    blocks.tend(Outlook({}, frozenset(), {WORK.label: needed}))
    assert block.held is held


# --- whose nodes come over ------------------------------------------------------------------------


class Second:
    """The blocks of a run's second controller; in the first one's block, job 100, a task has run."""

    def __init__(self, plan: Plan, paths: RunPaths) -> None:
        self.scheduler = Pretend()
        job = self.scheduler.add("block", JobState.RUNNING)
        first = take(paths)[1]
        block = Block("1-0", WORK, 4, 3600.0, 0.0, 1, job=job, state=JobState.RUNNING)
        first.append({"event": "block", "time": 1.0, **block.record()}, {"event": "handover", "time": 2.0})
        paths.blocks.mkdir(parents=True)
        paths.block_script("1-0").write_text(BlockRequester(plan, paths, self.scheduler)._script(block))
        worker = SegmentWriter(paths.journal / worker_segment_name(1, "n1", 1))
        worker.append({"event": "worker", "host": "n1", "pid": 1, "block": "1-0", "node": "n1", "time": 1.0})
        lease, second = take(paths)
        self.segments = (first, worker, second)
        ledger = Ledger(paths, second)
        ledger.read_all()
        self.busy: set[str] = set()
        self.lost: list[Block] = []
        self.blocks = Blocks(plan, ledger, lease.epoch, self.scheduler, self.lost.append, lambda: self.busy)

    def adopt(self) -> None:
        self.blocks.adopt(lambda stage, index, attempt: None)

    def tend(self) -> None:
        self.blocks.tend(Outlook({}, frozenset()))

    def is_given_back(self) -> bool:
        self.tend()
        return self.blocks.left == () or "100" in self.scheduler.cancelled

    def close(self) -> None:
        self.blocks.detach()
        for segment in self.segments:
            segment.close()


@pytest.fixture
def second(plan: Plan, paths: RunPaths, monkeypatch: pytest.MonkeyPatch) -> Iterator[Second]:
    monkeypatch.setattr(BlockRequester, "submit", lambda self, shape, cores, bundle: Future())
    monkeypatch.setattr(BlockRequester, "renew", lambda self, block: block.job)
    monkeypatch.setattr(BlockRequester, "ask", lambda self, block: "999")
    monkeypatch.setattr(BlockRequester, "start", lambda self: None)
    monkeypatch.setattr("diel.store.project.lease.is_alive", lambda lease, age: False)
    found = Second(plan, paths)
    yield found
    found.close()


def test_a_block_for_which_there_is_no_work_is_given_back_when_its_tasks_have_ended(second: Second) -> None:
    second.busy = {"1-0"}
    second.adopt()
    for _ in range(3):
        assert not second.is_given_back()
    second.busy = set()
    wait_for(second.is_given_back)


def test_one_whose_nodes_are_to_come_over_is_waited_for(
    second: Second, monkeypatch: pytest.MonkeyPatch
) -> None:
    second.adopt()
    hand_out(second.blocks, 1, WORK, None)
    for _ in range(3):
        assert not second.is_given_back()
    assert second.blocks.left == ("100",)  # and no other is asked for meanwhile
    monkeypatch.setattr("diel.backends.blocks.blocks.COMING", 0.0)
    wait_for(second.is_given_back)
    hand_out(second.blocks, 2, WORK, None)

    def is_asked_for() -> bool:
        second.tend()
        return "999" in second.blocks.left

    wait_for(is_asked_for)


# --- what workers look for first -----------------------------------------------------------------


POOL = {"cores": 4, "nodes": 1}
SITE = Site.model_validate({"name": "here", "scheduler": "slurm", "pools": {"cpu": POOL, "fast": POOL}})
MODULE = (
    "import diel, {name}\n\n@diel.module(kind='analysis')\ndef work() -> dict[str, int]:\n    return {{}}\n"
)


@pytest.fixture
def imports(tmp_path: Path) -> Imports:
    """Two pools, each with a module of its own, and a stage in an environment."""
    folder = tmp_path / "modules"
    folder.mkdir()
    for name in ("one", "two", "three"):
        (folder / f"{name}.py").write_text(MODULE.format(name=f"needs_{name}"), encoding="utf-8")
    text = """
environments: {own: {variables: {A: b}}}
stages:
  simulate: {command: [x], resources: {pool: cpu}}
  one: {module: "one:work", resources: {pool: cpu}}
  two: {module: "two:work", resources: {pool: fast}}
  three: {module: "three:work", environment: own, resources: {pool: fast}}
"""
    return Imports(make_plan(check(tmp_path / "w.yaml", text=f"diel: 1\nname: w\n{text}"), SITE))


def asked(imports: Imports, pool: str) -> tuple[str, ...]:
    work = Work("simulate", None, {}, None, (), 1)
    return imports.ask(pool, Bundle(1, "", 1, work, (), 1.0)).imports


def test_a_pool_is_asked_for_what_all_of_its_stages_import_until_a_worker_has_answered(
    imports: Imports,
) -> None:
    assert asked(imports, "cpu") == ("diel", "needs_one")
    lost, answered = Future[bytes](), Future[bytes]()
    for future in (lost, answered):
        imports.note("cpu", future)
    lost.set_exception(OSError("its block is gone"))
    assert asked(imports, "cpu") == ("diel", "needs_one")
    answered.set_result(b"")
    assert asked(imports, "cpu") == ()
    assert asked(imports, "fast") == ("diel", "needs_two")  # another environment has packages of its own


WATCHED = Shape("cpu", 0, 4)


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
        block = self.blocks[name] = Block(name, WATCHED, 4, 3600.0, 0.0, 1, job=job, state=state)
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
        assert watched.watching.not_before[WATCHED.label] > time.monotonic()
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
    watched.agent.loads = {WATCHED.label: {"0": Load(1, 3, 0.0)}}
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
