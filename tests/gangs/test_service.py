"""Which services are up: as long as somebody asks them, and no longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.base.states import TaskState
from diel.controller.gangs.service import ServiceManager
from diel.streams.services.endpoint import STOP, Endpoint, endpoint_file, message_file, write_endpoint
from tests.controller.bench import Bench

FLOW = """
axes: {i: {range: 2}}
stages:
  serve: {command: [serve], service: {replicas: 2, shared_cores: true}}
  ask: {command: [ask], over: [i], services: [serve]}
"""


class Served:
    """A run whose service is handed out and answers when a test says so."""

    def __init__(self, folder: Path) -> None:
        self.bench = Bench(folder, FLOW)
        assert self.bench.stages.serving is not None
        self.serving: ServiceManager = self.bench.stages.serving
        self.serve, self.ask = (self.bench.stages.runs[name] for name in ("serve", "ask"))

    def ready(self, index: int) -> None:
        self.serve.history.set(index, TaskState.RUNNING)
        self.tell(index, "ready")

    def tell(self, index: int, state: str) -> None:
        endpoint = Endpoint(state, "http://127.0.0.1:1", self.serve.history.latest(index), inputs="k")
        write_endpoint(endpoint_file(self.bench.paths, "serve", index), endpoint)

    def stopped(self) -> list[str]:
        """What the workers of its replicas are told of their end."""
        paths = (message_file(self.bench.paths, "serve", index, 1, STOP) for index in range(2))
        return [path.read_text() for path in paths if path.exists()]


@pytest.fixture
def run(tmp_path: Path) -> Served:
    return Served(tmp_path)


def test_a_service_comes_up_once_somebody_asks_it(run: Served) -> None:
    assert not run.serving.may_start(run.serve, 0)
    before = run.serving.is_busy
    assert not run.serving.ask(run.ask, 0)
    assert (before, run.serving.is_busy) == (False, True)
    assert all(run.serving.may_start(run.serve, index) for index in range(2))


def test_consumers_go_on_once_all_replicas_answer(run: Served) -> None:
    run.serving.ask(run.ask, 0)
    run.ready(0)
    run.serve.history.set(1, TaskState.RUNNING)
    run.serving.tend([])
    assert not run.serving.ask(run.ask, 0)
    run.ready(1)
    run.serving.tend([])
    assert run.serving.ask(run.ask, 0)


def test_an_endpoint_of_an_earlier_attempt_is_none(run: Served) -> None:
    run.serving.ask(run.ask, 0)
    for index in range(2):
        run.ready(index)
        run.serve.history.attempts[index] = 2
    run.serving.tend([])
    assert not run.serving.ask(run.ask, 0)


def test_it_is_stopped_when_the_last_consumer_has_ended_and_not_before(run: Served) -> None:
    run.serving.ask(run.ask, 0)
    for index in range(2):
        run.ready(index)
    run.serving.tend([])
    run.bench.done("ask", 0)
    assert run.stopped() == []
    assert not run.serving.is_over(run.serve, 0)
    run.bench.fail("ask", 1)
    assert run.stopped() == ["over", "over"]
    assert run.serving.is_over(run.serve, 0)


def test_consumers_that_ended_for_an_earlier_controller_count(run: Served) -> None:
    run.bench.done("ask", 0)
    run.bench.done("ask", 1)
    run.bench.resumed()
    assert run.bench.stages.serving is not None
    assert run.bench.stages.serving.is_over(run.bench.stages.runs["serve"], 0)


def test_a_replica_whose_worker_was_lost_is_written_off(run: Served) -> None:
    run.ready(0)
    run.bench.fail("serve", 0)
    said = endpoint_file(run.bench.paths, "serve", 0).read_text()
    assert '"failed"' in said
    assert "its worker was lost" in said


def test_an_idle_service_makes_room_and_comes_back(run: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    run.serving.ask(run.ask, 0)
    for index in range(2):
        run.ready(index)
    run.serving.tend([])
    monkeypatch.setattr("time.monotonic", lambda: 1e9)
    run.serving.tend([])
    assert [text.startswith("idle for") for text in run.stopped()] == [True, True]
    for index in range(2):
        run.serve.history.set(index, TaskState.WAITING)
    run.serving.tend([])
    down = not run.serving.is_busy
    assert not run.serving.ask(run.ask, 0)
    assert (down, run.serving.is_busy) == (True, True)
